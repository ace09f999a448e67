"""Parquet files. Columns keep the types that the file gives them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from castleguard.connectors.columns import require_columns
from castleguard.connectors.parquet_layout import check_layout
from castleguard.connectors.typed import TypedWriter
from castleguard.durable import AtomicFile
from castleguard.errors import CastleguardError, InputError
from castleguard.intact import DAMAGE, validated


class ParquetReader:
    """The declared columns of a Parquet file. Nothing in it can be malformed: it is read or it is damaged."""

    malformed = 0

    def __init__(self, path: Path, columns: Sequence[str], batch_rows: int) -> None:
        self._path = path
        self._columns = list(columns)
        self._batch_rows = batch_rows
        self._read = 0
        self._check_layout()
        try:
            self._file = pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True)
        except OSError as exc:
            raise InputError(f"{path} cannot be read: {exc.strerror or 'it is damaged'}") from exc
        except DAMAGE as exc:
            raise InputError(f"{path} cannot be read: it is not a Parquet file, or it is damaged") from exc
        try:
            self.names = self._read_names()
            require_columns(columns, self.names, str(path))
        except BaseException:
            self._file.close()
            raise

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most `batch_rows` rows."""
        batches = self._file.iter_batches(self._batch_rows, columns=self._columns, use_threads=False)
        while True:
            try:
                batch = next(batches, None)
                chosen = None if batch is None else validated(batch.select(self._columns), str(self._path))
            except CastleguardError:
                raise
            except DAMAGE as exc:
                raise InputError(f"{self._path} cannot be read any further: it is damaged") from exc
            if chosen is None:
                return
            self._read += chosen.num_rows
            yield chosen

    def fraction(self) -> float | None:
        """How many of its rows have been read."""
        rows = self._file.metadata.num_rows
        return self._read / rows if rows else None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _check_layout(self) -> None:
        try:
            check_layout(self._path)
        except OSError as exc:
            raise InputError(f"{self._path} cannot be read: {exc.strerror or 'it is damaged'}") from exc
        except (*DAMAGE, AttributeError) as exc:
            raise InputError(f"{self._path} cannot be read: it is not a Parquet file, or it is damaged") from exc

    def _read_names(self) -> list[str]:
        """The names of all columns."""
        try:
            return list(self._file.schema_arrow.names)
        except DAMAGE as exc:
            raise InputError(f"{self._path} cannot be read: it is damaged") from exc


class ParquetWriter(TypedWriter):
    """Writes a Parquet file, a row group for about every million rows."""

    format = "parquet"
    group_rows = 1 << 20

    def _open(self, part: AtomicFile, schema: pa.Schema) -> pq.ParquetWriter:
        return pq.ParquetWriter(part.file, schema)
