"""SDGS engine: assigns the rows of a window to boxes of a public grid, and publishes cells of at least k rows.

A cell is a box with one combination of sensitive values. Within a window a row affects the count of one cell only,
which is what Theorem 2 requires. Everything after a window's counts (l, other checks on the values, the order of
output, the next grid) reads only the cells of at least k rows.

The engine keeps a row as its box and its sensitive codes, without its values.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.engine import Flags, check_fit
from castleguard.algorithms.sdgs.cell_checks import Check, CloseCells, checks_of
from castleguard.algorithms.sdgs.partition import Nodes, Partition, Released, Rule, adapt
from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.algorithms.windowed import Ints, WindowedEngine
from castleguard.kernels.state import Arrays
from castleguard.schema.axes import Axes, mean_loss
from castleguard.schema.coded import NEW, ROOT, CodedRows, Decisions
from castleguard.schema.roles import Schema

NO_WINDOW = int(np.iinfo(np.int64).min)
WHOLE = -1
"""Box of rows that may only be published at the root, if the grid has more than one box."""


class _Held(NamedTuple):
    """Rows of the open window."""

    position: Ints
    box: Ints
    codes: Ints  # (rows, sensitive columns)


class _Cells(NamedTuple):
    """Published cells, sorted by box, then by codes: all that is kept of a window."""

    box: Ints
    codes: Ints  # (cells, sensitive columns)
    rows: Ints


class SdgsEngine(WindowedEngine[_Held]):
    """SDGS over one stream.

    A window is closed by the first call whose `now` lies beyond it, or by the row that fills it. Empty windows are
    closed too, so that the grid depends on the clock and the released counts alone.
    """

    has_windows = True
    counters = ("arrivals", "window", "adapted", "releases", "longest_wait")

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
        super().__init__(_Held(none, none, np.empty((0, len(self._values)), dtype=np.int64)))
        self._count["window"] = NO_WINDOW if self._by_time else 0

    def begin_at(self, arrivals: int) -> bool:
        """Number rows from `arrivals` on, so that windows of rows continue those of an earlier stream."""
        if not self._by_time:
            self._count["window"] = self._policy.window_at(0.0, arrivals)
        return super().begin_at(arrivals)

    def _push(self, rows: CodedRows, now: float, present: Flags) -> list[Decisions]:
        if self._by_time:
            closed = self._close_until(self._policy.window_at(now, self.arrivals))
            self._take_in(rows, present)
            return closed
        closed = []
        for part in self._cut(present.size, int(self._policy.window)):
            self._take_in(rows.take(part), present[part])
            closed += self._close_until(self._policy.window_at(now, self.arrivals))
        return closed

    def tick(self, now: float) -> Decisions:
        """Close every window that has ended."""
        return self._joined(self._close_until(self._policy.window_at(now, self.arrivals)))

    def flush(self) -> Decisions:
        """End the stream: drop an unfinished window of time, or close an unfinished window of rows.

        Later rows of such a window of rows form a separate release: windows of rows do not hide when rows arrive.
        """
        if self._by_time:
            return self.drop()
        return self._joined([self._close()] if self.arrivals % int(self._policy.window) > 0 else [])

    def drop(self) -> Decisions:
        """Drop the rows of the open window: a stream that ends before the window does must not publish them.

        The window itself stays open, so that the grid evolves as if the rows had not arrived.
        """
        dropped = np.sort(self._whole_window().position)
        self._held = []
        return self._no_decisions(dropped)

    @property
    def open_clusters(self) -> int:
        """Number of boxes of the grid."""
        return self._grid.boxes.size

    @property
    def threshold(self) -> float:
        """Mean information loss of the boxes of the grid."""
        return float(self._grid.losses.mean())

    @property
    def grid(self) -> Partition:
        """Grid of the open window: public, because it is computed from released counts."""
        return self._grid

    def snapshot(self) -> Arrays:
        """Open window, grid with its history, counters."""
        held = self._whole_window()
        arrays: Arrays = {f"held_{name}": array.copy() for name, array in held._asdict().items()}
        arrays |= {f"grid_{name}": array.copy() for name, array in self._grid.nodes._asdict().items()}
        arrays["released"] = np.empty(0, dtype=np.int64) if self._close_to is None else self._close_to.released.copy()
        arrays["counters"] = self._counters()
        return arrays

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """Restore a snapshot; refuse it as a whole if it does not fit."""
        nothing = self._nothing.position
        rows, nodes = (arrays.get(name, nothing).size for name in ("held_position", "grid_parent"))
        lengths = {f"held_{name}": rows for name in _Held._fields} | {f"grid_{name}": nodes for name in Nodes._fields}
        check_fit(self.snapshot(), arrays, lengths)
        self._restore_window(arrays, _Held(*(arrays[f"held_{name}"].copy() for name in _Held._fields)))
        self._grid = Partition(self._grid.axes, Nodes(*(arrays[f"grid_{name}"].copy() for name in Nodes._fields)))
        if self._close_to is not None:
            self._close_to.released[...] = arrays["released"]

    def _take_in(self, rows: CodedRows, present: Flags) -> None:
        """Add rows to the open window."""
        at = np.flatnonzero(present)
        taken = rows.take(at)
        box = self._grid.locate(taken.quasi)
        if self._grid.boxes.size > 1:
            box[taken.to_root] = WHOLE
        self._hold(_Held(self.arrivals + at, box, taken.sensitive))
        self._count["arrivals"] += present.size

    def _close_until(self, window: int) -> list[Decisions]:
        """Close all windows before this one in order, including empty ones."""
        closed = []
        if self._count["window"] == NO_WINDOW:
            self._count["window"] = window
        while self._count["window"] < window:
            undisturbed, before = not self._held and not self._count["adapted"], self._grid
            closed.append(self._close())
            self._count["window"] += 1
            self._count["adapted"] = 0
            if undisturbed and self._grid.same_as(before):
                # An empty window no longer changes the grid, so the following ones will not either.
                self._count["window"] = window
        return closed

    def _close(self) -> Decisions:
        """Publish the cells of the open window that pass, drop its other rows, and adapt the grid."""
        held = self._whole_window()
        self._held = []
        order, cells = _sort_into_cells(held)
        keep = cells.rows >= self._policy.k
        keep[keep] = self._passes(_select(cells, keep))
        stays = np.repeat(keep, cells.rows)
        dropped = np.sort(held.position[order[~stays]])
        # From here on only published counts are read.
        released = _select(cells, keep)
        decisions = self._decide(released, held.position[order[stays]], dropped)
        if self._policy.adapt and not self._count["adapted"]:
            boxed = released.box != WHOLE
            self._grid = adapt(self._grid, Released(released.box[boxed], released.rows[boxed]), self._rule)
        self._count["adapted"] = 1
        return decisions

    def _passes(self, cells: _Cells) -> Flags:
        """Flag the cells of k rows whose box passes all checks: post-processing, so it costs no privacy."""
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
        """Decisions with rows in cell order, so that an observer sees a function of the released counts."""
        boxes, box = np.unique(released.box, return_inverse=True)
        nodes, grid = np.where(boxes == WHOLE, 0, self._grid.boxes[boxes]), self._grid
        first, last = grid.nodes.first[nodes], grid.nodes.last[nodes]
        lower, upper = grid.axes.bounds(first, last)
        event = np.full(boxes.size, self._count["releases"], dtype=np.int64)
        if position.size:
            self._count_release(int(position.min()))
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

    def _no_decisions(self, dropped: Ints | None = None) -> Decisions:
        nothing = self._nothing
        dropped = nothing.position if dropped is None else dropped
        return self._decide(_sort_into_cells(nothing)[1], nothing.position, dropped)


def _sort_into_cells(held: _Held) -> tuple[Ints, _Cells]:
    """Order of the rows by box, codes and position, and the cells in that order."""
    keys = np.column_stack([held.box, held.codes])
    order = np.lexsort((held.position, *keys.T[::-1]))
    keys = keys[order]
    starts = np.flatnonzero(np.any(keys[1:] != keys[:-1], axis=1)) + 1
    starts = np.concatenate([np.zeros(min(len(keys), 1), dtype=np.int64), starts])
    return order, _Cells(keys[starts, 0], keys[starts, 1:], np.diff(starts, append=len(keys)))


def _select(cells: _Cells, keep: Flags) -> _Cells:
    return _Cells(*(array[keep] for array in cells))
