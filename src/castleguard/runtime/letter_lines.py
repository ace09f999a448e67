"""Dead letters as lines of JSON: what could not be read as a row, and rows that were rejected."""

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from castleguard.connectors.base import Read


def letters_of(read: Read, rejected: Iterable[tuple[int, str]]) -> Iterator[bytes]:
    """A line for everything in `read` that is not a row, and for each rejected row, given with its reason."""
    for bad in read.bad:
        raw = bad.raw.decode(errors="backslashreplace")
        yield _letter({"place": bad.place, "reason": bad.reason, "raw": raw})
    for row, reason in rejected:
        values = {name: _plain(read.rows.column(name)[row]) for name in read.rows.schema.names}
        yield _letter({"place": read.place(row), "reason": reason, "row": values})


def _letter(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, ensure_ascii=False).encode(errors="backslashreplace")


def _plain(scalar: pa.Scalar) -> object:
    """A value as JSON can hold it, whatever it is: a letter must not stop a job."""
    try:
        value = scalar.as_py()
    except UnicodeDecodeError:
        return _as(scalar, pa.binary()).decode(errors="backslashreplace")
    except (ValueError, OverflowError):  # a time that Python has no year for
        return _as(scalar, pa.string()).decode(errors="backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _as(scalar: pa.Scalar, kind: pa.DataType) -> bytes:
    try:
        return bytes(scalar.cast(kind).as_buffer())
    except pa.ArrowException:
        return f"a value of type {scalar.type} that cannot be shown".encode()
