"""Progress of a query: rows in and out of every micro-batch, and pending rows.

Spark's own metrics count files instead of rows, and count twice where a frame has two branches. Rows are therefore
counted by cheap expressions inside the query.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from castleguard.spark.output import COUNTS, DETAIL, OUTCOME, PUBLISHED, REJECTED, SHARD

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOST_SHARDS_COUNTED = 64
"""Pending rows are counted for up to so many shards."""
_IN, _OUT, _ROWS = "castleguard_in", "castleguard_out", "rows"


class Batch(NamedTuple):
    """A completed micro-batch, or a whole batch."""

    number: int
    rows: int
    """Input rows."""
    published: int
    rejected: int
    """Rejected rows, including malformed ones."""
    pending: int | None
    """Pending rows in the shards seen so far; None if not counted."""
    seconds: float


def counting_in(frame: "DataFrame") -> "DataFrame":
    """Add a counter of input rows to the frame."""
    from pyspark.sql.functions import count, lit

    return frame.observe(_IN, count(lit(1)).alias(_ROWS))


def counting_out(frame: "DataFrame", shards: int) -> "DataFrame":
    """Add counters of the output to the frame."""
    first, *more = _counters(shards)
    return frame.observe(_OUT, first, *more)


def _counters(shards: int) -> "list[Column]":
    from pyspark.sql.functions import col, count, get_json_object, when
    from pyspark.sql.functions import min as lowest

    found = [count(when(col(OUTCOME) == outcome, 1)).alias(outcome) for outcome in (PUBLISHED, REJECTED)]
    if shards > MOST_SHARDS_COUNTED:
        return found
    pending = sum(get_json_object(col(DETAIL), f"$.{name}").cast("long") for name in ("waiting", "pending"))
    for shard in range(shards):
        # A shard may be called twice in a micro-batch; after the second call it never has more pending rows.
        own = when((col(OUTCOME) == COUNTS) & (col(SHARD) == shard), pending)
        found.append(lowest(own).alias(f"pending_{shard}"))
    return found


class Progress:
    """Follows the progress of a query."""

    def __init__(self) -> None:
        self._last = -1  # number of the latest micro-batch returned by `news`
        self._pending: dict[str, int] = {}
        self._quiet_since: float | None = None  # start of the first micro-batch since which no rows have arrived
        self._began = 0.0  # start of the latest micro-batch

    def news(self, query: Any) -> Iterator[Batch]:
        """Yield the micro-batches completed since the last call."""
        last = query.lastProgress
        if last is None or last.batchId <= self._last:
            return
        for progress in query.recentProgress:
            if progress.batchId > self._last:
                self._last = progress.batchId
                yield self._batch(progress)

    def idle(self, seconds: float) -> bool:
        """Whether micro-batches have been without rows for `seconds`, and no row is pending.

        Measured by the start times of micro-batches, not by a clock: a slow one has not published all due rows yet.
        """
        if self._quiet_since is None or any(self._pending.values()):
            return False
        return self._began - self._quiet_since >= seconds

    def _batch(self, progress: Any) -> Batch:
        came, left = (_as_dict(progress.observedMetrics.get(name)) for name in (_IN, _OUT))
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


def _as_dict(row: Any) -> dict[str, Any]:
    return {} if row is None else dict(row.asDict())
