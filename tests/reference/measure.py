"""What CASTLE measures: rows, boxes, information loss, enlargement, size and diversity (sections 2.2, 3.1 and 4.2).

Sums run from left to right in a plain loop: the built-in `sum` compensates rounding errors since Python 3.12, and a
compiled engine would then differ in the last bit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

EPS = 1e-12  # two losses that differ by no more count as equal

Box = tuple[tuple[float, float], ...]  # (low, high) per quasi-identifier; leaf numbers for a category


@dataclass(frozen=True)
class Row:
    """A tuple of the stream: t.p, t.pid, its quasi-identifiers and its sensitive values."""

    position: int
    person: Hashable
    quasi: tuple[float, ...]
    sensitive: tuple[Hashable, ...] = ()
    to_root: bool = False  # may only be published at the root: in no cluster, its quasi values mean nothing

    @cached_property
    def box(self) -> Box:
        return tuple((value, value) for value in self.quasi)


@dataclass(frozen=True)
class Tree:
    """A domain generalisation hierarchy: nodes in depth-first preorder, root 0, leaves numbered in the same order."""

    parents: tuple[int, ...]  # the root's is -1
    first_leaf: tuple[int, ...]  # per node: the leaves under it are first_leaf..last_leaf
    last_leaf: tuple[int, ...]
    leaf_nodes: tuple[int, ...]  # per leaf number: its node
    losses: tuple[float, ...]  # per node, VInfoLoss: (leaves under it - 1) / (leaves - 1), and 0 if there is one leaf

    @classmethod
    def from_arrays(cls, parents: Iterable[int], first_leaf: Iterable[int], last_leaf: Iterable[int]) -> Tree:
        parent_of, first, last = (tuple(int(n) for n in numbers) for numbers in (parents, first_leaf, last_leaf))
        leaf_nodes = tuple(node for node in range(len(parent_of)) if node not in set(parent_of))
        others = len(leaf_nodes) - 1
        losses = tuple((high - low) / others if others else 0.0 for low, high in zip(first, last, strict=True))
        return cls(parent_of, first, last, leaf_nodes, losses)

    @classmethod
    def from_mapping(cls, nested: Mapping[str, object]) -> Tree:
        """From one root label to its children: a mapping goes on, a sequence of labels ends in leaves."""
        parents: list[int] = []
        first_leaf: list[int] = []
        last_leaf: list[int] = []

        def visit(children: object, parent: int, leaves_before: int) -> int:
            """Number this node, then everything under it; returns the number of leaves seen so far."""
            node = len(parents)
            parents.append(parent)
            first_leaf.append(leaves_before)
            last_leaf.append(leaves_before)
            below = list(children.values()) if isinstance(children, Mapping) else [()] * len(_labels(children))
            leaves = leaves_before
            for child in below:
                leaves = visit(child, node, leaves)
            if not below:
                leaves += 1
            last_leaf[node] = leaves - 1
            return leaves

        if len(nested) != 1:
            raise ValueError(f"a hierarchy has one root, got {len(nested)}")
        visit(next(iter(nested.values())), -1, 0)
        return cls.from_arrays(parents, first_leaf, last_leaf)

    def common_ancestor(self, low: float, high: float) -> int:
        """The lowest node that covers both leaves (low <= high)."""
        node = self.leaf_nodes[int(low)]
        while self.last_leaf[node] < high:
            node = self.parents[node]
        return node


def _labels(children: object) -> Sequence[object]:
    if not isinstance(children, Sequence) or isinstance(children, str):
        raise TypeError("the children of a node are a mapping or a sequence of labels")
    return children


@dataclass(frozen=True)
class Numeric:
    """A continuous quasi-identifier over [lower, upper], or over what has been seen so far if both are None."""

    lower: float | None = None
    upper: float | None = None
    edges: Sequence[float] | None = None  # sorted public grid, whose half-open cells are published; None: exact bounds

    def cell(self, value: float) -> tuple[float, float]:
        """The two edges around a value: the last one at or below it, and the next. The last edge begins no cell."""
        return [cell for cell in self.cells if cell[0] <= value][-1]

    @cached_property
    def cells(self) -> list[tuple[float, float]]:
        """Neighbouring edges. A grid of one edge has one cell without width."""
        assert self.edges is not None
        return list(zip(self.edges, self.edges[1:], strict=False)) or [(self.edges[0], self.edges[0])]


@dataclass(frozen=True)
class Categorical:
    """A categorical quasi-identifier; its values are leaf numbers."""

    tree: Tree


Attribute = Numeric | Categorical


def union(one: Box, other: Box) -> Box:
    """The smallest box around both."""
    return tuple(
        (min(low, other_low), max(high, other_high))
        for (low, high), (other_low, other_high) in zip(one, other, strict=True)
    )


def contains(box: Box, row: Row) -> bool:
    return all(low <= value <= high for (low, high), value in zip(box, row.quasi, strict=True))


@dataclass
class Domain:
    """The space of the quasi-identifiers, in which losses and distances are measured."""

    attributes: Sequence[Attribute]
    _seen: list[tuple[float, float]] = field(init=False)  # per attribute: smallest and largest value so far

    def __post_init__(self) -> None:
        self._seen = [(inf, -inf) for _ in self.attributes]

    def observe(self, row: Row) -> None:
        """Every arrival that has quasi-identifiers, before it is assigned: the observed domain grows with it."""
        self._seen = [
            (min(low, value), max(high, value)) for (low, high), value in zip(self._seen, row.quasi, strict=True)
        ]

    def in_cells(self, row: Row) -> Row:
        """The row as the strict modes see it: a number is the start of its cell."""
        if row.to_root:
            return row
        starts = [
            a.cell(value)[0] if isinstance(a, Numeric) and a.edges is not None else value
            for a, value in zip(self.attributes, row.quasi, strict=True)
        ]
        return replace(row, quasi=tuple(starts))

    def holds(self, published: Box, row: Row) -> bool:
        """Whether a row lies in a published box. On a grid its cell must be one of those that begin in the side."""
        for a, (low, high), value in zip(self.attributes, published, row.quasi, strict=True):
            if isinstance(a, Numeric) and a.edges is not None:
                starts = [edge for edge in a.edges if low <= edge < high] or [low]
                if a.cell(value)[0] not in starts:
                    return False
            elif not low <= value <= high:
                return False
        return True

    def loss(self, box: Box) -> float:
        """InfoLoss of the box's generalisation: the mean of VInfoLoss over the attributes."""
        total = 0.0
        for i, (low, high) in enumerate(box):
            total += self._value_loss(i, low, high)
        return total / len(self.attributes)

    def _value_loss(self, i: int, low: float, high: float) -> float:
        attribute = self.attributes[i]
        if isinstance(attribute, Categorical):
            return attribute.tree.losses[attribute.tree.common_ancestor(low, high)]
        lower, upper = self._seen[i]
        if attribute.lower is not None and attribute.upper is not None:
            lower, upper = attribute.lower, attribute.upper
        return 0.0 if upper == lower else (high - low) / (upper - lower)

    def enlargement(self, box: Box, other: Box) -> float:
        """Growth of the loss of the cluster at `box` when it takes in `other`, a row's box or a cluster's."""
        return self.loss(union(box, other)) - self.loss(box)

    def distance(self, one: Row, other: Row) -> float:
        """The loss of generalising just these two: for a cluster of one row this is its enlargement (footnote 4)."""
        return self.loss(union(one.box, other.box))

    def published(self, box: Box) -> Box:
        """The generalisation of Definition 3.2; numbers are whole cells of the public grid if there is one."""
        return tuple(
            _publish(attribute, low, high) for attribute, (low, high) in zip(self.attributes, box, strict=True)
        )

    def root(self) -> Box:
        """The most general value. An observed domain is not published, not even its bounds."""
        return tuple(_whole(attribute) for attribute in self.attributes)


def _publish(attribute: Attribute, low: float, high: float) -> tuple[float, float]:
    if isinstance(attribute, Categorical):
        node = attribute.tree.common_ancestor(low, high)
        return attribute.tree.first_leaf[node], attribute.tree.last_leaf[node]
    if attribute.edges is None:
        return low, high
    return attribute.cell(low)[0], attribute.cell(high)[1]


def _whole(attribute: Attribute) -> tuple[float, float]:
    if isinstance(attribute, Categorical):
        return attribute.tree.first_leaf[0], attribute.tree.last_leaf[0]
    if attribute.lower is None or attribute.upper is None:
        return -inf, inf
    return attribute.lower, attribute.upper


@dataclass(eq=False)
class Cluster:
    """Rows and the smallest box around them (Definition 3.1). Two clusters are the same only if they are one object."""

    rows: list[Row]
    box: Box = field(init=False)

    def __post_init__(self) -> None:
        self.box = around(self.rows)

    def add(self, row: Row) -> None:
        self.rows.append(row)
        self.box = union(self.box, row.box)

    def remove(self, positions: set[int]) -> None:
        """Remove the rows at these positions, if present. The box must not reveal the value of a removed row."""
        stay = [row for row in self.rows if row.position not in positions]
        if len(stay) < len(self.rows):
            self.rows = stay
            self.box = around(stay)

    @property
    def size(self) -> int:
        return persons(self.rows)


def around(rows: Sequence[Row]) -> Box:
    """The smallest box around the rows; no sides if there are none."""
    return tuple((min(column), max(column)) for column in zip(*(row.quasi for row in rows), strict=True))


def persons(rows: Iterable[Row]) -> int:
    """C.size: the number of distinct persons. A row without a person (None) does not count."""
    return len({row.person for row in rows} - {None})


def named(rows: Iterable[Row]) -> list[Row]:
    """Rows that have a person: the others do not count towards k or l."""
    return [row for row in rows if row.person is not None]


def values(rows: Iterable[Row], sensitive: int) -> set[Hashable]:
    """The distinct values of one sensitive attribute; their number is C.diversity."""
    return {row.sensitive[sensitive] for row in rows if row.person is not None}


def matching(rows: Iterable[Row], sensitive: int) -> int:
    """Size of a maximum matching of distinct values to different persons, by augmenting paths."""
    persons_of: dict[Hashable, list[Hashable]] = {}
    for row in named(rows):
        persons_of.setdefault(row.sensitive[sensitive], []).append(row.person)
    value_of: dict[Hashable, Hashable] = {}  # person -> the value this person stands for

    def place(value: Hashable, tried: set[Hashable]) -> bool:
        for person in persons_of[value]:
            if person not in tried:
                tried.add(person)
                if person not in value_of or place(value_of[person], tried):
                    value_of[person] = value
                    return True
        return False

    return len([value for value in persons_of if place(value, set())])
