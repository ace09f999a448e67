"""What a worker of Spark reads: the rows of files and of messages, by castleguard's own readers.

Spark lists files and keeps what was read; what is in them is read as `castleguard run` reads it, so that the same file
means the same there and here: names in any order, a bad line that costs nothing but itself, values as they are written.
What Spark's readers do with a line or a value that they do not understand is to make nulls of it.

Every row has its place beside it, and what is no row is one with a reason and nothing else.
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
from castleguard.connectors.formats import TEXT, Format, open_reader
from castleguard.connectors.listing import MANIFEST
from castleguard.connectors.payloads import Format as MessageFormat
from castleguard.connectors.payloads import read_payloads
from castleguard.durable import UNFINISHED, is_unfinished
from castleguard.errors import InputError
from castleguard.spark.blobs import readable

BAD = "_bad"
"""Why it is no row; null in rows."""
MALFORMED = "malformed: "
"""What stands before the reason where rejects are told."""
FILE, ROW = "_file", "_row"
PARTITION, OFFSET = "_partition", "_offset"
PLACES = {
    "files": pa.schema([(FILE, pa.string()), (ROW, pa.int64())]),
    "kafka": pa.schema([(PARTITION, pa.int32()), (OFFSET, pa.int64()), (ROW, pa.int64())]),
}
"""The columns that say where a row stood. Of what is no row, `_row` is the number of the line."""
RESERVED = frozenset({BAD, *PLACES["files"].names, *PLACES["kafka"].names})
"""Names that no column of a job may have. Spark does not tell capitals from small letters in names."""

_COPYING = "._COPYING_"


@dataclass(frozen=True, kw_only=True)
class FileRead:
    """The files of a folder that match a pattern, and what is read of each."""

    format: Format
    folder: Path
    pattern: str
    columns: pa.Schema
    """What is read, with the types that come out."""
    batch_rows: int

    @property
    def output(self) -> pa.Schema:
        """What comes out."""
        return pa.schema([*self.columns, *PLACES["files"], pa.field(BAD, pa.string())])

    def accepts(self, path: Path) -> bool:
        """Whether a file that Spark lists is one to be read: complete, and of this folder or pattern."""
        if is_unfinished(path.name):
            return False
        if not path.is_relative_to(self.folder):
            return False
        return _matches(path.relative_to(self.folder).parts, Path(self.pattern).parts)

    def left_out(self) -> list[str]:
        """The files with something in them that would be read, but for a name that Spark's streams leave out."""
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
        except OSError:  # it has just gone
            return False

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the files whose addresses are in the first column."""
        for batch in batches:
            for address in batch.column(0).to_pylist():
                path = path_of(address)
                if self.accepts(path):
                    yield from self._file(path)

    def _file(self, path: Path) -> Iterator[pa.RecordBatch]:
        if self.format in TEXT and path.exists() and not path.stat().st_size:
            return  # no header, no rows, nothing wrong with it
        name = path.relative_to(self.folder).as_posix()
        reader = open_reader(
            path, self.columns.names, batch_rows=self.batch_rows, format=self.format, keep_bad=self.format in TEXT
        )
        number = 0
        try:
            for batch in reader:
                bad = reader.take_bad() if isinstance(reader, KeepsBadLines) else []
                if bad:
                    yield self._no_rows(name, [(line.line, line.reason) for line in bad])
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
            except (pa.ArrowException, ValueError):  # its text quotes a value
                raise InputError(
                    f"{path}: the column {field.name!r} is {column.type}, and {field.type} in the first file that was "
                    f"looked at: files of one job must have the same types"
                ) from None
        return found

    def _placed(self, columns: list[pa.Array], name: str, before: int) -> pa.RecordBatch:
        rows = len(columns[0])
        place = [pa.repeat(name, rows), pa.array(np.arange(before + 1, before + rows + 1))]
        return pa.RecordBatch.from_arrays([*columns, *place, pa.nulls(rows, pa.string())], schema=self.output)

    def _no_rows(self, name: str, bad: list[tuple[int, str]]) -> pa.RecordBatch:
        lines, reasons = zip(*bad, strict=True)
        columns = [pa.nulls(len(bad), field.type) for field in self.columns]
        place = [pa.repeat(name, len(bad)), pa.array(lines, pa.int64())]
        return pa.RecordBatch.from_arrays([*columns, *place, pa.array(reasons, pa.string())], schema=self.output)


@dataclass(frozen=True, kw_only=True)
class MessageRead:
    """The payloads of messages. What comes in has value, partition and offset, and the key if it is a column."""

    format: MessageFormat
    columns: pa.Schema
    order: tuple[str, ...] = ()
    """For CSV: what the values of a line are."""
    key_column: str | None = None

    @property
    def output(self) -> pa.Schema:
        """What comes out."""
        return pa.schema([*self.columns, *PLACES["kafka"], pa.field(BAD, pa.string())])

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the messages, and what is none."""
        for batch in batches:
            if batch.num_rows:
                yield from self._messages(batch)

    def _messages(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        values = batch.column("value")
        there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        payloads = [value for value in values.to_pylist() if value is not None]
        payload_columns = [name for name in self.columns.names if name != self.key_column]
        found = read_payloads(self.format, payloads, payload_columns, self.order)
        columns: dict[str, pa.Array] = {name: found.rows.column(name) for name in payload_columns}
        message = there[found.message]
        bad = [(int(there[one.message]), one.reason) for one in found.bad]
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
    """The path of a file as Spark tells it: file:/data/trips.csv."""
    if address.startswith("file:"):
        return Path("/" + address.removeprefix("file:").lstrip("/"))
    if "://" in address:
        raise InputError("a worker was given a file that is not on a disk that it sees: source.path must be one")
    return Path(os.path.abspath(address))


def _is_skipped(parts: tuple[str, ...]) -> bool:
    """Whether Spark leaves a file out without a word, for its name or that of a folder."""
    return any(
        (part.startswith("_") and "=" not in part) or part.startswith(".") or part.endswith(_COPYING) for part in parts
    )


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether the parts of a path match those of a pattern, in which ** stands for any number of folders."""
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
    """1, 2, 3 and so on within each message."""
    first = np.flatnonzero(np.r_[True, message[1:] != message[:-1]])
    return np.arange(message.size) - np.repeat(first, np.diff(np.r_[first, message.size])) + 1


def _text(key: bytes | None) -> str | None:
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return None
