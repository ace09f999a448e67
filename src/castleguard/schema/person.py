"""The person column, and which of its values are the same person."""

from dataclasses import KW_ONLY, dataclass
from typing import Literal, get_args

from castleguard.errors import SchemaError
from castleguard.schema.sensitive import check_name

PersonKind = Literal["text", "number", "uuid"]
"""Kind of the values of a person column. Text may contain numbers and UUIDs, and any kind may be written as text."""

Case = Literal["fold", "exact"]
"""Whether "JANE" and "jane" are one person ("fold") or two ("exact")."""

CANONICAL_FORM = 4
"""Version of the canonical form (`canonical.py`). Hashes of different versions must not be compared: after a change a
job does not take over stored counts of rows per person."""


@dataclass(frozen=True)
class Person:
    """The person column, with options for comparing its values.

    >>> Person("pid", case="exact")
    Person(name='pid', case='exact', kind=None)
    """

    name: str
    _: KW_ONLY
    case: Case = "fold"
    kind: PersonKind | None = None
    """None: taken from the first batch with values (text if untyped). A batch of another kind is refused."""

    def __post_init__(self) -> None:
        check_name(self.name)
        for field, allowed in (("case", get_args(Case)), ("kind", (None, *get_args(PersonKind)))):
            value = getattr(self, field)
            if value not in allowed:
                choices = " or ".join(repr(choice) for choice in allowed if choice is not None)
                raise SchemaError(f"column {self.name!r}: {field} must be {choices}, got {value!r}")

    def fingerprint(self) -> dict[str, object]:
        """Canonical description as JSON values."""
        return {"name": self.name, "case": self.case, "kind": self.kind, "form": CANONICAL_FORM}
