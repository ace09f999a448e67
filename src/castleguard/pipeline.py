"""Stages of one stream in several threads: the same calls in the same order, some of them at the same time.

`ahead` makes items in a second thread while the caller uses the earlier ones; `follow` uses items in a second thread
while the caller makes the next ones. Both hold few items, end with their thread gone, and raise the first error of
either side. Compiled kernels and Arrow release the interpreter lock, so the stages overlap.
"""

from collections.abc import Callable, Generator, Iterable
from queue import Queue
from threading import Event, Thread
from typing import Generic, NamedTuple, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_ROOM = 2  # items between two stages


class _Made(NamedTuple, Generic[_Item]):
    item: _Item


class _End(NamedTuple):
    error: BaseException | None = None


def ahead(items: Iterable[_Item]) -> Generator[_Item]:
    """Yield the items, which a second thread makes. Close the iterator to end the thread before the items end."""
    made: Queue[_Made[_Item] | _End] = Queue(_ROOM)
    stopped = Event()

    def make() -> None:
        end = _End()
        try:
            for item in items:
                made.put(_Made(item))
                if stopped.is_set():
                    return
        except BaseException as exc:
            end = _End(exc)
        made.put(end)

    thread = Thread(target=make, name="ahead", daemon=True)
    thread.start()
    try:
        while isinstance(found := made.get(), _Made):
            yield found.item
        if found.error is not None:
            raise found.error
    finally:
        stopped.set()
        while thread.is_alive():  # it may be waiting for room
            while not made.empty():
                made.get_nowait()
            thread.join(_PATIENCE)


_PATIENCE = 0.001  # seconds


def follow(use: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Call `use` with each item, in order, in a second thread. After an error no further item is used."""
    waiting: Queue[_Made[_Item] | _End] = Queue(_ROOM)
    results: list[_Result] = []
    errors: list[BaseException] = []

    def work() -> None:
        while isinstance(found := waiting.get(), _Made):
            if errors:
                continue
            try:
                results.append(use(found.item))
            except BaseException as exc:
                errors.append(exc)

    thread = Thread(target=work, name="follow", daemon=True)
    thread.start()
    try:
        for item in items:
            waiting.put(_Made(item))
            if errors:
                break
    except BaseException as exc:
        errors.append(exc)
    finally:
        waiting.put(_End())
        thread.join()
    if errors:
        raise errors[0]
    return results
