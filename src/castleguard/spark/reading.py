"""Rows of files and messages, read in Spark's workers by castleguard's own readers.

Spark lists files and tracks which were read; their content is read as by `castleguard run`, so that a file has the same
rows in both: columns in any order, a bad line that affects no other, values as written. Spark's readers would turn a
line or value that they cannot parse into nulls.

Every row carries its place; a malformed entry is a row with a place, a reason and nothing else.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from castleguard.connectors.bad_lines import KeepsBadLines
from castleguard.connectors.csv_input import PLAIN, CsvInput
from castleguard.connectors.formats import TEXT, Format, open_reader
from castleguard.connectors.json_paths import Fields
from castleguard.connectors.listing import MANIFEST
from castleguard.connectors.payloads import Format as MessageFormat
from castleguard.connectors.payloads import read_payloads
from castleguard.durable import UNFINISHED, is_unfinished
from castleguard.errors import InputError
from castleguard.spark.blobs import readable

BAD = "_bad"
"""Column with the reason why an entry is malformed; null in rows."""
MALFORMED = "malformed: "
"""Prefix of the reason of a malformed entry among rejected rows."""
FILE, ROW = "_file", "_row"
PARTITION, OFFSET = "_partition", "_offset"
PLACES = {
    "files": pa.schema([(FILE, pa.string()), (ROW, pa.int64())]),
    "kafka": pa.schema([(PARTITION, pa.int32()), (OFFSET, pa.int64()), (ROW, pa.int64())]),
}
"""Columns with the place of a row. For a malformed entry, `_row` is the line number."""
RESERVED = frozenset({BAD, *PLACES["files"].names, *PLACES["kafka"].names})
"""Names that no column of a job may have; compare without case, as Spark does."""

_COPYING = "._COPYING_"


@dataclass(frozen=True, kw_only=True)
class FileRead:
    """Reads the files of a folder that match a pattern."""

    format: Format
    folder: Path
    pattern: str
    columns: pa.Schema
    """The columns to read, with their types in Spark."""
    batch_rows: int
    csv: CsvInput = PLAIN
    fields: Fields | None = None

    @property
    def output(self) -> pa.Schema:
        """Schema of the resulting rows."""
        return pa.schema([*self.columns, *PLACES["files"], pa.field(BAD, pa.string())])

    def accepts(self, path: Path) -> bool:
        """Whether to read a file that Spark lists: it is complete, and matches folder and pattern."""
        if is_unfinished(path.name):
            return False
        if not path.is_relative_to(self.folder):
            return False
        return _matches(path.relative_to(self.folder).parts, Path(self.pattern).parts)

    def left_out(self) -> list[str]:
        """Return non-empty files that match but that Spark's streams skip because of their names."""
        found = (path for path in self.folder.rglob("*") if _is_skipped(path.relative_to(self.folder).parts))
        return sorted(path.relative_to(self.folder).as_posix() for path in found if self._would_be_read(path))

    def _would_be_read(self, path: Path) -> bool:
        if (
            path.name == MANIFEST
            or path.name.lower().endswith(UNFINISHED)
            or (path.name.startswith(".") and path.name.endswith(".crc"))
        ):
            return False
        plain = [part.lstrip(".") or part for part in path.relative_to(self.folder).parts]
        plain[-1] = plain[-1].removesuffix(_COPYING)
        if not _matches(tuple(plain), Path(self.pattern).parts):
            return False
        try:
            return path.is_file() and path.stat().st_size > 0
        except OSError:  # removed meanwhile
            return False

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files whose addresses are in the first column."""
        for batch in batches:
            for address in batch.column(0).to_pylist():
                path = path_of(address)
                if self.accepts(path):
                    yield from self._file(path)

    def _file(self, path: Path) -> Iterator[pa.RecordBatch]:
        if self.format in TEXT and path.exists() and not path.stat().st_size:
            return  # an empty file has no header and no rows, and is valid
        name = path.relative_to(self.folder).as_posix()
        reader = open_reader(
            path,
            self.columns.names,
            batch_rows=self.batch_rows,
            format=self.format,
            keep_bad=self.format in TEXT,
            csv=self.csv,
            fields=self.fields,
        )
        number = 0
        try:
            for batch in reader:
                bad = reader.take_bad() if isinstance(reader, KeepsBadLines) else []
                if bad:
                    yield self._malformed(name, [(line.place, line.reason) for line in bad])
                if batch.num_rows:
                    yield self._placed(self._typed(batch, path), name, number)
                    number += batch.num_rows
        finally:
            reader.close()

    def _typed(self, batch: pa.RecordBatch, path: Path) -> list[pa.Array]:
        found = []
        for field in self.columns:
            column = batch.column(field.name)
            try:
                found.append(readable(column.cast(field.type)))
            except (pa.ArrowException, ValueError):  # whose message quotes a value
                raise InputError(
                    f"{path}: column {field.name!r} is {column.type}, but {field.type} in the first file: files of one "
                    f"job must have the same types"
                ) from None
        return found

    def _placed(self, columns: list[pa.Array], name: str, before: int) -> pa.RecordBatch:
        rows = len(columns[0])
        place = [pa.repeat(name, rows), pa.array(np.arange(before + 1, before + rows + 1))]
        return pa.RecordBatch.from_arrays([*columns, *place, pa.nulls(rows, pa.string())], schema=self.output)

    def _malformed(self, name: str, bad: list[tuple[int, str]]) -> pa.RecordBatch:
        lines, reasons = zip(*bad, strict=True)
        columns = [pa.nulls(len(bad), field.type) for field in self.columns]
        place = [pa.repeat(name, len(bad)), pa.array(lines, pa.int64())]
        return pa.RecordBatch.from_arrays([*columns, *place, pa.array(reasons, pa.string())], schema=self.output)


@dataclass(frozen=True, kw_only=True)
class MessageRead:
    """Reads the payloads of messages. Input columns: value, partition, offset, and key if it is a column of the job."""

    format: MessageFormat
    columns: pa.Schema
    order: tuple[str, ...] = ()
    """For CSV: the columns of a line."""
    key_column: str | None = None
    fields: Fields | None = None

    @property
    def output(self) -> pa.Schema:
        """Schema of the resulting rows."""
        return pa.schema([*self.columns, *PLACES["kafka"], pa.field(BAD, pa.string())])

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the messages, and malformed entries."""
        for batch in batches:
            if batch.num_rows:
                yield from self._messages(batch)

    def _messages(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        values = batch.column("value")
        there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        payloads = [value for value in values.to_pylist() if value is not None]
        payload_columns = [name for name in self.columns.names if name != self.key_column]
        found = read_payloads(self.format, payloads, payload_columns, self.order, self.fields)
        columns: dict[str, pa.Array] = {name: found.rows.column(name) for name in payload_columns}
        message = there[found.message]
        bad = [(int(there[one.place]), one.reason) for one in found.bad]
        bad += [(int(at), "it has no value (a tombstone)") for at in np.flatnonzero(~_valid(values))]
        if self.key_column is not None:
            keys = batch.column("key").take(pa.array(message))
            columns[self.key_column] = pa.array([_text(key) for key in keys.to_pylist()], pa.string())
        rows = [columns[field.name].cast(field.type) for field in self.columns]
        if message.size:
            place = self._place(batch, message, _row_in_message(message))
            yield pa.RecordBatch.from_arrays([*rows, *place, pa.nulls(message.size, pa.string())], schema=self.output)
        if bad:
            at = np.array([number for number, _ in bad], dtype=np.int64)
            empty = [pa.nulls(len(bad), field.type) for field in self.columns]
            place = self._place(batch, at, np.ones(len(bad), dtype=np.int64))
            reasons = pa.array([reason for _, reason in bad], pa.string())
            yield pa.RecordBatch.from_arrays([*empty, *place, reasons], schema=self.output)

    def _place(self, batch: pa.RecordBatch, message: Any, row: Any) -> list[pa.Array]:
        taken = pa.array(message)
        return [batch.column("partition").take(taken), batch.column("offset").take(taken), pa.array(row)]


def path_of(address: str) -> Path:
    """Return the path of a file from Spark's address, such as file:/data/trips.csv."""
    if address.startswith("file:"):
        return Path("/" + address.removeprefix("file:").lstrip("/"))
    if "://" in address:
        raise InputError("a worker cannot read a file that is not on a local disk: source.path must be a local path")
    return Path(os.path.abspath(address))


def _is_skipped(parts: tuple[str, ...]) -> bool:
    """Whether Spark silently skips a file because of its name or that of a folder."""
    return any(
        (part.startswith("_") and "=" not in part) or part.startswith(".") or part.endswith(_COPYING) for part in parts
    )


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether the parts of a path match those of a pattern, where ** matches any number of folders."""
    if not parts or not pattern:
        return not parts and not pattern
    hidden = parts[0].startswith(".") and not pattern[0].startswith(".")
    if pattern[0] == "**":
        return _matches(parts, pattern[1:]) or (not hidden and _matches(parts[1:], pattern))
    if hidden:
        return False
    return fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _valid(values: pa.Array) -> Any:
    return values.is_valid().to_numpy(zero_copy_only=False)


def _row_in_message(message: Any) -> Any:
    """Number the rows of each message from 1."""
    first = np.flatnonzero(np.r_[True, message[1:] != message[:-1]])
    return np.arange(message.size) - np.repeat(first, np.diff(np.r_[first, message.size])) + 1


def _text(key: bytes | None) -> str | None:
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return None
