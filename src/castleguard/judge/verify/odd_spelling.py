"""Find bounds and labels that a published file spells in more than one way.

Groups are judged by numbers and nodes, but a file is read as text. A bound written as 20, 20.0 and
20.0000000000000000003 is one number, but a reader of the file sees three groups. Digits beyond the precision of a
number can encode anything, including a person's value.
"""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa

from castleguard.judge.reading.equality import identity
from castleguard.judge.reading.values import numbers_of
from castleguard.schema.roles import Numeric, QuasiIdentifier, Schema


def odd_spellings(published: pa.Table, schema: Schema) -> tuple[int, tuple[str, ...]]:
    """Count bounds and labels with a minority spelling or with excess digits, and name their columns.

    Only text columns can have several spellings.
    """
    odd, columns = 0, []
    for role in schema.quasi_identifiers:
        for name in (f"{role.name}_min", f"{role.name}_max", role.name):
            if name in published.column_names and _is_text(published.column(name).type):
                found = _odd(published.column(name), role)
                odd += found
                columns += [name] if found else []
    return odd, tuple(columns)


def _odd(column: pa.ChunkedArray, role: QuasiIdentifier) -> int:
    counted = column.value_counts()
    spellings: dict[object, list[int]] = {}
    odd = 0
    for text, count in zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True):
        if text is None:
            continue
        if isinstance(role, Numeric) and not all(_is_exact(part, role.kind) for part in _parts(text)):
            odd += count
        else:
            spellings.setdefault(_meaning(text, role), []).append(count)
    return odd + sum(sum(counts) - max(counts) for counts in spellings.values())


def _parts(text: str) -> list[str]:
    """Numbers of a table cell: one, or the two bounds of an interval."""
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    return [part for part in inner.split(", ") if part not in ("", "*")]


def _meaning(text: str, role: QuasiIdentifier) -> object:
    if not isinstance(role, Numeric):
        return text.strip()
    parts = _parts(text)
    return tuple(_number(part, role.kind) for part in parts) if parts else text.strip()


def _number(text: str, kind: str) -> object:
    number = float(numbers_of(pa.chunked_array([[text]], pa.string()), kind)[0][0])
    return text if np.isnan(number) else number


def _is_exact(text: str, kind: str) -> bool:
    """Whether a text has no more digits than the number it is parsed as."""
    if kind == "number":
        number = _number(text, kind)
        return not isinstance(number, float) or identity(text) == identity(str(Decimal(repr(number))))
    _, _, fraction = text.partition(".")
    if kind == "timestamp":
        return len(fraction.rstrip("Z").partition("+")[0].partition("-")[0]) <= 6
    try:
        return dt.datetime.fromisoformat(text).time() == dt.time()
    except ValueError:
        return True


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
