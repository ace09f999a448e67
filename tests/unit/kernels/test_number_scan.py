"""The scan of plain numbers gives the nearest float64 and leaves all other text to a full parser."""

import re

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from castleguard.kernels.number_scan import MOST_DIGITS, POWERS, WORD, find_cells, read_decimals
from castleguard.schema.cells import cells_of
from castleguard.schema.column import FINE
from castleguard.schema.numbers import cell_codes, read_numbers

PLAIN = re.compile(r"-?[0-9]+(\.[0-9]+)?")
NUMBERS = st.from_regex(r"\A-?[0-9]{1,18}(\.[0-9]{1,9})?\Z")


def read(texts: list[str]) -> list[float | None]:
    """The numbers that the scan reads; None for odd text."""
    raw = [text.encode() for text in texts]
    words = np.zeros(sum(map(len, raw)) // WORD + 3, np.uint64)
    data = words.view(np.uint8)
    data[WORD : WORD + sum(map(len, raw))] = np.frombuffer(b"".join(raw), np.uint8)
    bounds = np.cumsum([WORD, *map(len, raw)], dtype=np.int64)
    values, odd = np.empty(len(raw)), np.empty(len(raw), np.bool_)
    read_decimals(words, data, bounds, POWERS, values, odd)
    return [None if bad else float(value) for value, bad in zip(values, odd, strict=True)]


def plain(text: str) -> float | None:
    """The same in Python."""
    digits = sum(character.isdigit() for character in text)
    return float(text) if PLAIN.fullmatch(text) and digits <= MOST_DIGITS else None


@given(st.lists(NUMBERS | st.text("0123456789.-+eE x", max_size=20), max_size=20))
@example(
    ["-0", "0", "99999999", "-12345678", "123456789", "999999999999999", "1234567.1", ".5", "5.", "", "-", "1.2.3"]
)
@example(["0.3", "2.675", "-0.000000000000001", "123456789012.345", "1e5", " 7", "٣"])
def test_plain_numbers_are_read_and_all_other_text_is_odd(texts: list[str]) -> None:
    assert [str(number) for number in read(texts)] == [str(plain(text)) for text in texts]


@given(st.lists(st.none() | NUMBERS | st.sampled_from(["1e3", " 12 ", "", "nan", "x", "+4", ".5", "0x1f"]), max_size=9))
def test_column_of_text_holds_what_python_reads(texts: list[str | None]) -> None:
    column = read_numbers(pa.array(texts, pa.string()), "number")
    for text, value, problem in zip(texts, column.values, column.problem, strict=True):
        if problem == FINE:
            assert text is not None
            assert value == float(text)
        else:
            assert text is None or text in ("", "nan", "x", "0x1f", "+4")


@given(st.lists(st.floats(-50, 150, allow_nan=False), max_size=20), st.integers(2, 40), st.floats(0.01, 1.0))
def test_cell_is_the_one_of_a_search(values: list[float], cells: int, last: float) -> None:
    edges = np.append(np.arange(cells) * 2.5, (cells - 1 + last) * 2.5)
    found = np.empty(len(values), np.int64)
    fixed = np.array(values)
    fixed.flags.writeable = False  # as a column of Arrow
    find_cells(edges, fixed, found)
    assert found.tolist() == np.clip(np.searchsorted(edges, values, side="right") - 1, 0, cells - 1).tolist()
    assert cell_codes(edges, np.array(values)).tolist() == edges[cells_of(edges, np.array(values))].tolist()


def test_single_cell_has_one_code() -> None:
    for edges in (np.array([7.0]), np.array([7.0, 9.0])):
        assert cell_codes(edges, np.array([1.0, 7.0, 8.0, 12.0])).tolist() == [7.0] * 4
