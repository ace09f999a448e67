"""Roles of columns: person, quasi-identifier, sensitive or public. Undeclared columns are dropped.

The schema contains everything about the data that is public: domains, grids, hierarchies. Published bounds and labels
are taken from it, never from one row's value. No role has a default and no domain is guessed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import SchemaError
from castleguard.schema.cells import has_single_values
from castleguard.schema.grid import Bound, Edges, Grid, Kind, Step, coded, kind_of, make_grid
from castleguard.schema.hierarchy import Hierarchy, Label
from castleguard.schema.person import Person
from castleguard.schema.sensitive import Public, Sensitive, ValueType, check_hierarchy, check_name

Answer = Literal["reject", "root"]
"""Answer to a bad value: reject the row, or publish the whole row at the root."""

OutsideAnswer = Literal["clamp", "reject", "root"]
"""Answer to a number outside its domain, which may also be moved to the nearest bound."""


@dataclass(frozen=True)
class Numeric:
    """A numeric quasi-identifier, published as a range. Bounds are numbers, dates, or datetimes (naive = UTC).

    Without `lower` and `upper` the domain is the range observed so far, which only `mode="paper"` accepts.

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
    default: Bound | None = None
    """Replaces a bad value in the randomised modes, which must not reject a row for its values; None: the middle of the
    domain."""

    def __post_init__(self) -> None:
        check_name(self.name)
        _check_answers(self.name, Answer, null=self.null, invalid=self.invalid)
        _check_answers(self.name, OutsideAnswer, outside=self.outside)
        for field in ("lower", "upper", "step", "default"):
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
            # Computed here so that an invalid domain or default fails when it is declared.
            _ = self.edges, self.stand_in
        except SchemaError as exc:
            raise SchemaError(f"column {self.name!r}: {exc}") from exc

    @cached_property
    def grid(self) -> Grid | None:
        """Exact public grid; None if the domain is observed."""
        if self.lower is None or self.upper is None:
            return None
        return make_grid(self.lower, self.upper, self.step)

    @property
    def kind(self) -> Kind:
        """Kind of the values: "number", "date" or "timestamp". An observed domain consists of numbers."""
        return "number" if self.grid is None else self.grid.kind

    @property
    def domain(self) -> tuple[float, float] | None:
        """Lower and upper bound in coded units (days or microseconds since 1970 for dates and timestamps), or None."""
        return None if self.grid is None else (float(self.grid.lower), float(self.grid.upper))

    @cached_property
    def edges(self) -> Edges:
        """Sorted public bounds from lower to upper inclusive; empty if the domain is observed. Read-only."""
        return np.empty(0, dtype=np.float64) if self.grid is None else self.grid.edges()

    @property
    def stand_in(self) -> float:
        """Default in coded units."""
        if self.domain is None:
            if self.default is not None:
                raise SchemaError("default needs lower and upper")
            return 0.0
        lower, upper = self.domain
        if self.default is None:
            return lower + (upper - lower) / 2
        if kind_of(self.default) != self.kind:
            raise SchemaError(f"default must be a {self.kind} like the bounds, got {self.default}")
        value = float(coded(self.default))
        if not lower <= value <= upper:
            raise SchemaError(f"default must lie between lower and upper, got {self.default}")
        return value

    @property
    def integral(self) -> bool:
        """Whether all published bounds are whole numbers, which are published as integers."""
        return self.kind == "number" and self.edges.size > 0 and bool(np.all(self.edges == np.rint(self.edges)))

    @property
    def holds_single_units(self) -> bool:
        """Whether bounds are whole and some cell holds only one whole number, day or second."""
        if self.domain is None or self.domain[0] == self.domain[1] or (self.kind == "number" and not self.integral):
            return False
        unit = 1_000_000.0 if self.kind == "timestamp" else 1.0
        first = np.ceil(self.domain[0] / unit) * unit
        return has_single_values(self.edges, np.array([first, first + unit]))

    def hides_nothing(self, values: NDArray[np.float64]) -> bool:
        """Whether some cell of the grid can hold only one value like these, which its published bounds reveal.

        Judged by the common spacing of the values: pass a few hundred rows, not two.
        """
        return self.grid is None or has_single_values(self.edges, values)


@dataclass(frozen=True, init=False)
class Categorical:
    """A categorical quasi-identifier, published as a node of its hierarchy. Only leaves are accepted as input."""

    name: str
    hierarchy: Hierarchy
    null: Answer
    unknown: Answer
    default: str | None
    """Leaf that replaces a bad value in the randomised modes, which must not reject a row for its values; None: the
    first leaf. A separate leaf "unknown" is the honest choice."""

    def __init__(
        self,
        name: str,
        *,
        hierarchy: Hierarchy | Sequence[Label] | Mapping[Any, Any],
        null: Answer = "reject",
        unknown: Answer = "reject",
        default: str | None = None,
    ) -> None:
        """A list of values is a flat `hierarchy`, a nested mapping is a tree, as in a schema file."""
        check_name(name)
        _check_answers(name, Answer, null=null, unknown=unknown)
        if isinstance(hierarchy, Mapping):
            hierarchy = Hierarchy.from_mapping(hierarchy)
        elif isinstance(hierarchy, list | tuple):
            hierarchy = Hierarchy.flat(hierarchy)
        check_hierarchy(name, hierarchy)
        assert isinstance(hierarchy, Hierarchy)
        if default is not None and default not in hierarchy.leaves:
            raise SchemaError(f"column {name!r}: default must be a leaf of the hierarchy, got {default!r}")
        given = {"name": name, "hierarchy": hierarchy, "null": null, "unknown": unknown, "default": default}
        for field, value in given.items():
            object.__setattr__(self, field, value)

    @property
    def stand_in(self) -> float:
        """Default in coded units."""
        return 0.0 if self.default is None else float(self.hierarchy.leaves.index(self.default))


QuasiIdentifier = Numeric | Categorical


@dataclass(frozen=True, init=False)
class Schema:
    """Roles of all columns that are read. Undeclared columns are dropped."""

    person: str | None
    """Column that identifies the person of a row; None: every row is a different person."""
    person_role: Person | None
    """The person column with its options."""
    quasi_identifiers: tuple[QuasiIdentifier, ...]
    sensitive: tuple[Sensitive, ...]
    public: tuple[str, ...]
    public_roles: tuple[Public, ...]
    """The public columns with their types."""

    def __init__(
        self,
        *,
        person: str | Person | None,
        quasi_identifiers: Sequence[QuasiIdentifier],
        sensitive: Sequence[Sensitive | str] = (),
        public: Sequence[str | Public] = (),
        person_role: Person | None = None,
        public_roles: Sequence[Public] = (),
    ) -> None:
        """`person_role` and `public_roles` are for `dataclasses.replace`, which passes all fields. They are ignored for
        columns that no longer have the role.
        """
        for field, given in (("quasi_identifiers", quasi_identifiers), ("sensitive", sensitive), ("public", public)):
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise SchemaError(f"{field} must be a list, got {type(given).__name__}")
        if person_role is not None and person == person_role.name:
            person = person_role
        role = Person(person) if isinstance(person, str) else person
        if role is not None and not isinstance(role, Person):
            raise SchemaError(f"person must be the name of a column, a Person or None, got {type(person).__name__}")
        object.__setattr__(self, "person", None if role is None else role.name)
        object.__setattr__(self, "person_role", role)
        object.__setattr__(self, "quasi_identifiers", tuple(quasi_identifiers))
        object.__setattr__(self, "sensitive", tuple(Sensitive(s) if isinstance(s, str) else s for s in sensitive))
        handed = {one.name: one for one in public_roles}
        columns = tuple(one if isinstance(one, Public) else handed.get(one, one) for one in public)
        object.__setattr__(self, "public", tuple(one.name if isinstance(one, Public) else one for one in columns))
        for name in self.public:
            check_name(name)
        roles = tuple(one if isinstance(one, Public) else Public(one) for one in columns)
        object.__setattr__(self, "public_roles", roles)
        self._check_roles()
        self._check_names()

    @property
    def columns(self) -> tuple[str, ...]:
        """All input columns that are read: person, quasi-identifiers, sensitive, public."""
        person = () if self.person is None else (self.person,)
        return (*person, *(q.name for q in self.quasi_identifiers), *(s.name for s in self.sensitive), *self.public)

    @property
    def described(self) -> tuple[str, ...]:
        """Columns that describe a person: quasi-identifiers, sensitive."""
        return (*(q.name for q in self.quasi_identifiers), *(s.name for s in self.sensitive))

    @property
    def types(self) -> dict[str, ValueType]:
        """Declared types of sensitive and public columns."""
        types = {role.name: role.type for role in self.sensitive} | {role.name: role.type for role in self.public_roles}
        return {name: kind for name, kind in types.items() if kind is not None}

    def fingerprint(self) -> dict[str, object]:
        """Canonical description as JSON values: equal iff two schemas decode and publish rows identically."""
        return {
            "person": None if self.person_role is None else self.person_role.fingerprint(),
            "quasi_identifiers": [_describe(role) for role in self.quasi_identifiers],
            "sensitive": [role.fingerprint() for role in self.sensitive],
            "public": [one.name if one.type is None else asdict(one) for one in self.public_roles],
        }

    def _check_roles(self) -> None:
        if not self.quasi_identifiers:
            raise SchemaError("a schema needs at least one quasi-identifier")
        for role in self.quasi_identifiers:
            if not isinstance(role, Numeric | Categorical):
                raise SchemaError(f"a quasi-identifier must be Numeric or Categorical, got {type(role).__name__}")
        for sensitive in self.sensitive:
            if not isinstance(sensitive, Sensitive):
                raise SchemaError(f"a sensitive column must be a name or Sensitive, got {type(sensitive).__name__}")

    def _check_names(self) -> None:
        """Refuse a column with two roles, and two columns that would be published under the same name."""
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
        """(column, possible published name) pairs of all published columns."""
        pairs = [(name, name) for name in self.columns if name != self.person]
        for role in self.quasi_identifiers:
            if isinstance(role, Numeric):
                pairs += [(role.name, f"{role.name}_min"), (role.name, f"{role.name}_max")]
        return pairs


def _describe(role: QuasiIdentifier) -> dict[str, object]:
    """Canonical description of a quasi-identifier; exact numbers as text."""
    if isinstance(role, Categorical):
        return {
            "name": role.name,
            "hierarchy": role.hierarchy.digest(),
            "null": role.null,
            "unknown": role.unknown,
            "default": role.stand_in,
        }
    grid = role.grid
    return {
        "name": role.name,
        "kind": role.kind,
        "grid": grid and [str(grid.lower), str(grid.upper), str(grid.step)],
        "null": role.null,
        "outside": role.outside,
        "invalid": role.invalid,
        "default": role.stand_in,
    }


def _check_answers(name: str, allowed: object, **answers: str) -> None:
    """Refuse an answer that is not one of the Literal `allowed`."""
    for field, answer in answers.items():
        if answer not in get_args(allowed):
            choices = " or ".join(repr(choice) for choice in get_args(allowed))
            raise SchemaError(f"column {name!r}: {field} must be {choices}, got {answer!r}")
