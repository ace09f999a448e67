"""Canaries: conspicuous rows inserted into a background stream.

A canary turns one background into two neighbouring streams: with and without its rows, or with its rows and with others
in their place. The claim determines which: "with and without it", or "its values replaced by any others".
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from castleguard.errors import UsageError
from castleguard.judge.attack.features import Row
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive

Stream = Sequence[Row]

REPEATS = 5  # rows of the repeated person


@dataclass(frozen=True, kw_only=True)
class Canary:
    """Canary rows and their position in the stream."""

    name: str
    rows: Stream
    at: int
    """Number of background rows before the canary."""
    instead: Stream = ()
    """Rows in their place in the neighbouring stream; empty for none."""
    company: Stream = ()
    """Rows just before the canary in both streams, for example of the same person."""

    @property
    def place(self) -> int:
        """Position of the first canary row."""
        return self.at + len(self.company)

    @property
    def known(self) -> Stream:
        """Rows that an observer looks for: a canary row, and its replacement if it has one."""
        return (*self.rows[:1], *self.instead[:1])

    def streams(self, background: Stream) -> tuple[list[Row], list[Row]]:
        """The stream with the canary, and its neighbour."""
        if not 0 <= self.at <= len(background):
            raise UsageError(f"canary {self.name!r}: position {self.at} is outside a stream of {len(background)} rows")
        before, after = [*background[: self.at], *self.company], list(background[self.at :])
        return [*before, *self.rows, *after], [*before, *self.instead, *after]


def standard_canaries(schema: Schema, background: Stream, *, whole_person: bool = False) -> tuple[Canary, ...]:
    """Standard canaries for a background, each with one row that is present or absent.

    With `whole_person`, all rows of the repeated person are canary rows: for a claim about all rows of a person.
    Columns outside the schema (a time of arrival) are copied from the background row at that position.
    """
    middle = len(background) // 2
    usual = _with_new_person(schema, background, background[middle])
    unique = {**usual, **{role.name: _rare_value(role, background) for role in schema.sensitive}}
    extremes = {role.name: _extreme(role, background) for role in schema.quasi_identifiers}
    below = {role.name: _just_outside(role, background) for role in schema.quasi_identifiers}
    first = {**_with_new_person(schema, background, background[0]), **below}
    second = _with_new_person(schema, background, background[1])
    wide = next(iter(extremes))
    again = [unique] * (REPEATS - 1)
    return (
        Canary(name="unique sensitive value", rows=[unique], at=middle),
        Canary(name="outlier", rows=[{**usual, **extremes}], at=middle),
        Canary(name="first row", rows=[first], at=0),
        Canary(name="repeated person", rows=[unique, *again], at=middle)
        if whole_person
        else Canary(name="repeated person", rows=[unique], at=middle, company=again),
        Canary(name="range extender", rows=[{**second, wide: extremes[wide]}], at=1),
    )


def with_values_replaced(canary: Canary, schema: Schema, background: Stream) -> Canary:
    """The same canary, present in both streams: unchanged, or with the opposite values in every column.

    Opposite means the other end of a domain, or the most frequent other sensitive value.
    """
    row = canary.rows[0]
    others = {role.name: _opposite(role, row[role.name], background) for role in schema.quasi_identifiers}
    others |= {role.name: _common_value(role, row[role.name], background) for role in schema.sensitive}
    return replace(canary, instead=[{**each, **others} for each in canary.rows])


def _with_new_person(schema: Schema, background: Stream, like: Row) -> dict[str, object]:
    """A copy of the row, with a person who is not in the background."""
    if schema.person is None:
        return dict(like)
    persons = [row[schema.person] for row in background]
    numbers = [person for person in persons if isinstance(person, int)]
    return {**like, schema.person: max(numbers) + 1 if len(numbers) == len(persons) else "canary"}


def _rare_value(role: Sensitive, background: Stream) -> object:
    """A new value, or the rarest label. A column with bins keeps the value of the middle row."""
    counts = Counter(row[role.name] for row in background)
    if role.bins is not None:
        return background[len(background) // 2][role.name]
    if role.labels is None:
        return "canary" if any(isinstance(value, str) for value in counts) else max(map(_number, counts)) + 1
    return min(role.labels, key=lambda label: counts[label])


def _common_value(role: Sensitive, value: object, background: Stream) -> object:
    """Most frequent value other than this one."""
    counts = Counter(row[role.name] for row in background if row[role.name] != value)
    return counts.most_common(1)[0][0] if counts else value


def _ends(role: QuasiIdentifier, background: Stream) -> tuple[object, object]:
    """Ends of a column's domain; for an observed domain, values far outside the background."""
    if isinstance(role, Categorical):
        return role.hierarchy.leaves[0], role.hierarchy.leaves[-1]
    if role.lower is not None:
        return role.lower, role.upper
    values = [_number(row[role.name]) for row in background]
    width = max(values) - min(values)
    return min(values) - 4 * width, max(values) + 4 * width


def _extreme(role: QuasiIdentifier, background: Stream) -> object:
    return _ends(role, background)[1]


def _opposite(role: QuasiIdentifier, value: object, background: Stream) -> object:
    """Upper end of the domain, or the lower end if the value is the upper end."""
    lower, upper = _ends(role, background)
    return lower if value == upper else upper


def _just_outside(role: QuasiIdentifier, background: Stream) -> object:
    """A number slightly below all others, where a group with it must begin; for a category, the first leaf."""
    if not isinstance(role, Numeric) or role.kind != "number":
        return _ends(role, background)[0]
    values = [_number(row[role.name]) for row in background]
    return min(values) - (max(values) - min(values)) / 64


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError("canaries need numbers in the numeric columns of the background")
    return value
