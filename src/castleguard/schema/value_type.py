"""Names of the types that sensitive and public columns may declare."""

from typing import Literal, get_args

from castleguard.errors import SchemaError

ValueType = Literal["text", "integer", "number", "boolean", "date", "timestamp"]


def check_type(name: str, given: object) -> None:
    """Refuse a type that is not one of `ValueType`; None is allowed."""
    if given is not None and given not in get_args(ValueType):
        choices = " or ".join(map(repr, get_args(ValueType)))
        raise SchemaError(f"column {name!r}: type must be {choices}, got {given!r}")
