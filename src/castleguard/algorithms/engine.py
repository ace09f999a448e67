"""What an engine is: it holds pending rows and decides which leave, and in which group.

The stream owns an engine and is the only caller. An engine never sees a raw value and never publishes: its decisions
go to the gate.
"""

from collections.abc import Mapping
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import UsageError
from castleguard.kernels.state import Arrays
from castleguard.schema.coded import CodedRows, Decisions

Flags = NDArray[np.bool_]  # (rows,)


class Engine(Protocol):
    """Promises that every engine keeps.

    * A row leaves exactly once: in `Decisions.position` or in `Decisions.dropped`.
    * A row leaves no later than during the `push` of the row that arrives `delay` rows after it.
    * The same rows with the same `now` give the same decisions, in one push or in many.
    * Nothing blocks, and nothing depends on a wall clock.
    """

    has_windows: ClassVar[bool] = False
    """Whether `drop` gives up the rows of an open window."""

    def push(self, rows: CodedRows, now: float, present: Flags | None = None) -> Decisions:
        """Take in rows that arrive at `now` seconds, and decide whatever that makes due. May be empty.

        A row that is not `present` was left out before (sampled out, over budget): it gets a position and moves the
        clock that counts arrivals, and is never decided.
        """
        ...

    def tick(self, now: float) -> Decisions:
        """Decide the rows that have waited `max_wait` seconds. `now` never goes back."""
        ...

    def flush(self) -> Decisions:
        """The end of the stream: decide every pending row. Rows may arrive afterwards; the state stays."""
        ...

    @property
    def arrivals(self) -> int:
        """Rows taken in so far: the position of the next one."""
        ...

    @property
    def pending(self) -> int:
        """Rows that have not been decided yet."""
        ...

    @property
    def oldest(self) -> int:
        """The position of the oldest pending row; `arrivals` if none is pending."""
        ...

    @property
    def open_clusters(self) -> int:
        """Clusters that are growing."""
        ...

    @property
    def threshold(self) -> float:
        """The information loss up to which a cluster takes in a row, CASTLE's tau."""
        ...

    @property
    def longest_wait(self) -> int:
        """The most arrivals that a published row has waited."""
        ...

    def begin_at(self, arrivals: int) -> bool:
        """Before the first row: give it this number, so that windows counted in rows go on where an earlier stream left
        them. Whether the engine has such windows.
        """
        return False

    def drop(self) -> Decisions:
        """Give up the rows of the open window. Only engines that have such windows can."""
        raise UsageError("this algorithm has no windows that can be dropped; flush the stream")

    def snapshot(self) -> Arrays:
        """The whole state, by name. It holds coded personal data."""
        ...

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]  # of any element type
        """Continue from a snapshot of an engine with the same schema and policy."""
        ...
