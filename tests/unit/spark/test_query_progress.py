"""Progress of micro-batches, and when a stream is idle."""

import datetime as dt
from types import SimpleNamespace
from typing import Any

from castleguard.spark.query_progress import Batch, Progress


class Row(dict[str, Any]):
    def asDict(self) -> dict[str, Any]:  # noqa: N802
        return dict(self)


def batch(number: int, rows: int = 0, at: float = 0.0, **out: int | None) -> SimpleNamespace:
    """Progress of a micro-batch that began so many seconds after the first."""
    began = (dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC) + dt.timedelta(seconds=at)).isoformat().replace("+00:00", "Z")
    metrics = {"castleguard_in": Row(rows=rows), "castleguard_out": Row(out)}
    return SimpleNamespace(
        batchId=number, timestamp=began, observedMetrics=metrics, durationMs={"triggerExecution": 1500}
    )


class Query:
    """A query with some completed micro-batches."""

    def __init__(self) -> None:
        self.recentProgress: list[Any] = []

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        return self.recentProgress[-1] if self.recentProgress else None


def test_every_micro_batch_is_reported_once() -> None:
    query, books = Query(), Progress()
    assert list(books.news(query)) == []
    query.recentProgress = [batch(4, rows=9, published=3, rejected=1, pending_0=2), batch(5, published=4, rejected=0)]
    assert list(books.news(query)) == [Batch(4, 9, 3, 1, 2, 1.5), Batch(5, 0, 4, 0, 2, 1.5)]
    assert list(books.news(query)) == []


def test_pending_rows_are_summed_over_all_shards_seen() -> None:
    query, books = Query(), Progress()
    query.recentProgress = [
        batch(0, rows=7, pending_0=3, pending_1=None),
        batch(1, rows=5, pending_0=None, pending_1=5),
    ]
    assert [one.pending for one in books.news(query)] == [3, 8]


def test_micro_batch_without_counters_is_reported() -> None:
    query, books = Query(), Progress()
    query.recentProgress = [
        SimpleNamespace(batchId=0, timestamp="2026-01-31T12:00:00.000Z", observedMetrics={}, durationMs={})
    ]
    assert list(books.news(query)) == [Batch(0, 0, 0, 0, None, 0.0)]


def advance(books: Progress, *batches: Any) -> None:
    query = Query()
    query.recentProgress = list(batches)
    assert len(list(books.news(query))) == len(batches)


def test_stream_is_idle_after_a_while_without_rows_and_without_pending_ones() -> None:
    books = Progress()
    assert not books.idle(10.0)
    advance(books, batch(0, rows=5, pending_0=5), batch(1, at=2), batch(2, at=30))
    assert not books.idle(10.0)  # five rows stay pending
    advance(books, batch(3, at=32, published=5, pending_0=0))
    assert books.idle(10.0)
    advance(books, batch(4, at=34, rows=1, pending_0=0), batch(5, at=36), batch(6, at=45.9))
    assert not books.idle(10.0)
    advance(books, batch(7, at=46))
    assert books.idle(10.0)


def test_micro_batch_planned_earlier_does_not_make_a_stream_idle() -> None:
    books = Progress()
    advance(books, batch(7))
    assert not books.idle(10.0)
    advance(books, batch(8, at=1000, rows=300))
    assert not books.idle(10.0)


def test_rejected_lines_count_as_activity() -> None:
    books = Progress()
    advance(books, batch(0), batch(1, at=1), batch(2, at=1000, rejected=1))
    assert not books.idle(10.0)
