"""The types that a stream publishes its sensitive and public columns with: the first ones that they came with."""

import pyarrow as pa

from castleguard.errors import SchemaError
from castleguard.schema.casting import Misfits, cast_values
from castleguard.schema.plain import plain, plain_type
from castleguard.schema.roles import Schema
from castleguard.schema.table import has_types


class PayloadTypes:
    """The types of the payload columns of one stream, sensitive ones first. A column without a type so far is null."""

    def __init__(self, schema: Schema, *, sealed: bool) -> None:
        """`sealed`: sensitive columns are published as codes, so that no type of theirs is kept."""
        names = [*(role.name for role in schema.sensitive), *schema.public]
        self.schema = pa.schema([(name, pa.null()) for name in names])
        self._cast = names[len(schema.sensitive) if sealed else 0 :]

    def as_published(self, table: pa.Table) -> tuple[pa.Table, dict[str, Misfits]]:
        """A batch with its sensitive and public columns in the types that they are published with, and by column the
        rows with a value that does not convert. Before decoding: values that differ, and are published as the same
        one, must not count as two.
        """
        misfits = {}
        for name in self._cast:
            at = table.schema.get_field_index(name)
            kind = self.schema.field(name).type
            if at < 0 or pa.types.is_null(kind) or plain_type(table.schema.field(at).type) == kind:
                continue
            try:
                column, found = cast_values(plain(table.column(at)), kind)
            except SchemaError as exc:
                raise SchemaError(f"column {name!r}: {exc}") from exc
            table = table.set_column(at, name, column)
            if found is not None:
                misfits[name] = found
        return table, misfits

    def typed(self, payload: pa.Table, batch: object) -> pa.Table:
        """The payload with the types of the batches before it. A column without a type so far takes its first: the one
        that the batch declares, or that of the values of accepted rows.
        """
        if payload.schema.equals(self.schema, check_metadata=True):
            return payload
        fields = []
        for field, column in zip(self.schema, payload.columns, strict=True):
            settles = has_types(batch, field.name) or column.null_count < len(column)
            fields.append(field.with_type(column.type) if pa.types.is_null(field.type) and settles else field)
        columns = [
            pa.nulls(payload.num_rows) if pa.types.is_null(field.type) else column.cast(field.type)
            for field, column in zip(fields, payload.columns, strict=True)
        ]
        return pa.table(columns, schema=pa.schema(fields)) if columns else payload

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
