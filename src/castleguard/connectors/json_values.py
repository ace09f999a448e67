"""JSON values as text, and columns as JSON: the same rules for files and for messages.

A number keeps its digits (12.0 and 12 are both "12"), whether a whole column was parsed at once or one value alone.
"""

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from castleguard.connectors.bad_lines import HALF_CHARACTER, NO_OBJECT, NOT_UTF8
from castleguard.connectors.lines import BYTE_ORDER_MARK
from castleguard.connectors.text import as_text

EXACT = 2.0**53  # from here on a float64 no longer tells neighbouring whole numbers apart
MANY_BRACKETS = 500  # on a line that is handed to Arrow, at most


def parse_object(line: bytes) -> dict[str, Any] | str:
    """The object on a line, or why it is none that a text can hold."""
    try:
        row = json.loads(line.removeprefix(BYTE_ORDER_MARK).decode())  # files that were joined have it in between
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        return NOT_UTF8
    except UnicodeEncodeError:
        return HALF_CHARACTER
    except (ValueError, RecursionError):
        return NO_OBJECT
    return row if isinstance(row, dict) else NO_OBJECT


def may_be_deep(lines: Iterable[bytes]) -> bool:
    """Whether a line may be nested deeper than Python's parser goes."""
    return any(line.count(b"{") + line.count(b"[") > MANY_BRACKETS for line in lines)


def value_as_text(value: Any) -> str | None:
    """One value as text, exactly as a whole column would give it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(pa.scalar(value).cast(pa.string()).as_py())
    return json.dumps(value)


def as_exact_text(column: pa.ChunkedArray) -> Any:
    """A parsed column as text; None if digits may have been lost, or if it is nested."""
    kind = column.type
    if pa.types.is_nested(kind):
        return None
    if not pa.types.is_floating(kind):
        return as_text(column)
    if pc.any(pc.greater_equal(pc.abs(column), EXACT)).as_py():
        return None
    whole = pc.equal(column, pc.trunc(column))
    digits = as_text(pc.cast(pc.if_else(whole, column, None), pa.int64()))
    return pc.if_else(whole, digits, as_text(column)) if len(column) else digits


def render_objects(table: pa.Table, end: str = "") -> Any:
    """Every row as a JSON object, and `end` behind it: numbers as numbers, dates and times as ISO strings, NaN as null.

    The columns must not be nested, and there must be a row.
    """
    pieces: list[Any] = []
    for number, name in enumerate(table.column_names):
        pieces += [("," if number else "{") + json.dumps(name) + ":", _as_json(table[name])]
    return pc.binary_join_element_wise(*pieces, "}" + end, "")


def _as_json(column: pa.ChunkedArray) -> Any:
    """A column as JSON texts, without nulls."""
    kind = column.type
    if pa.types.is_floating(kind):
        text = as_text(pc.if_else(pc.is_finite(column), column, None))
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        text = as_text(column)
    else:
        texts = as_text(column)
        encoded = (texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts).dictionary_encode()
        labels = [json.dumps(label, ensure_ascii=False) for label in encoded.dictionary.to_pylist()]
        text = pa.array(labels, pa.string()).take(encoded.indices)
    return pc.fill_null(text, "null")
