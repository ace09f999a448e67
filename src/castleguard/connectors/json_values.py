"""JSON values as text: the same rules for files and for messages.

A number keeps its digits (12.0 and 12 are both "12"), whether a whole column was parsed at once or one value alone.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from castleguard.connectors.bad_lines import HALF_CHARACTER, NO_OBJECT, NOT_UTF8
from castleguard.connectors.text_columns import BYTE_ORDER_MARK, as_text

EXACT = 2.0**53  # from here on, a float64 cannot represent every integer
MANY_BRACKETS = 500  # most brackets on a line that Arrow may parse

_SHORT = 15  # decimal digits that every float64 keeps
_LONGEST = 100  # maximum number of digits of a number written without an exponent
MARK = "\x01"  # first character of a string that was a number
_MEMBER = re.compile(rb":([ \t]*)(-?[0-9][0-9.eE+-]*)(?=[ \t\r]*[,}])")
# Numbers that stay as written: no zeros at the end, and below 1e-6 or from 1e10 on a float has an exponent.
AS_WRITTEN = r"^(0|-?[1-9][0-9]*|-?0\.0{0,5}[1-9]([0-9]*[1-9])?|-?[1-9][0-9]{0,9}\.[0-9]*[1-9])$"
_RUNS = bytes(ord("0") if byte in b"0123456789." else ord(" ") for byte in range(256))
_EXPONENTS = bytes(
    {**dict.fromkeys(b"0123456789.", 0x30), **dict.fromkeys(b"eE", 0x65), **dict.fromkeys(b"+-", 0x2B)}.get(byte, 0x20)
    for byte in range(256)
)
_LONG_RUN = b"0" * (_SHORT + 2)
_LONG_FRACTION = re.compile(rb"(?=[0-9.]{%d})[0-9]*\.[0-9]" % (_SHORT + 2))


class Literal(float):
    """A number with a point or an exponent, and its spelling."""

    text: str

    def __new__(cls, text: str) -> "Literal":
        """Read the number."""
        number = super().__new__(cls, text)
        number.text = text
        return number


def parse_object(line: bytes) -> dict[str, Any] | str:
    """The object on a line, or the reason why the line is not a row."""
    try:
        # Concatenated files have a byte order mark in between.
        row = json.loads(line.removeprefix(BYTE_ORDER_MARK).decode(), parse_float=Literal)
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
    """One value as text, the same as in a column that was parsed at once."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Literal) and not _is_short(value.text):
        return _all_digits(value.text)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(pa.scalar(value).cast(pa.string()).as_py())
    return json.dumps(value)


def may_be_long(block: bytes) -> bool:
    """Whether a block may hold a number with more digits or a larger exponent than a float64 keeps."""
    exponents = block.translate(_EXPONENTS)
    if b"0e000" in exponents or b"0e+000" in exponents:
        return True
    if _LONG_RUN not in block.translate(_RUNS):
        return False
    # Integers may be long: they are not read as floats, or are found by their size.
    return _LONG_FRACTION.search(block) is not None


def _is_short(text: str) -> bool:
    digits, _, exponent = text.lower().lstrip("-").partition("e")
    significant = digits.replace(".", "").lstrip("0")
    return len(significant) <= _SHORT and len(exponent.lstrip("+-0")) < 3 and len(digits) <= 2 * _SHORT


def _all_digits(text: str) -> str:
    """A long number without trailing zeros, or as written if it would be very long."""
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -_LONGEST or abs(number.adjusted()) > _LONGEST:
        return text
    plain = format(number, "f")
    return (plain.rstrip("0").rstrip(".") if "." in plain else plain) or "0"


def quote_numbers(block: bytes) -> bytes | None:
    """The block with all numbers as strings that begin with MARK; None if it already holds such strings.

    A number inside a string would be quoted as well, which ends the string: the result is not JSON and fails to parse.
    """
    return None if b"\\u0001" in block else _MEMBER.sub(rb':\1"\\u0001\2"', block)


def unquote_numbers(column: pa.ChunkedArray) -> Any:
    """A column of strings, with every number that `quote_numbers` has marked converted by `value_as_text`."""
    marked = pc.starts_with(column, MARK)
    if not pc.any(marked).as_py():
        return column
    text = pc.replace_substring_regex(column, f"^{MARK}", "")
    # Plain digits stay, except those that a float would spell with an exponent.
    unusual = pc.and_(marked, pc.invert(pc.match_substring_regex(text, AS_WRITTEN))).fill_null(False)
    if not pc.any(unusual).as_py():
        return text
    found = text.filter(unusual).combine_chunks()
    texts = [value_as_text(json.loads(number, parse_float=Literal)) for number in found.to_pylist()]
    mask = unusual.combine_chunks() if isinstance(unusual, pa.ChunkedArray) else unusual
    plain = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
    return pc.replace_with_mask(plain, mask, pa.array(texts, plain.type))


def as_exact_text(column: pa.ChunkedArray) -> Any:
    """A parsed column as text; None if it may have lost digits, or is nested."""
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


def exact_columns(
    table: pa.Table, names: Sequence[str], block: bytes, read: Callable[[bytes, pa.Schema], pa.Table | None]
) -> list[Any] | None:
    """The columns of a parsed block as text; None if the block must be parsed line by line.

    Where a float column may have lost digits, the block is parsed once more with its numbers as strings.
    """
    floats = any(pa.types.is_floating(table.schema.field(name).type) for name in names)
    if floats and may_be_long(block):
        quoted = quote_numbers(block)
        kinds = {name: table.schema.field(name).type for name in names}
        numeric = {name for name, kind in kinds.items() if pa.types.is_integer(kind) or pa.types.is_floating(kind)}
        types = pa.schema([(name, pa.string() if name in numeric else kind) for name, kind in kinds.items()])
        again = None if quoted is None else read(quoted, types)
        if again is None or again.num_rows != table.num_rows:
            return None
        table = again
        columns = [
            unquote_numbers(table[name]) if pa.types.is_string(types.field(name).type) else as_exact_text(table[name])
            for name in names
        ]
    else:
        columns = [as_exact_text(table[name]) for name in names]
    return None if any(column is None for column in columns) else columns
