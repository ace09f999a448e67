"""Formulas in CSV: what is escaped and what is not, without loss."""

import sys
import unicodedata

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.connectors import formulas
from castleguard.connectors.formulas import (
    ESCAPABLE,
    SIGNS,
    escape,
    escape_names,
    formulas_in,
    is_text,
    unescape,
    unescape_table,
)

DANGEROUS = [
    "=1+1",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "\tx",
    "\rx",
    " =1+1",
    "\u00a0@x",
    "\ufeff=1",
    "\u200b=1",
    "\x00=1",
    "＝1+1",  # noqa: RUF001
    "－1+1",  # noqa: RUF001
    "-",
    "=",
    "--5",
    "-5 apples",
    "+49 170 1234",
    "-5\n",
    '=HYPERLINK("http://x")',
]
HARMLESS = [
    "",
    "x",
    "a=b",
    "5",
    "1-2",
    "-5",
    "+5",
    "-5.25",
    "-.5",
    "+1e-3",
    "[-5, 5]",
    "*",
    "'",
    "''",
    "'x",
    "'-5",
    "é",
    "日本",
]
TEXTS = st.lists(
    st.none() | st.text("'=+-@\t\r\n x5.\u00a0＝", max_size=6) | st.text(max_size=6),  # noqa: RUF001
    max_size=20,
)


def escaped(text: str) -> str:
    found: str = escape(pa.array([text]))[0].as_py()
    return found


@pytest.mark.parametrize("text", DANGEROUS)
def test_formulas_are_escaped(text: str) -> None:
    assert escaped(text) == "'" + text
    assert escaped("'" + text) == "''" + text, "otherwise it would equal the one above"


@pytest.mark.parametrize("text", HARMLESS)
def test_other_text_is_not_escaped(text: str) -> None:
    assert escaped(text) == text


@given(TEXTS)
def test_unescape_inverts_escape(texts: list[str | None]) -> None:
    for kind in (pa.string(), pa.large_string()):
        column = pa.array(texts, kind)
        assert unescape(escape(column)).equals(column)
        pieces = pa.chunked_array([column.slice(0, 3), column.slice(3)], kind)
        assert unescape(escape(pieces)).to_pylist() == texts
        assert escape(pieces).to_pylist() == escape(column).to_pylist(), "a slice of an array begins elsewhere"


@given(TEXTS)
def test_escaped_text_is_never_a_formula(texts: list[str | None]) -> None:
    assert formulas_in(escape(pa.array(texts, pa.string()))) is None


@given(TEXTS)
def test_escaping_preserves_equality(texts: list[str | None]) -> None:
    column = pa.array(texts, pa.string())
    assert len(set(escape(column).to_pylist())) == len(set(texts))


def test_first_byte_filter_misses_no_formula() -> None:
    every = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    texts = pa.array([character + "=" for character in every])
    slow = pc.match_substring_regex(texts, ESCAPABLE).to_numpy(zero_copy_only=False)
    fast = formulas._mask(texts, lambda found: pc.match_substring_regex(found, ESCAPABLE))
    assert fast is not None
    assert slow.tolist() == fast.tolist()
    skipped = {character for character, found in zip(every, slow.tolist(), strict=True) if found}
    spaces = {c for c in every if c.isspace() or unicodedata.category(c) == "Zs"}
    assert spaces <= skipped


def test_folded_signs_count_as_formula_signs() -> None:
    every = map(chr, range(sys.maxunicode + 1))
    folded = {character for character in every if unicodedata.normalize("NFKC", character) in ("=", "+", "-", "@")}
    assert folded <= set(SIGNS)


def test_only_text_is_checked_for_formulas() -> None:
    for values in ([-5], [-5.5], [True], [None]):
        assert not is_text(pa.array(values).type)
        assert formulas_in(pa.array(values)) is None
    for kind in (pa.list_(pa.string()), pa.struct([("a", pa.string())]), pa.map_(pa.string(), pa.string())):
        assert formulas_in(pa.array([], kind)) is None
    for kind in (pa.decimal128(5, 2), pa.date32(), pa.timestamp("us"), pa.time64("us"), pa.duration("s"), pa.uint8()):
        assert not is_text(kind)
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.binary()):
        assert is_text(kind)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_formulas_are_found_in_every_kind_of_text(kind: pa.DataType) -> None:
    column = pa.chunked_array([pa.array(["x", "=1", None, "'=1", "-5"]).cast(kind), pa.array(["x"]).cast(kind)])
    found = formulas_in(column)
    assert found is not None
    assert found.tolist() == [False, True, False, False, False, False]


def test_column_names_are_escaped() -> None:
    assert escape_names(["age", "=cmd", "-x"]) == ["age", "'=cmd", "'-x"]
    table = pa.table({"age": ["'=1"], "'=cmd": ["x"]})
    assert unescape_table(table).equals(pa.table({"age": ["=1"], "=cmd": ["x"]}))
