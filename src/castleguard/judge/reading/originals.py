"""Original rows as the schema requires them: values after clamping, and which rows are rejected or sent to the root."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.errors import InputError
from castleguard.judge.reading.equality import person_codes, value_codes
from castleguard.judge.reading.values import Codes, Numbers, numbers_of, texts_of
from castleguard.schema.roles import Categorical, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive


@dataclass(frozen=True)
class Originals:
    """Original rows; every array has one entry per row."""

    values: tuple[Numbers, ...]
    """One array per quasi-identifier: clamped numbers, or leaf numbers of categories; NaN for unusable values."""
    rejected: NDArray[np.bool_]
    to_root: NDArray[np.bool_]
    persons: Codes
    """NO_PERSON where a person is missing or indistinguishable: such a row adds neither a person nor a value."""
    sensitive: tuple[Codes, ...]

    def take(self, rows: Codes) -> "Originals":
        """Select rows."""
        return Originals(
            values=tuple(column[rows] for column in self.values),
            rejected=self.rejected[rows],
            to_root=self.to_root[rows],
            persons=self.persons[rows],
            sensitive=tuple(column[rows] for column in self.sensitive),
        )


def read_originals(original: pa.Table, schema: Schema) -> Originals:
    """Read every declared column. Raises InputError if one is missing."""
    for name in schema.columns:
        if name not in original.column_names:
            raise InputError(f"the original table has no column {name!r}")
    rows = original.num_rows
    rejected, to_root = np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_)
    values = []
    for role in schema.quasi_identifiers:
        numbers, actions = _read(original.column(role.name), role)
        values.append(numbers)
        rejected |= actions == "reject"
        to_root |= actions == "root"
    persons, person = np.arange(rows), schema.person_role
    if person is not None:
        persons = person_codes(original.column(person.name), exact_case=person.case == "exact")
    sensitive = tuple(_sensitive_codes(original.column(role.name), role) for role in schema.sensitive)
    return Originals(tuple(values), rejected, to_root & ~rejected, persons, sensitive)


def _read(column: pa.ChunkedArray, role: QuasiIdentifier) -> tuple[Numbers, NDArray[np.str_]]:
    """Values of a column, and the action of the role for each row with an unusable value ("" for usable ones)."""
    if isinstance(role, Categorical):
        labels, codes = texts_of(column)
        leaf_of = {label: leaf for leaf, label in enumerate(role.hierarchy.leaves)}
        leaves = [np.nan if label is None else leaf_of.get(label, np.nan) for label in labels]
        numbers: Numbers = np.array(leaves, dtype=np.float64)[codes]
        missing = np.array([label is None for label in labels], dtype=np.bool_)[codes]
        return numbers, np.where(missing, role.null, np.where(np.isnan(numbers), role.unknown, ""))
    numbers, missing = numbers_of(column, role.kind)
    actions = np.where(missing, role.null, np.where(np.isnan(numbers), role.invalid, "")).astype("<U8")
    if role.domain is not None:
        lower, upper = role.domain
        outside = (numbers < lower) | (numbers > upper)
        if role.outside != "clamp":
            actions[outside] = role.outside
        numbers = np.clip(numbers, lower, upper)
    return numbers, actions


def _sensitive_codes(column: pa.ChunkedArray, role: Sensitive) -> Codes:
    """Number the values to be counted: bins or distinct values; missing values count as one."""
    if role.edges is None:
        return value_codes(column)
    numbers, _ = numbers_of(column, role.kind)
    found: Codes = (numbers[:, None] >= role.edges[None, :]).sum(axis=1)
    return np.where(np.isnan(numbers), -1, found)
