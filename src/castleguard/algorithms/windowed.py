"""Base of engines that hold the rows of one open window: strict DOCA and SDGS."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.engine import Engine, Flags
from castleguard.schema.coded import CodedRows, Decisions, join_decisions

Ints = NDArray[np.int64]


class Held(Protocol):
    """Rows of the open window that take part: a NamedTuple of arrays with one element per row."""

    @property
    def position(self) -> Ints:
        """Positions, ascending."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


AnyHeld = TypeVar("AnyHeld", bound=Held)


class WindowedEngine(Engine, Generic[AnyHeld]):
    """Engine with one open window: holds its rows, counts arrivals, and cuts arriving rows at the ends of windows."""

    counters: ClassVar[tuple[str, ...]] = ("arrivals", "releases", "longest_wait")
    """Names of the elements of `counters` in a snapshot."""

    def __init__(self, nothing: AnyHeld) -> None:
        """`nothing`: an empty window."""
        self._nothing = nothing
        self._held: list[AnyHeld] = []
        self._count = dict.fromkeys(self.counters, 0)

    def begin_at(self, arrivals: int) -> bool:
        """Number rows from `arrivals` on, so that windows of rows continue those of an earlier stream."""
        self._count["arrivals"] = arrivals
        return True

    def push(self, rows: CodedRows, now: float, present: Flags | None = None) -> Decisions:
        """Accept rows, and close every window that has ended."""
        if present is None:
            present = np.ones(rows.person.size, dtype=np.bool_)
        return self._joined(self._push(rows, now, present))

    @abstractmethod
    def _push(self, rows: CodedRows, now: float, present: Flags) -> list[Decisions]:
        """Accept rows, and decide every window that has ended."""

    @abstractmethod
    def _no_decisions(self, dropped: Ints | None = None) -> Decisions:
        """Decisions that publish nothing, and drop these rows."""

    @property
    def arrivals(self) -> int:
        """Rows accepted so far."""
        return self._count["arrivals"]

    @property
    def pending(self) -> int:
        """Rows of the open window that take part."""
        return sum(held.position.size for held in self._held)

    @property
    def oldest(self) -> int:
        """Position of the oldest pending row."""
        return int(self._held[0].position[0]) if self._held else self.arrivals

    @property
    def longest_wait(self) -> int:
        """Longest wait of a published row, in arrivals."""
        return self._count["longest_wait"]

    def _cut(self, rows: int, size: int) -> Iterator[slice]:
        """Cut arriving rows at the ends of windows of `size` rows; each part must be accepted before the next."""
        at = 0
        while at < rows:
            part = slice(at, at + size - self.arrivals % size)
            yield part
            at = part.stop

    def _hold(self, more: AnyHeld) -> None:
        """Add rows to the open window, kept as a few pieces of decreasing size so that small pushes copy little."""
        while self._held and self._held[-1].position.size <= more.position.size:
            more = self._concatenate(self._held.pop(), more)
        if more.position.size:
            self._held.append(more)

    def _whole_window(self) -> AnyHeld:
        return self._concatenate(self._nothing, *self._held)

    def _concatenate(self, *pieces: AnyHeld) -> AnyHeld:
        make: Callable[..., AnyHeld] = type(self._nothing)
        return make(*(np.concatenate(arrays) for arrays in zip(*pieces, strict=True)))

    def _count_release(self, first: int) -> None:
        """Count a release whose oldest row has the position `first`."""
        self._count["longest_wait"] = max(self.longest_wait, self.arrivals - 1 - first)
        self._count["releases"] += 1

    def _joined(self, closed: list[Decisions]) -> Decisions:
        return join_decisions(closed) if closed else self._no_decisions()

    def _counters(self) -> Ints:
        return np.array([self._count[name] for name in self.counters], dtype=np.int64)

    def _restore_window(self, arrays: Mapping[str, NDArray], held: AnyHeld) -> None:  # type: ignore[type-arg]
        """Restore the rows of the open window and the counters."""
        self._held = [held] if held.position.size else []
        self._count = dict(zip(self.counters, arrays["counters"].tolist(), strict=True))
