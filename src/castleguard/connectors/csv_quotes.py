"""Quotes in blocks of CSV lines: which rows are certain, and which lines have a quote that is never closed."""

import re
from collections.abc import Sequence

from castleguard.connectors.text_columns import count_byte

# A quote opens a value only at its beginning; within the value, two quotes stand for one.
_VALUE = rb'(?:"(?:[^"]|"")*+")?+[^,\r\n]*+'
ROW = re.compile(_VALUE + rb"(?:," + _VALUE + rb")*+")
_CLOSED = rb'(?:"(?:[^"]|"")*+"[^,\r\n]*+|(?!")[^,\r\n]*+)'
CLOSED_ROW = re.compile(_CLOSED + rb"(?:," + _CLOSED + rb")*+")
# Text after a closing quote is part of the value, unless the value holds a line end: then that quote opens a value,
# and an earlier one was never closed.
_SHORT = rb'"[^"\r\n]*+(?:""[^"\r\n]*+)*+"[^,\r\n]*+'
_LONG = rb'"[^"]*+(?:""[^"]*+)*+"(?=[,\r\n]|\Z)'
_CERTAIN = rb"(?:" + _SHORT + rb"|" + _LONG + rb'|(?!")[^,\r\n]*+)'
_CERTAIN_ROWS = re.compile(rb"(?:" + _CERTAIN + rb"(?:," + _CERTAIN + rb")*+(?:\r?\n|\r|\Z))*+")

_BEFORE = re.compile(rb"(?:" + _SHORT + rb'|(?!")[^,\r\n]*+),')
_LINE = re.compile(rb"([^\r\n]*+)(?:\r?\n|\r|\Z)")


def swallows_lines(block: bytes, rows: int) -> bool:
    """Whether an unclosed quote merged several lines of a block into one of its parsed rows."""
    if b'"' not in block:
        return False
    lines = count_byte(block, b"\n") + (not block.endswith(b"\n"))
    if rows >= lines or rows >= sum(1 for line in block.splitlines() if line):
        return False
    return count_byte(block, b'"') % 2 == 1 or not _CERTAIN_ROWS.fullmatch(block)


def stray_lines(block: bytes) -> list[tuple[int, int]]:
    """Spans of the lines with a quote that is never closed, without their line ends."""
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(block):
        rows = _CERTAIN_ROWS.match(block, at)
        at = at if rows is None else rows.end()
        line = _LINE.match(block, at)
        if at < len(block) and line is not None:
            found.append(line.span(1))
            at = line.end()
    return found


def values_before_quote(line: bytes) -> int:
    """Number of values before the unclosed quote of a line."""
    count = at = 0
    while (value := _BEFORE.match(line, at)) is not None:
        count, at = count + 1, value.end()
    return count


def middle_of(block: bytes) -> int:
    """Where to cut a block in two, after a line end near its middle; 0 if it is a single line."""
    half = len(block) // 2
    end = block.rfind(b"\n", 0, half) + 1
    quotes = block.count(b'"', 0, end)
    before = end
    while before and quotes % 2:  # not inside a value, unless a quote is missing before it
        earlier = block.rfind(b"\n", 0, before - 1) + 1
        quotes -= block.count(b'"', earlier, before)
        before = earlier
    return before or block.find(b"\n", half, -1) + 1 or end


def count_line_ends(block: bytes) -> int:
    """Number of line ends in a block: a line feed, a carriage return, or both together."""
    ends = count_byte(block, b"\n")
    return ends + block.count(b"\r") - block.count(b"\r\n") if b"\r" in block else ends


def lines_before(block: bytes, numbers: Sequence[int]) -> list[int]:
    """Number of line ends of a block before each of these rows, in ascending order; blank lines are not rows."""
    if b'"' not in block:
        rows = [number for number, line in enumerate(block.splitlines()) if line]
        return [rows[number] for number in numbers]
    starts = [found.start() for found in ROW.finditer(block) if found.group()]
    lines: list[int] = []
    counted = 0
    for start in (starts[number] for number in numbers):
        lines.append((lines[-1] if lines else 0) + count_line_ends(block[counted:start]))
        counted = start
    return lines
