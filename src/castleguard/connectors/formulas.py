"""Formulas: text in published CSV that a spreadsheet would run, and how it is escaped.

A spreadsheet runs a cell that begins with = + - @, quoted or not; some also skip leading space, tabs and line ends, or
fold full-width signs into plain ones. Escaping puts an apostrophe before such a text, also if apostrophes precede it,
so that `unescape` always gives back the original. A plain number, such as -5.3, is not a formula.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.connectors.text_columns import as_text, chunks_of

Formulas = Literal["escape", "refuse", "keep"]
"""Treatment of formulas: put an apostrophe before them, reject their rows, or leave them."""

SIGNS = "=+-@" + "＝＋－＠" + "﹦﹢﹣﹫" + "⁼⁺⁻₌₊₋" + "﬩−"  # noqa: RUF001
"""First characters of a formula, and characters that NFKC or people fold into them."""

_BEGINS = r"(?:[\t\r\n]|[\p{Z}\p{Cc}\p{Cf}]*[" + SIGNS.replace("-", r"\-") + "])"
_NUMBER = r"[+\-](?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+\-]?[0-9]+)?\z"
# Valid for RE2 and for Java: both are used.
ESCAPABLE, ESCAPABLE_NUMBER = rf"\A'*{_BEGINS}", rf"\A'*{_NUMBER}"
"""A text is escaped if it matches the first and not the second."""

# First bytes, in UTF-8, of texts that can match: one byte spares most texts the regular expression.
_SUSPECT = np.zeros(256, np.bool_)
_SUSPECT[:33] = True
_SUSPECT[[0x7F, *b"=+-@'", 0xC2, 0xD8, 0xDB, 0xDC, 0xE0, 0xE1, 0xE2, 0xE3, 0xEF, 0xF0, 0xF3]] = True


def is_text(kind: pa.DataType) -> bool:
    """Whether values of this type are text in CSV. A number, a boolean or a time is never a formula."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    types = pa.types
    known = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_temporal, types.is_null)
    return not any(check(kind) for check in (*known, types.is_nested))


def escape(texts: Any) -> Any:
    """A column of strings (Array or ChunkedArray) with an apostrophe before every text that needs one."""
    return _changed(texts, _escapable, _with_apostrophe)


def unescape(texts: Any) -> Any:
    """Undo `escape`."""
    return _changed(texts, _escaped, lambda found: pc.utf8_slice_codeunits(found, 1))


def escape_names(names: Sequence[str]) -> list[str]:
    """Names of columns for a header, by the same rule."""
    escaped: list[str] = escape(pa.array(names, pa.string())).to_pylist()
    return escaped


def unescape_table(table: pa.Table) -> pa.Table:
    """A table that was read from CSV, all columns text, as it was before it was written."""
    names = unescape(pa.array(table.column_names, pa.string())).to_pylist()
    return pa.table([unescape(column) for column in table.columns], names=names)


def formulas_in(column: Any) -> NDArray[np.bool_] | None:
    """Mask of the formulas in a column of any type; None if there are none."""
    if not is_text(column.type):
        return None
    try:
        column = as_text(column)
    except pa.ArrowException:  # the sink refuses such a column
        return None
    masks = [_mask(chunk, _formulas) for chunk in chunks_of(column)]
    if not any(mask is not None for mask in masks):
        return None
    sizes = [len(chunk) for chunk in chunks_of(column)]
    return np.concatenate(
        [np.zeros(size, np.bool_) if mask is None else mask for mask, size in zip(masks, sizes, strict=True)]
    )


def _escapable(texts: Any) -> Any:
    return pc.and_not(_matches(texts, ESCAPABLE), _matches(texts, ESCAPABLE_NUMBER))


def _escaped(texts: Any) -> Any:
    return pc.and_(pc.starts_with(texts, "'"), _escapable(pc.utf8_slice_codeunits(texts, 1)))


def _formulas(texts: Any) -> Any:
    return pc.and_not(_escapable(texts), pc.starts_with(texts, "'"))


def _with_apostrophe(texts: Any) -> Any:
    return pc.binary_join_element_wise(pa.scalar("'", texts.type), texts, pa.scalar("", texts.type))


def _matches(texts: Any, pattern: str) -> Any:
    return pc.match_substring_regex(texts, pattern)


def _changed(texts: Any, wanted: Any, change: Any) -> Any:
    """The column with `change` applied to the `wanted` texts."""
    if isinstance(texts, pa.ChunkedArray):
        chunks = [_changed(chunk, wanted, change) for chunk in texts.chunks]
        return pa.chunked_array(chunks, texts.type)
    mask = _mask(texts, wanted)
    return texts if mask is None else pc.if_else(pa.array(mask), change(texts), texts)


def _mask(texts: Any, wanted: Any) -> NDArray[np.bool_] | None:
    """Mask of the texts of an array that are `wanted`, a function of strings; None if none is."""
    suspects = _suspects(texts)
    if not suspects.size:
        return None
    found = pc.fill_null(wanted(texts.take(pa.array(suspects))), False).to_numpy(zero_copy_only=False)
    if not found.any():
        return None
    mask = np.zeros(len(texts), np.bool_)
    mask[suspects[found]] = True
    return mask


def _suspects(texts: Any) -> NDArray[np.int64]:
    """Indices of the texts whose first byte can be that of a formula."""
    _, offsets, data = texts.buffers()
    if data is None or not data.size or not len(texts):
        return np.empty(0, np.int64)
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    ends: NDArray[Any] = np.frombuffer(offsets, width)[texts.offset : texts.offset + len(texts) + 1]
    # The first byte of an empty text belongs to another text: empty texts are removed if any suspect is found.
    first = np.take(np.frombuffer(data, np.uint8), ends[:-1], mode="clip")
    suspect = np.take(_SUSPECT, first)
    return np.flatnonzero(suspect & (ends[:-1] < ends[1:])) if suspect.any() else np.empty(0, np.int64)
