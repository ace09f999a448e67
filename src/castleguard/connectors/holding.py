"""Columns that a format can hold, checked before a row is committed: a stored segment must be deliverable.

Values are checked by the decoder (`schema/publishable.py`): those that pass fit every type that is held here.
"""

import pyarrow as pa
import pyarrow.compute as pc

from castleguard.connectors.formats import Format, codec
from castleguard.errors import OutputError

_TYPED: tuple[Format, ...] = ("parquet", "arrow")


def check_held(columns: pa.Schema, format: Format, where: str) -> None:
    """Raise OutputError if rows with these columns can never be written in the format."""
    held_by = codec(format)
    seen: set[str] = set()
    for field in columns:
        if field.name in seen:
            raise OutputError(f"{where}: two columns would be published as {field.name!r}: rename one of them")
        seen.add(field.name)
        if not held_by.holds(field.type):
            others = " or ".join(other.title for other in map(codec, _TYPED) if other.holds(field.type))
            raise OutputError(
                f"{where}: column {field.name!r} is of type {field.type}, which {held_by.title} cannot hold: "
                f"convert it before, publish to {others}, or do not declare it"
            )


def text_holds(kind: pa.DataType) -> bool:
    """Whether a text format can hold a column of this type."""
    types = pa.types
    if types.is_timestamp(kind) and kind.tz is not None:
        return _is_zone(kind)
    texts = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if types.is_dictionary(kind):
        return text_holds(kind.value_type)
    numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
    times = types.is_temporal(kind) and not types.is_interval(kind)
    return bool(texts or numbers or times or types.is_null(kind))


def _is_zone(kind: pa.DataType) -> bool:
    """Whether this machine knows the time zone."""
    try:
        pc.cast(pa.array([0], pa.int64()).view(kind), pa.string())
    except pa.ArrowException:
        return False
    return True
