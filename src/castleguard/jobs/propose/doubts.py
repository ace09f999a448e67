"""Doubts about a sample, shown next to the guesses. They never contain a value."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from castleguard.jobs.propose.guesses import Guess
from castleguard.jobs.propose.persons import MOST_CANDIDATES, Candidate
from castleguard.jobs.propose.profile import Profile, profile_column
from castleguard.jobs.propose.survey import WINDOWS, Survey

K = 10
_GROUPS = 10  # groups of k persons whose rows wait together
_ENOUGH = 3 * K  # persons among the rows that wait together

_DATA = re.compile(r".*@.*|[-+]?[\d.,]+|\d{4}-\d\d-\d\d.*")


class Doubts(NamedTuple):
    """Doubts about a sample and its guesses."""

    columns: dict[str, str]
    """By column: share of values that do not fit the guess, and what happens to them."""
    persons: tuple[Candidate, ...]
    """Columns that may identify persons, besides the one that is guessed."""
    headless: bool
    """Whether the header line of a CSV file looks like a row."""
    delay: int | None = None
    """Delay that the order of the rows asks for; None: the usual one is enough."""
    alone: bool = False
    """Whether someone has said that every row is a person of its own."""
    sorted_by: tuple[str, ...] = ()
    """Sensitive columns with less than two values among neighbouring rows, for any delay."""


def find_doubts(found: Survey, guesses: list[Guess], candidates: Sequence[Candidate], *, csv: bool) -> Doubts:
    """Compare the table with its guesses. `csv`: the names of the columns come from a line of CSV."""
    table = found.sample
    profiles = {guess.column: profile_column(guess.column, table[guess.column]) for guess in guesses}
    columns = {guess.column: _describe_misfits(guess, profiles[guess.column]) for guess in guesses}
    person = {guess.column for guess in guesses if guess.role == "person"}
    others = [one for one in candidates if one.column not in person and (one.rank or not person)]
    return Doubts(
        columns={name: doubt for name, doubt in columns.items() if doubt},
        persons=tuple(others[:MOST_CANDIDATES]),
        headless=csv and any(_looks_like_data(name, table[name]) for name in profiles),
        **_order_of(found, guesses),
    )


class _Order(TypedDict):
    delay: int | None
    sorted_by: tuple[str, ...]


def _order_of(found: Survey, guesses: list[Guess]) -> _Order:
    """What the order of the rows asks for: enough persons, and two values, among the rows that wait together."""
    usual, longer = WINDOWS
    delay: int | None = None
    for guess in guesses:
        if guess.role == "person":
            each = found.repeats[guess.column].each
            if (found.fewest(guess.column, usual) or _ENOUGH) < _ENOUGH:
                delay = max(delay or 0, math.ceil(_GROUPS * K * each / usual) * usual)
    sensitive = [guess.column for guess in guesses if guess.role == "sensitive"]
    if any((found.fewest(column, usual) or 2) < 2 for column in sensitive):
        delay = max(delay or 0, longer)
    alike = tuple(column for column in sensitive if (found.fewest(column, longer) or 2) < 2)
    return {"delay": delay, "sorted_by": alike}


def _describe_misfits(guess: Guess, profile: Profile) -> str:
    if profile.readable == 1.0 or not (guess.domain or guess.bins):
        return ""
    share = f"{min(int(profile.readable * 100), 99)} % of the values are {profile.kind}s"
    if guess.bins:
        return f"{share}; the rest counts as one additional value"
    if guess.to_root:
        return f"{share}; the rest is published without detail in any column"
    return f"{share}; the rest is rejected (with invalid: root, published without detail)"


def _looks_like_data(name: str, column: pa.ChunkedArray) -> bool:
    """Whether a column name is a number, a date or an e-mail address, or also a value of the column."""
    return _DATA.fullmatch(name) is not None or bool(pc.any(pc.equal(column, name)).as_py())
