"""Arrow files (IPC, also known as Feather 2). Columns keep the types that the file gives them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from castleguard.connectors.columns import require_columns
from castleguard.connectors.part_file import PartFile
from castleguard.connectors.typed import TypedWriter
from castleguard.errors import InputError


class IpcReader:
    """The declared columns of an Arrow file or stream. Nothing in it can be malformed."""

    malformed = 0

    def __init__(self, path: Path, columns: Sequence[str], batch_rows: int) -> None:
        self._path = path
        self._columns = list(columns)
        self._batch_rows = batch_rows
        try:
            self._file = pa.memory_map(str(path))
        except OSError as exc:
            raise InputError(f"{path} cannot be read: {exc.strerror or 'it is empty or damaged'}") from exc
        try:
            self._batches = self._open()
        except BaseException:
            self._file.close()
            raise

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `batch_rows` rows."""
        while True:
            try:
                batch = next(self._batches, None)
            except (OSError, pa.ArrowException) as exc:
                raise InputError(f"{self._path} cannot be read any further: it is damaged") from exc
            if batch is None:
                return
            chosen = batch.select(self._columns)
            for start in range(0, max(chosen.num_rows, 1), self._batch_rows):
                yield chosen.slice(start, self._batch_rows)

    def fraction(self) -> float | None:
        """How much of the file has been read."""
        if self._file.closed or not self._file.size():
            return None
        return min(float(self._file.tell() / self._file.size()), 1.0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _open(self) -> Iterator[pa.RecordBatch]:
        """The batches of a file with a footer, or else of a plain stream."""
        try:
            reader: Any = pa.ipc.open_file(self._file)
            require_columns(self._columns, reader.schema.names, str(self._path))
            return (reader.get_batch(number) for number in range(reader.num_record_batches))
        except pa.ArrowException:
            self._file.seek(0)
        try:
            reader = pa.ipc.open_stream(self._file)
        except (OSError, pa.ArrowException) as exc:
            raise InputError(f"{self._path} cannot be read: it is not an Arrow file, or it is damaged") from exc
        require_columns(self._columns, reader.schema.names, str(self._path))
        return iter(reader)


class IpcWriter(TypedWriter):
    """Writes an Arrow file with a footer, uncompressed, so that it can be mapped into memory."""

    group_rows = 1 << 16

    def _open(self, part: PartFile, schema: pa.Schema) -> pa.ipc.RecordBatchFileWriter:
        return pa.ipc.new_file(part.file, schema)
