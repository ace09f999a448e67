"""Contracts of inputs and outputs. None of them knows how rows are anonymised in between.

A `Reader` and a `Writer` are one file: read to its end, written whole or not at all. A `Source` and a `Sink` serve a
job that runs for months and may die at any moment: a source has positions to restore, a sink knows what it has.
One object serves one stream, in one thread.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class Reader(Protocol):
    """The rows of one file, in their order."""

    @property
    def malformed(self) -> int:
        """Number of lines so far that are not rows. They are left out and never stop the stream."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches until the input ends. May block. Called once.

        A batch has the declared columns, in the declared order, and may be empty. A column has the same type in all
        batches. Raises InputError when the input as a whole cannot be read any further.
        """

    def fraction(self) -> float | None:
        """Fraction of the input that has been read, from 0 to 1, or None if unknown. Never blocks."""

    def close(self) -> None:
        """Release the input. May be called twice; nothing else is called afterwards."""


class Writer(Protocol):
    """Tables in the order in which they are written. Exactly one of `close` and `abort` ends it."""

    def write(self, table: pa.Table) -> None:
        """Take all rows of `table`, which may be empty. May block; may buffer rows until `close`.

        All tables have the columns of the first one, whose types are kept. Raises OutputError, at the first table if
        the format cannot hold one of its columns.
        """

    def close(self) -> None:
        """Make everything that was written visible at once. Raises OutputError: then nothing became visible."""

    def abort(self) -> None:
        """Leave no trace of what was written. Never raises; does nothing after `close`."""


LOG_KEPT_DAYS = 30
"""Shortest time for which a relay between sites keeps their decisions."""

Unfit = Callable[[pa.ChunkedArray], NDArray[np.bool_] | None]
"""Mask of the values of a column that a sink cannot take; None: it takes all."""

Position = dict[str, Any]
"""Position of a source as a JSON value, which only that source interprets."""


_Place = TypeVar("_Place")


class Bad(NamedTuple, Generic[_Place]):
    """Input that cannot be read as a row."""

    place: _Place
    reason: str
    """Why it is not a row; contains no value."""
    raw: bytes
    """The raw input, possibly truncated; only for the dead letters."""

    def __repr__(self) -> str:
        """Never its content."""
        return f"{type(self).__name__}({self.place}: {self.reason})"


class BadRow(Bad[str]):
    """Input with its place in words: "trips.csv, line 17", "trips[3] offset 1841"."""


class Read(NamedTuple):
    """Rows that arrived together."""

    rows: pa.RecordBatch
    """With the declared columns, in the declared order; may be empty."""
    place: Callable[[int], str]
    """Place of the row with this number in `rows`, in words."""
    bad: tuple[BadRow, ...] = ()

    def __repr__(self) -> str:
        """Number of rows, never their content."""
        return f"Read({self.rows.num_rows} rows, {len(self.bad)} bad)"


class Source(Protocol):
    """Rows in the order in which they arrive, with positions to restore.

    A source is opened at a position, or at its beginning (None). The same rows follow a position every time, plus those
    that arrived later; the borders between reads may differ.
    """

    @property
    def finished(self) -> bool:
        """Whether all rows have been read and no more can come. A source without an end never finishes."""

    def read(self, timeout: float) -> Read | None:
        """The next rows, or None if none arrived within `timeout` seconds; 0 does not wait.

        Raises UnavailableError if the input cannot be reached now: the next call tries again. Raises InputError if it
        cannot be read any further.
        """

    def position(self) -> Position:
        """Position to restore: the first row that `read` has NOT returned yet."""

    def acknowledge(self, position: Position) -> None:
        """Rows before this position, one that `position` gave, are safe and will not be read again. May do nothing.

        Raises UnavailableError; the job then acknowledges a later position, or none.
        """

    def lag(self) -> int | None:
        """Number of rows that wait to be read, as far as known without a request; None if unknown."""

    def close(self) -> None:
        """Release the input. May be called twice; nothing else is called afterwards."""


class Sink(Protocol):
    """Segments of published rows, each under a number."""

    exactly_once: bool
    """Whether `last` can be trusted after a crash. If not, a segment may be delivered twice."""

    @property
    def longest_row(self) -> int | None:
        """Largest size of a row as JSON, in bytes, column names included; None: no limit.

        A longer row could never be delivered, so it is rejected on arrival. Called once, after `last`. Raises
        UnavailableError.
        """

    def last(self) -> int:
        """Number of the last segment that is complete; 0 if there is none.

        Called once, before the first delivery. Raises UnavailableError, OutputError.
        """

    def check(self, columns: pa.Schema) -> None:
        """Promise that segments with these columns can be delivered, with any publishable rows in them.

        After this, only outside causes stop a delivery (a full disk, an unreachable broker). Called before rows with
        new names or types are committed, because a committed segment must be delivered and cannot be changed. Never
        blocks, changes nothing. Raises OutputError, with the column, its type and the remedy.
        """

    def deliver(self, number: int, table: pa.Table) -> None:
        """Make a segment visible under its number, which is above all before it.

        When this returns the segment is durable. If it raises or the process dies, the segment is complete or `last`
        does not count it, and the next delivery, of the same bytes under the same number, completes or replaces it.

        Numbers count segments that hold rows; an earlier version may have left gaps. Raises UnavailableError (the job
        retries), OutputError (retrying cannot help).
        """

    def close(self) -> None:
        """Release the output. May be called twice; nothing else is called afterwards."""
