"""Whether what was published is written in one way only.

Groups are judged by numbers and nodes, but a file is read as text. A bound written as 20, as 20.0 and as
20.0000000000000000003 is one number in three spellings: whoever reads the file sees three groups, and what stands
behind the last digit that a number has can be anything, somebody's value too.
"""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa

from castleguard.judge.reading.identities import identity
from castleguard.judge.reading.values import numbers_of
from castleguard.schema.roles import Numeric, QuasiIdentifier, Schema


def odd_spellings(published: pa.Table, schema: Schema) -> tuple[int, tuple[str, ...]]:
    """Rows whose bounds or labels are written otherwise than in most rows with the same ones, or with digits that no
    number has; and the columns that have them. Columns that are not text have one spelling.
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
    meant: dict[object, list[int]] = {}
    odd = 0
    for text, count in zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True):
        if text is None:
            continue
        if isinstance(role, Numeric) and not all(_plain(part, role.kind) for part in _parts(text)):
            odd += count
        else:
            meant.setdefault(_meaning(text, role), []).append(count)
    return odd + sum(sum(counts) - max(counts) for counts in meant.values())


def _parts(text: str) -> list[str]:
    """The numbers of a cell: one, or the two of an interval."""
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


def _plain(text: str, kind: str) -> bool:
    """Whether a text says no more than the number that it is read as."""
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
