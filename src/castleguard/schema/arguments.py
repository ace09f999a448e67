"""One-line errors for arguments of the wrong kind: swapped, or a class in place of an instance.

Public constructors ask here first, so that a mistake is named where it was made and not three calls further down.
"""

from castleguard.errors import SchemaError
from castleguard.schema.roles import Schema


def check_schema(value: object) -> None:
    """Refuse what is not a Schema."""
    if not isinstance(value, Schema):
        raise SchemaError(f"schema must be a Schema, got {kind_of(value)}: the schema comes before the policy")


def kind_of(value: object) -> str:
    """What an argument is, in words, without its content.

    >>> kind_of(3), kind_of(Schema)
    ('int', 'the class Schema (make one: Schema(...))')
    """
    if isinstance(value, type):
        return f"the class {value.__name__} (make one: {value.__name__}(...))"
    return type(value).__name__
