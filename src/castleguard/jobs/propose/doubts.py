"""Doubts about a sample, shown next to the guesses. They never contain a value."""

import re
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from castleguard.jobs.propose.guesses import Guess
from castleguard.jobs.propose.profile import Profile, profile_column

MOST_CANDIDATES = 5
LEAST_DISTINCT = 20

_DATA = re.compile(r".*@.*|[-+]?[\d.,]+|\d{4}-\d\d-\d\d.*")


class Doubts(NamedTuple):
    """Doubts about a sample and its guesses."""

    columns: dict[str, str]
    """By column: share of values that do not fit the guess, and what happens to them."""
    persons: tuple[str, ...]
    """Columns that may identify persons, if no column name suggests it."""
    headless: bool
    """Whether the header line of a CSV file looks like a row."""


def find_doubts(table: pa.Table, guesses: list[Guess], *, csv: bool) -> Doubts:
    """Compare the sample with its guesses."""
    profiles = {guess.column: profile_column(guess.column, table[guess.column]) for guess in guesses}
    columns = {guess.column: _describe_misfits(guess, profiles[guess.column]) for guess in guesses}
    has_person = any(guess.role == "person" for guess in guesses)
    candidates = [name for name, profile in profiles.items() if _may_be_person(profile)]
    return Doubts(
        columns={name: doubt for name, doubt in columns.items() if doubt},
        persons=() if has_person else tuple(candidates[:MOST_CANDIDATES]),
        headless=csv and any(_looks_like_data(name, table[name]) for name in profiles),
    )


def _describe_misfits(guess: Guess, profile: Profile) -> str:
    if profile.readable == 1.0 or not (guess.domain or guess.bins):
        return ""
    share = f"{min(int(profile.readable * 100), 99)} % of the values are {profile.kind}s"
    if guess.bins:
        return f"{share}; the rest counts as one additional value"
    return f"{share}; the rest is rejected (with invalid: root, published without detail)"


def _may_be_person(profile: Profile) -> bool:
    """Whether the column has many repeated values: ages are too few, row numbers never repeat."""
    if profile.kind not in ("text", "number") or not profile.whole:
        return False
    return max(LEAST_DISTINCT, profile.rows // 50) <= profile.distinct <= 0.9 * profile.rows


def _looks_like_data(name: str, column: pa.ChunkedArray) -> bool:
    """Whether a column name is a number, a date or an e-mail address, or also a value of the column."""
    return _DATA.fullmatch(name) is not None or bool(pc.any(pc.equal(column, name)).as_py())
