"""Decode a batch into coded rows: the first stage of the stream.

The role of a column says what happens to a row with a bad value: it is rejected and counted, or may be published at the
root only. A bad value never stops the stream, and no row is lost silently. No Python code runs once per row.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.errors import SchemaError
from castleguard.schema.casting import Misfits
from castleguard.schema.categories import read_leaves
from castleguard.schema.coded import REASONS, CodedRows, Decoded, Rejects, SensitiveCodes
from castleguard.schema.column import FINE, OTHER_TYPE, TOO_LONG, UNPUBLISHABLE, Column, Distinct, distinct
from castleguard.schema.identities import hash_persons, hash_values, kind_of_persons
from castleguard.schema.numbers import cell_codes, check_domain, read_numbers
from castleguard.schema.person import PersonKind
from castleguard.schema.publishable import Unfit, plain, too_long, unpublishable
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive

SAMPLE = 1000
"""Rows that suffice to estimate the spacing of a column's values."""
_ALL_FIT: Mapping[str, Misfits] = MappingProxyType({})


class Decoder:
    """Decodes one stream. The same rows give the same codes in any batches and input types.

    `key`: key of the hashes of persons and sensitive values; codes of different keys must not be mixed.
    `strict`: refuse a numeric quasi-identifier without a domain.
    `diverse`: diversity is promised. A number without declared values or bins then counts by its whole part, because
    distinct fractions are not diverse (10.00 and 10.01 reveal the same; docs/concepts/castle.md, C18).
    `total`: no row is rejected or sent to the root for its values. A bad value becomes the role's public default,
    because a reject would reveal something about a value that is to be randomised.
    `cells`: code a number as the lower edge of its cell in the public grid, for the modes that publish such cells.
    `sealed`: replace raw sensitive values in the payload by nulls, so that later stages get only their codes.
    """

    counter: int
    """With `person=None`: the person number of the next accepted row."""
    person_kind: PersonKind | None
    """Kind of the person column, by the schema or by the first batch that has values; None: not known yet."""
    longest_row: int | None = None
    """Largest published row as JSON, in bytes; None: no limit."""

    def __init__(
        self,
        schema: Schema,
        *,
        key: NDArray[np.uint64],
        strict: bool = True,
        diverse: bool = False,
        total: bool = False,
        cells: bool = False,
        sealed: bool = False,
    ) -> None:
        self._schema = schema
        self._total = total
        self._cells = cells
        self.seals_sensitive = sealed
        self._key = np.array(key, dtype=np.uint64)
        self._counts_whole = strict and diverse
        self._leaves = {
            role.name: pa.array(role.hierarchy.leaves, pa.large_string())
            for role in schema.quasi_identifiers
            if isinstance(role, Categorical)
        }
        self._labels = {
            role.name: pa.array(map(str, role.labels), pa.large_string())
            for role in schema.sensitive
            if role.labels is not None and role.bins is None
        }
        self._frame_bytes = _frame_bytes(schema)
        self.counter = 0
        self.person_kind = None if schema.person_role is None else schema.person_role.kind
        for role in schema.quasi_identifiers:
            if strict and isinstance(role, Numeric) and role.domain is None:
                raise SchemaError(
                    f"column {role.name!r} needs lower and upper (or a hierarchy, if it holds categories): "
                    'an observed domain would publish the extreme values; only mode="paper" accepts that'
                )

    @property
    def key(self) -> NDArray[np.uint64]:
        """Key of the hashes."""
        return self._key

    def change_key(self, key: NDArray[np.uint64]) -> None:
        """Replace the key of the hashes; only before the first row."""
        self._key = np.array(key, dtype=np.uint64)

    def decode(
        self,
        table: pa.Table,
        unfit: Unfit | None = None,
        *,
        typed: bool = True,
        misfits: Mapping[str, Misfits] = _ALL_FIT,
    ) -> Decoded:
        """Code the usable rows and list the rejected ones. Undeclared columns are ignored.

        Rows with a value that the sink cannot take (`unfit`), or that does not convert to its column's type
        (`misfits`), are rejected here, before the engine sees them: a released row counts in its group, so it can no
        longer be left out. `typed`: the source declares the type of the person column; only then does the type
        determine the kind of persons.
        """
        _check_columns(self._schema.columns, table.column_names)
        quasi, sample, verdict, moved = self._read_quasi(table)
        person, kind = self._read_person(table, typed=typed)
        rows = CodedRows(quasi, person, self._read_sensitive(table), verdict.to_root)
        self._reject_misfits(verdict, misfits)
        payload = self._read_payload(table, verdict, unfit)
        accepted = np.flatnonzero(verdict.column < 0)
        if len(accepted) < table.num_rows:
            rows = rows.take(accepted)
            # `take` would lose the length of a table without columns.
            payload = payload.take(pa.array(accepted)) if payload.num_columns else payload.slice(0, len(accepted))
        if self._schema.person is None:
            # Counted last, so that a batch that fails uses no numbers.
            first, self.counter = self.counter, self.counter + len(accepted)
            rows = rows._replace(person=np.arange(first, self.counter, dtype=np.uint64))
        self.person_kind = kind
        rows.quasi[rows.to_root] = 0.0
        usable = (verdict.column < 0) & ~verdict.to_root
        clamped = {name: int(np.count_nonzero(mask[accepted])) for name, mask in moved.items()}
        return Decoded(rows, payload, verdict.rejects(self._schema), sample[usable[: len(sample)]], clamped)

    def _read_quasi(
        self, table: pa.Table
    ) -> "tuple[NDArray[np.float64], NDArray[np.float64], _Verdict, dict[str, NDArray[np.bool_]]]":
        """Coded values, a sample before they become cells, the verdict on each row, and flags of clamped values by
        column.
        """
        roles = self._schema.quasi_identifiers
        quasi = np.empty((table.num_rows, len(roles)), dtype=np.float64)
        sample = np.empty((min(table.num_rows, SAMPLE), len(roles)), dtype=np.float64)
        verdict, moved = _Verdict(table.num_rows), {}
        for at, role in enumerate(roles):
            column = self._read_role(_values(table, role.name), role)
            sample[:, at] = column.values[: len(sample)]
            if self._cells and isinstance(role, Numeric) and role.domain is not None:
                quasi[:, at] = cell_codes(role.edges, column.values)
            else:
                quasi[:, at] = column.values
            verdict.add(at, role, column.problem)
            if column.clamped is not None:
                moved[role.name] = column.clamped
        return quasi, sample, verdict, moved

    def _reject_misfits(self, verdict: "_Verdict", misfits: Mapping[str, Misfits]) -> None:
        names = reject_names(self._schema)
        for name, found in misfits.items():
            verdict.reject(names.index(name), found, OTHER_TYPE)

    def _read_payload(self, table: pa.Table, verdict: "_Verdict", unfit: Unfit | None) -> pa.Table:
        """Payload in plain columns; rejects rows that sinks in general, or this sink, cannot store."""
        sensitive = [role.name for role in self._schema.sensitive]
        columns: list[pa.Array | pa.ChunkedArray] = []
        for name in (*sensitive, *self._schema.public):
            if self.seals_sensitive and name in sensitive:
                columns.append(pa.nulls(table.num_rows))
                continue
            column = _plain_column(table, name)
            at = len(self._schema.quasi_identifiers) + len(columns)
            columns.append(column)
            verdict.reject(at, unpublishable(column), UNPUBLISHABLE)
            if unfit is not None:
                verdict.reject(at, unfit(column), UNPUBLISHABLE)
        if not columns:  # keeps the length
            return table.select([])
        if self.longest_row is not None:
            readable = verdict.column < 0
            for at, found in too_long(columns, readable, self.longest_row - self._frame_bytes):
                verdict.reject(len(self._schema.quasi_identifiers) + at, found, TOO_LONG)
        return pa.table(columns, names=[*sensitive, *self._schema.public])

    def _read_role(self, found: Distinct, role: QuasiIdentifier) -> Column:
        if isinstance(role, Categorical):
            column = read_leaves(found.values, self._leaves[role.name])
        else:
            column = read_numbers(found.values, role.kind)
            if role.domain is not None:
                column = check_domain(column, role.domain, clamp=self._total or role.outside == "clamp")
        if self._total:
            fine = column.problem == FINE
            column = Column(np.where(fine, column.values, role.stand_in), np.full_like(column.problem, FINE))
        clamped = None if column.clamped is None else found.spread(column.clamped)
        return Column(found.spread(column.values), found.spread(column.problem), clamped)

    def _read_person(self, table: pa.Table, *, typed: bool) -> tuple[NDArray[np.uint64], PersonKind | None]:
        """Hashes of the persons, and the kind of the person column after this batch."""
        role, kind = self._schema.person_role, self.person_kind
        if role is None:
            return np.zeros(table.num_rows, dtype=np.uint64), kind
        found = _values(table, role.name)
        own = kind_of_persons(found.values.type)
        if kind is None and len(found.values) > found.values.null_count:
            kind = own if typed else "text"
        try:
            hashes = hash_persons(found.values, self._key, exact_case=role.case == "exact", kind=kind)
        except SchemaError as exc:
            raise SchemaError(f"column {role.name!r}: {exc}") from exc
        return found.spread(hashes), kind

    def _read_sensitive(self, table: pa.Table) -> SensitiveCodes:
        roles = self._schema.sensitive
        codes = np.empty((table.num_rows, len(roles)), dtype=np.int64)
        for at, role in enumerate(roles):
            found = _values(table, role.name)
            if role.bins is not None:
                codes[:, at] = _bin(found, role)
            elif role.name in self._labels:
                codes[:, at] = _look_up(found, self._labels[role.name])
            else:
                codes[:, at] = self._hash(found, role.name).view(np.int64)
        return codes

    def _hash(self, found: Distinct, name: str) -> NDArray[np.uint64]:
        try:
            hashes = hash_values(found.values, self._key, whole=self._counts_whole)
        except SchemaError as exc:
            raise SchemaError(f"column {name!r}: {exc}") from exc
        return found.spread(hashes)


class _Verdict:
    """Verdict on each row, column by column: a reject by any column overrides the root."""

    def __init__(self, rows: int) -> None:
        self.to_root = np.zeros(rows, dtype=np.bool_)
        self.column = np.full(rows, -1, dtype=np.int16)  # first column that rejected the row
        self.reason = np.full(rows, FINE, dtype=np.int8)

    def add(self, at: int, role: QuasiIdentifier, problem: NDArray[np.int8]) -> None:
        if not np.any(problem != FINE):
            return
        answers = _answers(role)
        # FINE is -1, which selects the last entry: no answer.
        rejected = np.array([*(answers.get(reason) == "reject" for reason in REASONS), False])[problem]
        rooted = np.array([*(answers.get(reason) == "root" for reason in REASONS), False])[problem]
        self.to_root |= rooted
        first = rejected & (self.column < 0)
        self.column[first] = at
        self.reason[first] = problem[first]

    def reject(self, at: int, found: NDArray[np.bool_] | None, reason: int) -> None:
        """Reject rows for a value of the payload."""
        if found is not None:
            first = found & (self.column < 0)
            self.column[first] = at
            self.reason[first] = reason

    def rejects(self, schema: Schema) -> Rejects:
        index = np.flatnonzero(self.column >= 0)
        column, reason = self.column[index], self.reason[index]
        cases = column.astype(np.int64) * len(REASONS) + reason
        names = reject_names(schema)
        counts = {
            f"{names[case // len(REASONS)]}: {REASONS[case % len(REASONS)]}": int(count)
            for case, count in zip(*np.unique(cases, return_counts=True), strict=True)
        }
        return Rejects(index, reason, column, counts)


def _answers(role: QuasiIdentifier) -> dict[str, str]:
    """The role's answer to each reason."""
    if isinstance(role, Categorical):
        return {"null": role.null, "unknown": role.unknown}
    return {"null": role.null, "invalid": role.invalid, "outside": role.outside}


def _frame_bytes(schema: Schema) -> int:
    """Upper bound of the JSON bytes of a published row besides its payload: names, numbers, times, labels."""
    labels = [
        max(map(len, role.hierarchy.labels)) for role in schema.quasi_identifiers if isinstance(role, Categorical)
    ]
    names = sum(2 * _LONGEST_ESCAPE * len(name) for name in schema.columns)
    return names + _LONGEST_ESCAPE * sum(labels) + _NUMBER_BYTES * 2 * len(schema.columns)


_LONGEST_ESCAPE = 6  # bytes of JSON for an escaped character
_NUMBER_BYTES = 40  # bytes of a number, a time or an interval's bound, with punctuation


def reject_names(schema: Schema) -> list[str]:
    """Columns that a row can be rejected for."""
    roles = (*schema.quasi_identifiers, *schema.sensitive)
    return [*(role.name for role in roles), *schema.public]


def _plain_column(table: pa.Table, name: str) -> pa.ChunkedArray:
    try:
        return plain(table.column(name))
    except SchemaError as exc:
        raise SchemaError(f"column {name!r}: {exc}") from exc


def _values(table: pa.Table, name: str) -> Distinct:
    try:
        return distinct(table.column(name))
    except SchemaError as exc:
        raise SchemaError(f"column {name!r}: {exc}") from exc


def _bin(found: Distinct, role: Sensitive) -> NDArray[np.int64]:
    """Number of edges at or below each value; one more than all edges for a missing or invalid value."""
    edges = role.edges if role.edges is not None else np.empty(0)
    column = read_numbers(found.values, role.kind)
    bins = np.searchsorted(edges, column.values, side="right")
    return found.spread(np.where(column.problem == FINE, bins, edges.size + 1).astype(np.int64))


def _look_up(found: Distinct, labels: pa.Array) -> NDArray[np.int64]:
    """Index of each value among the declared ones; the index after the last for any other value."""
    column = read_leaves(found.values, labels)
    return found.spread(np.where(column.problem == FINE, column.values, len(labels)).astype(np.int64))


def _check_columns(declared: tuple[str, ...], present: list[str]) -> None:
    for name in declared:
        if present.count(name) > 1:
            raise SchemaError(f"column {name!r} is in the data {present.count(name)} times")
        if name not in present:
            by_case = {other.casefold(): other for other in present}
            close = get_close_matches(name.casefold(), by_case, n=1)
            hint = f"; did you mean {by_case[close[0]]!r}?" if close else f" (it has {', '.join(present) or 'none'})"
            raise SchemaError(f"column {name!r} is declared but not in the data{hint}")


def reject_reasons(schema: Schema, rejects: Rejects) -> list[tuple[int, str]]:
    """Rejected rows of a batch: row number and "column: reason"."""
    names = reject_names(schema)
    found = zip(rejects.index, rejects.column, rejects.reason, strict=True)
    return [(int(row), f"{names[column]}: {REASONS[reason]}") for row, column, reason in found]
