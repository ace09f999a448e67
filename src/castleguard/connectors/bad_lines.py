"""Lines of a text file that are no rows: counted always, kept where somebody takes them.

A conversion only counts them. A job hands each of them out once, so it asks its reader to keep them until they are
taken; what a kept line costs is only paid for lines that are bad.
"""

from typing import NamedTuple, Protocol, runtime_checkable

KEPT_BYTES = 1 << 16  # of a line; the rest of a longer one is not kept

NOT_UTF8 = "not UTF-8"
UNCLOSED_QUOTE = "an unclosed quote"
NO_OBJECT = "not a JSON object"
HALF_CHARACTER = "half of a surrogate pair"
TOO_LONG = "longer than 16 MiB"


class BadLine(NamedTuple):
    """A line that is no row."""

    line: int
    """The number of the line in the file at which it begins, from 1; of a compressed file, before it was."""
    reason: str
    """Never a value."""
    raw: bytes
    """The line without its end, or its first KEPT_BYTES."""

    def __repr__(self) -> str:
        """Never what is in it."""
        return f"BadLine(line {self.line}: {self.reason})"


class BadLines:
    """The bad lines of one file, in the order in which they stand there."""

    def __init__(self, *, keep: bool) -> None:
        self.count = 0
        self.keep = keep
        self.kept: list[BadLine] = []

    def add(self, line: int, reason: str, raw: bytes) -> None:
        """Count a line, and keep it if lines are kept."""
        self.count += 1
        if self.keep:
            self.kept.append(BadLine(line, reason, raw[:KEPT_BYTES]))

    def take(self) -> list[BadLine]:
        """What was kept since the last call."""
        taken, self.kept = self.kept, []
        return taken


@runtime_checkable
class KeepsBadLines(Protocol):
    """A reader that can hand out its malformed lines."""

    def take_bad(self) -> list[BadLine]:
        """The malformed lines found since the last call, in their order. All that stand before a row have been found
        when the row's batch is yielded; a batch without rows is yielded where lines would pile up."""


def values_instead_of(actual: int, expected: int) -> str:
    """The reason of a line with too few or too many values."""
    return f"{actual} value{'s' if actual != 1 else ''} instead of {expected}"
