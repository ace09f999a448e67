"""Sensitive columns, and which of their values count as the same; public columns with a type.

A sensitive column may declare its public values: as a list, as the leaves of a hierarchy, or as bins. Criteria on the
distribution of values (t-closeness, entropy) and all modes that randomise or count values need this declaration,
because the set of values must not depend on the data.
"""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from castleguard.errors import SchemaError
from castleguard.schema.grid import Bound, Edges, Kind, coded, kind_of
from castleguard.schema.hierarchy import Hierarchy

ValueType = Literal["text", "integer", "number", "boolean", "date", "timestamp"]
Label = str | int


@dataclass(frozen=True)
class Sensitive:
    """A sensitive column: published unchanged (in the noisy modes as one of its public values), counted for diversity.

    At most one of `bins`, `values` and `hierarchy` may be given.

    >>> Sensitive("fare", bins=[10, 20]).labels
    ('< 10', '[10, 20)', '>= 20')
    """

    name: str
    _: KW_ONLY
    bins: Sequence[Bound] | None = None
    """Edges of bins: numbers between two neighbouring edges count as the same; an edge belongs to the bin above it."""
    values: Sequence[Label] | None = None
    """All values, in order if they have one; any other value counts as missing."""
    hierarchy: Hierarchy | None = None
    """All values as the leaves of a tree, for the hierarchical distance."""
    type: ValueType | None = None
    """Published type; None: the type that the input declares, or else that of the first value."""

    def __post_init__(self) -> None:
        check_name(self.name)
        given = [field for field in ("bins", "values", "hierarchy") if getattr(self, field) is not None]
        if len(given) > 1:
            raise SchemaError(f"column {self.name!r}: give only one of {' and '.join(given)}")
        check_type(self.name, self.type)
        if self.bins is not None:
            self._check_bins(self.bins)
        if self.values is not None:
            self._check_values(self.values)
        if self.hierarchy is not None:
            check_hierarchy(self.name, self.hierarchy)

    @property
    def kind(self) -> Kind:
        """Kind of the binned values: "number", "date" or "timestamp"."""
        return kind_of(self.bins[0]) if self.bins else "number"

    @property
    def edges(self) -> Edges | None:
        """Bin edges in coded units, or None. The code of x is the number of edges <= x."""
        return None if self.bins is None else np.array([float(coded(edge)) for edge in self.bins], dtype=np.float64)

    @property
    def labels(self) -> tuple[Label, ...] | None:
        """Public values: labels[i] is the label of code i, and code len(labels) is a missing or unknown value.

        None: the values are not declared, and their codes are hashes.
        """
        if self.values is not None:
            return tuple(self.values)
        if self.hierarchy is not None:
            return tuple(self.hierarchy.leaves)
        if self.bins is None:
            return None
        edges = [edge.isoformat() if hasattr(edge, "isoformat") else str(edge) for edge in self.bins]
        between = (f"[{low}, {high})" for low, high in pairwise(edges))
        return (f"< {edges[0]}", *between, f">= {edges[-1]}")

    def fingerprint(self) -> dict[str, object]:
        """Canonical description as JSON values."""
        return {
            "name": self.name,
            "kind": self.kind,
            "bins": [str(coded(edge)) for edge in self.bins or ()],
            "values": None if self.values is None else list(self.values),
            "hierarchy": None if self.hierarchy is None else self.hierarchy.digest(),
            **({} if self.type is None else {"type": self.type}),
        }

    def _check_bins(self, bins: Sequence[Bound]) -> None:
        if isinstance(bins, str) or not isinstance(bins, Iterable):
            raise SchemaError(f"column {self.name!r}: bins must be a list of edges")
        edges = tuple(edge.item() if isinstance(edge, np.generic) else edge for edge in bins)
        object.__setattr__(self, "bins", edges)
        try:
            kinds = {kind_of(edge) for edge in edges}
            exact = [coded(edge) for edge in edges]
        except SchemaError as exc:
            raise SchemaError(f"column {self.name!r}: bins: {exc}") from exc
        if len(kinds) != 1:
            raise SchemaError(f"column {self.name!r}: bins needs at least one edge, and edges of one kind")
        if any(low >= high for low, high in pairwise(exact)):
            raise SchemaError(f"column {self.name!r}: bins must be sorted, every edge above the one before it")

    def _check_values(self, values: Sequence[Label]) -> None:
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise SchemaError(f"column {self.name!r}: values must be a list")
        labels = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
        if not labels or any(isinstance(label, bool) or not isinstance(label, str | int) for label in labels):
            raise SchemaError(f"column {self.name!r}: values must be strings or whole numbers, at least one")
        if len({str(label) for label in labels}) < len(labels):
            raise SchemaError(f"column {self.name!r}: values contains the same value twice")
        object.__setattr__(self, "values", labels)


@dataclass(frozen=True)
class Public:
    """A public column with a declared type; without a type, pass just its name.

    >>> Public("office", type="text")
    Public(name='office', type='text')
    """

    name: str
    _: KW_ONLY
    type: ValueType | None = None
    """Published type; None: the type that the input declares, or else that of the first value."""

    def __post_init__(self) -> None:
        check_name(self.name)
        check_type(self.name, self.type)


def check_name(name: object) -> None:
    """Refuse a column name that is not a non-empty string."""
    if not isinstance(name, str) or not name:
        raise SchemaError(f"a column name must be a non-empty string, got {name!r}")


def check_hierarchy(name: str, hierarchy: object) -> None:
    """Refuse anything but a Hierarchy."""
    if not isinstance(hierarchy, Hierarchy):
        raise SchemaError(
            f"column {name!r}: hierarchy must be a Hierarchy (from_csv, from_mapping or flat), "
            f"got {type(hierarchy).__name__}"
        )


def check_type(name: str, given: object) -> None:
    """Refuse a type that is not one of `ValueType`; None is allowed."""
    if given is not None and given not in get_args(ValueType):
        choices = " or ".join(map(repr, get_args(ValueType)))
        raise SchemaError(f"column {name!r}: type must be {choices}, got {given!r}")
