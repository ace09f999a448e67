"""A generalisation hierarchy: the tree of labels that a category may be published as.

A category is published as the lowest node that covers all values of its group ("Masters" -> "University" -> "*").
Leaves are numbered in depth-first order, so every node covers an interval of leaf numbers, and a set of categories is
stored as two numbers, like a numeric range.
"""

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import SchemaError

Label = str | int | float | bool | np.generic
Ancestry = tuple[str, ...]  # labels from a leaf up to the root, both included


@dataclass(frozen=True, eq=False, repr=False)
class Hierarchy:
    """A tree of unique labels. Nodes are numbered in depth-first preorder (the root is 0), children in order of first
    appearance, leaves 0, 1, ... in the same order. The arrays are read-only.

    Build one with `from_csv`, `from_mapping` or `flat`.

    >>> education = Hierarchy.from_mapping({"Any": {"School": ["Junior", "Senior"], "University": ["Bachelor"]}})
    >>> education.leaves
    ('Junior', 'Senior', 'Bachelor')
    >>> education.labels[education.node(0, 1)]
    'School'
    """

    labels: tuple[str, ...]
    """Per node."""
    parents: NDArray[np.int32]
    """Per node: number of its parent; -1 for the root."""
    first_leaf: NDArray[np.int32]
    """Per node: lowest leaf number under it."""
    last_leaf: NDArray[np.int32]
    """Per node: highest leaf number under it, inclusive."""
    leaves: tuple[str, ...]
    """Per leaf: its label."""
    leaf_nodes: NDArray[np.int32]
    """Per leaf: its node number."""
    losses: NDArray[np.float64]
    """Per node: VInfoLoss (CASTLE 2.2) = (leaves under it - 1) / (leaves - 1); 0 if the tree has one leaf."""

    @classmethod
    def from_csv(cls, path: str | Path, delimiter: str = ";") -> "Hierarchy":
        """Read rows `leaf;parent;...;root` of any length, one per leaf, without a header (the format of ARX)."""
        try:
            with open(path, encoding="utf-8-sig", newline="") as file:
                rows = [row for row in csv.reader(file, delimiter=delimiter) if any(cell.strip() for cell in row)]
        except (OSError, UnicodeDecodeError, csv.Error, TypeError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else exc
            raise SchemaError(f"cannot read hierarchy {path}: {why}") from exc
        return _grow((_row_ancestry(row) for row in rows), source=f"hierarchy {path}")

    @classmethod
    def from_mapping(cls, nested: Mapping[Any, Any]) -> "Hierarchy":
        """Build from `{"Any": {"School": ["Junior", "Senior"], "Other": None}}`: one root, leaves in lists (or None).

        A list may mix leaves and further mappings.
        """
        if not isinstance(nested, Mapping) or len(nested) != 1:
            raise SchemaError("a hierarchy given as a mapping needs exactly one root: {root: {node: [leaf, ...]}}")
        return _grow(_mapping_ancestries(nested, above=()), source="hierarchy")

    @classmethod
    def flat(cls, values: Iterable[Label], root: str = "*") -> "Hierarchy":
        """Build a tree of two levels: a value is published as itself or as the root."""
        if isinstance(values, str):
            raise SchemaError("a flat hierarchy needs a list of values, not a single string")
        if not isinstance(values, Iterable):
            raise SchemaError(f"a flat hierarchy needs a list of values, got {type(values).__name__}")
        root_label = label_text(root)
        return _grow(((label_text(value), root_label) for value in values), source="hierarchy")

    def digest(self) -> str:
        """Digest of the tree: equal iff two trees code and publish values identically."""
        return hashlib.sha256(json.dumps([self.labels, self.parents.tolist()]).encode()).hexdigest()

    def node(self, low_leaf: int, high_leaf: int) -> int:
        """Lowest node that covers both leaves; needs 0 <= low_leaf <= high_leaf < number of leaves."""
        if not 0 <= low_leaf <= high_leaf < len(self.leaves):
            raise IndexError(f"leaves {low_leaf} to {high_leaf} are not an interval of 0 to {len(self.leaves) - 1}")
        node = int(self.leaf_nodes[low_leaf])
        while self.last_leaf[node] < high_leaf:
            node = int(self.parents[node])
        return node

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hierarchy):
            return NotImplemented
        return self.labels == other.labels and np.array_equal(self.parents, other.parents)

    def __hash__(self) -> int:
        return hash(self.labels)

    def __repr__(self) -> str:
        return f"Hierarchy(root={self.labels[0]!r}, nodes={len(self.labels)}, leaves={len(self.leaves)})"


def check_rows(rows: Iterable[Ancestry]) -> None:
    """Raise SchemaError for rows `leaf, parent, ..., root` that do not form a tree."""
    _grow(rows, source="hierarchy")


def label_text(label: object) -> str:
    """A label in the form that data is compared with: blanks stripped, 3 and 3.0 both "3", True "true"."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, bool):
        return "true" if label else "false"
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    if not isinstance(label, str | int | float):
        raise SchemaError(f"a hierarchy label must be a string or a number, got {type(label).__name__}")
    return str(label).strip()


def _row_ancestry(row: Sequence[str]) -> Ancestry:
    """Cells of one CSV row, without empty padding at the end."""
    cells = [cell.strip() for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return tuple(cells)


def _mapping_ancestries(nested: object, above: Ancestry) -> Iterator[Ancestry]:
    """Every leaf of a nested mapping with its ancestors; `above` runs from the nearest ancestor to the root."""
    if isinstance(nested, Mapping):
        for key, below in nested.items():
            path = (label_text(key), *above)
            if below is None:
                yield path
            elif isinstance(below, str) or not below or not isinstance(below, Mapping | Sequence):
                raise SchemaError(f"hierarchy: {path[0]!r} needs a list of leaves or a mapping below it (or nothing)")
            else:
                yield from _mapping_ancestries(below, path)
    elif isinstance(nested, Sequence) and not isinstance(nested, str):
        for item in nested:
            yield from _mapping_ancestries(item, above)
    else:
        yield (label_text(nested), *above)


def _grow(ancestries: Iterable[Ancestry], source: str) -> Hierarchy:
    """Check that the ancestries of all leaves agree, and number their tree."""
    parent_of: dict[str, str | None] = {}
    children: dict[str, list[str]] = {}
    leaves: set[str] = set()
    root: str | None = None
    for ancestry in ancestries:
        _check_ancestry(ancestry, source)
        if root is None:
            root = ancestry[-1]
        elif ancestry[-1] != root:
            raise SchemaError(f"{source} has two roots, {root!r} and {ancestry[-1]!r}: end every row at the same one")
        leaves.add(ancestry[0])
        parent: str | None = None
        for label in reversed(ancestry):
            if label not in parent_of:
                parent_of[label] = parent
                if parent is not None:
                    children.setdefault(parent, []).append(label)
            elif parent_of[label] != parent:
                raise SchemaError(
                    f"{source} has {label!r} under {parent_of[label]!r} and under {parent!r}: a label has one parent"
                )
            parent = label
    if root is None:
        raise SchemaError(f"{source} is empty")
    for leaf in leaves:
        if leaf in children:
            raise SchemaError(f"{source} has {leaf!r} as a leaf and as the parent of {children[leaf][0]!r}")
    return _number(root, children)


def _check_ancestry(ancestry: Ancestry, source: str) -> None:
    """Refuse an empty label, a root alone, or a node that is its own ancestor."""
    if not ancestry[0]:
        raise SchemaError(f"{source} has an empty leaf: an empty value counts as missing")
    if not all(ancestry):
        raise SchemaError(f"{source} has an empty label above {ancestry[0]!r}")
    if len(ancestry) < 2:
        raise SchemaError(f"{source} has {ancestry[0]!r} without a parent: a row runs from a leaf to the root")
    for label in ancestry:
        if ancestry.count(label) > 1:
            raise SchemaError(f"{source} has a cycle: {label!r} is its own ancestor (write every label once per row)")


def _number(root: str, children: Mapping[str, Sequence[str]]) -> Hierarchy:
    """Number nodes and leaves depth first, and derive the leaves of each node."""
    labels: list[str] = []
    parents: list[int] = []
    leaf_nodes: list[int] = []
    first: list[int] = []
    waiting: list[tuple[str, int]] = [(root, -1)]
    while waiting:
        label, parent = waiting.pop()
        node = len(labels)
        labels.append(label)
        parents.append(parent)
        first.append(len(leaf_nodes))
        below = children.get(label, ())
        if not below:
            leaf_nodes.append(node)
        waiting.extend((child, node) for child in reversed(below))
    last = [-1] * len(labels)
    for leaf, node in enumerate(leaf_nodes):
        last[node] = leaf
    # Children come after their parent in preorder, so walking back sees every child before its parent.
    for node in range(len(labels) - 1, 0, -1):
        last[parents[node]] = max(last[parents[node]], last[node])
    first_leaf = np.array(first, dtype=np.int32)
    last_leaf = np.array(last, dtype=np.int32)
    losses = (last_leaf - first_leaf) / max(len(leaf_nodes) - 1, 1)
    arrays = (np.array(parents, dtype=np.int32), first_leaf, last_leaf, np.array(leaf_nodes, dtype=np.int32), losses)
    for array in arrays:
        array.flags.writeable = False
    return Hierarchy(
        labels=tuple(labels),
        parents=arrays[0],
        first_leaf=first_leaf,
        last_leaf=last_leaf,
        leaves=tuple(labels[node] for node in leaf_nodes),
        leaf_nodes=arrays[3],
        losses=losses,
    )
