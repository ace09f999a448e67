"""What each column of the stream is: person, quasi-identifier, sensitive or public. Undeclared columns are dropped.

The schema holds everything about the data that is public: the domains, the grids, the hierarchies. Published ranges
are functions of it and never of one row's value. There is no default role and no guessed domain.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import SchemaError
from castleguard.schema.grid import Bound, Edges, Grid, Kind, Step, coded, kind_of, make_grid, resolution
from castleguard.schema.hierarchy import Hierarchy

Answer = Literal["reject", "root"]
"""What to do with a value that cannot be used: refuse the row, or publish the whole row at the root."""

OutsideAnswer = Literal["clamp", "reject", "root"]
"""The same for a number outside its domain, which may also be moved to the nearest bound."""


@dataclass(frozen=True)
class Numeric:
    """A numeric quasi-identifier, published as a range. Bounds are numbers, dates, or datetimes (naive = UTC).

    Without `lower` and `upper` the domain is what was observed so far, which only `mode="paper"` accepts.

    >>> Numeric("age", lower=0, upper=100, step=25).edges
    array([  0.,  25.,  50.,  75., 100.])
    """

    name: str
    _: KW_ONLY
    lower: Bound | None = None
    upper: Bound | None = None
    step: Step | None = None
    """Spacing of the published bounds (days for dates, seconds for timestamps); default: a hundredth of the domain."""
    null: Answer = "reject"
    outside: OutsideAnswer = "clamp"
    invalid: Answer = "reject"

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_answers(self.name, Answer, null=self.null, invalid=self.invalid)
        _check_answers(self.name, OutsideAnswer, outside=self.outside)
        for field in ("lower", "upper", "step"):
            value = getattr(self, field)
            if isinstance(value, np.generic):
                object.__setattr__(self, field, value.item())
        if (self.lower is None) != (self.upper is None):
            raise SchemaError(
                f"column {self.name!r}: give both lower and upper, or neither (observed, paper mode only)"
            )
        if self.lower is None and self.step is not None:
            raise SchemaError(f"column {self.name!r}: step needs lower and upper")
        try:
            # Made once here, so that a domain that cannot work fails when it is declared.
            _ = self.edges
        except SchemaError as exc:
            raise SchemaError(f"column {self.name!r}: {exc}") from exc

    @cached_property
    def grid(self) -> Grid | None:
        """The exact public grid; None if the domain is observed."""
        if self.lower is None or self.upper is None:
            return None
        return make_grid(self.lower, self.upper, self.step)

    @property
    def kind(self) -> Kind:
        """What the values are: "number", "date" or "timestamp". An observed domain is one of numbers."""
        return "number" if self.grid is None else self.grid.kind

    @property
    def domain(self) -> tuple[float, float] | None:
        """Lower and upper bound in coded units (a date in days, a timestamp in microseconds since 1970); or None."""
        return None if self.grid is None else (float(self.grid.lower), float(self.grid.upper))

    @cached_property
    def edges(self) -> Edges:
        """The public bounds, sorted, from lower to upper inclusive; empty if the domain is observed. Read-only."""
        return np.empty(0, dtype=np.float64) if self.grid is None else self.grid.edges()

    @property
    def integral(self) -> bool:
        """Whether every published bound is a whole number (it is then published as an integer)."""
        return self.kind == "number" and self.edges.size > 0 and bool(np.all(self.edges == np.rint(self.edges)))

    def hides_nothing(self, values: NDArray[np.float64]) -> bool:
        """Whether the grid is no coarser than these coded values, so that a published bound is somebody's value.

        Judged by the spacing that the values have in common: give it a few hundred rows, not two.
        """
        if self.grid is None:
            return True
        finest = resolution(values)
        return finest is not None and float(self.grid.step) <= finest


@dataclass(frozen=True)
class Categorical:
    """A categorical quasi-identifier, published as a node of its hierarchy. Only leaves are accepted as input."""

    name: str
    _: KW_ONLY
    hierarchy: Hierarchy
    null: Answer = "reject"
    unknown: Answer = "reject"

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_answers(self.name, Answer, null=self.null, unknown=self.unknown)
        if not isinstance(self.hierarchy, Hierarchy):
            raise SchemaError(
                f"column {self.name!r}: hierarchy must be a Hierarchy (from_csv, from_mapping or flat), "
                f"got {type(self.hierarchy).__name__}"
            )


@dataclass(frozen=True)
class Sensitive:
    """A sensitive column: published as it is, counted for diversity. `bins` says which numbers count as the same:
    values between two neighbouring edges do, an edge belongs to the bin above it.
    """

    name: str
    _: KW_ONLY
    bins: Sequence[Bound] | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.bins is None:
            return
        if isinstance(self.bins, str) or not isinstance(self.bins, Iterable):
            raise SchemaError(f"column {self.name!r}: bins must be a list of edges")
        edges = tuple(edge.item() if isinstance(edge, np.generic) else edge for edge in self.bins)
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

    @property
    def kind(self) -> Kind:
        """What the binned values are: "number", "date" or "timestamp"."""
        return kind_of(self.bins[0]) if self.bins else "number"

    @property
    def edges(self) -> Edges | None:
        """The bins in coded units, or None. The code of x is the number of edges <= x."""
        return None if self.bins is None else np.array([float(coded(edge)) for edge in self.bins], dtype=np.float64)


QuasiIdentifier = Numeric | Categorical


@dataclass(frozen=True, init=False)
class Schema:
    """The roles of all columns that are read. What is not declared here is dropped."""

    person: str | None
    """The column that says whose row it is; None: every row is a person of its own."""
    quasi_identifiers: tuple[QuasiIdentifier, ...]
    sensitive: tuple[Sensitive, ...]
    public: tuple[str, ...]

    def __init__(
        self,
        *,
        person: str | None,
        quasi_identifiers: Sequence[QuasiIdentifier],
        sensitive: Sequence[Sensitive | str] = (),
        public: Sequence[str] = (),
    ) -> None:
        for field, given in (("quasi_identifiers", quasi_identifiers), ("sensitive", sensitive), ("public", public)):
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise SchemaError(f"{field} must be a list, got {type(given).__name__}")
        object.__setattr__(self, "person", person)
        object.__setattr__(self, "quasi_identifiers", tuple(quasi_identifiers))
        object.__setattr__(self, "sensitive", tuple(Sensitive(s) if isinstance(s, str) else s for s in sensitive))
        object.__setattr__(self, "public", tuple(public))
        self._check_roles()
        self._check_names()

    @property
    def columns(self) -> tuple[str, ...]:
        """Every input column that is read: person, quasi-identifiers, sensitive, public."""
        person = () if self.person is None else (self.person,)
        return (*person, *(q.name for q in self.quasi_identifiers), *(s.name for s in self.sensitive), *self.public)

    def fingerprint(self) -> dict[str, object]:
        """A canonical description that JSON can hold: two schemas decode and publish alike iff theirs are equal."""
        return {
            "person": self.person,
            "quasi_identifiers": [_describe(role) for role in self.quasi_identifiers],
            "sensitive": [
                {"name": s.name, "kind": s.kind, "bins": [str(coded(edge)) for edge in s.bins or ()]}
                for s in self.sensitive
            ],
            "public": list(self.public),
        }

    def _check_roles(self) -> None:
        if self.person is not None:
            _check_name(self.person)
        if not self.quasi_identifiers:
            raise SchemaError("a schema needs at least one quasi-identifier")
        for role in self.quasi_identifiers:
            if not isinstance(role, Numeric | Categorical):
                raise SchemaError(f"a quasi-identifier must be Numeric or Categorical, got {type(role).__name__}")
        for sensitive in self.sensitive:
            if not isinstance(sensitive, Sensitive):
                raise SchemaError(f"a sensitive column must be a name or Sensitive, got {type(sensitive).__name__}")
        for name in self.public:
            _check_name(name)

    def _check_names(self) -> None:
        """Every input column has one role, and no two columns are published under the same name."""
        seen: set[str] = set()
        for name in self.columns:
            if name in seen:
                raise SchemaError(f"column {name!r} is declared twice: give it one role")
            seen.add(name)
        publisher: dict[str, str] = {}
        for name, published in self._published_names():
            if publisher.setdefault(published, name) != name:
                raise SchemaError(
                    f"columns {publisher[published]!r} and {name!r} would both be published as {published!r}"
                )

    def _published_names(self) -> list[tuple[str, str]]:
        """(column, name it may be published under) for every published column."""
        pairs = [(name, name) for name in self.columns if name != self.person]
        for role in self.quasi_identifiers:
            if isinstance(role, Numeric):
                pairs += [(role.name, f"{role.name}_min"), (role.name, f"{role.name}_max")]
        return pairs


def _describe(role: QuasiIdentifier) -> dict[str, object]:
    """One quasi-identifier, canonically; exact numbers as text."""
    if isinstance(role, Categorical):
        tree = json.dumps([role.hierarchy.labels, role.hierarchy.parents.tolist()])
        digest = hashlib.sha256(tree.encode()).hexdigest()
        return {"name": role.name, "hierarchy": digest, "null": role.null, "unknown": role.unknown}
    grid = role.grid
    return {
        "name": role.name,
        "kind": role.kind,
        "grid": grid and [str(grid.lower), str(grid.upper), str(grid.step)],
        "null": role.null,
        "outside": role.outside,
        "invalid": role.invalid,
    }


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"a column name must be a text that is not empty, got {name!r}")


def _check_answers(name: str, allowed: object, **answers: str) -> None:
    """Refuse an answer that is not one of the Literal `allowed`."""
    for field, answer in answers.items():
        if answer not in get_args(allowed):
            choices = " or ".join(repr(choice) for choice in get_args(allowed))
            raise SchemaError(f"column {name!r}: {field} must be {choices}, got {answer!r}")
