"""Arrow IPC: files (also known as Feather 2) and streams; each message is a stream. Columns keep their types."""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from castleguard.connectors.arrow_layout import check_layout
from castleguard.connectors.column_checks import nested_column, require_columns, without_dictionaries
from castleguard.connectors.csv_options import CsvOutput
from castleguard.connectors.formats import Codec
from castleguard.connectors.json_values import as_exact_text
from castleguard.connectors.payloads import EMPTY, BadPayload, Payloads, one_batch
from castleguard.connectors.text_columns import as_text, chunks_of
from castleguard.connectors.typed import TypedReader, TypedWriter
from castleguard.durable import AtomicFile
from castleguard.errors import InputError
from castleguard.intact import DAMAGE, validated

MESSAGE_BYTES = 3 << 18  # brokers take a megabyte by default, headers included


class ArrowReader(TypedReader):
    """Reader of an Arrow file or stream."""

    def __init__(self, path: Path, columns: Sequence[str], batch_rows: int) -> None:
        super().__init__(path, columns)
        self._batch_rows = batch_rows
        self._read = self._total = 0  # batches of a file; a stream does not know its number of batches
        try:
            # Not mapped into memory: a file that is cut while it is read would end the process.
            self._file = pa.OSFile(str(path))
        except OSError as exc:
            raise InputError(f"{path} cannot be read: {exc.strerror or 'it is empty or damaged'}") from exc
        try:
            self.names, self._batches = self._open()
            require_columns(columns, self.names, str(path))
        except BaseException:
            self._file.close()
            raise

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `batch_rows` rows."""
        for batch in self._validated(self._batches):
            self._read += 1
            for start in range(0, max(batch.num_rows, 1), self._batch_rows):
                yield batch.slice(start, self._batch_rows)

    def fraction(self) -> float | None:
        """Fraction of the file that has been read."""
        if self._total:
            return self._read / self._total
        if self._file.closed or not self._file.size():
            return None
        return min(float(self._file.tell() / self._file.size()), 1.0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _open(self) -> tuple[list[str], Iterator[pa.RecordBatch]]:
        """The column names and the batches, of a file with a footer or else of a stream."""
        try:
            reader, batches = self._as_file()
        except DAMAGE:
            try:
                self._file.seek(0)
                reader = pa.ipc.open_stream(self._file)
                batches = iter(reader)
            except DAMAGE as exc:
                raise InputError(f"{self._path} cannot be read: it is not an Arrow file, or it is damaged") from exc
        try:
            _check_layout(self._file, reader.schema)
            return list(reader.schema.names), batches
        except (*DAMAGE, struct.error) as exc:
            raise InputError(f"{self._path} cannot be read: it is damaged") from exc

    def _as_file(self) -> tuple[Any, Iterator[pa.RecordBatch]]:
        reader = pa.ipc.open_file(self._file)
        self._total = reader.num_record_batches
        return reader, map(reader.get_batch, range(reader.num_record_batches))


def _check_layout(file: pa.NativeFile, schema: pa.Schema) -> None:
    """Check the layout of an open file, and leave its position where it is."""

    def read_at(offset: int, length: int) -> bytes:
        file.seek(offset)
        return bytes(file.read(length))

    at = file.tell()
    check_layout(read_at, file.size(), schema)
    file.seek(at)


class ArrowWriter(TypedWriter):
    """Writer of an Arrow file with a footer, uncompressed, so that it can be mapped into memory."""

    format = "arrow"
    group_rows = 1 << 16

    def _open(self, file: AtomicFile, schema: pa.Schema) -> pa.ipc.RecordBatchFileWriter:
        return pa.ipc.new_file(file.file, schema)


def _read_messages(payloads: Sequence[bytes], columns: Sequence[str], _order: Sequence[str]) -> Payloads:
    """Typed columns. Where the messages differ in a column's type, that column is text in all of them."""
    bad: list[BadPayload] = []
    tables: list[pa.Table] = []
    numbers: list[int] = []
    for number, payload in enumerate(payloads):
        found = _read_message(payload, columns)
        if isinstance(found, str):
            bad.append(BadPayload(number, found, payload))
        else:
            tables.append(found)
            numbers.append(number)
    if not tables:
        nothing = pa.RecordBatch.from_pylist([], pa.schema([(name, pa.null()) for name in columns]))
        return Payloads(nothing, np.zeros(0, np.int64), tuple(bad))
    merged = {name: _merge([table[name] for table in tables]) for name in columns}
    message = np.repeat(np.array(numbers, np.int64), [table.num_rows for table in tables])
    return Payloads(one_batch(pa.table(merged)), message, tuple(bad))


def _read_message(payload: bytes, columns: Sequence[str]) -> pa.Table | str:
    """The declared columns of a stream, or the reason why it has none."""
    if not payload:
        return EMPTY
    try:
        file = pa.BufferReader(payload)
        with pa.ipc.open_stream(file) as stream:
            _check_layout(file, stream.schema)
            table = stream.read_all()
        for name in columns:
            if table.column_names.count(name) != 1:
                return f"it does not have one column {name!r}"
        table = validated(table.select(list(columns)), "the message")
        nested = nested_column(table.schema)
        if nested is not None:
            return f"its column {nested!r} is nested"
        return without_dictionaries(table)
    except (*DAMAGE, struct.error, InputError):
        return "it is not an Arrow stream, or it is damaged"


def _merge(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    kinds = {column.type for column in columns if not pa.types.is_null(column.type)}
    if len(kinds) > 1:
        columns = [column if pa.types.is_null(column.type) else _as_any_text(column) for column in columns]
        kinds = {pa.string()}
    kind = next(iter(kinds), pa.null())
    return pa.chunked_array([chunk for column in columns for chunk in chunks_of(column.cast(kind))], kind)


def _as_any_text(column: pa.ChunkedArray) -> Any:
    exact = as_exact_text(column)
    return (as_text(column) if exact is None else exact).cast(pa.string())


def _write_messages(table: pa.Table, _options: CsvOutput, rows: int) -> list[bytes]:
    """Messages of at most `rows` rows."""
    starts = range(0, table.num_rows, rows)
    return [message for start in starts for message in _split_until_small(table.slice(start, rows))]


def _split_until_small(table: pa.Table) -> list[bytes]:
    """One message, or several where it would be too large for a broker."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    message = bytes(out.getvalue().to_pybytes())
    if len(message) <= MESSAGE_BYTES or table.num_rows < 2:
        return [message]
    half = table.num_rows // 2
    return _split_until_small(table.slice(0, half)) + _split_until_small(table.slice(half))


CODEC = Codec(
    title="Arrow",
    holds=lambda _kind: True,
    open_reader=ArrowReader,
    open_writer=lambda path, _options: ArrowWriter(path),
    column_names=ArrowReader.names_in,
    read_messages=_read_messages,
    write_messages=_write_messages,
)
