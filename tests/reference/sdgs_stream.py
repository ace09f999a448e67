"""SDGS over a stream, slowly and literally: dicts, loops, one row at a time.

A grid is a tree of dicts. A side is a pair: two numbers (half-open, closed where it ends the domain), or the first and
the last leaf of a node. Children are lists in order. Nothing here is shared with the engine but the formulas of
docs/concepts/sdgs.md.
"""

from collections import Counter
from dataclasses import dataclass, field
from math import floor, sqrt
from typing import Any

Side = tuple[float, float]
Box = tuple[Side, ...]
Node = dict[str, Any]
Tree = dict[str, Any] | None  # a hierarchy: label -> subtree; a leaf has None below it
Cell = tuple[Box, tuple[int, ...]]

PATIENCE = 2
LONGEST_REST = 64


@dataclass
class Number:
    """A numeric attribute with the edges of its public grid."""

    edges: list[float]

    @property
    def whole(self) -> Side:
        return self.edges[0], self.edges[-1]

    def contains(self, side: Side, value: float) -> bool:
        low, high = side
        return low <= value < high or value == high == self.edges[-1]

    def loss(self, side: Side) -> float:
        width = self.edges[-1] - self.edges[0]
        return (side[1] - side[0]) / width if width > 0 else 0.0

    def parts(self, side: Side) -> list[Side]:
        low, high = self.edges.index(side[0]), self.edges.index(side[1])
        if high - low < 2:
            return [side]
        middle = self.edges[(low + high) // 2]
        return [(side[0], middle), (middle, side[1])]


@dataclass
class Category:
    """A categorical attribute with its hierarchy; leaves are numbered depth first."""

    tree: dict[str, Any]

    @property
    def whole(self) -> Side:
        return 0.0, float(_leaves(self.tree) - 1)

    def contains(self, side: Side, value: float) -> bool:
        return side[0] <= value <= side[1]

    def loss(self, side: Side) -> float:
        return (side[1] - side[0]) / max(_leaves(self.tree) - 1, 1)

    def parts(self, side: Side) -> list[Side]:
        """The children of the lowest node that has these leaves."""
        found = [side]
        pending: list[tuple[Tree, float]] = [(self.tree, 0.0)]
        while pending:
            tree, first = pending.pop()
            if not tree:
                continue
            children = []
            at = first
            for below in tree.values():
                children.append((at, at + _leaves(below) - 1))
                pending.append((below, at))
                at += _leaves(below)
            if (first, at - 1) == side and len(children) > 1:
                found = children
        return found


Attribute = Number | Category


def _leaves(tree: Tree) -> int:
    return 1 if not tree else sum(_leaves(below) for below in tree.values())


def one_window(
    rows: list[tuple[Box, tuple[int, ...]]], k: int, l: int
) -> tuple[dict[Cell, list[int]], dict[Box, list[int]]]:
    """The cells that come out of one window with the numbers of their rows, and the counts of every released box."""
    cells: dict[Cell, list[int]] = {}
    for number, cell in enumerate(rows):
        cells.setdefault(cell, []).append(number)
    cells = {cell: members for cell, members in cells.items() if len(members) >= k}
    for box in {box for box, _ in cells}:
        values = [codes for other, codes in cells if other == box]
        for column in range(len(values[0])):
            if len({codes[column] for codes in values}) < l:
                cells = {cell: members for cell, members in cells.items() if cell[0] != box}
                break
    counts: dict[Box, list[int]] = {}
    for (box, _), members in cells.items():
        counts.setdefault(box, []).append(len(members))
    return cells, counts


def box_node(box: Box) -> Node:
    return {"box": box, "axis": None, "children": [], "enough": 0.0, "quiet": 0, "age": 0, "rest": PATIENCE}


def boxes_of(node: Node) -> list[Node]:
    """The boxes of a grid, in the order of the tree."""
    if node["axis"] is None:
        return [node]
    return [box for child in node["children"] for box in boxes_of(child)]


@dataclass
class Stream:
    """The whole stream. `out` collects what leaves: (window number, position, box) in order."""

    attributes: list[Attribute]
    k: int
    l: int
    survival: float
    max_cells: int
    start_cells: int
    window: float
    by_time: bool
    adapts: bool
    grid: Node = field(init=False)
    number: int | None = None
    arrivals: int = 0
    open_rows: list[tuple[int, Box, tuple[int, ...]]] = field(default_factory=list)
    adapted: bool = False
    out: list[tuple[int, Box]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    releases: list[dict[Cell, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.whole: Box = tuple(attribute.whole for attribute in self.attributes)
        self.grid = box_node(self.whole)
        if not self.by_time:
            self.number = 0
        while self._cut_the_worst():
            pass

    # -- calls ---------------------------------------------------------------------------------------------------------

    def arrive(
        self, quasi: tuple[float, ...], codes: tuple[int, ...], to_root: bool, now: float, present: bool
    ) -> None:
        if self.by_time:
            self.tick(now)
        if present:
            grid = [node["box"] for node in boxes_of(self.grid)]
            if to_root:
                box = self.whole
            else:
                (box,) = [box for box in grid if self._contains(box, quasi)]
            self.open_rows.append((self.arrivals, box, codes))
        self.arrivals += 1
        if not self.by_time and self.arrivals % self.window == 0:
            self._end_of_window()

    def tick(self, now: float) -> None:
        if not self.by_time:
            return
        if self.number is None:
            self.number = floor(now / self.window)
        while self.number < floor(now / self.window):
            self._end_of_window()

    def flush(self) -> None:
        if self.by_time:  # a window that has not ended is never published
            self.dropped += [position for position, _, _ in self.open_rows]
            self.open_rows = []
        elif self.arrivals % self.window > 0:
            self._close()

    # -- windows -------------------------------------------------------------------------------------------------------

    def _end_of_window(self) -> None:
        self._close()
        assert self.number is not None
        self.number += 1
        self.adapted = False

    def _close(self) -> None:
        grid = [node["box"] for node in boxes_of(self.grid)]
        cells, counts = one_window([(box, codes) for _, box, codes in self.open_rows], self.k, self.l)
        # Rows for the root come first if their box is not one of the grid.
        order = {box: place for place, box in enumerate([self.whole, *grid])}
        published = set()
        for box, codes in sorted(cells, key=lambda cell: (order[cell[0]], cell[1])):
            for row in cells[box, codes]:
                self.out.append((self.open_rows[row][0], box))
                published.add(row)
        self.dropped += [self.open_rows[row][0] for row in range(len(self.open_rows)) if row not in published]
        self.releases.append({cell: len(members) for cell, members in cells.items()})
        self.open_rows = []
        if self.adapts and not self.adapted:
            self._adapt({box: counts.get(box, []) for box in grid})
        self.adapted = True

    # -- the grid ------------------------------------------------------------------------------------------------------

    def _adapt(self, counts: dict[Box, list[int]]) -> None:
        self._grow_older(self.grid, counts)
        for node in self._families(self.grid):
            if node["quiet"] >= PATIENCE:
                node["rest"] = min(2 * node["rest"], LONGEST_REST) if node["age"] <= node["rest"] else PATIENCE
                node.update(axis=None, children=[], enough=0.0, quiet=0, age=node["rest"])
                counts[node["box"]] = []
        plans = []
        for place, node in enumerate(boxes_of(self.grid)):
            axis, enough = self._plan(node, counts[node["box"]])
            if axis is not None:
                gain = sum(counts[node["box"]]) * self.attributes[axis].loss(node["box"][axis])
                plans.append((-gain, place, node, axis, enough))
        for _, _, node, axis, enough in sorted(plans, key=lambda plan: plan[:2]):
            parts = self.attributes[axis].parts(node["box"][axis])
            if len(boxes_of(self.grid)) + len(parts) - 1 <= self.max_cells:
                self._split(node, axis, enough)

    def _grow_older(self, node: Node, counts: dict[Box, list[int]]) -> None:
        if node["axis"] is None:
            node["age"] = max(node["age"] - 1, 0)
            return
        for child in node["children"]:
            self._grow_older(child, counts)
        total = sum(sum(counts[box["box"]]) for box in boxes_of(node))
        node["quiet"] = node["quiet"] + 1 if total < node["enough"] / 2 else 0
        node["age"] = min(node["age"] + 1, LONGEST_REST + 1)

    def _families(self, node: Node) -> list[Node]:
        """The nodes whose children are all boxes."""
        if node["axis"] is None:
            return []
        if all(child["axis"] is None for child in node["children"]):
            return [node]
        return [family for child in node["children"] for family in self._families(child)]

    def _plan(self, node: Node, counts: list[int]) -> tuple[int | None, float]:
        """Along which axis a box is split, and the count at which that is just worth it."""
        total = sum(counts)
        if node["age"] > 0 or total == 0:
            return None, 0.0
        counts = sorted(counts, reverse=True)
        taken: list[int] = []
        while sum(taken) < self.survival * total or len(taken) < self.l:
            if len(taken) == len(counts):
                return None, 0.0
            taken.append(counts[len(taken)])
        bar = taken[-1]
        reach = self.k + 2 * sqrt(self.k)
        axis = self._axis(node["box"], bar / reach)
        if axis is None:
            return None, 0.0
        return axis, total * len(self.attributes[axis].parts(node["box"][axis])) * reach / bar

    def _axis(self, box: Box, most: float) -> int | None:
        """The attribute that loses most among those that fall into at most `most` parts; then that of fewest parts."""
        best, key = None, None
        for axis, (attribute, side) in enumerate(zip(self.attributes, box, strict=True)):
            parts = len(attribute.parts(side))
            if 1 < parts <= most:
                mine = (-attribute.loss(side), parts)
                if key is None or mine < key:
                    best, key = axis, mine
        return best

    def _split(self, node: Node, axis: int, enough: float) -> None:
        box = node["box"]
        for part in self.attributes[axis].parts(box[axis]):
            node["children"].append(box_node((*box[:axis], part, *box[axis + 1 :])))
        node.update(axis=axis, enough=enough, quiet=0, age=0)

    def _cut_the_worst(self) -> bool:
        """Split the box that loses most, of those that can be, while the start has room."""
        nodes = boxes_of(self.grid)
        for node in sorted(nodes, key=lambda node: -self.loss(node["box"])):
            axis = self._axis(node["box"], self.start_cells - len(nodes) + 1)
            if axis is not None:
                parts = self.attributes[axis].parts(node["box"][axis])
                self._split(node, axis, len(parts) * (self.k + 2 * sqrt(self.k)))
                return True
        return False

    def loss(self, box: Box) -> float:
        total = 0.0
        for attribute, side in zip(self.attributes, box, strict=True):
            total += attribute.loss(side)
        return total / len(box)

    def _contains(self, box: Box, quasi: tuple[float, ...]) -> bool:
        return all(a.contains(side, value) for a, side, value in zip(self.attributes, box, quasi, strict=True))


def counts_of(releases: list[dict[Cell, int]]) -> list[Counter[Cell]]:
    """Releases without the empty ones, for comparison."""
    return [Counter(release) for release in releases if release]
