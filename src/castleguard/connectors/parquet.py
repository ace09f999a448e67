"""Parquet files. Columns keep the types that the file gives them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from castleguard.connectors.columns import require_columns
from castleguard.connectors.part_file import PartFile
from castleguard.connectors.typed import TypedWriter
from castleguard.errors import InputError


class ParquetReader:
    """The declared columns of a Parquet file. Nothing in it can be malformed: it is read as a whole or not at all."""

    malformed = 0

    def __init__(self, path: Path, columns: Sequence[str], batch_rows: int) -> None:
        self._path = path
        self._columns = list(columns)
        self._batch_rows = batch_rows
        self._read = 0
        try:
            self._file = pq.ParquetFile(path, pre_buffer=False)
        except OSError as exc:
            raise InputError(f"{path} cannot be read: {exc.strerror or 'it is damaged'}") from exc
        except pa.ArrowException as exc:
            raise InputError(f"{path} cannot be read: it is not a Parquet file, or it is damaged") from exc
        try:
            require_columns(columns, self._file.schema_arrow.names, str(path))
        except BaseException:
            self._file.close()
            raise

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `batch_rows` rows."""
        batches = self._file.iter_batches(self._batch_rows, columns=self._columns, use_threads=False)
        while True:
            try:
                batch = next(batches, None)
            except (OSError, pa.ArrowException) as exc:
                raise InputError(f"{self._path} cannot be read any further: it is damaged") from exc
            if batch is None:
                return
            self._read += batch.num_rows
            yield batch.select(self._columns)

    def fraction(self) -> float | None:
        """How many of its rows have been read."""
        rows = self._file.metadata.num_rows
        return self._read / rows if rows else None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ParquetWriter(TypedWriter):
    """Writes a Parquet file, a row group for about every million rows."""

    group_rows = 1 << 20

    def _open(self, part: PartFile, schema: pa.Schema) -> pq.ParquetWriter:
        return pq.ParquetWriter(part.file, schema)
