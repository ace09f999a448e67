"""Which columns a format can hold, known before a row is committed: a segment that is stored must be deliverable.

Values are the decoder's matter (`schema/publishable.py`): what passes it fits every type that is held here.
"""

from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from castleguard.errors import OutputError

Held = Literal["csv", "jsonl", "parquet", "arrow"]

_NAMES: dict[Held, str] = {"csv": "CSV", "jsonl": "JSON", "parquet": "Parquet", "arrow": "Arrow"}


def check_held(columns: pa.Schema, format: Held, where: str) -> None:
    """Raise OutputError if rows with these columns can never be written in the format."""
    seen: set[str] = set()
    for field in columns:
        if field.name in seen:
            raise OutputError(f"{where}: two columns would be published as {field.name!r}: rename one of them")
        seen.add(field.name)
        other = _other_format(field.type, format)
        if other is not None:
            raise OutputError(
                f"{where}: column {field.name!r} is of type {field.type}, which {_NAMES[format]} cannot hold: "
                f"convert it before, {other}or do not declare it"
            )


def _other_format(kind: pa.DataType, format: Held) -> str | None:
    """What to write instead of this format, as a part of a sentence; None: the format can hold the type."""
    if format == "arrow" or (_parquet_holds(kind) if format == "parquet" else _text_holds(kind)):
        return None
    return "publish to Arrow, " if format == "parquet" or not _parquet_holds(kind) else "publish to Parquet or Arrow, "


def _text_holds(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_timestamp(kind) and kind.tz is not None:
        return _is_zone(kind)
    texts = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if types.is_dictionary(kind):
        return _text_holds(kind.value_type)
    numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
    times = types.is_temporal(kind) and not types.is_interval(kind)
    return bool(texts or numbers or times or types.is_null(kind))


def _parquet_holds(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_nested(kind):
        fields = [kind.field(at).type for at in range(kind.num_fields)]
        return bool(fields) and not types.is_union(kind) and all(map(_parquet_holds, fields))
    if types.is_decimal(kind):
        return bool(kind.scale >= 0)
    return not types.is_interval(kind)


def _is_zone(kind: pa.DataType) -> bool:
    """Whether the time zone is one that this machine knows."""
    try:
        pc.cast(pa.array([0], pa.int64()).view(kind), pa.string())
    except pa.ArrowException:
        return False
    return True
