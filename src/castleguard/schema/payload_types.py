"""The types that a stream publishes its sensitive and public columns with.

A column has the type that the schema declares, else the one that its input declares, else that of its first value. The
cut of a stream into batches decides nothing.
"""

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa

from castleguard.errors import SchemaError
from castleguard.schema.casting import Misfits, cast_values
from castleguard.schema.coded import Rejects
from castleguard.schema.declared import ARROW_TYPES, read_declared
from castleguard.schema.plain import plain, plain_type
from castleguard.schema.roles import Schema
from castleguard.schema.untyped import Arrivals, convert_values, kind_of_value


class PayloadTypes:
    """The types of the payload columns of one stream, sensitive ones first. A column without a type so far is null."""

    def __init__(self, schema: Schema, *, sealed: bool) -> None:
        """`sealed`: sensitive columns are published as codes, so that no type of theirs is kept."""
        names = [*(role.name for role in schema.sensitive), *schema.public]
        self.names = names[len(schema.sensitive) if sealed else 0 :]
        """Columns whose values are published as they came."""
        self._declared = {name: schema.types[name] for name in self.names if name in schema.types}
        declared = {name: ARROW_TYPES[kind] for name, kind in self._declared.items()}
        self.schema = pa.schema([(name, declared.get(name, pa.null())) for name in names])

    def parts(self, rows: Arrivals, rejects: Callable[[Arrivals], Rejects]) -> Iterator[Arrivals]:
        """Cut a batch before each row whose values decide a type, which is decided when the part before it is done.

        A column without a type is text as soon as a row is published. Whether one is, before the row with the first
        value comes, must not depend on what else is in the batch. So the rows before it go first.
        """
        while True:
            part = self._next_part(rows, rejects)
            yield part
            rows = rows.slice(part.table.num_rows)
            if not rows.table.num_rows:
                return

    def _next_part(self, rows: Arrivals, rejects: Callable[[Arrivals], Rejects]) -> Arrivals:
        while True:
            self._take_types(rows.table)
            at, kinds = self._find_types(rows, rejects)
            if at != 0:
                return rows if at is None else rows.slice(0, at)
            for name, kind in kinds.items():
                self._set_type(name, kind)

    def _find_types(
        self, rows: Arrivals, rejects: Callable[[Arrivals], Rejects]
    ) -> tuple[int | None, dict[str, pa.DataType]]:
        """The first row with a value in a column without a type, and the types that its values decide; None if there is
        none. A row that is rejected because of its other columns decides nothing.
        """
        undecided = [name for name in rows.values if pa.types.is_null(self.schema.field(name).type)]
        found = {name: rows.first_value(name) for name in undecided}
        if all(at is None for at in found.values()):
            return None, {}
        rejected = set(rejects(rows).index.tolist())
        found = {name: rows.first_value(name, rejected) for name in undecided}
        at = min((row for row in found.values() if row is not None), default=None)
        if at is None:
            return None, {}
        deciding = {name: rows.values[name][at] for name in undecided}
        return at, {name: kind_of_value(value) for name, value in deciding.items() if value is not None}

    def _set_type(self, name: str, kind: pa.DataType) -> None:
        at = self.schema.get_field_index(name)
        self.schema = self.schema.set(at, self.schema.field(at).with_type(kind))

    def _take_types(self, table: pa.Table) -> None:
        """Give columns without a type the one that the batch declares, if it declares one."""
        for name in self.names:
            at = table.schema.get_field_index(name)
            if at >= 0 and pa.types.is_null(self.schema.field(name).type):
                try:
                    self._set_type(name, plain_type(table.schema.field(at).type))
                except SchemaError as exc:
                    raise SchemaError(f"column {name!r}: {exc}") from exc

    def as_published(self, rows: Arrivals) -> tuple[pa.Table, dict[str, Misfits]]:
        """A batch with its sensitive and public columns in the types that they are published with, and by column the
        rows with a value that does not convert. Before decoding: values that differ, and are published as the same
        one, must not count as two.
        """
        table, misfits = rows.table, {}
        for name in self.names:
            at = table.schema.get_field_index(name)
            kind = self.schema.field(name).type
            if at < 0 or pa.types.is_null(kind):
                continue
            if name not in rows.values and plain_type(table.schema.field(at).type) == kind:
                continue
            try:
                column, found = self._converted(rows, name, kind)
            except SchemaError as exc:
                raise SchemaError(f"column {name!r}: {exc}") from exc
            table = table.set_column(at, name, column)
            if found is not None:
                misfits[name] = found
        return table, misfits

    def _converted(self, rows: Arrivals, name: str, kind: pa.DataType) -> tuple[pa.ChunkedArray, Misfits | None]:
        declared = self._declared.get(name)
        convert = None if declared is None else partial(read_declared, declared=declared)
        if name in rows.values:
            return convert_values(rows.values[name], kind, convert)
        column = plain(rows.table.column(name))
        return cast_values(column, kind) if convert is None else convert(column)

    def typed(self, payload: pa.Table) -> pa.Table:
        """The payload with the types that are published, as far as they are known."""
        if payload.schema.equals(self.schema, check_metadata=True) or not payload.num_columns:
            return payload
        columns = [
            pa.nulls(payload.num_rows) if pa.types.is_null(field.type) else column.cast(field.type)
            for field, column in zip(self.schema, payload.columns, strict=True)
        ]
        return pa.table(columns, schema=self.schema)

    @property
    def published(self) -> pa.Schema:
        """The types in the output, with text for a column that never had a value: parts of the output can be read
        together only if every column has a type, and text can hold whatever comes later.
        """
        schema = self.schema
        for number, field in enumerate(schema):
            if pa.types.is_null(field.type):
                schema = schema.set(number, field.with_type(pa.string()))
        return schema

    def settle(self) -> None:
        """Keep the published types from the first published row on."""
        self.schema = self.published
