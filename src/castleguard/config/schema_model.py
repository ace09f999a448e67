"""The schema section as it is written in YAML: its keys and their types.

Only the shape is checked here. What the values mean (bounds, grids, trees, clashing names) is judged by the roles
themselves, so that a schema from a file and one from Python obey the same rules.
"""

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from castleguard.config.entry import Entry
from castleguard.config.expected import IN_QUOTES, Name, expect, number_of, read_variable

Bound = Annotated[
    int | float | dt.datetime | dt.date, read_variable(number_of), expect("a number, a date or a timestamp")
]
Step = Annotated[
    int | float, read_variable(number_of), expect("a number (of days for dates, of seconds for timestamps)")
]
Tree = Annotated[str | dict[str, Any] | list[Any], expect("a path, a nested mapping or a list of labels")]
Label = Annotated[str | int, expect(f"a text or a whole number {IN_QUOTES}")]
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
    """What the column is published as; by default what the input says. A row with another value is rejected."""


class PublicEntry(Entry):
    """`{name: office, type: text}`: a public column with its type."""

    name: Name
    type: ValueType | None = None
    """What the column is published as; by default what the input says. A row with another value is rejected."""


class PersonEntry(Entry):
    """`{name: pid, case: exact}`: how the persons of a column are compared."""

    name: Name
    case: Literal["fold", "exact"] = "fold"
    """Whether JANE and jane are one person (fold) or two (exact)."""
    kind: Literal["text", "number", "uuid"] | None = None
    """What the column holds; by default what its first type says. Other rows are refused."""


# A union is told apart by a key, not by trying its members: an error then speaks of the member that was meant.
# The tags show up in pydantic's error locations; the brackets tell them from keys.
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
        custom_error_message="must say what the column is: {name: age, lower: 0, upper: 100} or "
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
    """The whole section. `person` has no default: who counts as a person is never guessed."""

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
"""The keys of every section, by its place without list indices: what a misspelt key may have meant."""
