"""Text of a schema that occurs in the output: column names, labels of hierarchies, declared values."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from castleguard.schema.publishable import Unfit
from castleguard.schema.roles import Categorical, Schema


class SchemaText(NamedTuple):
    """A column name or a label."""

    column: str
    text: str
    is_name: bool
    """Whether it is the column's name, not one of its labels."""

    def __str__(self) -> str:
        """Description with the text itself: a schema is public."""
        return f"the name of column {self.text!r}" if self.is_name else f"the label {self.text!r} of {self.column!r}"


def schema_texts(schema: Schema) -> Iterator[SchemaText]:
    """All text of a schema, names first."""
    roles = (*schema.quasi_identifiers, *schema.sensitive)
    for name in (*(role.name for role in roles), *schema.public):
        yield SchemaText(name, name, is_name=True)
    for role in roles:
        labels = role.hierarchy.labels if isinstance(role, Categorical) else getattr(role, "labels", None)
        for label in labels or ():
            if isinstance(label, str):
                yield SchemaText(role.name, label, is_name=False)


def unfit_text(schema: Schema, unfit: Unfit | None) -> SchemaText | None:
    """First text of a schema that a sink cannot take; None if it takes all."""
    if unfit is None:
        return None
    texts = list(schema_texts(schema))
    found = unfit(pa.chunked_array([pa.array([text.text for text in texts], pa.string())]))
    return None if found is None else texts[int(found.argmax())]
