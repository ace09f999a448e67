"""Batches as decoded rows: a batch is cut where a value decides a type, and each part is decoded and typed."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from castleguard.schema.coded import Decoded, Rejects, join_rejects
from castleguard.schema.decode import Decoder, reject_reasons
from castleguard.schema.payload_types import PayloadTypes
from castleguard.schema.roles import Schema
from castleguard.schema.table import has_types, split_table
from castleguard.schema.unfit import Unfit
from castleguard.schema.untyped import Arrivals


class Part(NamedTuple):
    """Rows of a batch that decide no type, or begin with the one that does."""

    decoded: Decoded
    payload: pa.Table
    rows: int

    def __repr__(self) -> str:
        """Without values."""
        return f"Part(rows={self.rows})"


class BatchReader:
    """Reads the batches of one stream."""

    unfit: Unfit | None = None
    """Finds values that the sink cannot take."""
    longest_row: int | None = None
    """Bytes that a row may take as JSON where it goes; a longer one is rejected. None: any number."""

    def __init__(self, schema: Schema, decoder: Decoder, types: PayloadTypes) -> None:
        self._schema = schema
        self._decoder = decoder
        self._types = types
        self._rejects: Rejects | None = None

    def read(self, batch: object) -> Iterator[Part]:
        """The parts of a batch; each must be taken in before the next is asked for. If none is, no type is decided."""
        person, known = self._schema.person, self._types.schema
        table, values = split_table(batch, self._schema.columns, person=person, apart=self._types.names)
        self._decoder.longest_row = self.longest_row
        rejects: list[Rejects] = []
        sizes: list[int] = []
        try:
            for part in self._types.parts(Arrivals(table, values, typed=has_types(batch, person)), self._look):
                decoded = self._decode(part)
                payload = self._types.typed(decoded.payload)
                yield Part(decoded, payload, part.table.num_rows)
                rejects.append(decoded.rejected)
                sizes.append(part.table.num_rows)
        except BaseException:
            if not sizes:
                self._types.schema = known
            raise
        self._rejects = join_rejects(rejects, sizes)

    def rejected(self) -> list[tuple[int, str]]:
        """Rows of the latest batch that were rejected: the row's number, and "column: reason"."""
        return [] if self._rejects is None else reject_reasons(self._schema, self._rejects)

    def _decode(self, rows: Arrivals) -> Decoded:
        table, misfits = self._types.as_published(rows)
        return self._decoder.decode(table, self.unfit, typed=rows.typed, misfits=misfits)

    def _look(self, rows: Arrivals) -> Rejects:
        """Rows that would be rejected, without taking in any."""
        before = self._decoder.counter, self._decoder.person_kind
        found = self._decode(rows).rejected
        self._decoder.counter, self._decoder.person_kind = before
        return found
