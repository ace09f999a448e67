"""Layout check of a Parquet file: columns lie where the footer says, do not overlap, and have their own names.

Parquet readers follow the footer. A flipped bit or an extra byte there makes a declared column show the values of
another one. So places must not overlap, names must be those of the schema, row counts must agree, and every place must
be filled with pages, end to end. The content of pages is not read here.

The format: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift

The footer is not read by the Parquet library, because its Python functions end the process on some damaged footers, but
by a reader of Thrift's compact protocol, as far as Parquet needs it:
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ReadAt = Callable[[int, int], bytes]  # (offset, length), fewer bytes at the end

_MAGIC = b"PAR1"
_REPEATED = 2
_HEADER_BYTES = (512, 1 << 16, 1 << 24)  # of a page header: most are short, but statistics may hold a long text

_DEEPEST = 16
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

Struct = dict[int, Any]
"""Fields of a struct by number."""


class _Leaf(NamedTuple):
    """A column of the schema with values."""

    path: tuple[bytes, ...]
    flat: bool
    """Whether it has at most one value per row."""


def check_layout(path: Path) -> None:
    """Check a file. Raises ValueError, LookupError, TypeError or OSError if it is damaged."""
    with open(path, "rb") as raw:
        size = raw.seek(0, os.SEEK_END)

        def read_at(offset: int, length: int) -> bytes:
            raw.seek(offset)
            return raw.read(length)

        tail = read_at(max(size - 8, 0), 8)
        end = size - 8 - int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or end < 4:
            raise ValueError("the footer is longer than the file")
        _check_footer(Compact(read_at(end, size - 8 - end)).struct(), read_at, end)


def _check_footer(footer: Struct, read_at: ReadAt, end: int) -> None:
    leaves = list(_leaves(iter(footer[2]), (), flat=True))
    groups = footer.get(4, [])
    if sum(group[3] for group in groups) != footer[3] or any(group[3] < 0 for group in groups):
        raise ValueError("the row groups do not have as many rows as the file")
    places: list[tuple[int, int, int]] = []
    for group in groups:
        for chunk, leaf in zip(group[1], leaves, strict=True):
            column = chunk[3]
            if 1 in chunk or tuple(column[3]) != leaf.path:
                raise ValueError("a column does not have the name that the schema gives it")
            if leaf.flat and column[5] != group[3]:
                raise ValueError("a column does not have as many values as there are rows")
            if not column[5]:
                continue  # a column without values may have no place
            start = min(column[9], column.get(11) or column[9])
            places.append((start, start + column[7], column[5]))
    before = len(_MAGIC)
    for start, stop, values in sorted(places):
        if start < before or stop > end:
            raise ValueError("two columns overlap")
        _check_pages(read_at, start, stop, values)
        before = stop


def _leaves(elements: Iterator[Struct], path: tuple[bytes, ...], *, flat: bool) -> Iterator[_Leaf]:
    """The leaves below the next element of a schema, which lists every node before its children."""
    element = next(elements, None)
    if element is None or len(path) > 64:
        raise ValueError("the schema is not complete")
    children = element.get(5, 0)
    flat = flat and element.get(3) != _REPEATED
    if not children:
        yield _Leaf((*path[1:], element[4]), flat)
    for _ in range(children):
        yield from _leaves(elements, (*path, element[4]), flat=flat)
    if not path and next(elements, None) is not None:
        raise ValueError("the schema has more nodes than its root")


def _check_pages(read_at: ReadAt, start: int, stop: int, values: int) -> None:
    """Check that a column consists of pages, end to end, with as many values as the footer says."""
    while start < stop:
        header, length = _page(read_at, start, stop)
        if header[3] < 0 or header[2] < 0:
            raise ValueError("a page has a negative length")
        start += length + header[3]
        page = header.get(5) or header.get(8)
        values -= page[1] if page else 0
    if start != stop or values:
        raise ValueError("pages of a column are missing")


def _page(read_at: ReadAt, start: int, stop: int) -> tuple[Struct, int]:
    """The header of a page, and its length."""
    for most in _HEADER_BYTES:
        compact = Compact(read_at(start, min(most, stop - start)))
        try:
            return compact.struct(), compact.at
        except IndexError:
            if most >= stop - start:
                break
    raise ValueError("a column does not begin with a page")


class Compact:
    """Reads structs of the compact protocol from bytes. Raises ValueError or IndexError if they are damaged."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> Struct:
        """The struct that begins here."""
        if depth > _DEEPEST:
            raise ValueError("structs are nested too deeply")
        found: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 15
            found[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind == _DOUBLE:
            return self._bytes(8)
        raise ValueError("a value of a kind that Parquet does not have")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        count = self._varint() if head >> 4 == 15 else head >> 4
        if count > len(self._data):
            raise ValueError("a list is longer than the bytes")
        if depth > _DEEPEST:
            raise ValueError("lists are nested too deeply")
        return [self._value(head & 15, depth + 1) for _ in range(count)]

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > 63:
                raise ValueError("a number is longer than 64 bits")

    def _byte(self) -> int:
        byte = self._data[self.at]
        self.at += 1
        return byte

    def _bytes(self, count: int) -> bytes:
        begin, self.at = self.at, self.at + count
        if self.at > len(self._data):
            raise IndexError("a value is longer than the bytes")
        return self._data[begin : self.at]
