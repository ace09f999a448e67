"""Lines of a text file that are not rows: always counted, kept on request.

A conversion only counts them. A job hands each of them out once, so its reader keeps them until they are taken. Only
bad lines cost anything.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from castleguard.connectors.base import Bad

KEPT_BYTES = 1 << 16  # the rest of a line is dropped

NOT_UTF8 = "not UTF-8"
UNCLOSED_QUOTE = "an unclosed quote"
NO_OBJECT = "not a JSON object"
HALF_CHARACTER = "half of a surrogate pair"
TOO_LONG = "longer than 16 MiB"


class BadLine(Bad[int]):
    """A line without its end, or its first KEPT_BYTES, that is not a row.

    `place` is the number of its first line in the file, from 1; in a compressed file, of the uncompressed lines.
    """


class BadLines:
    """The bad lines of one file, in their order."""

    def __init__(self, *, keep: bool, restore: Callable[[bytes], bytes] = bytes) -> None:
        """`restore` gives a line the bytes that it has in the file."""
        self.count = 0
        self._restore = restore
        self.keep = keep
        self.kept: list[BadLine] = []

    def add(self, line: int, reason: str, raw: bytes) -> None:
        """Count a line, and keep it if lines are kept."""
        self.count += 1
        if self.keep:
            self.kept.append(BadLine(line, reason, self._restore(raw[:KEPT_BYTES])))

    def take(self) -> list[BadLine]:
        """Lines kept since the last call."""
        taken, self.kept = self.kept, []
        return taken


@runtime_checkable
class KeepsBadLines(Protocol):
    """A reader that can hand out its malformed lines."""

    def take_bad(self) -> list[BadLine]:
        """The malformed lines found since the last call, in their order.

        All lines before a row have been found when the row's batch is yielded; an empty batch is yielded where lines
        would pile up.
        """


def values_instead_of(actual: int, expected: int) -> str:
    """Reason for a line with too few or too many values."""
    return f"{actual} value{'s' if actual != 1 else ''} instead of {expected}"
