"""The contract of a source and of a sink.

Both carry Arrow tables and know nothing about what happens to the rows in between. One source or sink serves one
stream, in one thread.
"""

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa


class Source(Protocol):
    """Rows in the order in which they arrived."""

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


class Sink(Protocol):
    """Tables in the order in which they are written. Exactly one of `close` and `abort` ends it."""

    def write(self, table: pa.Table) -> None:
        """Take over all rows of `table`, which may be empty. May block; may keep rows back until `close`.

        All tables have the columns of the first one, whose types are kept. Raises OutputError.
        """

    def close(self) -> None:
        """Make everything that was written visible, all at once. Raises OutputError: then nothing became visible."""

    def abort(self) -> None:
        """Leave no trace of what was written. Never raises; does nothing after `close`."""
