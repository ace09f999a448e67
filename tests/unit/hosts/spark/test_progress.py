"""What is told of micro-batches, and when a stream is idle."""

from types import SimpleNamespace
from typing import Any

import pytest

from castleguard.hosts.spark import progress as module
from castleguard.hosts.spark.progress import Batch, Progress


class Row(dict[str, Any]):
    def asDict(self) -> dict[str, Any]:  # noqa: N802
        return dict(self)


def batch(number: int, rows: int = 0, **out: int | None) -> SimpleNamespace:
    metrics = {"castleguard_in": Row(rows=rows), "castleguard_out": Row(out)}
    return SimpleNamespace(batchId=number, observedMetrics=metrics, durationMs={"triggerExecution": 1500})


class Query:
    """A query that has done some micro-batches."""

    def __init__(self) -> None:
        self.recentProgress: list[Any] = []

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        return self.recentProgress[-1] if self.recentProgress else None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    stand_in = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: stand_in.now))
    return stand_in


def test_every_micro_batch_is_told_once() -> None:
    query, books = Query(), Progress()
    assert list(books.news(query)) == []
    query.recentProgress = [batch(4, rows=9, published=3, rejected=1, pending_0=2), batch(5, published=4, rejected=0)]
    assert list(books.news(query)) == [Batch(4, 9, 3, 1, 2, 1.5), Batch(5, 0, 4, 0, 2, 1.5)]
    assert list(books.news(query)) == []


def test_what_is_pending_is_that_of_all_shards_heard_of() -> None:
    query, books = Query(), Progress()
    query.recentProgress = [
        batch(0, rows=7, pending_0=3, pending_1=None),
        batch(1, rows=5, pending_0=None, pending_1=5),
    ]
    assert [one.pending for one in books.news(query)] == [3, 8]


def test_a_micro_batch_that_counted_nothing_is_told_all_the_same() -> None:
    query, books = Query(), Progress()
    query.recentProgress = [SimpleNamespace(batchId=0, observedMetrics={}, durationMs={})]
    assert list(books.news(query)) == [Batch(0, 0, 0, 0, None, 0.0)]


def tell(books: Progress, *batches: Any) -> None:
    query = Query()
    query.recentProgress = list(batches)
    assert len(list(books.news(query))) == len(batches)


def test_a_stream_is_idle_once_nothing_came_for_a_while_and_nothing_is_pending(clock: SimpleNamespace) -> None:
    books = Progress()
    assert not books.idle(0.0)
    tell(books, batch(0, rows=5, pending_0=5))
    clock.now += 50
    tell(books, batch(1), batch(2), batch(3))
    assert not books.idle(10.0)  # five rows are pending, however long it takes
    tell(books, batch(4, published=5, pending_0=0))
    assert not books.idle(10.0)
    clock.now += 10
    assert books.idle(10.0)
    tell(books, batch(5, rows=1, pending_0=0))
    assert not books.idle(0.0)


def test_a_micro_batch_that_was_planned_before_does_not_make_a_stream_idle(clock: SimpleNamespace) -> None:
    books = Progress()
    tell(books, batch(7))
    clock.now += 1000
    assert not books.idle(10.0)
    tell(books, batch(8, rows=300))
    assert not books.idle(10.0)


def test_rejected_lines_are_rows_that_came(clock: SimpleNamespace) -> None:
    books = Progress()
    tell(books, batch(0), batch(1), batch(2, rejected=1))
    clock.now += 1000
    assert not books.idle(10.0)
