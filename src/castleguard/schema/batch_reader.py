"""Read batches as decoded rows. A batch is cut before each row that decides a type, and each part is decoded.

A stream publishes each sensitive and public column with one type: the one declared by the schema, else by its input,
else that of its first value. How a stream is cut into batches does not matter. The first values are also compared with
the public grid: the bounds of a cell that holds a single value would reveal it.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from castleguard.errors import SchemaError
from castleguard.schema.casting import Misfits, cast_values
from castleguard.schema.coded import Decoded, Quasi, Rejects, join_rejects
from castleguard.schema.declared_types import ARROW_TYPES, read_declared
from castleguard.schema.decode import SAMPLE, Decoder, reject_reasons
from castleguard.schema.publishable import Unfit, plain, plain_type
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.table import has_types, split_table
from castleguard.schema.untyped import convert_values, kind_of_value
from castleguard.telemetry.logs import LOG


class Arrivals(NamedTuple):
    """Rows of a batch, with the Python values of untyped columns."""

    table: pa.Table
    values: dict[str, list[Any]]
    typed: bool
    """Whether the person column has a type."""

    def __repr__(self) -> str:
        """Without values."""
        return f"Arrivals(rows={self.table.num_rows})"

    def slice(self, start: int, length: int | None = None) -> "Arrivals":
        """A range of the rows."""
        stop = None if length is None else start + length
        values = {name: column[start:stop] for name, column in self.values.items()}
        return Arrivals(self.table.slice(start, length), values, self.typed)

    def first_value(self, name: str, without: Collection[int] = ()) -> int | None:
        """First row with a value in this column, ignoring the rows `without`; None if no row has one."""
        found = (at for at, value in enumerate(self.values[name]) if value is not None and at not in without)
        return next(found, None)


class PayloadTypes:
    """Types of the payload columns of one stream, sensitive ones first. A column without a type so far is null."""

    def __init__(self, schema: Schema, *, sealed: bool) -> None:
        """`sealed`: sensitive columns are published as codes and need no type."""
        names = [*(role.name for role in schema.sensitive), *schema.public]
        self.names = names[len(schema.sensitive) if sealed else 0 :]
        """Columns whose values are published unchanged."""
        self._declared = {name: schema.types[name] for name in self.names if name in schema.types}
        declared = {name: ARROW_TYPES[kind] for name, kind in self._declared.items()}
        self.schema = pa.schema([(name, declared.get(name, pa.null())) for name in names])

    def parts(self, rows: Arrivals, rejects: Callable[[Arrivals], Rejects]) -> Iterator[Arrivals]:
        """Cut a batch before each row whose values decide a type; the type is decided after the part before it.

        A column without a type becomes text when a row is published. Whether that happens before the row with the first
        value must not depend on the rest of the batch, so the rows before it are processed first.
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
        """First row with a value in an untyped column, and the types that its values decide; None without such a row.

        A row that is rejected because of its other columns decides nothing.
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
        """Give untyped columns the type that the batch declares, if any."""
        for name in self.names:
            at = table.schema.get_field_index(name)
            if at >= 0 and pa.types.is_null(self.schema.field(name).type):
                try:
                    self._set_type(name, plain_type(table.schema.field(at).type))
                except SchemaError as exc:
                    raise SchemaError(f"column {name!r}: {exc}") from exc

    def as_published(self, rows: Arrivals) -> tuple[pa.Table, dict[str, Misfits]]:
        """Convert sensitive and public columns to their published types; by column, the rows that do not convert.

        Done before decoding: values that differ but are published as the same must not count as two.
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
        """Payload in the published types, as far as they are known."""
        if payload.schema.equals(self.schema, check_metadata=True) or not payload.num_columns:
            return payload
        columns = [
            pa.nulls(payload.num_rows) if pa.types.is_null(field.type) else column.cast(field.type)
            for field, column in zip(self.schema, payload.columns, strict=True)
        ]
        return pa.table(columns, schema=self.schema)

    @property
    def published(self) -> pa.Schema:
        """Types of the output; a column that never had a value is text.

        Parts of the output can be read together only if every column has a type, and text can hold any later value.
        """
        schema = self.schema
        for number, field in enumerate(schema):
            if pa.types.is_null(field.type):
                schema = schema.set(number, field.with_type(pa.string()))
        return schema

    def are_settled_by(self, arriving: pa.Schema) -> bool:
        """Whether all columns have a type when rows with this schema have arrived: what follows cannot change one."""

        def has_type(schema: pa.Schema, name: str) -> bool:
            at = schema.get_field_index(name)
            return at >= 0 and not pa.types.is_null(schema.field(at).type)

        return all(
            has_type(self.schema, name) or (name in self.names and has_type(arriving, name))
            for name in self.schema.names
        )

    def settle(self) -> None:
        """Keep the published types from the first published row on."""
        self.schema = self.published


class GridCheck:
    """Checks the first values of a stream against the grid, and warns once."""

    def __init__(self, schema: Schema, *, needed: bool) -> None:
        """`needed`: published bounds depend on true values."""
        self._roles = schema.quasi_identifiers
        self._needed = needed
        self.done = False
        self.sample: Quasi = np.empty((0, len(self._roles)))

    def look_at(self, values: Quasi) -> None:
        """Warn once if a cell of the public grid holds a single value of the data: its bounds would reveal it."""
        if self.done or not self._needed:
            return
        self.sample = np.concatenate([self.sample, values])[:SAMPLE]
        if len(self.sample) < SAMPLE:
            return
        self.done = True
        fine = [
            role.name
            for column, role in enumerate(self._roles)
            if isinstance(role, Numeric) and role.hides_nothing(self.sample[:, column])
        ]
        self.sample = self.sample[:0]
        if fine:
            LOG.warning(
                "%s: a cell of the grid holds a single value of the data, so published bounds can reveal it; "
                "set a larger step",
                ", ".join(fine),
            )


class Part(NamedTuple):
    """Rows of a batch in which at most the first row decides a type."""

    decoded: Decoded
    payload: pa.Table
    rows: int

    def __repr__(self) -> str:
        """Without values."""
        return f"Part(rows={self.rows})"


class Prepared(NamedTuple):
    """A batch that has been decoded before it is read."""

    parts: list[Part]

    @property
    def num_rows(self) -> int:
        """Number of rows of the batch."""
        return sum(part.rows for part in self.parts)

    def __repr__(self) -> str:
        """Without values."""
        return f"Prepared(rows={self.num_rows})"


class BatchReader:
    """Reads the batches of one stream."""

    unfit: Unfit | None = None
    """Finds values that the sink cannot take."""

    def __init__(self, schema: Schema, decoder: Decoder, types: PayloadTypes) -> None:
        self._schema = schema
        self._decoder = decoder
        self._types = types
        self._rejects: Rejects | None = None
        self._can_prepare: bool | None = None

    def read(self, batch: object, longest_row: int | None) -> Iterator[Part]:
        """Parts of a batch; the caller must process each before asking for the next. If the first fails, no type is
        decided.

        `longest_row`: largest row as JSON that the sink takes, in bytes; longer rows are rejected. None: no limit.
        """
        rejects: list[Rejects] = []
        sizes: list[int] = []
        for part in batch.parts if isinstance(batch, Prepared) else self._parts(batch, longest_row):
            yield part
            rejects.append(part.decoded.rejected)
            sizes.append(part.rows)
        self._rejects = join_rejects(rejects, sizes)

    def prepare(self, batch: pa.RecordBatch, longest_row: int | None) -> pa.RecordBatch | Prepared:
        """Decode a batch ahead of `read`, while earlier ones are processed. All batches must be prepared, in order.

        Returns the batch itself if what is published before it may decide the type of a column.
        """
        if self._can_prepare is None:
            self._can_prepare = self._types.are_settled_by(batch.schema)
        return Prepared(list(self._parts(batch, longest_row))) if self._can_prepare else batch

    def _parts(self, batch: object, longest_row: int | None) -> Iterator[Part]:
        person, known = self._schema.person, self._types.schema
        table, values = split_table(batch, self._schema.columns, person=person, apart=self._types.names)
        self._decoder.longest_row = longest_row
        first = True
        try:
            for part in self._types.parts(Arrivals(table, values, typed=has_types(batch, person)), self._look):
                decoded = self._decode(part)
                payload = self._types.typed(decoded.payload)
                yield Part(decoded, payload, part.table.num_rows)
                first = False
        except BaseException:
            if first:
                self._types.schema = known
            raise

    def rejected(self) -> list[tuple[int, str]]:
        """Rejected rows of the latest batch: row number and "column: reason"."""
        return [] if self._rejects is None else reject_reasons(self._schema, self._rejects)

    def _decode(self, rows: Arrivals) -> Decoded:
        table, misfits = self._types.as_published(rows)
        return self._decoder.decode(table, self.unfit, typed=rows.typed, misfits=misfits)

    def _look(self, rows: Arrivals) -> Rejects:
        """Rows that would be rejected; leaves the decoder's state unchanged."""
        before = self._decoder.counter, self._decoder.person_kind
        found = self._decode(rows).rejected
        self._decoder.counter, self._decoder.person_kind = before
        return found
