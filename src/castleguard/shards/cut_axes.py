"""A quasi-identifier as a sequence of public cells, and the places between cells where it may be cut.

The cells of a number are the half-open cells of its public grid; those of a category are the leaves of its hierarchy.
Both are cut the same way: between cell c - 1 and cell c.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from castleguard.errors import SchemaError
from castleguard.schema.cells import Cells, cell_count
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema


@dataclass(frozen=True)
class Axis:
    """The cells of one quasi-identifier."""

    role: QuasiIdentifier

    def __post_init__(self) -> None:
        if isinstance(self.role, Numeric) and self.role.domain is None:
            raise SchemaError(
                f"column {self.role.name!r} needs lower and upper to be cut: "
                f"cut points of an observed domain would reveal rows"
            )

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.role.name

    @property
    def cells(self) -> int:
        """Number of cells, at least 1."""
        if isinstance(self.role, Categorical):
            return len(self.role.hierarchy.leaves)
        return cell_count(self.role.edges)

    def at(self, cell: int) -> float:
        """Return the lower edge of a cell, in coded units."""
        return float(cell) if isinstance(self.role, Categorical) else float(self.role.edges[cell])

    def places(self, first: int, last: int) -> Cells:
        """Return the cells before which the range from `first` to `last` may be cut, ascending.

        A category is cut between children of the lowest node that covers the range: each side is then a union of whole
        children, and can be published as such.
        """
        if isinstance(self.role, Numeric):
            return np.arange(first + 1, last + 1, dtype=np.int64)
        tree = self.role.hierarchy
        children = tree.first_leaf[tree.parents == tree.node(first, last)].astype(np.int64)
        return np.unique(children[(children > first) & (children <= last)])

    def cell_before(self, at: float) -> int | None:
        """Return the cell that begins at a cut point; None if no cell does, or none lies below it."""
        if isinstance(self.role, Categorical):
            return int(at) if at == int(at) and 0 < at < self.cells else None
        cell = int(np.searchsorted(self.role.edges, at))
        return cell if 0 < cell < self.cells and self.role.edges[cell] == at else None


def axes_of(schema: Schema, columns: Sequence[str] | None = None) -> tuple[Axis, ...]:
    """Return the quasi-identifiers that may be cut: the named ones, or all but timestamps.

    A timestamp usually advances with the stream, so all rows of one hour would go to one shard. It is used only by name
    or if the schema has nothing else. Raises SchemaError if a number has no declared domain.
    """
    if columns is None:
        roles = [role for role in schema.quasi_identifiers if not _is_timestamp(role)]
        return tuple(map(Axis, roles or schema.quasi_identifiers))
    known = {role.name: role for role in schema.quasi_identifiers}
    for name in columns:
        if name not in known:
            raise SchemaError(
                f"column {name!r} is not a quasi-identifier and cannot be cut (choose from {', '.join(known)})"
            )
    return tuple(Axis(known[name]) for name in dict.fromkeys(columns))


def _is_timestamp(role: QuasiIdentifier) -> bool:
    return isinstance(role, Numeric) and role.kind == "timestamp"
