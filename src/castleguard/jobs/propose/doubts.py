"""What a sample leaves doubtful: said beside the guesses, for whoever has to confirm them. Never a value."""

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
    """By column: how many of its values are not what it was taken for, and what becomes of them."""
    persons: tuple[str, ...]
    """Columns that may say whose row it is, where no name looks like it."""
    headless: bool
    """Whether the first line of a CSV file, which names the columns, looks like a row."""


def find_doubts(table: pa.Table, guesses: list[Guess], *, csv: bool) -> Doubts:
    """Look at the sample once more, beside what was made of it."""
    profiles = {guess.column: profile_column(guess.column, table[guess.column]) for guess in guesses}
    columns = {guess.column: _mess(guess, profiles[guess.column]) for guess in guesses}
    has_person = any(guess.role == "person" for guess in guesses)
    candidates = [name for name, profile in profiles.items() if _may_be_person(profile)]
    return Doubts(
        columns={name: said for name, said in columns.items() if said},
        persons=() if has_person else tuple(candidates[:MOST_CANDIDATES]),
        headless=csv and any(_looks_like_data(name, table[name]) for name in profiles),
    )


def _mess(guess: Guess, profile: Profile) -> str:
    if profile.readable == 1.0 or not (guess.domain or guess.bins):
        return ""
    share = f"{min(int(profile.readable * 100), 99)} % of the values are {profile.kind}s"
    if guess.bins:
        return f"{share}; the rest counts as one more value"
    return f"{share}; the rest is rejected (or published without detail: invalid: root)"


def _may_be_person(profile: Profile) -> bool:
    """Whether there are many values, and they come again: ages are too few, numbers of rows never come again."""
    if profile.kind not in ("text", "number") or not profile.whole:
        return False
    return max(LEAST_DISTINCT, profile.rows // 50) <= profile.distinct <= 0.9 * profile.rows


def _looks_like_data(name: str, column: pa.ChunkedArray) -> bool:
    """Whether the name of a column is a number, a date or an address, or one of the values below it."""
    return _DATA.fullmatch(name) is not None or bool(pc.any(pc.equal(column, name)).as_py())
