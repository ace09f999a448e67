"""Model of the schema section: its keys and their types.

It checks only the shape. The roles check the values (bounds, grids, trees, clashing names), so that schemas from a file
and from Python obey the same rules.
"""

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from castleguard.config.expected import IN_QUOTES, Entry, Name, expect, number_of, read_variable

Bound = Annotated[
    int | float | dt.datetime | dt.date, read_variable(number_of), expect("a number, a date or a timestamp")
]
Step = Annotated[
    int | float, read_variable(number_of), expect("a number (of days for dates, of seconds for timestamps)")
]
Tree = Annotated[str | dict[str, Any] | list[Any], expect("a path, a nested mapping or a list of labels")]
Label = Annotated[str | int, expect(f"text or a whole number {IN_QUOTES}")]
Answer = Literal["reject", "root"]
ValueType = Literal["text", "integer", "number", "boolean", "date", "timestamp"]


class NumericEntry(Entry):
    """`{name: age, lower: 0, upper: 100, step: 5}`."""

    name: Name
    lower: Bound | None = None
    upper: Bound | None = None
    step: Step | None = None
    null: Answer = "reject"
    outside: Literal["clamp", "reject", "root"] = "clamp"
    invalid: Answer = "reject"
    default: Bound | None = None


class CategoricalEntry(Entry):
    """`{name: education, hierarchy: education.csv}`, or the tree itself as a nested mapping or a flat list."""

    name: Name
    hierarchy: Tree
    null: Answer = "reject"
    unknown: Answer = "reject"
    default: str | None = None


class SensitiveEntry(Entry):
    """`{name: fare, bins: [0, 10, 20]}`, `{name: job, values: [cook, driver]}`, or `hierarchy` as for a category."""

    name: Name
    bins: list[Bound] | None = None
    values: list[Label] | None = None
    hierarchy: Tree | None = None
    type: ValueType | None = None
    """Published type of the column; default: the type of the input. Rows with other values are rejected."""


class PublicEntry(Entry):
    """`{name: office, type: text}`: a public column with its type."""

    name: Name
    type: ValueType | None = None
    """Published type of the column; default: the type of the input. Rows with other values are rejected."""


class PersonEntry(Entry):
    """`{name: pid, case: exact}`: how persons are compared."""

    name: Name
    case: Literal["fold", "exact"] = "fold"
    """Whether JANE and jane are one person (fold) or two (exact)."""
    kind: Literal["text", "number", "uuid"] | None = None
    """Content of the column; default: from its first type. Other rows are rejected."""


# A key selects the member of a union, so that errors refer only to that member. The tags appear in pydantic's error
# locations; the brackets distinguish them from keys.
def _quasi_identifier_tag(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    return "<categorical>" if "hierarchy" in value else "<numeric>"


def _entry_tag(value: Any) -> str:
    return "<entry>" if isinstance(value, dict) else "<name>"


QuasiIdentifierEntry = Annotated[
    Annotated[NumericEntry, Tag("<numeric>")] | Annotated[CategoricalEntry, Tag("<categorical>")],
    Discriminator(
        _quasi_identifier_tag,
        custom_error_type="expected",
        custom_error_message="must be a mapping such as {name: age, lower: 0, upper: 100} or "
        "{name: education, hierarchy: education.csv}",
    ),
]
AnySensitiveEntry = Annotated[
    Annotated[SensitiveEntry, Tag("<entry>")] | Annotated[Name, Tag("<name>")], Discriminator(_entry_tag)
]
AnyPublicEntry = Annotated[
    Annotated[PublicEntry, Tag("<entry>")] | Annotated[Name, Tag("<name>")], Discriminator(_entry_tag)
]
AnyPersonEntry = Annotated[
    Annotated[PersonEntry, Tag("<entry>")] | Annotated[Name, Tag("<name>")], Discriminator(_entry_tag)
]


class SchemaEntry(Entry):
    """The whole section. `person` has no default: it is never guessed."""

    person: AnyPersonEntry | None
    quasi_identifiers: list[QuasiIdentifierEntry]
    sensitive: list[AnySensitiveEntry] = Field(default_factory=list)
    public: list[AnyPublicEntry] = Field(default_factory=list)


KNOWN_KEYS: dict[tuple[str, ...], tuple[str, ...]] = {
    (): tuple(SchemaEntry.model_fields),
    ("quasi_identifiers",): tuple({**NumericEntry.model_fields, **CategoricalEntry.model_fields}),
    ("person",): tuple(PersonEntry.model_fields),
    ("sensitive",): tuple(SensitiveEntry.model_fields),
    ("public",): tuple(PublicEntry.model_fields),
}
"""The keys of every section, by its place without list indices: suggestions for misspelt keys."""
