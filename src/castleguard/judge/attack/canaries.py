"""Canaries: rows that are likely to show, if any row does, put into a stream of others.

A canary makes two neighbouring streams of one background: with its rows and without them, or with its rows and with
others in their place. Which of the two a claim speaks of is said by its neighbours: "with and without it", or "its
values replaced by any others".
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from castleguard.errors import UsageError
from castleguard.judge.attack.features import Row
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive

Stream = Sequence[Row]

REPEATS = 5  # rows of the person that repeats


@dataclass(frozen=True, kw_only=True)
class Canary:
    """Rows in question, and where they stand."""

    name: str
    rows: Stream
    at: int
    """How many rows of the background come before."""
    instead: Stream = ()
    """What stands in their place in the other stream; empty: nothing does."""
    company: Stream = ()
    """Rows that stand just before them in both streams: others of the same person, say."""

    @property
    def place(self) -> int:
        """The number of the first row in question."""
        return self.at + len(self.company)

    @property
    def known(self) -> Stream:
        """A row in question, and the one in its place if there is one: what an observer looks for."""
        return (*self.rows[:1], *self.instead[:1])

    def streams(self, background: Stream) -> tuple[list[Row], list[Row]]:
        """The stream with the rows in question, and its neighbour."""
        if not 0 <= self.at <= len(background):
            raise UsageError(f"canary {self.name!r} is to stand at {self.at} of {len(background)} rows")
        before, after = [*background[: self.at], *self.company], list(background[self.at :])
        return [*before, *self.rows, *after], [*before, *self.instead, *after]


def standard_canaries(schema: Schema, background: Stream, *, whole_person: bool = False) -> tuple[Canary, ...]:
    """The usual suspects for a background: each has one row in question, that comes or does not come.

    With `whole_person` all rows of the person that repeats are in question: for a claim about all rows of a person.
    Whatever is not a column of the schema (a time of arrival) is that of the row which stands there already.
    """
    middle = len(background) // 2
    usual = _somebody_else(schema, background, background[middle])
    unique = {**usual, **{role.name: _rare_value(role, background) for role in schema.sensitive}}
    extremes = {role.name: _extreme(role, background) for role in schema.quasi_identifiers}
    below = {role.name: _just_outside(role, background) for role in schema.quasi_identifiers}
    first = {**_somebody_else(schema, background, background[0]), **below}
    second = _somebody_else(schema, background, background[1])
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
    """The same rows, which now come in any case: as they are, or with the opposite values in every column.

    Opposite are the other end of a domain, and the sensitive value that most others have.
    """
    row = canary.rows[0]
    others = {role.name: _opposite(role, row[role.name], background) for role in schema.quasi_identifiers}
    others |= {role.name: _common_value(role, row[role.name], background) for role in schema.sensitive}
    return replace(canary, instead=[{**each, **others} for each in canary.rows])


def _somebody_else(schema: Schema, background: Stream, like: Row) -> dict[str, object]:
    """A row like this one, of a person that the background does not have."""
    if schema.person is None:
        return dict(like)
    persons = [row[schema.person] for row in background]
    numbers = [person for person in persons if isinstance(person, int)]
    return {**like, schema.person: max(numbers) + 1 if len(numbers) == len(persons) else "canary"}


def _rare_value(role: Sensitive, background: Stream) -> object:
    """A value that nobody has, or the fewest. What is counted by bins keeps the value of its neighbour."""
    counts = Counter(row[role.name] for row in background)
    if role.bins is not None:
        return background[len(background) // 2][role.name]
    if role.labels is None:
        return "canary" if any(isinstance(value, str) for value in counts) else max(map(_number, counts)) + 1
    return min(role.labels, key=lambda label: counts[label])


def _common_value(role: Sensitive, value: object, background: Stream) -> object:
    """The value that most rows have, of those that are not this one."""
    counts = Counter(row[role.name] for row in background if row[role.name] != value)
    return counts.most_common(1)[0][0] if counts else value


def _ends(role: QuasiIdentifier, background: Stream) -> tuple[object, object]:
    """The ends of a column's domain; of one that is observed, far outside of what is there."""
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
    """The upper end of the domain, or the lower one for a value that is there already."""
    lower, upper = _ends(role, background)
    return lower if value == upper else upper


def _just_outside(role: QuasiIdentifier, background: Stream) -> object:
    """A number a little below all others: a group that has it begins there. Of a category, its first leaf."""
    if not isinstance(role, Numeric) or role.kind != "number":
        return _ends(role, background)[0]
    values = [_number(row[role.name]) for row in background]
    return min(values) - (max(values) - min(values)) / 64


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError("a canary needs numbers where the schema declares some")
    return value
