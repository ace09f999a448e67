"""Standard input and output in a job: lines of CSV or JSON through a pipe.

A pipe has no positions. Rows cannot be read again, so those that arrived after the last commit are lost when the
process dies: at most once. Output cannot be inspected, so the last segment may be written again after a restart: at
least once.
"""

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

import pyarrow as pa

from castleguard.connectors.bad_lines import KeepsBadLines
from castleguard.connectors.base import Position, Read, Reader
from castleguard.connectors.csv_input import PLAIN, CsvInput
from castleguard.connectors.csv_options import DEFAULT, CsvOutput, check_csv_section
from castleguard.connectors.formats import check_batch_rows, codec
from castleguard.connectors.holding import check_held
from castleguard.connectors.json_paths import check_fields
from castleguard.connectors.registry import Connector
from castleguard.connectors.resumable import bad_row
from castleguard.connectors.text_columns import CHUNK_ROWS
from castleguard.errors import InputError, OutputError

STDIN, STDOUT = 0, 1
READ_AHEAD = 2  # batches in the queue; the pipe holds back the rest
_CLOSE_SECONDS = 0.2  # interval at which the thread checks whether the source is closed


@dataclass(frozen=True, kw_only=True)
class StdinOptions:
    """Standard input."""

    format: Literal["csv", "jsonl"] = field(metadata={"identity": True})
    batch_rows: int = 65536
    """Maximum number of rows per read."""
    csv: CsvInput = field(default=PLAIN, metadata={"identity": True})
    """How CSV is written: separator, encoding, decimal mark and so on."""
    fields: dict[str, str] = field(default_factory=dict, metadata={"identity": True})
    """For JSON: paths of columns inside nested objects, such as postcode: address[0].postalCode."""

    def __post_init__(self) -> None:
        """Refuse a batch without rows, and a section that has no effect."""
        check_batch_rows(self.batch_rows)
        if self.format != "csv" and self.csv != PLAIN:
            raise ValueError(f"csv has no effect with format {self.format}: delete it")
        check_fields(self.fields, is_json=self.format == "jsonl")


@dataclass(frozen=True, kw_only=True)
class StdoutOptions:
    """Standard output."""

    format: Literal["csv", "jsonl"] = field(metadata={"identity": True})
    csv: CsvOutput = field(default=DEFAULT, metadata={"identity": True})
    """Options of CSV output."""

    def __post_init__(self) -> None:
        """Refuse a section that has no effect."""
        check_csv_section(self.format, self.csv)


class StdinSource:
    """The rows of a pipe.

    A thread reads ahead, so that `read` returns in time while the pipe is silent in the middle of a line.
    """

    def __init__(self, options: StdinOptions, columns: Sequence[str], descriptor: int = STDIN) -> None:
        self._options = options
        self._columns = columns
        self._descriptor = descriptor
        self._arrived: queue.Queue[Read | Exception | None] = queue.Queue(READ_AHEAD)
        self._closed = threading.Event()
        self._error: Exception | None = None
        self._finished = False
        # A daemon, because only the other end can wake a thread that waits for a pipe.
        threading.Thread(target=self._pump, name="castleguard-stdin", daemon=True).start()

    @property
    def finished(self) -> bool:
        """Whether the other end has closed the pipe and all of it was read."""
        return self._finished

    def read(self, timeout: float) -> Read | None:
        """The next rows."""
        if self._error is not None:
            raise self._error
        if self._finished:
            return None
        try:
            found = self._arrived.get(timeout=timeout) if timeout > 0 else self._arrived.get_nowait()
        except queue.Empty:
            return None
        if isinstance(found, Exception):
            self._error = found
            raise found
        self._finished = found is None
        return found

    def position(self) -> Position:
        """Empty: a pipe has no positions."""
        return {}

    def acknowledge(self, position: Position) -> None:
        """Do nothing: the rows are no longer in the pipe."""

    def lag(self) -> int | None:
        """Unknown: the other end decides."""
        return None

    def close(self) -> None:
        """Stop reading; the descriptor stays open, because it is not ours."""
        self._closed.set()

    def _pump(self) -> None:
        """Read until the end, an error or `close`."""
        end: Exception | None = None
        try:
            for found in self._reads():
                if not self._hand_over(found):
                    return
        except OSError as exc:
            end = InputError(f"stdin cannot be read: {exc.strerror}")
            end.__cause__ = exc
        except Exception as exc:  # raised again in the thread that reads
            end = exc
        except BaseException as exc:  # None would mean that the input has ended
            end = InputError(f"stdin cannot be read any further: {type(exc).__name__}")
            end.__cause__ = exc
        self._hand_over(end)

    def _reads(self) -> Iterator[Read]:
        os.set_blocking(self._descriptor, True)  # the parent process may have left it non-blocking
        # Unbuffered, so that a line arrives as soon as it is written.
        with open(self._descriptor, "rb", buffering=0, closefd=False) as stream:
            is_csv = self._options.format == "csv"
            more = {"csv": self._options.csv} if is_csv else {"fields": self._options.fields}
            reader = codec(self._options.format).open_reader(
                Path("stdin"), self._columns, self._options.batch_rows, keep_bad=True, stream=stream, **more
            )
            assert isinstance(reader, KeepsBadLines)
            rows = 0
            for batch in cast(Reader, reader):
                bad = tuple(bad_row("stdin", line) for line in reader.take_bad())
                if batch.num_rows or bad:
                    yield Read(batch, _place_after(rows), bad)
                rows += batch.num_rows

    def _hand_over(self, found: Read | Exception | None) -> bool:
        """Put into the queue, waiting for room; False if the source is closed."""
        while not self._closed.is_set():
            try:
                self._arrived.put(found, timeout=_CLOSE_SECONDS)
            except queue.Full:
                continue
            return True
        return False


def _place_after(rows: int) -> Callable[[int], str]:
    return lambda row: f"stdin, row {rows + row + 1}"


class StdoutSink:
    """Segments as lines, one after another; a process writes the header of CSV once, before its first segment."""

    exactly_once = False
    longest_row = None

    def __init__(self, options: StdoutOptions, descriptor: int = STDOUT) -> None:
        self._format = options.format
        self._csv = options.csv
        self._descriptor = descriptor
        self._headed = False

    def last(self) -> int:
        """0: a pipe does not show what has arrived."""
        return 0

    def check(self, columns: pa.Schema) -> None:
        """Check that lines of the format can hold these columns."""
        check_held(columns, self._format, "stdout")

    def deliver(self, number: int, table: pa.Table) -> None:
        """Write all rows."""
        header, render = codec(self._format).header, codec(self._format).render
        assert header is not None
        assert render is not None
        if not self._headed:
            self._write(header(table.column_names, self._csv))
            self._headed = True
        for start in range(0, table.num_rows, CHUNK_ROWS):
            chunk = table.slice(start, CHUNK_ROWS).combine_chunks()
            self._write(render(chunk, self._csv))

    def close(self) -> None:
        """Do nothing: all rows are written, and the descriptor is not ours."""

    def _write(self, data: bytes | pa.Buffer) -> None:
        left = memoryview(data)
        try:
            os.set_blocking(self._descriptor, True)
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as exc:
            raise OutputError(f"stdout cannot be written: {exc.strerror}") from exc


CONNECTOR = Connector(
    source_options=StdinOptions,
    sink_options=StdoutOptions,
    open_source=lambda options, columns, _position: StdinSource(options, columns),
    open_sink=StdoutSink,
    exactly_once=False,
)
