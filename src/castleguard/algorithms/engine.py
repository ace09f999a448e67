"""Contract of an engine: it holds pending rows and decides which ones leave, and in which group.

The stream owns its engine and is the only caller. An engine never sees a raw value and never publishes: its decisions
go to the gate.
"""

from collections.abc import Mapping
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import SnapshotError, UsageError
from castleguard.kernels.state import Arrays
from castleguard.schema.coded import CodedRows, Decisions

Flags = NDArray[np.bool_]  # (rows,)


class Engine(Protocol):
    """Every engine guarantees:

    * A row leaves exactly once: in `Decisions.position` or in `Decisions.dropped`.
    * A row leaves no later than during the `push` of the row that arrives `delay` rows after it.
    * The same rows with the same `now` give the same decisions, in one push or in many.
    * No call blocks, and no decision depends on a wall clock.
    """

    has_windows: ClassVar[bool] = False
    """Whether `drop` can drop the rows of an open window."""

    def push(self, rows: CodedRows, now: float, present: Flags | None = None) -> Decisions:
        """Accept rows that arrive at `now` seconds, and decide all rows that become due. `rows` may be empty.

        A row that is not `present` was left out by an earlier stage (sampled out, over budget): it gets a position and
        advances the arrival count, and is never decided. The arrays of the decisions are new: another thread reads
        them during later calls.
        """
        ...

    def tick(self, now: float) -> Decisions:
        """Decide the rows that have waited `max_wait` seconds. `now` never decreases."""
        ...

    def flush(self) -> Decisions:
        """Decide every pending row at the end of the stream. More rows may arrive afterwards."""
        ...

    @property
    def arrivals(self) -> int:
        """Rows accepted so far: the position of the next one."""
        ...

    @property
    def pending(self) -> int:
        """Number of undecided rows."""
        ...

    @property
    def oldest(self) -> int:
        """Position of the oldest pending row; `arrivals` if none is pending."""
        ...

    @property
    def open_clusters(self) -> int:
        """Number of open clusters."""
        ...

    @property
    def threshold(self) -> float:
        """Information loss up to which a cluster accepts a row, CASTLE's tau."""
        ...

    @property
    def longest_wait(self) -> int:
        """Longest wait of a published row, in arrivals."""
        ...

    def begin_at(self, arrivals: int) -> bool:
        """Number rows from `arrivals` on, so that windows counted in rows continue those of an earlier stream.

        Called before the first row. Returns whether the engine has such windows.
        """
        return False

    def drop(self) -> Decisions:
        """Drop the rows of the open window. Only engines with windows support it."""
        raise UsageError("this algorithm has no windows that can be dropped; flush the stream")

    def snapshot(self) -> Arrays:
        """Complete state, by name. It contains coded personal data."""
        ...

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]  # of any element type
        """Restore a snapshot of an engine with the same schema and policy."""
        ...


def check_fit(
    state: Arrays,
    snapshot: Mapping[str, NDArray],  # type: ignore[type-arg]
    lengths: Mapping[str, int] | None = None,
) -> None:
    """Refuse a snapshot whose arrays differ from those of the state in name, shape or type.

    `lengths` are the lengths of arrays that follow the number of pending rows.
    """
    for name, mine in state.items():
        theirs = snapshot.get(name)
        shape = (lengths[name], *mine.shape[1:]) if lengths and name in lengths else mine.shape
        if theirs is None or theirs.shape != shape or theirs.dtype != mine.dtype:
            raise SnapshotError(f"the snapshot does not fit this engine: {name} is missing or has another shape")
