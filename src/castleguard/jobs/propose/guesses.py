"""Guessed roles for the columns of a sample, for an operator to confirm.

A guess is based on the column name and the form of its values. Columns that may identify a person, and texts with many
values, are dropped. Labels that are rare in the sample are data about few persons and are not written down.
"""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

import pyarrow as pa

from castleguard.jobs.propose.domains import Domain, known_domain, number_bins, number_domain, time_domain
from castleguard.jobs.propose.profile import Profile, profile_column

Role = Literal["person", "quasi-identifier", "sensitive", "dropped"]

MOST_LABELS = 50
LEAST_ROWS = 5  # for a label to be written down


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KEYS = {"id", "ids", "no", "nr", "number", "key", "hash", "uuid", "guid", "code"}
_CODES = {"category", "class", "code", "flag", "id", "kind", "type"}
_PERSONS = _words("""
    account card citizen client contact customer device driver employee household individual member passenger patient
    person pid rider student subject user uid
""")
_DIRECT = _words("""
    address birthname email familyname firstname forename fullname iban imei imsi ip lastname licence license login mail
    mobile msisdn name passport phone plate ssn street surname telephone url username
""")
_SENSITIVE = _words("""
    balance condition crime debt diagnosis disease ethnic ethnicity hiv illness income medication outcome party politics
    pregnancy pregnant race religion salary sexual symptom symptoms treatment wage
""")
_KNOWN_DOMAINS = {
    "age": (0, 120),
    "lat": (-90, 90),
    "latitude": (-90, 90),
    "lon": (-180, 180),
    "lng": (-180, 180),
    "longitude": (-180, 180),
    "hour": (0, 24),
    "month": (1, 12),
    "percent": (0, 100),
}


class Guess(NamedTuple):
    """The guessed role of a column and the reason. One of `domain`, `labels` and `bins` holds the possible values."""

    column: str
    role: Role
    reason: str
    domain: Domain | None = None
    labels: tuple[str, ...] = ()
    bins: tuple[str, ...] = ()
    rare: int = 0
    """Number of rare labels, which are not written down."""
    is_time: bool = False
    missing: int = 0
    """Number of rows of the sample without a value."""

    def __repr__(self) -> str:
        """Column and role only: labels and bounds come from rows."""
        return f"Guess({self.column!r}, {self.role!r})"


def guess_roles(table: pa.Table) -> list[Guess]:
    """A guess for every column, in the order of the file."""
    profiles = [profile_column(name, table[name]) for name in table.column_names if name]
    person = _find_person(profiles)
    guesses = []
    for profile in profiles:
        if profile is person:
            found = Guess(profile.name, "person", "looks like an identifier of persons")
        else:
            found = _guess(profile)
        guesses.append(found._replace(missing=table.num_rows - profile.rows))
    return guesses


def words_of(name: str) -> list[str]:
    """The words of a column name, in lower case.

    >>> words_of("PatientID"), words_of("pickup_zone-id"), words_of("homeZIP")
    (['patient', 'id'], ['pickup', 'zone', 'id'], ['home', 'zip'])
    """
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+", name)]


def _find_person(profiles: Iterable[Profile]) -> Profile | None:
    """The column that looks most like an identifier of persons; None without one."""
    ranked = [(_person_rank(profile), -at, profile) for at, profile in enumerate(profiles)]
    rank, _, best = max(ranked, key=lambda entry: entry[:2], default=(0, 0, None))
    return best if rank else None


def _person_rank(profile: Profile) -> int:
    words = words_of(profile.name)
    if not words or profile.distinct < 2 or profile.kind not in ("text", "number") or not profile.whole:
        return 0
    of_person = any(word in _PERSONS for word in words)
    if of_person and (words[-1] in _KEYS or len(words) == 1):
        return 2
    return 1 if words[-1] in ("id", "uuid", "guid") and profile.distinct == profile.rows else 0


def _guess(profile: Profile) -> Guess:
    words = words_of(profile.name)
    dropped = _why_dropped(profile, words)
    if dropped:
        return Guess(profile.name, "dropped", dropped)
    role: Role = "quasi-identifier"
    if any(word in _SENSITIVE for word in words) and profile.kind in ("text", "number"):
        role = "sensitive"
    if profile.kind == "text" or profile.distinct <= 2 or _is_code(profile, words):
        return _guess_labels(profile, role)
    return _guess_domain(profile, words, role)


def _why_dropped(profile: Profile, words: list[str]) -> str:
    if profile.kind == "nothing":
        return "has no readable values"
    if profile.distinct == 1:
        return "has the same value in every row of the sample"
    if any(word in _DIRECT for word in words):
        return "seems to identify a person directly"
    unique = profile.distinct == profile.rows and profile.kind == "text"
    named = bool(words) and words[-1] in ("id", "uuid", "guid", "hash", "key")
    if unique or (named and profile.distinct > MOST_LABELS):
        return "looks like an identifier"
    if profile.counts_up:
        return "seems to number the rows"
    common = sum(count >= LEAST_ROWS for count in profile.labels.values())
    if profile.kind == "text" and (profile.distinct > MOST_LABELS or common < 2):
        return f"has {profile.distinct:,} different texts: to publish it, group them in a hierarchy"
    return ""


def _is_code(profile: Profile, words: list[str]) -> bool:
    """Whether the numbers are codes: 1 for cash, 2 for cards."""
    few = profile.kind == "number" and profile.whole and profile.distinct <= MOST_LABELS
    return few and bool(words) and words[-1] in _CODES


def _guess_labels(profile: Profile, role: Role) -> Guess:
    labels = tuple(sorted(label for label, count in profile.labels.items() if count >= LEAST_ROWS))
    rare = profile.distinct - len(labels)
    reason = f"{len(labels)} labels of the sample"
    if len(labels) < 2:
        return Guess(profile.name, "dropped", "has too few rows in the sample to list its values")
    if rare:
        reason += f"; {rare:,} rare ones are left out because they may identify persons"
    return Guess(profile.name, role, reason, labels=labels, rare=rare)


def _times(profile: Profile) -> str:
    unit = "days" if profile.kind == "date" else "seconds"
    return f"times of the sample with a margin; step in {unit}; later times are rejected, so leave room"


def _guess_domain(profile: Profile, words: list[str], role: Role) -> Guess:
    if profile.kind != "number":
        return Guess(profile.name, role, _times(profile), time_domain(profile), is_time=True)
    if role == "sensitive":
        edges = number_bins(profile)
        return Guess(profile.name, role, "about a fifth of the sample in each bin, rounded", bins=edges)
    known = next((_KNOWN_DOMAINS[word] for word in words if word in _KNOWN_DOMAINS), None)
    if known is not None and known[0] <= profile.values.min() and profile.values.max() <= known[1]:
        return Guess(profile.name, role, "the usual range of such numbers", known_domain(*known, profile))
    return Guess(profile.name, role, "numbers of the sample with a margin", number_domain(profile))
