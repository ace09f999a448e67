"""What is told of a query while it runs: rows in and out of every micro-batch, and what is pending.

Spark's own numbers count the files that are read, and count them twice where a frame has two branches. So rows are
counted on their way, by expressions that are part of the query and cost next to nothing.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from castleguard.spark.output import COUNTS, DETAIL, OUTCOME, PUBLISHED, REJECTED, SHARD

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOST_SHARDS_TOLD = 64
"""Rows that are pending are told as long as there are not more shards than that."""
_IN, _OUT, _ROWS = "castleguard_in", "castleguard_out", "rows"


class Batch(NamedTuple):
    """A micro-batch that is done, or the whole of a batch."""

    number: int
    rows: int
    """That came in."""
    published: int
    rejected: int
    """Those that were no rows included."""
    pending: int | None
    """In the shards that were heard of so far; None if nobody counted."""
    seconds: float


def counting_in(frame: "DataFrame") -> "DataFrame":
    """The frame, and its rows are counted."""
    from pyspark.sql.functions import count, lit

    return frame.observe(_IN, count(lit(1)).alias(_ROWS))


def counting_out(frame: "DataFrame", shards: int) -> "DataFrame":
    """The frame of the output, and what is in it is counted."""
    first, *more = _counted(shards)
    return frame.observe(_OUT, first, *more)


def _counted(shards: int) -> "list[Column]":
    from pyspark.sql.functions import col, count, get_json_object, when
    from pyspark.sql.functions import min as lowest

    found = [count(when(col(OUTCOME) == outcome, 1)).alias(outcome) for outcome in (PUBLISHED, REJECTED)]
    if shards > MOST_SHARDS_TOLD:
        return found
    pending = sum(get_json_object(col(DETAIL), f"$.{name}").cast("long") for name in ("waiting", "pending"))
    for shard in range(shards):
        # A shard may be called twice in a micro-batch; what it has after the second call is less, or the same.
        own = when((col(OUTCOME) == COUNTS) & (col(SHARD) == shard), pending)
        found.append(lowest(own).alias(f"pending_{shard}"))
    return found


class Progress:
    """What a query says of itself, as far as it has not been told."""

    def __init__(self) -> None:
        self._told = -1
        self._pending: dict[str, int] = {}
        self._quiet_since: float | None = None  # when the first micro-batch began after which no rows came
        self._began = 0.0  # the latest one

    def news(self, query: Any) -> Iterator[Batch]:
        """The micro-batches since the last time."""
        last = query.lastProgress
        if last is None or last.batchId <= self._told:
            return
        for progress in query.recentProgress:
            if progress.batchId > self._told:
                self._told = progress.batchId
                yield self._batch(progress)

    def idle(self, seconds: float) -> bool:
        """Whether a micro-batch is done that began so long after the first of those without rows, and none is pending.

        Not by a clock of our own: a micro-batch that is slow has not published yet what is due.
        """
        if self._quiet_since is None or any(self._pending.values()):
            return False
        return self._began - self._quiet_since >= seconds

    def _batch(self, progress: Any) -> Batch:
        came, left = (_plain(progress.observedMetrics.get(name)) for name in (_IN, _OUT))
        self._pending |= {name: rows for name, rows in left.items() if name.startswith("pending_") and rows is not None}
        rejected = left.get(REJECTED) or 0
        rows = came.get(_ROWS) or 0
        self._began = datetime.fromisoformat(progress.timestamp).timestamp()
        if rows or rejected:
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = self._began
        return Batch(
            number=progress.batchId,
            rows=rows,
            published=left.get(PUBLISHED) or 0,
            rejected=rejected,
            pending=sum(self._pending.values()) if self._pending else None,
            seconds=(progress.durationMs or {}).get("triggerExecution", 0) / 1000,
        )


def _plain(row: Any) -> dict[str, Any]:
    return {} if row is None else dict(row.asDict())
