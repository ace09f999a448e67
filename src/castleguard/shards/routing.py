"""Routes of rows to shards: by a hash of the person, or by public cut points.

`HashRoute` keeps the rows of a person together and spreads persons evenly. `LocalityRoute` keeps similar rows together,
so that they can share a group. Both are public functions of the row, because readers of the output see the shard of a
row (docs/concepts/shards.md says when each is allowed).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from castleguard.errors import SchemaError
from castleguard.kernels.siphash import hash_integers
from castleguard.schema.categories import read_leaves
from castleguard.schema.cells import cells_of
from castleguard.schema.column import FINE, Column, Distinct, distinct
from castleguard.schema.identities import Hashes, hash_persons, hash_values
from castleguard.schema.numbers import read_numbers
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema
from castleguard.shards.cut_tree import Cuts
from castleguard.shards.cuts import axes_of
from castleguard.shards.plan import Shards

# Public and fixed on purpose: a row must have the same shard on every machine. The engines hash persons with secret
# keys of their own.
_PUBLIC_KEY = np.frombuffer(b"castleguard/rout", dtype="<u8").astype(np.uint64)
# Constants of splitmix64 (Steele, Lea, Flood 2014), which mixes the hashes of several columns into one.
_GAMMA, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@dataclass(frozen=True)
class HashRoute:
    """Hashes the person; without a person column, the position; without that, all quasi-identifiers together.

    Persons and positions spread evenly. Rows with equal quasi-identifiers go to one shard, so few distinct rows spread
    unevenly. A number with a declared domain is hashed by its cell: the shard of a row must not distinguish two values
    of a cell. Sensitive and public columns are never read.

    >>> from castleguard.schema.roles import Numeric
    >>> schema = Schema(person="id", quasi_identifiers=[Numeric("age", lower=0, upper=100)])
    >>> route = HashRoute(schema, shards=4)
    >>> [route.shard_of(pa.table({"id": ids})).tolist() for ids in ([7, 8, 9], ["7", "08", " 9 "])]
    [[0, 1, 3], [0, 1, 3]]
    """

    schema: Schema
    shards: int
    position: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.shards, bool) or not isinstance(self.shards, int) or self.shards < 1:
            raise SchemaError(f"shards must be a whole number of at least 1, got {self.shards}")
        if isinstance(self.position, str):
            raise SchemaError(f"position must be a list of columns, got {self.position!r}")
        object.__setattr__(self, "position", tuple(self.position))

    @property
    def columns(self) -> tuple[str, ...]:
        """The hashed columns."""
        if self.schema.person is not None:
            return (self.schema.person,)
        return self.position or tuple(role.name for role in self.schema.quasi_identifiers)

    def shard_of(self, table: pa.Table) -> Shards:
        """Return the shard of each row."""
        if self.shards == 1:
            return np.zeros(table.num_rows, dtype=np.int32)
        return (self._hashes(table) % np.uint64(self.shards)).astype(np.int32)

    def fingerprint(self) -> dict[str, Any]:
        """Return JSON values that are equal if and only if two routes send every row to the same shard."""
        if self.shards == 1:
            return {"shards": 1}
        by = [[name, self._reading(name)] for name in self.columns]
        person = None if self.schema.person_role is None else self.schema.person_role.fingerprint()
        return {"route": "hash", "shards": self.shards, "by": by, "person": person}

    def _hashes(self, table: pa.Table) -> Hashes:
        names = self.columns
        hashes = [self._hash(_values(table, name), name) for name in names]
        return hashes[0] if len(names) == 1 else _mix(hashes, table.num_rows)

    def _hash(self, found: Distinct, name: str) -> Hashes:
        role = self._hashed_numbers.get(name)
        if role is not None and role.domain is not None:
            numbers = read_numbers(found.values, role.kind)
            cells = cells_of(role.edges, numbers.values)
            return found.spread(hash_integers(cells, numbers.problem == FINE, _PUBLIC_KEY))
        if pa.types.is_nested(found.values.type) and name != self.schema.person:
            # The shard will reject the row; any shard will do.
            return found.spread(np.zeros(len(found.values), dtype=np.uint64))
        try:
            person = self.schema.person_role
            if person is not None and name == person.name:
                return found.spread(hash_persons(found.values, _PUBLIC_KEY, exact_case=person.case == "exact"))
            return found.spread(hash_values(found.values, _PUBLIC_KEY))
        except SchemaError as exc:
            raise SchemaError(f"column {name!r}: {exc}") from exc

    def _reading(self, name: str) -> str:
        """Describe how a column is read before it is hashed: like a person, or as the number of its cell."""
        role = self._hashed_numbers.get(name)
        if role is None or role.grid is None:
            return "identity"
        return f"cells of {role.kind} from {role.grid.lower} to {role.grid.upper} by {role.grid.step}"

    @cached_property
    def _hashed_numbers(self) -> dict[str, Numeric]:
        """The numeric quasi-identifiers, if quasi-identifiers are hashed."""
        if self.schema.person is not None or self.position:
            return {}
        return {role.name: role for role in self.schema.quasi_identifiers if isinstance(role, Numeric)}


@dataclass(frozen=True)
class LocalityRoute:
    """Applies cut points to quasi-identifiers.

    A row with an unreadable value goes by its person, or without one to the first shard: a hash of its other values
    would reveal more about them than the published row.
    """

    schema: Schema
    cuts: Cuts

    def __post_init__(self) -> None:
        """Refuse cut points that are not edges of the schema: only those are certainly public."""
        check_cuts(self.cuts, self.schema)

    @property
    def shards(self) -> int:
        """Number of shards."""
        return self.cuts.shards

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are cut, and the person column."""
        hashed = () if self._fallback is None else self._fallback.columns
        return tuple(dict.fromkeys([*self.cuts.columns, *hashed]))

    def shard_of(self, table: pa.Table) -> Shards:
        """Return the shard of each row."""
        columns = {role.name: self._read(_values(table, role.name), role) for role in self._roles}
        found = self.cuts.shard_of({name: column.values for name, column in columns.items()}, rows=table.num_rows)
        problems = [column.problem != FINE for column in columns.values()]
        unread = np.flatnonzero(np.any(problems, axis=0)) if problems else np.zeros(0, dtype=np.int64)
        if unread.size and self._fallback is None:
            found[unread] = 0
        elif unread.size and self._fallback is not None:
            found[unread] = self._fallback.shard_of(table.select(self._fallback.columns).take(pa.array(unread)))
        return found

    def fingerprint(self) -> dict[str, Any]:
        """Return JSON values that are equal if two routes have the same cut points, readings and fallback."""
        if self.shards == 1:
            return {"shards": 1}
        readings = [
            [role.name, role.hierarchy.digest() if isinstance(role, Categorical) else role.kind] for role in self._roles
        ]
        fallback = None if self._fallback is None else self._fallback.fingerprint()
        return {"route": "locality", "cuts": self.cuts.describe(), "readings": readings, "otherwise": fallback}

    def _read(self, found: Distinct, role: QuasiIdentifier) -> Column:
        # Not clamped to the domain: a value outside is on the same side of every cut as the nearest bound.
        if isinstance(role, Numeric):
            column = read_numbers(found.values, role.kind)
        else:
            column = read_leaves(found.values, self._leaves[role.name])
        return Column(found.spread(column.values), found.spread(column.problem))

    @cached_property
    def _roles(self) -> tuple[QuasiIdentifier, ...]:
        known = {role.name: role for role in self.schema.quasi_identifiers}
        return tuple(known[name] for name in self.cuts.columns)

    @cached_property
    def _leaves(self) -> dict[str, pa.Array]:
        trees = {role.name: role.hierarchy for role in self._roles if isinstance(role, Categorical)}
        return {name: pa.array(tree.leaves, pa.large_string()) for name, tree in trees.items()}

    @cached_property
    def _fallback(self) -> HashRoute | None:
        return None if self.schema.person is None else HashRoute(self.schema, self.cuts.shards)


def check_cuts(cuts: Cuts, schema: Schema) -> None:
    """Raise SchemaError unless every cut point is on the public grid, or between two leaves, of a quasi-identifier."""
    axes = {axis.name: axis for axis in axes_of(schema, cuts.columns)}
    for cut in cuts.walk():
        if axes[cut.column].cell_at(cut.at) is None:
            raise SchemaError(
                f"column {cut.column!r}: a cut point is neither on an edge of the public grid inside the domain nor "
                f"between two leaves: choose cut points with this schema"
            )


def _values(table: pa.Table, name: str) -> Distinct:
    if table.column_names.count(name) != 1:
        raise SchemaError(f"column {name!r} is needed to route rows, but is not in the data exactly once")
    try:
        return distinct(table.column(name))
    except SchemaError as exc:
        raise SchemaError(f"column {name!r}: {exc}") from exc


def _mix(hashes: Sequence[Hashes], rows: int) -> Hashes:
    """Combine several hashes into one that depends on their order."""
    mixed = np.zeros(rows, dtype=np.uint64)
    for each in hashes:
        mixed = mixed + each + _GAMMA
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
        mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed
