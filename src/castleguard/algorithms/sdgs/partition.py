"""The public grid of SDGS: boxes that tile the domain, in a tree that follows what has been released.

The grid of the next window is `adapt(grid, released)`: a function of the grid before and of the counts that were
published in it. It cannot see a row, and its arguments hold none; that is why following the data costs no privacy
(docs/proofs/sdgs.md, "Adaptivity is free").

* **Split.** Take the largest released cells (box and sensitive values) of a box that together hold `survival` of its
  released rows, and call the smallest of them the bar. An even cut into m parts leaves bar/m rows in it. The box is cut
  if that is at least k + 2 sqrt(k): two standard deviations of a count around k, so that a cell which just meets the
  bar falls below k in 3 to 5 windows of 100. Released counts are counts after sampling: nothing has to be scaled.
* **Merge.** A split is *just worth it* at the released count at which the bar would be met exactly, the shares of the
  values being the same. Siblings that together released less than half of that, in `PATIENCE` windows in a row, become
  one box again. Between the half and the whole nothing happens: noise does not move the grid.
* **Rest.** A box that was merged rests before it is cut again: twice as long as the time before if that split did not
  last. So an area that looks better from above than it is costs two windows in `LONGEST_REST`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.sdgs.axes import Axes, mean_loss
from castleguard.schema.cells import Cells, Values

Ints = NDArray[np.int64]
_Path = tuple[int, ...]  # from the root of a tree: the number of the child at each step

UNCUT = -1
PATIENCE = 2
LONGEST_REST = 64


class Released(NamedTuple):
    """A release as the grid sees it: one entry per published cell (box and sensitive values)."""

    box: Ints
    rows: Ints


@dataclass(frozen=True, kw_only=True)
class Rule:
    """When a split is worth it."""

    k: int
    l: int
    survival: float
    """The share of a box's released rows that must be expected to survive its split."""
    max_cells: int

    @property
    def reach(self) -> float:
        """How many released rows a cell needs in order to come out reliably."""
        return self.k + 2 * math.sqrt(self.k)


class Nodes(NamedTuple):
    """The tree, in preorder: a node, then its children from the lowest cell to the highest."""

    parent: Ints
    axis: Ints
    """The axis along which the node is cut into its children; UNCUT: it is a box of the grid."""
    first: Cells  # (nodes, columns)
    last: Cells  # (nodes, columns)
    enough: Values
    """The released count at which the node's split is just worth it; 0 for a box."""
    quiet: Ints
    """Windows in a row in which the node's boxes together released too little."""
    age: Ints
    """A node: windows since its split. A box: windows it still has to rest."""
    rest: Ints
    """How long the box rests after its next merge, if that comes early."""


@dataclass(frozen=True, eq=False)
class Partition:
    """A grid: the nodes that are not cut tile the domain. Boxes are numbered from 0 in the order of the tree."""

    axes: Axes
    nodes: Nodes

    @classmethod
    def start(cls, axes: Axes, rule: Rule, *, cells: int = 1) -> "Partition":
        """One box; or the box that loses most, the earliest of them, cut again and again as long as `cells` allow."""
        whole = _Node(-1, (0,) * len(axes.axes), tuple(axis.cells - 1 for axis in axes.axes))
        grown: dict[_Path, _Node] = {(): whole}
        waiting: list[tuple[float, _Path]] = [(0.0, ())]
        boxes = 1
        while waiting:
            _, path = heappop(waiting)
            node = grown[path]
            parts = _cuts(axes, node.first, node.last)
            axis = _widest(_losses_of(axes, node), parts, cells - boxes + 1)
            if axis == UNCUT:
                continue  # for good: there is never more room than now
            boxes += len(parts[axis]) - 1
            grown[path] = node._replace(axis=axis, enough=len(parts[axis]) * rule.reach)
            for number, child in enumerate(_children(node, -1, axis, parts[axis])):
                grown[*path, number] = child
                heappush(waiting, (-float(mean_loss(_losses_of(axes, child)[None])[0]), (*path, number)))
        # A path comes right before those that begin with it: sorted paths are preorder.
        place = {path: number for number, path in enumerate(sorted(grown))}
        return cls(axes, _nodes([grown[path]._replace(parent=place[path[:-1]] if path else -1) for path in place]))

    @cached_property
    def boxes(self) -> Ints:
        """The node of every box."""
        return np.flatnonzero(self.nodes.axis == UNCUT)

    @cached_property
    def bounds(self) -> tuple[Values, Values]:
        """(boxes, columns): what is published for every box."""
        return self.axes.bounds(self.nodes.first[self.boxes], self.nodes.last[self.boxes])

    @cached_property
    def losses(self) -> Values:
        """(boxes,): the information loss of every box."""
        return mean_loss(self.axes.losses(self.nodes.first[self.boxes], self.nodes.last[self.boxes]))

    def locate(self, quasi: Values) -> Ints:
        """(rows,): the box of every row."""
        cells = self.axes.locate(quasi)
        node = np.zeros(len(cells), dtype=np.int64)
        moving = np.arange(len(cells)) if self.nodes.axis[0] != UNCUT else np.empty(0, dtype=np.int64)
        span, starts, children = self._doors
        while moving.size:
            at = node[moving]
            wanted = at * span + cells[moving, self.nodes.axis[at]]
            node[moving] = at = children[np.searchsorted(starts, wanted, side="right") - 1]
            moving = moving[self.nodes.axis[at] != UNCUT]
        return np.searchsorted(self.boxes, node)

    def same_as(self, other: "Partition") -> bool:
        """Whether both are the same grid with the same memory."""
        return all(np.array_equal(mine, theirs) for mine, theirs in zip(self.nodes, other.nodes, strict=True))

    @cached_property
    def _doors(self) -> tuple[int, Ints, Ints]:
        """The way down: (parent, first cell of the child on the parent's axis) as one sorted number, and the child."""
        nodes, span = self.nodes, max(axis.cells for axis in self.axes.axes)
        children = np.arange(1, nodes.parent.size)
        parent = nodes.parent[children]
        starts = parent * span + nodes.first[children, nodes.axis[parent]]
        order = np.argsort(starts)
        return span, starts[order], children[order]


def adapt(partition: Partition, released: Released, rule: Rule) -> Partition:
    """The grid of the next window, from the grid of this one and what was published in it."""
    nodes = _remember(partition.nodes, _totals(partition, released))
    merged = _quiet_families(nodes)
    room = rule.max_cells - _boxes_after(nodes, merged)
    plans = {}
    for node, plan in _worth_a_split(partition, nodes, released, rule):
        more = len(plan.starts) - 1
        if more <= room and int(nodes.parent[node]) not in merged:
            plans[node] = plan
            room -= more
    if plans or merged:
        nodes = _rebuild(nodes, plans, merged)
    return Partition(partition.axes, nodes)


class _Plan(NamedTuple):
    """A box that is to be cut."""

    axis: int
    starts: tuple[int, ...]
    """The first cells of its parts."""
    enough: float
    gain: float
    """Released rows times the loss on the axis: what is cut first if there is not room for all."""


class _Node(NamedTuple):
    """One node while a tree is being built. The fields are those of `Nodes`."""

    parent: int
    first: tuple[int, ...]
    last: tuple[int, ...]
    axis: int = UNCUT
    enough: float = 0.0
    quiet: int = 0
    age: int = 0
    rest: int = PATIENCE


def _nodes(built: list[_Node]) -> Nodes:
    return Nodes(
        parent=np.array([node.parent for node in built], dtype=np.int64),
        axis=np.array([node.axis for node in built], dtype=np.int64),
        first=np.array([node.first for node in built], dtype=np.int64),
        last=np.array([node.last for node in built], dtype=np.int64),
        enough=np.array([node.enough for node in built], dtype=np.float64),
        quiet=np.array([node.quiet for node in built], dtype=np.int64),
        age=np.array([node.age for node in built], dtype=np.int64),
        rest=np.array([node.rest for node in built], dtype=np.int64),
    )


def _totals(partition: Partition, released: Released) -> Values:
    """What all boxes under each node released together."""
    totals = np.zeros(partition.nodes.parent.size)
    np.add.at(totals, partition.boxes[released.box], released.rows)
    parents = partition.nodes.parent.tolist()
    # Children come after their parent in preorder, so walking back sees every child before its parent.
    for node in range(totals.size - 1, 0, -1):
        totals[parents[node]] += totals[node]
    return totals


def _remember(nodes: Nodes, totals: Values) -> Nodes:
    """One window more: of age, of quiet, of rest."""
    cut = nodes.axis != UNCUT
    quiet = np.where(cut & (2 * totals < nodes.enough), nodes.quiet + 1, 0)
    age = np.where(cut, np.minimum(nodes.age + 1, LONGEST_REST + 1), np.maximum(nodes.age - 1, 0))
    return nodes._replace(quiet=quiet, age=age)


def _quiet_families(nodes: Nodes) -> set[int]:
    """The nodes that become boxes again: their children are boxes, and released too little for too long."""
    parents_of_nodes = nodes.parent[nodes.axis != UNCUT]
    family = nodes.axis != UNCUT
    family[parents_of_nodes[parents_of_nodes >= 0]] = False
    return set(np.flatnonzero(family & (nodes.quiet >= PATIENCE)).tolist())


def _boxes_after(nodes: Nodes, merged: set[int]) -> int:
    """How many boxes there are once these nodes have become boxes."""
    gone = np.isin(nodes.parent, np.array(sorted(merged), dtype=np.int64))
    return int(np.count_nonzero(nodes.axis == UNCUT) - np.count_nonzero(gone) + len(merged))


def _worth_a_split(partition: Partition, nodes: Nodes, released: Released, rule: Rule) -> list[tuple[int, _Plan]]:
    """The boxes whose split is worth it, the most worth first."""
    found = []
    order = np.lexsort((-released.rows, released.box))
    box, count = released.box[order], released.rows[order]
    axes, boxes = partition.axes, partition.boxes
    losses = axes.losses(nodes.first[boxes], nodes.last[boxes])
    starts = np.flatnonzero(np.diff(box, prepend=-1))
    for number, start, stop in zip(box[starts].tolist(), starts, [*starts[1:], box.size], strict=False):
        counts = count[start:stop]
        node = int(boxes[number])
        total = int(counts.sum())
        cells = max(int(np.searchsorted(np.cumsum(counts), rule.survival * total)) + 1, rule.l)
        if cells > counts.size or nodes.age[node] > 0:
            continue
        bar = int(counts[cells - 1])
        parts = _cuts(axes, nodes.first[node].tolist(), nodes.last[node].tolist())
        axis = _widest(losses[number], parts, bar / rule.reach)
        if axis != UNCUT:
            enough = total * len(parts[axis]) * rule.reach / bar
            found.append((node, _Plan(axis, parts[axis], enough, total * float(losses[number, axis]))))
    return sorted(found, key=lambda plan: (-plan[1].gain, plan[0]))


def _cuts(axes: Axes, first: Sequence[int], last: Sequence[int]) -> list[tuple[int, ...]]:
    """Per axis: the first cells of the parts that a box would fall into."""
    return [axis.cut(low, high) for axis, low, high in zip(axes.axes, first, last, strict=True)]


def _losses_of(axes: Axes, node: _Node) -> Values:
    """The information loss of a box on every axis."""
    losses: Values = axes.losses(np.array([node.first]), np.array([node.last]))[0]
    return losses


def _widest(losses: Values, parts: list[tuple[int, ...]], most: float) -> int:
    """The axis to cut: the one that loses most among those of at most `most` parts; then the one of fewest parts."""
    possible = [axis for axis, starts in enumerate(parts) if 1 < len(starts) <= most]
    return min(possible, key=lambda axis: (-losses[axis], len(parts[axis]), axis), default=UNCUT)


def _rebuild(nodes: Nodes, plans: dict[int, _Plan], merged: set[int]) -> Nodes:
    """The tree after these splits and merges, again in preorder."""
    built: list[_Node] = []
    place: dict[int, int] = {-1: -1}
    for number, values in enumerate(zip(*(array.tolist() for array in nodes), strict=True)):
        was = _Node(**dict(zip(Nodes._fields, values, strict=True)))
        if was.parent in merged:
            continue
        place[number] = len(built)
        node = was._replace(parent=place[was.parent])
        if number in merged:
            # A split that lasted no longer than the rest before it was a mistake: rest twice as long.
            rest = min(2 * was.rest, LONGEST_REST) if was.age <= was.rest else PATIENCE
            node = node._replace(axis=UNCUT, enough=0.0, quiet=0, age=rest, rest=rest)
        if number not in plans:
            built.append(node)
            continue
        plan = plans[number]
        built.append(node._replace(axis=plan.axis, enough=plan.enough, quiet=0, age=0))
        built += _children(node, place[number], plan.axis, plan.starts)
    return _nodes(built)


def _children(node: _Node, place: int, axis: int, starts: tuple[int, ...]) -> list[_Node]:
    ends = (*(start - 1 for start in starts[1:]), node.last[axis])
    return [
        _Node(
            place,
            (*node.first[:axis], start, *node.first[axis + 1 :]),
            (*node.last[:axis], end, *node.last[axis + 1 :]),
        )
        for start, end in zip(starts, ends, strict=True)
    ]
