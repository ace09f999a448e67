"""Arrow files (IPC, also known as Feather 2). Columns keep the types that the file gives them."""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from castleguard.connectors.arrow_layout import check_layout
from castleguard.connectors.columns import require_columns
from castleguard.connectors.typed import TypedWriter
from castleguard.durable import AtomicFile
from castleguard.errors import CastleguardError, InputError
from castleguard.intact import DAMAGE, validated


class IpcReader:
    """The declared columns of an Arrow file or stream. Nothing in it can be malformed: it is read or it is damaged."""

    malformed = 0

    def __init__(self, path: Path, columns: Sequence[str], batch_rows: int) -> None:
        self._path = path
        self._columns = list(columns)
        self._batch_rows = batch_rows
        self._read = self._total = 0  # batches of a file; a stream does not know how many it has
        try:
            # Not mapped into memory: a file that is cut while it is read would end the process.
            self._file = pa.OSFile(str(path))
        except OSError as exc:
            raise InputError(f"{path} cannot be read: {exc.strerror or 'it is empty or damaged'}") from exc
        try:
            self.names, self._batches = self._open()
            require_columns(self._columns, self.names, str(path))
        except BaseException:
            self._file.close()
            raise

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `batch_rows` rows."""
        while True:
            try:
                batch = next(self._batches, None)
                chosen = None if batch is None else validated(batch.select(self._columns), str(self._path))
            except CastleguardError:
                raise
            except DAMAGE as exc:
                raise InputError(f"{self._path} cannot be read any further: it is damaged") from exc
            if chosen is None:
                return
            self._read += 1
            for start in range(0, max(chosen.num_rows, 1), self._batch_rows):
                yield chosen.slice(start, self._batch_rows)

    def fraction(self) -> float | None:
        """How much of the file has been read."""
        if self._total:
            return self._read / self._total
        if self._file.closed or not self._file.size():
            return None
        return min(float(self._file.tell() / self._file.size()), 1.0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _open(self) -> tuple[list[str], Iterator[pa.RecordBatch]]:
        """The names of the columns, and the batches: of a file with a footer, or else of a plain stream."""
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
            at = self._file.tell()
            check_layout(self._read_at, self._file.size(), reader.schema)
            self._file.seek(at)
            return list(reader.schema.names), batches
        except (*DAMAGE, struct.error) as exc:
            raise InputError(f"{self._path} cannot be read: it is damaged") from exc

    def _as_file(self) -> tuple[Any, Iterator[pa.RecordBatch]]:
        reader = pa.ipc.open_file(self._file)
        self._total = reader.num_record_batches
        return reader, map(reader.get_batch, range(reader.num_record_batches))

    def _read_at(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        return bytes(self._file.read(length))


class IpcWriter(TypedWriter):
    """Writes an Arrow file with a footer, uncompressed, so that it can be mapped into memory."""

    format = "arrow"
    group_rows = 1 << 16

    def _open(self, part: AtomicFile, schema: pa.Schema) -> pa.ipc.RecordBatchFileWriter:
        return pa.ipc.new_file(part.file, schema)
