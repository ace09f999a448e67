"""Stages in threads: same order, first error, no thread left behind."""

import threading
from collections.abc import Iterator
from itertools import count

import pytest

from castleguard.pipeline import ahead, follow


def failing_after(items: int, error: type[BaseException]) -> Iterator[int]:
    yield from range(items)
    raise error


def stages() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name in ("ahead", "follow")]


def test_items_made_ahead_keep_their_order() -> None:
    assert list(ahead(range(100))) == list(range(100))
    assert stages() == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_error_of_an_item_made_ahead_comes_after_the_items_before_it(error: type[BaseException]) -> None:
    items = ahead(failing_after(5, error))
    assert [next(items) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(error):
        next(items)
    assert stages() == []


def test_closing_ends_the_thread_of_endless_items() -> None:
    items = ahead(count())
    assert [next(items), next(items)] == [0, 1]
    items.close()
    assert stages() == []


def test_followed_items_are_used_in_order_in_another_thread() -> None:
    used = follow(lambda item: (item, threading.current_thread().name), range(50))
    assert used == [(item, "follow") for item in range(50)]
    assert stages() == []


def test_no_item_is_used_after_an_error() -> None:
    used = []

    def use(item: int) -> None:
        used.append(item)
        if item == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        follow(use, count())
    assert used == [0, 1, 2, 3]
    assert stages() == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_error_while_an_item_is_made_ends_the_thread(error: type[BaseException]) -> None:
    with pytest.raises(error):
        follow(str, failing_after(5, error))
    assert stages() == []
