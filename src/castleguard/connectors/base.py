"""The contracts of what rows come from and go to. Nothing here knows what happens to the rows in between.

A `Reader` and a `Writer` are one file: read to its end, written whole or not at all. A `Source` and a `Sink` serve a
job that runs for months and may die at any moment: a source has positions to continue from, a sink knows what it has.
One object serves one stream, in one thread.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class Reader(Protocol):
    """The rows of one file, in their order."""

    malformed: int
    """How many lines could not be read as a row so far. They were left out; they never stop the stream."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches until the input ends. May block. Called once.

        A batch has the declared columns, in the declared order, and may be empty. A column has the same type in all
        batches. Raises InputError when the input as a whole cannot be read any further.
        """

    def fraction(self) -> float | None:
        """How much of the input has been read, from 0 to 1, or None where nobody knows. Never blocks."""

    def close(self) -> None:
        """Let go of the input. May be called twice; nothing else is called afterwards."""


class Writer(Protocol):
    """Tables in the order in which they are written. Exactly one of `close` and `abort` ends it."""

    def write(self, table: pa.Table) -> None:
        """Take over all rows of `table`, which may be empty. May block; may keep rows back until `close`.

        All tables have the columns of the first one, whose types are kept. Raises OutputError, at the first table if
        the format cannot hold one of its columns.
        """

    def close(self) -> None:
        """Make everything that was written visible, all at once. Raises OutputError: then nothing became visible."""

    def abort(self) -> None:
        """Leave no trace of what was written. Never raises; does nothing after `close`."""


LOG_KEPT_DAYS = 30
"""How long a relay between sites keeps what they have decided, at least."""

Unfit = Callable[[pa.ChunkedArray], NDArray[np.bool_] | None]
"""Which values of a column a sink cannot take; None: it takes all."""

Position = dict[str, Any]
"""Where a source stands, as JSON can hold it. Only the source that gave it reads it."""


class BadRow(NamedTuple):
    """Something that arrived and cannot be read as a row."""

    place: str
    """Where it stood, in words: "trips.csv, line 17", "trips[3] offset 1841"."""
    reason: str
    """Why it is no row. Never a value."""
    raw: bytes
    """As it came, or its beginning. For the dead letters alone."""

    def __repr__(self) -> str:
        """Never what is in it."""
        return f"BadRow({self.place}: {self.reason})"


class Read(NamedTuple):
    """Rows that arrived together."""

    rows: pa.RecordBatch
    """With the declared columns, in the declared order; maybe none."""
    place: Callable[[int], str]
    """Where the row with this number in `rows` stood, in words."""
    bad: tuple[BadRow, ...] = ()

    def __repr__(self) -> str:
        """How many rows, never what is in them."""
        return f"Read({self.rows.num_rows} rows, {len(self.bad)} bad)"


class Source(Protocol):
    """Rows in the order in which they arrive, with positions to continue from.

    Whoever opens a source gives it the position to begin at, or None for its beginning. The same rows follow a position
    every time, but for those that only came later; how they are cut into reads may differ.
    """

    @property
    def finished(self) -> bool:
        """Whether no further row will ever come. A source without an end never finishes."""

    def read(self, timeout: float) -> Read | None:
        """The next rows, or None if none came within `timeout` seconds; 0 does not wait.

        Raises UnavailableError if what holds the rows cannot be reached now: the next call tries again. Raises
        InputError if it cannot be read any further.
        """

    def position(self) -> Position:
        """Where to resume: the first row that `read` has NOT returned yet."""

    def acknowledge(self, position: Position) -> None:
        """Rows before this position, one that `position` gave, are safe: nobody will ask for them again. May do
        nothing. Raises UnavailableError; the job then asks once more with a later position, or never.
        """

    def lag(self) -> int | None:
        """How many rows are waiting to be read, as far as is known without asking; None if it is not."""

    def close(self) -> None:
        """Let go of the input. May be called twice; nothing else is called afterwards."""


class Sink(Protocol):
    """Segments of published rows, each under a number."""

    exactly_once: bool
    """Whether `last` can be trusted after a crash. If not, a segment may be delivered twice."""

    @property
    def longest_row(self) -> int | None:
        """Bytes that a row may take as JSON, names of columns included; None: any number. A longer row could never be
        delivered, so it is rejected where it arrives. Asked once, after `last`. Raises UnavailableError.
        """

    def last(self) -> int:
        """The number of the last segment that is there as a whole; 0 if there is none. Asked once, before the first
        delivery. Raises UnavailableError, OutputError.
        """

    def check(self, columns: pa.Schema) -> None:
        """Promise that segments with these columns can be delivered, whatever publishable rows they hold: what stops a
        delivery after this lies outside (a full disk, a broker that is away). Asked before rows with new names or types
        are committed, because a committed segment must be delivered and cannot be changed. Never blocks, changes
        nothing. Raises OutputError, with the column, its type and what to do.
        """

    def deliver(self, number: int, table: pa.Table) -> None:
        """Make a segment visible, under its number, which is above all before it. When this returns the segment is
        there for good; if it raises or the process dies, it is there as a whole or `last` does not count it, and the
        next delivery, of the same bytes under the same number, completes or replaces what is left of it.

        Numbers count segments that hold rows; where an earlier version wrote, they may leave gaps. Raises
        UnavailableError (the same delivery is tried again), OutputError (it never will work).
        """

    def close(self) -> None:
        """Let go of the output. May be called twice; nothing else is called afterwards."""
