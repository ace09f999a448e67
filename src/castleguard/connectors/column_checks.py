"""Checks of columns: an input has the declared ones, an output has no nested ones."""

import difflib
from collections.abc import Collection, Sequence

import pyarrow as pa

from castleguard.errors import InputError, SchemaError


def require_columns(
    declared: Sequence[str], present: Sequence[str], where: str, hint: str = "", *, may_be_values: bool = False
) -> None:
    """Raise SchemaError if a declared column is missing in `where`, InputError if it occurs twice.

    `may_be_values`: a file without a header has a row in its place, which must not be quoted.
    """
    quotable = [] if may_be_values and not any(name in present for name in declared) else present
    for name in declared:
        if name not in present:
            raise SchemaError(f"{where} has no column {name!r}{_suggestion(name, quotable, len(present))}{hint}")
        if list(present).count(name) > 1:
            raise InputError(f"{where} has two columns named {name!r}: rename one of them")


def nested_column(schema: pa.Schema) -> str | None:
    """The first nested column, which no text format can hold; None if there is none."""
    return next((field.name for field in schema if pa.types.is_nested(field.type)), None)


def without_dictionaries(table: pa.Table) -> pa.Table:
    """The same values in plain columns."""
    for number, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(number, field.name, table.column(number).cast(field.type.value_type))
    return table


def _suggestion(name: str, names: Collection[str], columns: int) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f", did you mean {near[0]!r}?" if near else f" (it has {columns} columns)"
