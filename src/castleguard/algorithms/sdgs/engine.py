"""The SDGS engine: rows of a window fall into the boxes of a public grid, and cells of k rows come out.

A cell is a box with one combination of sensitive values. Within a window a row touches the count of one cell and
nothing else, which is what Theorem 2 needs. All that follows a window's counts (l, other checks on the values, the
order of output, the next grid) reads the cells of at least k rows alone.

The engine keeps a row as its box and its sensitive codes; the values themselves stay behind.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.engine import Engine, Flags
from castleguard.algorithms.sdgs.axes import Axes, mean_loss
from castleguard.algorithms.sdgs.cell_checks import Check, CloseCells, checks_of
from castleguard.algorithms.sdgs.partition import Nodes, Partition, Released, Rule, adapt
from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.errors import SnapshotError
from castleguard.kernels.state import Arrays
from castleguard.schema.coded import NEW, ROOT, CodedRows, Decisions, join_decisions
from castleguard.schema.roles import Schema

Ints = NDArray[np.int64]

NO_WINDOW = int(np.iinfo(np.int64).min)
WHOLE = -1
"""The box of rows that may only be published at the root, where the grid has more than one box."""

_COUNTERS = ("arrivals", "window", "adapted", "releases", "longest_wait")


class _Held(NamedTuple):
    """Rows of the open window."""

    position: Ints
    box: Ints
    codes: Ints  # (rows, sensitive columns)


class _Cells(NamedTuple):
    """The cells that are published, sorted by box, then by codes: all that is known after a window."""

    box: Ints
    codes: Ints  # (cells, sensitive columns)
    rows: Ints


class SdgsEngine(Engine):
    """SDGS over one stream. Keeps the promises of `engine.base.Engine`.

    A window is closed by the first call whose `now` lies beyond it, or by the row that fills it. It is closed whether
    it has rows or not, so that the grid follows the clock and what was released, and nothing else.
    """

    has_windows = True

    def __init__(self, schema: Schema, policy: Sdgs, *, checks: tuple[Check, ...] = ()) -> None:
        policy.check(schema)
        self._policy = policy
        self._by_time = policy.window_unit == "seconds"
        self._values = [len(role.labels or ()) + 1 for role in schema.sensitive]
        closeness = policy.criteria.closeness
        self._close_to = None if closeness is None else CloseCells(schema, closeness)
        self._checks = (*checks_of(policy.criteria), *checks)
        self._rule = Rule(k=policy.k, l=policy.l, survival=policy.survival, max_cells=policy.max_cells)
        self._grid = Partition.start(Axes.of(schema), self._rule, cells=policy.start_cells)
        none = np.empty(0, dtype=np.int64)
        self._nothing = _Held(none, none, np.empty((0, len(self._values)), dtype=np.int64))
        self._held: list[_Held] = []
        self._count = dict.fromkeys(_COUNTERS, 0)
        self._count["window"] = NO_WINDOW if self._by_time else 0

    def begin_at(self, arrivals: int) -> bool:
        """Give the first row this number, in place of 0: windows of rows go on where an earlier stream left them."""
        self._count["arrivals"] = arrivals
        if not self._by_time:
            self._count["window"] = self._policy.window_at(0.0, arrivals)
        return True

    def push(self, rows: CodedRows, now: float, present: Flags | None = None) -> Decisions:
        """Take in rows, and close every window that has ended."""
        if present is None:
            present = np.ones(rows.person.size, dtype=np.bool_)
        if self._by_time:
            closed = self._close_until(self._policy.window_at(now, self.arrivals))
            self._take_in(rows, present)
            return self._joined(closed)
        closed, at, size = [], 0, int(self._policy.window)
        while at < present.size:
            part = slice(at, at + size - self.arrivals % size)
            self._take_in(rows.take(part), present[part])
            closed += self._close_until(self._policy.window_at(now, self.arrivals))
            at = part.stop
        return self._joined(closed)

    def tick(self, now: float) -> Decisions:
        """Close every window that has ended."""
        return self._joined(self._close_until(self._policy.window_at(now, self.arrivals)))

    def flush(self) -> Decisions:
        """End the stream. A window of time that has not reached its edge is dropped. A window of rows is closed as it
        is, and the rows that still fill it are a release of their own: when rows arrive is not hidden there.
        """
        if self._by_time:
            return self.drop()
        return self._joined([self._close()] if self.arrivals % int(self._policy.window) > 0 else [])

    def drop(self) -> Decisions:
        """Drop the rows of the open window: a stream that ends before its edge must not publish them.

        The window itself stays open, so that the grid moves as if the rows had not come.
        """
        dropped = np.sort(self._whole_window().position)
        self._held = []
        return self._decide(_sort_into_cells(self._nothing)[1], self._nothing.position, dropped)

    @property
    def arrivals(self) -> int:
        """Rows taken in so far."""
        return self._count["arrivals"]

    @property
    def pending(self) -> int:
        """Rows of the open window that take part."""
        return sum(held.position.size for held in self._held)

    @property
    def oldest(self) -> int:
        """The position of the oldest pending row."""
        return int(self._held[0].position[0]) if self._held else self.arrivals

    @property
    def open_clusters(self) -> int:
        """Boxes of the grid."""
        return self._grid.boxes.size

    @property
    def threshold(self) -> float:
        """The mean information loss of the boxes of the grid."""
        return float(self._grid.losses.mean())

    @property
    def longest_wait(self) -> int:
        """The most arrivals that a published row has waited."""
        return self._count["longest_wait"]

    @property
    def grid(self) -> Partition:
        """The grid of the open window: public, as it follows from what was released."""
        return self._grid

    def snapshot(self) -> Arrays:
        """The open window, the grid with its memory, the counters."""
        held = self._whole_window()
        arrays: Arrays = {f"held_{name}": array.copy() for name, array in held._asdict().items()}
        arrays |= {f"grid_{name}": array.copy() for name, array in self._grid.nodes._asdict().items()}
        arrays["released"] = np.empty(0, dtype=np.int64) if self._close_to is None else self._close_to.released.copy()
        arrays["counters"] = np.array([self._count[name] for name in _COUNTERS], dtype=np.int64)
        return arrays

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """Continue from a snapshot. One that does not fit is refused as a whole."""
        lengths = {"held": arrays.get("held_position"), "grid": arrays.get("grid_parent")}
        for name, mine in self.snapshot().items():
            theirs, length = arrays.get(name), lengths.get(name.partition("_")[0])
            shape = (mine.shape[0] if length is None else length.size, *mine.shape[1:])
            if theirs is None or theirs.shape != shape or theirs.dtype != mine.dtype:
                raise SnapshotError(f"the snapshot does not fit this engine: {name} is missing or of another shape")
        held = _Held(*(arrays[f"held_{name}"].copy() for name in _Held._fields))
        self._held = [held] if held.position.size else []
        self._grid = Partition(self._grid.axes, Nodes(*(arrays[f"grid_{name}"].copy() for name in Nodes._fields)))
        if self._close_to is not None:
            self._close_to.released[...] = arrays["released"]
        self._count = dict(zip(_COUNTERS, arrays["counters"].tolist(), strict=True))

    def _take_in(self, rows: CodedRows, present: Flags) -> None:
        """Put rows into the open window."""
        at = np.flatnonzero(present)
        taken = rows.take(at)
        box = self._grid.locate(taken.quasi)
        if self._grid.boxes.size > 1:
            box[taken.to_root] = WHOLE
        self._hold(_Held(self.arrivals + at, box, taken.sensitive))
        self._count["arrivals"] += present.size

    def _hold(self, more: _Held) -> None:
        """Keep few pieces, each larger than the next: many small pushes copy each row a few times only."""
        while self._held and self._held[-1].position.size <= more.position.size:
            last = self._held.pop()
            more = _Held(*(np.concatenate(pair) for pair in zip(last, more, strict=True)))
        if more.position.size:
            self._held.append(more)

    def _whole_window(self) -> _Held:
        return _Held(*(np.concatenate(pieces) for pieces in zip(self._nothing, *self._held, strict=True)))

    def _close_until(self, window: int) -> list[Decisions]:
        """Close all windows before this one, in their order, the empty ones too."""
        closed = []
        if self._count["window"] == NO_WINDOW:
            self._count["window"] = window
        while self._count["window"] < window:
            undisturbed, before = not self._held and not self._count["adapted"], self._grid
            closed.append(self._close())
            self._count["window"] += 1
            self._count["adapted"] = 0
            if undisturbed and self._grid.same_as(before):
                # An empty window changes nothing any more: nor will those that follow.
                self._count["window"] = window
        return closed

    def _close(self) -> Decisions:
        """Publish the cells of the open window that may be, drop its other rows, and let the grid follow."""
        held = self._whole_window()
        self._held = []
        order, cells = _sort_into_cells(held)
        keep = cells.rows >= self._policy.k
        keep[keep] = self._passes(_select(cells, keep))
        stays = np.repeat(keep, cells.rows)
        dropped = np.sort(held.position[order[~stays]])
        # From here on nothing is read but what is published.
        released = _select(cells, keep)
        decisions = self._decide(released, held.position[order[stays]], dropped)
        if self._policy.adapt and not self._count["adapted"]:
            boxed = released.box != WHOLE
            self._grid = adapt(self._grid, Released(released.box[boxed], released.rows[boxed]), self._rule)
        self._count["adapted"] = 1
        return decisions

    def _passes(self, cells: _Cells) -> Flags:
        """Which of the cells with k rows are in a box that passes all checks: post-processing, so it costs nothing."""
        boxes, box = np.unique(cells.box, return_inverse=True)
        passed = np.ones(boxes.size, dtype=np.bool_)
        for column, values in enumerate(self._values):
            counts = np.zeros((boxes.size, values), dtype=np.int64)
            np.add.at(counts, (box, cells.codes[:, column]), cells.rows)
            for check in self._checks:
                passed &= check(column, counts)
            if self._close_to is not None:
                self._close_to.count(column, counts.sum(axis=0))
                passed &= self._close_to(column, counts)
        flags: Flags = passed[box]
        return flags

    def _decide(self, released: _Cells, position: Ints, dropped: Ints) -> Decisions:
        """Rows in the order of their cells: what an observer sees is a function of the released counts."""
        boxes, box = np.unique(released.box, return_inverse=True)
        nodes, grid = np.where(boxes == WHOLE, 0, self._grid.boxes[boxes]), self._grid
        first, last = grid.nodes.first[nodes], grid.nodes.last[nodes]
        lower, upper = grid.axes.bounds(first, last)
        event = np.full(boxes.size, self._count["releases"], dtype=np.int64)
        if position.size:
            self._count["releases"] += 1
            self._count["longest_wait"] = max(self.longest_wait, self.arrivals - 1 - int(position.min()))
        return Decisions(
            position=position,
            group=np.repeat(box, released.rows),
            lower=lower,
            upper=upper,
            loss=mean_loss(grid.axes.losses(first, last)),
            kind=np.where(nodes == 0, ROOT, NEW),
            kept=np.zeros(boxes.size, dtype=np.bool_),
            event=event,
            seen=np.full(boxes.size, self.arrivals, dtype=np.int64),
            dropped=dropped,
        )

    def _joined(self, closed: list[Decisions]) -> Decisions:
        """Several releases, one after the other."""
        if closed:
            return join_decisions(closed)
        return self._decide(_sort_into_cells(self._nothing)[1], self._nothing.position, self._nothing.position)


def _sort_into_cells(held: _Held) -> tuple[Ints, _Cells]:
    """The rows by box, then by codes, then by position; and the cells in that order."""
    keys = np.column_stack([held.box, held.codes])
    order = np.lexsort((held.position, *keys.T[::-1]))
    keys = keys[order]
    starts = np.flatnonzero(np.any(keys[1:] != keys[:-1], axis=1)) + 1
    starts = np.concatenate([np.zeros(min(len(keys), 1), dtype=np.int64), starts])
    return order, _Cells(keys[starts, 0], keys[starts, 1:], np.diff(starts, append=len(keys)))


def _select(cells: _Cells, keep: Flags) -> _Cells:
    return _Cells(*(array[keep] for array in cells))
