"""Finds the column that identifies persons, by its name and by how its values repeat.

A person may have several rows, so an identifier that repeats is the better candidate. An identifier that is different
in every row numbers the rows, unless its name says that it is one of persons.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from castleguard.jobs.propose.profile import Profile
from castleguard.jobs.propose.survey import Repeats
from castleguard.jobs.propose.words import word_set, words_of

MOST_CANDIDATES = 5

_LEAST_VALUES = 20  # of a column whose name alone does not say that it identifies persons
_LEAST_EACH = 1.05  # rows per value of an identifier that repeats
_MOST_MISSING = 0.2
_LEAST_OF_NUMBERS, _LEAST_OF_TEXTS = 0.02, 0.001  # values per row: with fewer, a column is a quantity or a category
_MOST_SINGLE = 0.95  # share of values with one row: beyond it, a column hardly repeats

_PERSONS = word_set("""
    account card citizen client contact customer cust device driver emp employee household individual member
    passenger patient person pid respondent rider student subject user uid
""")
_IDS = frozenset({"id", "ids", "idcode", "idnum", "idno", "uuid", "guid"})
_KEYS = _IDS | {"no", "nr", "number", "num", "key", "hash", "code", "token"}
_THINGS = word_set("""
    airport area carrier city class county country course department event flight group hotel invoice item
    location movie order payment product record region row school session shop state station store test ticket
    transaction trip vehicle vendor visit zone
""")


class Candidate(NamedTuple):
    """A column that may identify persons."""

    column: str
    rank: int
    """2: chosen by its name, 1: the only identifier that repeats, 0: nothing speaks for it but its repeats."""
    values: int
    """Estimated number of different values."""
    each: float
    """Rows per value."""

    def __str__(self) -> str:
        """The evidence in words."""
        if self.each < _LEAST_EACH:
            return "a different value in almost every row"
        return f"about {self.values:,} values, {self.each:,.1f} rows each"


def find_candidates(profiles: Sequence[Profile], repeats: Mapping[str, Repeats], rows: int) -> list[Candidate]:
    """Columns that may identify persons, the best first.

    An identifier that repeats convinces (rank 1) only if no other column may be the identifier just as well.
    """
    found = []
    for profile in profiles:
        each = repeats[profile.name]
        rank = _rank(profile, each, rows)
        if rank is not None:
            found.append(Candidate(profile.name, rank, each.distinct, each.each))
    identifiers = [one for one in found if words_of(one.column)[-1] in _IDS and one.rank < 2]
    if len(identifiers) > 1:
        found = [one._replace(rank=0) if one.rank < 2 else one for one in found]
    return sorted(found, key=_order)


def _order(candidate: Candidate) -> tuple[int, bool, bool, int]:
    """Better candidates first: by rank, repeats, the last word of the name, and number of values."""
    words = words_of(candidate.column)
    return -candidate.rank, candidate.each < _LEAST_EACH, not words or words[-1] not in _IDS, -candidate.values


def _rank(profile: Profile, repeats: Repeats, rows: int) -> int | None:
    words = words_of(profile.name)
    if not words or profile.kind not in ("text", "number") or not profile.whole or repeats.distinct < 2:
        return None
    if repeats.rows < (1 - _MOST_MISSING) * rows:
        return None
    if _names_persons(words) and (words[-1] in _KEYS or _is_joined(words[-1]) or repeats.distinct >= _LEAST_VALUES):
        return 2
    if repeats.unique and words[-1] in _IDS:
        return 0
    repeating = repeats.distinct >= _LEAST_VALUES and repeats.each >= _LEAST_EACH and repeats.single < _MOST_SINGLE
    if not repeating:
        return None
    if words[-1] in _IDS and not _THINGS.intersection(words):
        return 1
    enough = _LEAST_OF_NUMBERS if profile.kind == "number" else _LEAST_OF_TEXTS
    return 0 if words[-1] in _KEYS or repeats.distinct >= enough * rows else None


def _names_persons(words: Sequence[str]) -> bool:
    """Whether the name says persons, and little else: "patient", "PatientID", "custid", not "client_age"."""
    if len(words) > 1 and words[-1] not in _KEYS:
        return False
    return any(word in _PERSONS for word in words) or _is_joined(words[-1])


def _is_joined(word: str) -> bool:
    """Whether a word is one of persons and one of identifiers in one: userid, custno.

    >>> _is_joined("userid"), _is_joined("patient"), _is_joined("valid")
    (True, False, False)
    """
    return any(word.startswith(one) and word.removeprefix(one) in _KEYS for one in _PERSONS)
