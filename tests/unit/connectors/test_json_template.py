"""Lines that are alike are read without a parser, as the parser for single lines reads them."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from castleguard.connectors import jsonl
from castleguard.connectors.json_template import read_alike
from castleguard.connectors.jsonl import JsonLines, JsonlReader
from castleguard.connectors.payloads import read_payloads

COLUMNS = ["a", "b", "missing"]


def fast(lines: Sequence[bytes], columns: Sequence[str] = COLUMNS) -> list[tuple[str | None, ...]] | None:
    found = read_alike(b"\n".join(lines), len(lines), columns)
    if found is None:
        return None
    assert all(column.type == pa.string() for column in found)
    for column in found:
        column.validate(full=True)
    return list(zip(*(column.to_pylist() for column in found), strict=True))


def slow(lines: Sequence[bytes], columns: Sequence[str] = COLUMNS) -> list[tuple[str | None, ...] | str]:
    format = JsonLines(columns)
    return [format.one(line) for line in lines]


INTEGERS = st.from_regex(r"-?(0|[1-9][0-9]{0,25})", fullmatch=True)
DECIMALS = st.from_regex(r"-?(0|[1-9][0-9]{0,20})\.[0-9]{1,20}", fullmatch=True)
ENDING = st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,3})?\.?0{1,3}", fullmatch=True)
SMALL = st.from_regex(r"-?0\.0{0,9}[0-9]{1,3}", fullmatch=True)
NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6).map(json.dumps)
RAW_STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6).map(
    lambda text: json.dumps(text, ensure_ascii=False)
)
ODD = st.sampled_from(
    [
        *("null", "true", "false", "NaN", "Infinity", "-Infinity", "[1,2]", "{}", "[]", '{"b": 1}', '["x"]'),
        *(
            "-0",
            "-0.0",
            "0.0",
            "1e5",
            "1E400",
            "01",
            "+1",
            "1.",
            ".5",
            "-",
            "",
            " 7",
            "7 ",
            "0x1F",
            "tru",
            "nul",
            "1 2",
        ),
        *("1.5.0", "1..0", "00.0", ".0", "-.0", "1e5.0", "1.e50", "1.5e0", "1.5E10", "-10", "0.00", "100.0"),
        *("1,2", "1}", '"', '"a"b"', '"\\u0061"', '"\t"', '"\x00"', "\ufeff1", '"x"\n', "9" * 400, "[" * 50 + "]" * 50),
        *('"}, {"', '","', '":"', "1\n2", "\r1", '"\u2028"', "1_000", "\u0661", "99999999999999.9", "0.0000001"),
    ]
)
VALUES = st.one_of(INTEGERS, DECIMALS, ENDING, SMALL, NUMBERS, STRINGS, RAW_STRINGS, ODD)
KINDS = st.sampled_from([INTEGERS, DECIMALS, ENDING, SMALL, NUMBERS, STRINGS, RAW_STRINGS, ODD, VALUES])
TEMPLATES = st.sampled_from(
    [
        '{"a":%s,"b":%s}',
        '{"a": %s, "b": %s}',
        '{ "b" : %s , "x": 5, "a" : %s }',
        '{"a":%s,"a":%s}',
        '{"é":%s,"a":%s}',
        '{"a":%s,"b":%s}  ',
        ' {"a":%s,"b":%s}',
        '{"a":%s,,"b":%s}',
        '{"a":%s,"b":%s',
        '{"a":%s,"b":%s}}',
        '{"a":%s "b":%s}',
        '{"c":%s,"d":%s}',
        '["a",%s,"b",%s]',
        '{"a":%s,"n":{"b":%s}}',
        '{"a":%s,"b":%s,"s":"x, y: {z}"}',
        '{"a\\u0061":%s,"b":%s}',
    ]
)


@st.composite
def blocks(draw: st.DrawFn) -> list[bytes]:
    """Lines of one template, and at times one of another."""
    template, first, second = draw(TEMPLATES), draw(KINDS), draw(KINDS)
    lines = [template % (draw(first), draw(second)) for _ in range(draw(st.integers(1, 6)))]
    if draw(st.integers(0, 5)) == 0:
        lines[draw(st.integers(0, len(lines) - 1))] = draw(TEMPLATES) % (draw(VALUES), draw(VALUES))
    return [line.encode() for line in lines]


@given(lines=blocks())
@example(lines=[b'{"a":1,"b":2}', b'{"a":1,"b":"x"}'])
@example(lines=[b'{"a":"x","b":"y"}', b'{"a":"x","b":}"y'])
@example(lines=[b'{"a":1,"b":2}', b'{"a":1,"c":2}'])
@example(lines=[b'{"a":1,"b":2}{"a":1,"b":2}', b'{"a":1,"b":2}'])
@example(lines=[b'{"a":1}', b'{"a":2}{"a":3}', b""])
@example(lines=[b'{"a":99999999999999.9}', b'{"a":0.0000001}', b'{"a":-0}', b'{"a":100000000000.5}'])
def test_alike_lines_read_as_single_lines_are(lines: list[bytes]) -> None:
    found = fast(lines)
    assert found is None or found == slow(lines)


@given(
    pieces=st.lists(st.lists(st.sampled_from(list('{}"a:1,\n[]e.b\\ -0\r\0é')), max_size=14), min_size=1, max_size=4)
)
def test_hostile_lines_are_never_read_in_another_way(pieces: list[list[str]]) -> None:
    lines = [b'{"a":1}', *("".join(piece).encode() for piece in pieces)]
    for block in (lines, lines[1:], [b'{"a":"' + line + b'"}' for line in lines]):
        found = fast(block)
        assert found is None or found == slow(block)


@given(data=st.data(), lines=st.lists(st.tuples(INTEGERS, RAW_STRINGS), min_size=2, max_size=5))
def test_changed_bytes_are_never_read_in_another_way(data: st.DataObject, lines: list[tuple[str, str]]) -> None:
    whole = [f'{{"a": {number}, "x": {text}, "b": 7}}'.encode() for number, text in lines]
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole[at])
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.sampled_from(b'{}":,\\ 019-.\n\r\xff\xc3a'))
    whole[at] = bytes(changed)
    found = fast(whole)
    assert found is None or found == slow(whole)


@pytest.mark.parametrize("space", ["", " "])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-20", "0"], ["1", "-20", "0"]),
        (["1.5", "-73.98", "0.05"], ["1.5", "-73.98", "0.05"]),
        (["1.50", "12.0", "1e20"], ["1.5", "12", "100000000000000000000"]),
        (["12345678901234567890123", "-0", "-0.0"], ["12345678901234567890123", "0", "0"]),
        (["null", "true", "false"], [None, "true", "false"]),
        (['"x"', '""', '"say, {it}: é"'], ["x", "", "say, {it}: é"]),
        (["1e999999999", "NaN", "0.10"], ["1e999999999", "nan", "0.1"]),
        (["0.0", "100.00", "99999999999.90"], ["0", "100", "9.99999999999e+10"]),
    ],
)
def test_flat_objects_are_read_without_a_parser(space: str, values: list[str], expected: list[str | None]) -> None:
    lines = [f'{{"x":{space}"y",{space}"a":{space}{value},{space}"b":{space}7}}'.encode() for value in values]
    assert fast(lines) == [(value, "7", None) for value in expected]
    assert slow(lines) == fast(lines)


@pytest.mark.parametrize(
    "line",
    [
        b'{"a": 1, "b": "x\\n"}',
        b'{"a": 1, "b": "x\t"}',
        b'{"a": 1, "b": "\xff"}',
        b'{"a": 1, "b": null}',
        b'{"b": "x", "a": 1}',
        b'{"a": 1}',
        b'{"a": 1, "b": "x"}\n{"a": 1, "b": "x"}',
        b'{"a": 1, "b": "x", "c": 1}',
        b'{"a": 01, "b": "x"}',
        b'{"a": , "b": "x"}',
        b'{"a": 1.5.0, "b": "x"}',
        b'{"a": 1..0, "b": "x"}',
        b'{"a": 01.0, "b": "x"}',
        b'{"a": .0, "b": "x"}',
        b'{"a": -.0, "b": "x"}',
        b'{"a": 1e5.0, "b": "x"}',
        b'{"a": "1", "b": x}',
        b"",
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_line_that_differs_leaves_the_block_to_the_parsers(line: bytes, place: int) -> None:
    lines = [b'{"a": 1, "b": "x"}', b'{"a": 2, "b": "y"}']
    lines.insert(place, line)
    assert fast(lines) is None


def test_many_distinct_numbers_of_unusual_form_are_left_to_the_parsers() -> None:
    assert fast([b'{"a": %d.5e0}' % number for number in range(300)]) is None
    assert fast([b'{"a": %d.5e0}' % (number % 100) for number in range(300)]) is not None


def test_many_distinct_floats_lose_the_zeros_at_their_ends() -> None:
    lines = [b'{"a": %d.%d0, "b": -%d.0}' % (number, number % 3, number * 10) for number in range(1, 1000)]
    found = fast(lines)
    assert found is not None
    assert found[:3] == [("1.1", "-10", None), ("2.2", "-20", None), ("3", "-30", None)]
    assert found == slow(lines)


@given(lines=blocks(), repeats=st.integers(70, 90), rotation=st.integers(0, 5))
def test_messages_are_the_same_with_and_without_the_short_cut(lines: list[bytes], repeats: int, rotation: int) -> None:
    payloads = [*lines[rotation:], *lines * repeats]
    quick = read_payloads("json", payloads, COLUMNS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "FEWEST", len(payloads) + 1)
        parsed = read_payloads("json", payloads, COLUMNS)
    assert quick.rows.equals(parsed.rows)
    assert np.array_equal(quick.message, parsed.message)
    assert quick.bad == parsed.bad


class Trickle(io.BytesIO):
    """A stream that gives a few bytes at a time."""

    def __init__(self, content: bytes, size: int) -> None:
        super().__init__(content)
        self._size = size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._size)


@given(lines=blocks(), size=st.integers(20, 400))
def test_file_reads_the_same_with_and_without_the_short_cut(lines: list[bytes], size: int) -> None:
    def read() -> tuple[list[Any], int]:
        stream = Trickle(b'{"a": 1, "b": 2, "missing": 3}\n' + b"\n".join(lines * 20), size)
        reader = JsonlReader(Path("in.jsonl"), COLUMNS, 1000, stream=stream)
        return [row for batch in reader for row in batch.to_pylist()], reader.malformed

    quick = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "read_alike", lambda *_: None)
        assert quick == read()


def test_slices_of_many_messages_are_put_together_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "_SLICE_LINES", 100)
    payloads = [b'{"a": %d, "b": "x"}' % number for number in range(1050)]
    payloads[430] = b'{"b": "y"}'
    read = read_payloads("json", payloads, COLUMNS)
    expected: list[Any] = [str(number) for number in range(1050)]
    expected[430] = None
    assert read.rows.column(0).to_pylist() == expected
    assert read.message.tolist() == list(range(1050))
