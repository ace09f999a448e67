"""Lines of JSON that differ in their values only, parsed without a JSON parser.

Most senders write the same keys in the same order, with the same spaces. The first line then is a template:

    {"pid": 17, "zone": "A7"}         text before values: '{"pid": '  ', "zone": "'  '"}'

Every line that has these texts, and a JSON value between each two of them, is an object with these keys. So the values
are cut out as text, exactly as they were written, and need not be spelled again. Anything else (other keys, escapes,
nested values, a null in place of a string) is left to the parsers of `jsonl`, which read the same rows more slowly.

What makes the texts and values of a line certain is the number of quotes. If a block has as many as its lines have
around keys and strings, and the texts between values are in their places, no value has a quote.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.connectors.json_values import AS_WRITTEN, Literal, value_as_text
from castleguard.connectors.text_columns import is_utf8

FEWEST = 64  # lines from which on this pays

_MOST_KEYS = 200
_LONGEST_NUMBER = 300  # digits; Python refuses to read integers of some thousand digits
_UNUSUAL = 256  # most distinct values of a column that Python converts one by one
_QUOTE, _ZERO, _SPACE = ord('"'), ord("0"), ord(" ")
_MEMBER = re.compile(rb'[{,] *"([^"\\]*)" *: *(?:"[^"\\]*"|[^" ,{}\[\]]+)')
Places = NDArray[np.int64]  # (lines,) in the block


class _Template(NamedTuple):
    """A line without its values."""

    names: list[str]
    texts: list[bytes]
    """Before the first value, between values, and after the last one; a string's quotes are part of them."""
    strings: list[bool]
    """Whether a value is a string, by name."""


def read_alike(block: bytes, lines: int, names: Sequence[str]) -> list[pa.Array] | None:
    """The columns `names` as text, if all lines are like the first one; else None.

    `block` is the lines joined by line feeds. A key that the lines do not have is null.
    """
    template = _template_of(block[: block.find(b"\n")] if lines > 1 else block)
    if template is None or b"\\" in block or len(block) >= 1 << 31 or not is_utf8(block):
        return None
    size = len(block)
    data = np.frombuffer(block + b" " * 8, np.uint8)  # so that eight bytes can be compared at any place
    # Line feeds are the only control characters, and so there is none in a line.
    feeds = np.flatnonzero(data < _SPACE)
    if len(feeds) != lines - 1 or (data[feeds] != ord("\n")).any():
        return None
    places = _places_of(template, data, feeds, size)
    if places is None or not _have_texts(template, data, places):
        return None
    pieces, width = _pieces(template, block, places), 2 * len(places) - 1
    found: dict[str, pa.Array] = {}
    for number, (name, text) in enumerate(zip(template.names, template.texts, strict=False)):
        if template.strings[number] and name not in names:
            continue
        column = pieces.take(pa.array(np.arange(2 * number + 1, len(pieces), width)))
        if not template.strings[number]:
            column = _scalars(column, data[places[number] + len(text)])
            if column is None:
                return None
        found[name] = column
    return [found[name] if name in found else pa.nulls(lines, pa.string()) for name in names]


def _template_of(line: bytes) -> _Template | None:
    """The template of a flat object with distinct keys, or None."""
    names: list[str] = []
    texts: list[bytes] = []
    strings: list[bool] = []
    place = end = 0  # of the next member, and of the last value
    while (member := _MEMBER.match(line, place)) is not None and len(names) < _MOST_KEYS:
        if (line[place : place + 1] == b"{") != (not names):
            return None
        place = member.end()
        is_string = line[place - 1] == _QUOTE
        start = line.rfind(b'"', 0, place - 1) + 1 if is_string else _start_of_scalar(line, place)
        names.append(member[1].decode(errors="replace"))
        texts.append(line[end:start])
        strings.append(is_string)
        end = place - is_string
        while line[place : place + 1] == b" ":
            place += 1
    if not names or line[place:].rstrip(b" ") != b"}" or len(set(names)) < len(names):
        return None
    return _Template(names, [*texts, line[end:]], strings)


def _start_of_scalar(line: bytes, end: int) -> int:
    return max(line.rfind(b":", 0, end), line.rfind(b" ", 0, end)) + 1


def _places_of(template: _Template, data: NDArray[np.uint8], feeds: Places, size: int) -> list[Places] | None:
    """Where each text of the template must be, if the lines have as many quotes as it has."""
    texts = template.texts
    quotes = [text.count(b'"') for text in texts]
    found = np.flatnonzero(data == _QUOTE)
    if len(found) != (len(feeds) + 1) * sum(quotes):
        return None
    of_line = found.reshape(len(feeds) + 1, sum(quotes))
    places: list[Places] = []
    for number, text in enumerate(texts[:-1]):
        places.append(of_line[:, sum(quotes[:number])] - text.index(b'"'))
    # The last text may have no quote: it ends with its line.
    places.append(np.append(feeds, size) - len(texts[-1]))
    if places[0][0] != 0 or not np.array_equal(places[0][1:], feeds + 1):
        return None
    if any((places[at] + len(texts[at]) > places[at + 1]).any() for at in range(len(texts) - 1)):
        return None
    return places


def _have_texts(template: _Template, data: NDArray[np.uint8], places: list[Places]) -> bool:
    """Whether the texts are in their places; compared by eight bytes."""
    words = np.ndarray((len(data) - 7,), np.uint64, data.data, strides=(1,))
    for text, place in zip(template.texts, places, strict=True):
        for start in range(0, len(text), 8):
            at = min(start, max(len(text) - 8, 0))  # the last eight may overlap those before
            found = words[place + at]
            if len(text) < 8:
                found &= np.uint64((1 << 8 * len(text)) - 1)
            if (found != np.uint64(int.from_bytes(text[at : at + 8], "little"))).any():
                return False
    return True


def _pieces(template: _Template, block: bytes, places: list[Places]) -> pa.Array:
    """All texts and values of the block one after the other; the block itself is their data."""
    width = 2 * len(places) - 1
    edges = np.empty(len(places[0]) * width + 1, np.int32)
    edges[-1] = len(block)
    for number, (text, place) in enumerate(zip(template.texts, places, strict=True)):
        edges[2 * number : -1 : width] = place
        if number < len(places) - 1:
            edges[2 * number + 1 : -1 : width] = place + len(text)
    return pa.StringArray.from_buffers(len(edges) - 1, pa.py_buffer(edges), pa.py_buffer(block))


def _scalars(column: pa.Array, first: NDArray[np.uint8]) -> pa.Array | None:
    """Values that are not strings, in the form of `value_as_text`; None if one of them is not JSON.

    `first`: the first byte of each value.
    """
    lengths = pc.binary_length(column).to_numpy()
    if lengths.max() > _LONGEST_NUMBER:
        return None
    plain = pc.ascii_is_decimal(column).to_numpy(zero_copy_only=False) & ~((first == _ZERO) & (lengths > 1))
    if plain.all():
        return column
    encoded = column.filter(pa.array(~plain)).dictionary_encode()
    texts = encoded.dictionary
    # Python writes whole floats as 12.0.
    ending = pc.and_(pc.ends_with(texts, "0"), pc.equal(pc.count_substring(texts, "."), 1))
    short = pc.if_else(ending, pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), "."), texts)
    unusual = pc.invert(pc.match_substring_regex(short, AS_WRITTEN))
    values = texts.filter(unusual).to_pylist()
    if len(values) > _UNUSUAL:
        return None
    if values:
        converted = _convert(values)
        if converted is None:
            return None
        short = pc.replace_with_mask(short, unusual, pa.array(converted, pa.string()))
    return pc.replace_with_mask(column, pa.array(~plain), short.take(encoded.indices))


def _convert(values: Sequence[str]) -> list[str | None] | None:
    try:
        return [value_as_text(json.loads(value, parse_float=Literal)) for value in values]
    except (ValueError, RecursionError):
        return None
