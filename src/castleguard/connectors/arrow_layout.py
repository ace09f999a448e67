"""Layout check of an Arrow file or stream: messages lie end to end, and buffers do not overlap.

Arrow's own reader only checks that a buffer lies within its message. A flipped bit in the offset of a buffer, in the
type of a column before it, or in the number of a dictionary makes a declared column show the values of another one, all
of them valid. The metadata reveals it: writers put messages end to end, the buffers of each message end to
end, and exactly as many as the types need. Only metadata is read here.

The format: https://arrow.apache.org/docs/format/Columnar.html, and Message.fbs, Schema.fbs, File.fbs beside it.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

MAGIC = b"ARROW1"
_CONTINUED = b"\xff\xff\xff\xff"
_END = (b"\0\0\0\0", _CONTINUED + b"\0\0\0\0")  # end of a stream, in the old and the new form
_BATCH, _DICTIONARY, _SCHEMA = 3, 2, 1  # kinds of messages
_DEEPEST = 64  # fields within fields; the limit of Arrow's reader

ReadAt = Callable[[int, int], bytes]  # (offset, length), fewer bytes at the end


class _Message(NamedTuple):
    kind: int
    header: "_Flat"
    body: int
    """Number of bytes after the metadata."""
    end: int
    """Offset of the next message."""


class _Flat(NamedTuple):
    """A table in a flatbuffer."""

    data: bytes
    at: int

    def field(self, number: int) -> int:
        """Offset of the field of this number; 0 if it is absent."""
        vtable = self.at - _number("<i", self.data, self.at)
        size = _number("<H", self.data, vtable)
        offset = _number("<H", self.data, vtable + 4 + 2 * number) if 4 + 2 * number < size else 0
        return self.at + offset if offset else 0

    def whole(self, number: int, form: str, default: int = 0) -> int:
        """An integer field."""
        at = self.field(number)
        return _number(form, self.data, at) if at else default

    def table(self, number: int) -> "_Flat | None":
        """A field that is a table."""
        at = self.field(number)
        return _Flat(self.data, at + _number("<I", self.data, at)) if at else None

    def vector(self, number: int) -> tuple[int, int]:
        """Offset and number of the elements of a vector."""
        at = self.field(number)
        if not at:
            return 0, 0
        at += _number("<I", self.data, at)
        count = _number("<I", self.data, at)
        if count > len(self.data):
            raise ValueError("a vector is longer than its message")
        return at + 4, count


def check_layout(read_at: ReadAt, size: int, schema: pa.Schema) -> None:
    """Check a file or stream of `size` bytes with this schema. Raises ValueError or struct.error."""
    if read_at(0, len(MAGIC)) == MAGIC and read_at(size - len(MAGIC), len(MAGIC)) == MAGIC:
        _check_file(read_at, size, schema)
    else:
        message = _read_message(read_at, 0, size)
        if message is None or message.kind != _SCHEMA:
            raise ValueError("a stream begins with its schema")
        _check_messages(read_at, message.end, size, schema, _dictionary_ids(message.header, 1))


def _check_file(read_at: ReadAt, size: int, schema: pa.Schema) -> None:
    """Check that the messages are exactly those that the footer lists. The footer also repeats the schema."""
    length = _number("<i", read_at(size - 10, 4), 0)
    end = size - 10 - length
    if length <= 0 or end < 8:
        raise ValueError("the footer is longer than the file")
    data = read_at(end, length)
    footer = _Flat(data, _number("<I", data, 0))
    fields = footer.table(1)
    listed = sorted(block for number in (2, 3) for block in _blocks(footer, number))
    if fields is None:
        raise ValueError("the footer has no schema")
    if not listed:
        return
    found = _check_messages(read_at, listed[0][0], end, schema, _dictionary_ids(fields, 1))
    if found != listed:
        raise ValueError("the footer does not list the messages of the file")


def _check_messages(
    read_at: ReadAt, start: int, end: int, schema: pa.Schema, wanted: set[int]
) -> list[tuple[int, int, int]]:
    """Check dictionaries and batches, one after the other: offset of each, and lengths of metadata and body."""
    found: list[tuple[int, int, int]] = []
    dictionaries: set[int] = set()
    needs = _needs(schema)
    batches = 0
    while (message := _read_message(read_at, start, end)) is not None:
        if message.kind == _BATCH:
            batches += 1
            _check_batch(message.header, message.body, *needs)
        elif message.kind == _DICTIONARY:
            dictionaries.add(message.header.whole(0, "<q"))
            batch = message.header.table(1)
            if batch is None:
                raise ValueError("a dictionary is empty")
            _check_buffers(batch, message.body)
        else:
            raise ValueError("a message is neither a dictionary nor a batch")
        found.append((start, message.end - message.body - start, message.body))
        start = message.end
    _check_end(read_at, start, end)
    if batches and wanted != dictionaries:
        raise ValueError("columns and dictionaries do not belong together")
    return found


def _check_end(read_at: ReadAt, start: int, end: int) -> None:
    """Check that only the end mark follows the last message.

    A stream may lack the mark; but a mark inside the last message means that bytes before it are missing.
    """
    left = read_at(start, end - start)
    missing = read_at(end - 8, 8) == _END[1]
    if left != _END[1] and (missing or left not in (b"", _END[0])):
        raise ValueError("the last message does not end where it should")


def _read_message(read_at: ReadAt, at: int, end: int) -> _Message | None:
    """The message that begins here; None at the end."""
    if not 0 <= at <= end:
        raise ValueError("a message begins after the end")
    prefix = read_at(at, min(8, end - at))
    if not prefix or prefix.startswith(_END):
        return None
    known = prefix.startswith(_CONTINUED)
    begin = at + (8 if known else 4)
    length = _number("<i", prefix, 4 if known else 0)
    if length <= 0 or begin + length > end:
        raise ValueError("a message is longer than the file")
    data = read_at(begin, length)
    if len(data) != length:
        raise ValueError("a message is not complete")
    found = _Flat(data, _number("<I", data, 0))
    header = found.table(2)
    body = found.whole(3, "<q")
    stop = begin + length + body
    if header is None or body < 0 or stop > end:
        raise ValueError("a message is longer than the file")
    return _Message(found.whole(1, "<B"), header, body, stop)


def _check_batch(batch: _Flat, body: int, nodes: int, buffers: int, variadic: bool) -> None:
    """Check that a batch has the nodes and buffers that its columns need; columns of views declare further ones."""
    at, count = batch.vector(4)
    if bool(count) and not variadic:
        raise ValueError("a batch has buffers of views without a column of views")
    more = sum(_number("<q", batch.data, at + 8 * number) for number in range(count))
    if batch.vector(1)[1] != nodes or batch.vector(2)[1] != buffers + more:
        raise ValueError("a batch does not have the buffers of its columns")
    _check_buffers(batch, body)


def _check_buffers(batch: _Flat, body: int) -> None:
    at, count = batch.vector(2)
    end = 0
    for number in range(count):
        offset, length = struct.unpack_from("<qq", batch.data, at + 16 * number)
        if length == 0:
            continue
        if length < 0 or offset < end:
            raise ValueError("two buffers overlap")
        end = offset + length
    if end > body:
        raise ValueError("a buffer is longer than its message")


def _blocks(footer: _Flat, number: int) -> list[tuple[int, int, int]]:
    """Offsets of the messages that the footer lists, and lengths of their metadata and bodies."""
    at, count = footer.vector(number)
    return [struct.unpack_from("<qi4xq", footer.data, at + 24 * block) for block in range(count)]


def _dictionary_ids(table: _Flat, fields: int, depth: int = 0) -> set[int]:
    """The numbers of all dictionaries of a schema, or of a field."""
    if depth > _DEEPEST:
        raise ValueError("fields are nested too deeply")
    found: set[int] = set()
    at, count = table.vector(fields)
    for number in range(count):
        place = at + 4 * number
        field = _Flat(table.data, place + _number("<I", table.data, place))
        encoding = field.table(4)
        if encoding is not None:
            found.add(encoding.whole(0, "<q"))
        found |= _dictionary_ids(field, 5, depth + 1)
    return found


def _needs(schema: pa.Schema) -> tuple[int, int, bool]:
    """Number of nodes and buffers of a batch of this schema, and whether some columns have further buffers."""
    needs = [_needs_of(field.type) for field in schema]
    return sum(need[0] for need in needs), sum(need[1] for need in needs), any(need[2] for need in needs)


def _needs_of(kind: pa.DataType) -> tuple[int, int, bool]:
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _needs_of(kind.storage_type)
    if types.is_dictionary(kind):
        return 1, 2, False
    own, children = _own_buffers(kind), [_needs_of(kind.field(number).type) for number in range(kind.num_fields)]
    variadic = bool(types.is_string_view(kind) or types.is_binary_view(kind)) or any(need[2] for need in children)
    return 1 + sum(need[0] for need in children), own + sum(need[1] for need in children), variadic


def _own_buffers(kind: pa.DataType) -> int:
    types = pa.types
    if types.is_null(kind) or types.is_run_end_encoded(kind):
        return 0
    if types.is_struct(kind) or types.is_fixed_size_list(kind):
        return 1
    if types.is_union(kind):
        return 2 if kind.mode == "dense" else 1
    if types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind):
        return 3
    return 3 if types.is_list_view(kind) or types.is_large_list_view(kind) else 2


def _number(form: str, data: bytes, at: int) -> int:
    if at < 0:
        raise ValueError("metadata points outside its message")
    found: int = struct.unpack_from(form, data, at)[0]
    return found
