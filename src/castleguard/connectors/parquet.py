"""Parquet files. Columns keep their types. A file is not cut into messages."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from castleguard.connectors.column_checks import require_columns
from castleguard.connectors.formats import Codec
from castleguard.connectors.parquet_layout import check_layout
from castleguard.connectors.typed import TypedReader, TypedWriter
from castleguard.durable import AtomicFile
from castleguard.errors import InputError
from castleguard.intact import DAMAGE


class ParquetReader(TypedReader):
    """Reader of a Parquet file."""

    def __init__(self, path: Path, columns: Sequence[str], batch_rows: int) -> None:
        super().__init__(path, columns)
        self._batch_rows = batch_rows
        self._read = 0
        try:
            check_layout(path)
            self._file = pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True)
        except OSError as exc:
            raise InputError(f"{path} cannot be read: {exc.strerror or 'it is damaged'}") from exc
        except (*DAMAGE, AttributeError) as exc:
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
        for batch in self._validated(batches):
            self._read += batch.num_rows
            yield batch

    def fraction(self) -> float | None:
        """Fraction of the rows that have been read."""
        rows = self._file.metadata.num_rows
        return self._read / rows if rows else None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_names(self) -> list[str]:
        try:
            return list(self._file.schema_arrow.names)
        except DAMAGE as exc:
            raise InputError(f"{self._path} cannot be read: it is damaged") from exc


class ParquetWriter(TypedWriter):
    """Writer of a Parquet file, with a row group for about every million rows."""

    format = "parquet"
    group_rows = 1 << 20

    def _open(self, file: AtomicFile, schema: pa.Schema) -> pq.ParquetWriter:
        return pq.ParquetWriter(file.file, schema)


def _holds(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_nested(kind):
        fields = [kind.field(at).type for at in range(kind.num_fields)]
        return bool(fields) and not types.is_union(kind) and all(map(_holds, fields))
    if types.is_decimal(kind):
        return bool(kind.scale >= 0)
    return not types.is_interval(kind)


CODEC = Codec(
    title="Parquet",
    holds=_holds,
    open_reader=ParquetReader,
    open_writer=lambda path, _options: ParquetWriter(path),
    column_names=ParquetReader.names_in,
)
