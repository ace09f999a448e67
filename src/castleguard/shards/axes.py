"""A quasi-identifier as a row of public cells, and the places between two cells where it may be cut.

The cells of a number are the half-open ones of its public grid, the cells of a category are the leaves of its
hierarchy. So numbers and categories are cut alike: between cell c - 1 and cell c.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from castleguard.errors import SchemaError
from castleguard.schema.cells import Cells, cell_count
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema


@dataclass(frozen=True)
class Axis:
    """One quasi-identifier."""

    role: QuasiIdentifier

    def __post_init__(self) -> None:
        if isinstance(self.role, Numeric) and self.role.domain is None:
            raise SchemaError(
                f"column {self.role.name!r} needs lower and upper to be cut: "
                f"a cut point of a domain that is observed would tell of the rows"
            )

    @property
    def name(self) -> str:
        """Of the column."""
        return self.role.name

    @property
    def cells(self) -> int:
        """How many there are; at least 1."""
        if isinstance(self.role, Categorical):
            return len(self.role.hierarchy.leaves)
        return cell_count(self.role.edges)

    def at(self, cell: int) -> float:
        """Where a cell begins, in coded units."""
        return float(cell) if isinstance(self.role, Categorical) else float(self.role.edges[cell])

    def places(self, first: int, last: int) -> Cells:
        """The cells before which the range from `first` to `last` may be cut, ascending.

        A category is cut between two children of the lowest node that covers the range: both sides are unions of
        whole children, and can be published as such.
        """
        if isinstance(self.role, Numeric):
            return np.arange(first + 1, last + 1, dtype=np.int64)
        tree = self.role.hierarchy
        children = tree.first_leaf[tree.parents == tree.node(first, last)].astype(np.int64)
        return np.unique(children[(children > first) & (children <= last)])

    def cell_before(self, at: float) -> int | None:
        """The cell that begins at a cut point; None if no cell does, or nothing is below it."""
        if isinstance(self.role, Categorical):
            return int(at) if at == int(at) and 0 < at < self.cells else None
        cell = int(np.searchsorted(self.role.edges, at))
        return cell if 0 < cell < self.cells and self.role.edges[cell] == at else None


def axes_of(schema: Schema, columns: Sequence[str] | None = None) -> tuple[Axis, ...]:
    """The quasi-identifiers that may be cut: the ones that are named, or all but timestamps.

    A timestamp usually runs with the stream, and all rows of one hour would go to one shard; it is taken if there is
    nothing else, or by name. Raises SchemaError if a number has no declared domain.
    """
    if columns is None:
        roles = [role for role in schema.quasi_identifiers if not _is_timestamp(role)]
        return tuple(map(Axis, roles or schema.quasi_identifiers))
    known = {role.name: role for role in schema.quasi_identifiers}
    for name in columns:
        if name not in known:
            raise SchemaError(
                f"column {name!r} is no quasi-identifier and cannot be cut (those are {', '.join(known)})"
            )
    return tuple(Axis(known[name]) for name in dict.fromkeys(columns))


def _is_timestamp(role: QuasiIdentifier) -> bool:
    return isinstance(role, Numeric) and role.kind == "timestamp"
