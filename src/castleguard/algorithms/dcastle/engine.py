"""CASTLE engine of one of several sites, which can also withdraw rows for releases across sites."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.castle.engine import CastleEngine
from castleguard.kernels import withdraw as kernels
from castleguard.kernels.loss import EDGE_COUNT
from castleguard.schema.cells import largest_inside

Positions = NDArray[np.int64]
Bounds = NDArray[np.float64]  # (columns,), or (clusters, columns)

OUTSIDE = 1 << 30
"""Level of a row outside all boxes."""


class OpenClusters(NamedTuple):
    """Open clusters, one element each."""

    slot: NDArray[np.int64]
    number: NDArray[np.int64]
    """Creation number; never reused."""
    persons: NDArray[np.int64]
    oldest: Positions
    """Position of the oldest row."""
    lower: Bounds
    """(clusters, columns) Range intervals of the current rows; numbers as the lower edges of their cells."""
    upper: Bounds


class MemberEngine(CastleEngine):
    """CASTLE engine of a site. A withdrawn row is in no cluster until it is readmitted."""

    @property
    def columns(self) -> int:
        """Number of quasi-identifiers."""
        return int(self._state.quasi.shape[1])

    def clusters(self) -> OpenClusters:
        """Clusters that are open now."""
        book, bounds = self._state.book, self._state.bounds
        oldest = np.empty(book.shape[1] - 1, dtype=np.int64)
        kernels.oldest_of_clusters(self._state, oldest)
        slot = np.flatnonzero(oldest >= 0)
        return OpenClusters(
            slot, book[0, slot], book[4, slot], oldest[slot], bounds[0].T[slot].copy(), bounds[1].T[slot].copy()
        )

    def members(self, slot: int) -> Positions:
        """Rows of a cluster, by arrival."""
        positions = np.empty(self._state.book[1, slot], dtype=np.int64)
        kernels.members_of(self._state, slot, positions)
        return np.sort(positions)

    def inside(self, lower: Bounds, upper: Bounds, loss: float) -> Positions:
        """Pending rows in a published box whose estimated loss here is at least `loss`, by arrival."""
        positions = np.empty(self.pending, dtype=np.int64)
        taken = np.empty(self._state.book.shape[1] - 1, dtype=np.bool_)
        box = np.array([lower, upper], dtype=np.float64)
        count = kernels.rows_inside(self._state, self._settings, self._work, taken, box, loss, positions)
        return np.sort(positions[:count])

    def withdraw(self, positions: Positions) -> None:
        """Remove pending rows from their clusters."""
        kernels.withdraw(self._state, _as_positions(positions))

    def readmit(self, positions: Positions) -> None:
        """Readmit withdrawn rows that are not due yet. Unless they are too few, they form a new cluster.

        They are close to one another, and the oldest is due soon: in an existing cluster, it would force out the
        whole cluster.
        """
        assert not positions.size or int(positions.min()) + self._settings.delay >= self.arrivals
        together = 4 * np.unique(self.persons(positions)).size >= self._settings.k
        kernels.readmit(
            self._state, self._settings._replace(random_ties=False), self._work, _as_positions(positions), together
        )

    def adopt(self, lower: Bounds, upper: Bounds) -> None:
        """Admit generalisations (boxes, columns) that another site published, for reuse here."""
        for low, high in zip(lower, upper, strict=True):
            kernels.adopt(self._state, self._settings, self._work, _as_bounds(low), _as_bounds(high))

    def as_published(self, lower: Bounds, upper: Bounds) -> tuple[Bounds, Bounds, float]:
        """Published box around range intervals, and its loss."""
        box = np.empty((2, lower.size))
        loss = kernels.published_box(self._state, _as_bounds(lower), _as_bounds(upper), box)
        return box[0], box[1], float(loss)

    def around_published(self, lower: Bounds, upper: Bounds) -> tuple[Bounds, Bounds, float]:
        """Published box around bounds that are already published edges and labels, and its loss."""
        box = np.empty((2, lower.size))
        loss = kernels.around_published(self._state, _as_bounds(lower), _as_bounds(upper), box)
        return box[0], box[1], float(loss)

    def boxes_around(self, position: int, *, fewest: int, most: int, number: int) -> tuple[Bounds, Bounds]:
        """(boxes, columns) Nested published boxes around a pending row and its nearest rows, smallest first.

        The smallest contains at least `fewest` pending rows; at most `number` boxes, ending with the first that
        contains `most` rows.
        """
        far = np.empty(len(self._state.quasi))
        kernels.distances(self._state, position, far)
        some = min(2 * most, int(np.count_nonzero(np.isfinite(far))))
        near = np.argpartition(far, some - 1)[:some]
        values = self._state.quasi[near[np.argsort(far[near], kind="stable")]]
        ends = np.unique((2 * 1.2 ** np.arange(np.ceil(np.log(max(some, 2) / 2) / np.log(1.2)) + 1)).astype(np.int64))
        ends = np.minimum(ends, some) - 1
        boxes = [
            self.as_published(low, high)[:2]
            for low, high in zip(np.minimum.accumulate(values)[ends], np.maximum.accumulate(values)[ends], strict=True)
        ]
        lower, upper = (np.array(side) for side in zip(*boxes, strict=True))
        levels = np.empty(len(far), dtype=np.int64)
        kernels.levels_of(self._state, lower, upper, levels)
        inside = np.cumsum(np.bincount(levels[levels >= 0], minlength=len(lower)))
        chosen: list[int] = []
        for at in np.flatnonzero(inside >= fewest):
            if not chosen or inside[at] >= 1.15 * inside[chosen[-1]]:
                chosen.append(int(at))
            if len(chosen) == number or inside[at] >= most:
                break
        return lower[chosen], upper[chosen]

    def levels(self, positions: Positions, lower: Bounds, upper: Bounds) -> NDArray[np.int64]:
        """Index of the innermost of several nested boxes that contains each row; OUTSIDE if none does."""
        values = self._state.quasi[positions % len(self._state.quasi)][:, None, :]
        inside = np.all((lower <= values) & (values <= self._largest_inside(upper)), axis=2)
        return np.where(inside.any(axis=1), inside.argmax(axis=1), OUTSIDE)

    def _largest_inside(self, upper: Bounds) -> Bounds:
        """Largest values inside published boxes, from their upper bounds (boxes, columns)."""
        layout, bounds = self._state.domain.layout, self._state.domain.bounds
        on_grid = layout[:, EDGE_COUNT] > 0
        return np.where(on_grid, largest_inside(upper, bounds[1]), upper)

    def persons(self, positions: Positions) -> NDArray[np.uint64]:
        """Hashes of the rows' persons."""
        return self._state.person[positions % len(self._state.quasi)]

    def loss_from_here(self, slot: int) -> float:
        """Estimated loss of a cluster's rows if this site published them alone."""
        taken = np.zeros(self._state.book.shape[1] - 1, dtype=np.bool_)
        return float(kernels.home_loss(self._state, self._settings, self._work, slot, taken))

    @property
    def usual_loss(self) -> float:
        """Approximate average loss of published groups: CASTLE's tau plus one cell per number."""
        return float(kernels.usual_loss(self._state))

    def learn(self, loss: float) -> None:
        """Update the threshold with the loss of rows of this engine that another site published."""
        kernels.learn(self._state, loss)

    def union_losses(self, lower: Bounds, upper: Bounds, others: tuple[Bounds, Bounds]) -> NDArray[np.float64]:
        """Loss of the union of a published box with each of several others."""
        losses = np.empty(len(others[0]))
        low, high, lows, highs = (_as_bounds(side) for side in (lower, upper, *others))
        kernels.union_losses(self._state, low, high, lows, highs, losses)
        return losses

    def box_of(self, positions: Positions) -> tuple[Bounds, Bounds]:
        """Range intervals of pending or withdrawn rows."""
        values = self._state.quasi[positions % len(self._state.quasi)]
        return values.min(axis=0), values.max(axis=0)

    def arrived(self, positions: Positions) -> NDArray[np.float64]:
        """Arrival times of rows, in seconds."""
        return self._state.arrived[positions % len(self._state.quasi)]


def _as_bounds(bounds: Bounds) -> Bounds:
    """Bounds as kernels take them; those of a message may be whole numbers, or views of its bytes."""
    return np.require(bounds, dtype=np.float64, requirements=["C", "W"])


def _as_positions(positions: Positions) -> Positions:
    return np.require(positions, dtype=np.int64, requirements=["C", "W"])
