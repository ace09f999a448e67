"""Numbers in JSON keep their digits, and their text does not depend on the parser path."""

from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.connectors.formats import open_reader
from castleguard.connectors.json_values import parse_object, value_as_text
from castleguard.connectors.jsonl import JsonLines

NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


def read(path: Path, text: str) -> list[str | None]:
    path.write_text(text)
    with closing(open_reader(path, ["a"], format="jsonl", batch_rows=1000)) as reader:
        return [value for batch in reader for value in batch.column(0).to_pylist()]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("12345678901234567.0", "12345678901234567"),
        ("0.12345678901234567890", "0.1234567890123456789"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("12.0", "12"),
        ("1.50", "1.5"),
        ("1e20", "100000000000000000000"),
        ("1e999999999", "1e999999999"),
    ],
)
def test_number_keeps_its_digits_alone_and_in_a_block(number: str, text: str, tmp_path: Path) -> None:
    line = f'{{"a": {number}}}\n'
    assert read(tmp_path / "alone.jsonl", line) == [text]
    assert read(tmp_path / "floats.jsonl", line + '{"a": 0.5}\n')[0] == text
    assert read(tmp_path / "mixed.jsonl", line + '{"a": "x: 1,"}\n')[0] == text


@given(lines=st.lists(NUMBERS, min_size=1, max_size=6))
def test_number_text_does_not_depend_on_the_parser_path(
    lines: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    objects = [f'{{"a": {number}, "b": "n: {number},"}}' for number in lines]
    alone = []
    for line in objects:
        row = parse_object(line.encode())
        assert isinstance(row, dict)
        alone.append(value_as_text(row["a"]))
    together = read(tmp_path_factory.mktemp("digits") / "in.jsonl", "\n".join(objects) + "\n")
    assert together == alone
    table = JsonLines(["a"]).many([line.encode() for line in objects])
    assert table is None or table.column(0).to_pylist() == alone


def test_decimal_numbers_of_messages_are_parsed_at_once() -> None:
    table = JsonLines(["a"]).many([b'{"a": 1.5}', b'{"a": 2}', b'{"a": 12.0}', b'{"a": null}'])
    assert table is not None
    assert table.column(0).to_pylist() == ["1.5", "2", "12", None]


@pytest.mark.parametrize("number", ["99999999999999.9", "10000000000.5", "0.0000001", "-0", "-0.0"])
def test_number_beside_a_long_one_is_spelled_as_alone(number: str) -> None:
    format = JsonLines(["a"])
    alone = format.one(b'{"a": %s}' % number.encode())
    table = format.many([b'{"a": 0.12345678901234567890}', b'{"a": %s}' % number.encode()])
    assert table is not None
    assert table.column(0).to_pylist()[1:] == list(alone)
