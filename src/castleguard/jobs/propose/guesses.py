"""Guessed roles for the columns of a sample, for an operator to confirm.

A guess is based on the column name and the form of its values. Columns that may identify a person, and texts with many
values, are dropped, and so are all quasi-identifiers but the few that single out most. Labels that are rare in the
sample are data about few persons and are not written down.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from castleguard.jobs.propose.domains import FEW, Domain, known_domain, number_bins, number_domain, time_domain
from castleguard.jobs.propose.persons import Candidate
from castleguard.jobs.propose.profile import MANY, Profile, profile_column
from castleguard.jobs.propose.singling import MOST, choose_columns, codes_of
from castleguard.jobs.propose.survey import Repeats
from castleguard.jobs.propose.words import word_set, words_of

_RANKED_ROWS = 5_000

Role = Literal["person", "quasi-identifier", "sensitive", "dropped"]

MOST_LABELS = 50
LEAST_ROWS = 5  # for a label to be written down

_CODES = {"category", "class", "code", "flag", "id", "kind", "type"}
_DIRECT = word_set("""
    address birthname email familyname firstname forename fullname iban imei imsi ip lastname licence license login mail
    mobile msisdn name passport phone plate ssn street surname telephone url username
""")
_SENSITIVE = word_set("""
    balance condition crime debt diagnosis disease ethnic ethnicity hiv illness income medication outcome party politics
    pregnancy pregnant race religion salary sexual symptom symptoms treatment wage
""")
_KNOWN_DOMAINS = {
    "age": (0, 120),
    "hour": (0, 24),
    "percent": (0, 100),
}
_AGE_SPAN = 12  # years: "ages" within fewer are codes
_WIDEST_GAP = 20  # times the mean gap of serial numbers: by chance, one of 20,000 is 10 times as wide
MOST_REJECTED = 0.02  # share of rows; clumps of them must not reach the share at which a job stops
_MOST_MISSING, _MOST_MISSING_SENSITIVE = 0.1, 0.5  # share of rows


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
    to_root: bool = False
    """Whether rows without a readable value are published without detail: rejecting them would cost too many."""
    type: str | None = None
    """Published type of a sensitive column, if all values of the sample have it."""

    def __repr__(self) -> str:
        """Column and role only: labels and bounds come from rows."""
        return f"Guess({self.column!r}, {self.role!r})"


def guess_roles(
    table: pa.Table, candidates: Sequence[Candidate] = (), repeats: Mapping[str, Repeats] | None = None
) -> list[Guess]:
    """A guess for every column, in the order of the file. The first candidate is the person if it has a rank.

    `repeats` are those of all rows; without them, only a sample tells whether a number is different in every row.
    """
    unique = {name for name, each in (repeats or {}).items() if each.unique and each.rows >= MANY}
    profiles = {name: profile_column(name, table[name]) for name in table.column_names if name}
    person = candidates[0] if candidates and candidates[0].rank else None
    guesses = []
    for profile in profiles.values():
        if person is not None and profile.name == person.column:
            found = Guess(profile.name, "person", f"looks like an identifier of persons: {person}")
        else:
            found = _guess(profile, table.num_rows, numbers_rows=profile.name in unique and _is_serial(profile))
        guesses.append(found._replace(missing=table.num_rows - profile.rows))
    return _publish_enough(_keep_few(guesses, table, profiles), profiles, table.num_rows)


def _keep_few(guesses: list[Guess], table: pa.Table, profiles: Mapping[str, Profile]) -> list[Guess]:
    """Drop the quasi-identifiers beyond the few that single out most."""
    found = [guess.column for guess in guesses if guess.role == "quasi-identifier"]
    if len(found) <= MOST:
        return guesses
    few = table.slice(0, _RANKED_ROWS)
    codes = [codes_of(few[name], profiles[name]) for name in found]
    chosen = {found[at] for at in choose_columns(codes, found)}
    reason = f"is not among the {MOST} columns that single out most; if others can know it, add it"
    return [
        Guess(guess.column, "dropped", reason) if guess.column in found and guess.column not in chosen else guess
        for guess in guesses
    ]


def _publish_enough(guesses: list[Guess], profiles: Mapping[str, Profile], rows: int) -> list[Guess]:
    """Answer `root` for the columns that would reject most rows, until the others reject few."""
    lost = {
        guess.column: guess.missing + round((1 - profiles[guess.column].readable) * profiles[guess.column].rows)
        for guess in guesses
        if guess.role == "quasi-identifier"
    }
    at_root: set[str] = set()
    for column in sorted(lost, key=lambda name: -lost[name]):
        if sum(lost.values()) - sum(lost[name] for name in at_root) <= MOST_REJECTED * rows:
            break
        at_root.add(column)
    return [guess._replace(to_root=True) if guess.column in at_root else guess for guess in guesses]


def _guess(profile: Profile, rows: int, *, numbers_rows: bool) -> Guess:
    words = words_of(profile.name)
    dropped = _why_dropped(profile, words)
    if not dropped and numbers_rows and not any(word in _SENSITIVE for word in words):
        dropped = "is different in every row: it seems to number the rows"
    if dropped:
        return Guess(profile.name, "dropped", dropped)
    role: Role = "quasi-identifier"
    lost = 1 - profile.rows * profile.readable / rows
    if any(word in _SENSITIVE for word in words) and profile.kind in ("text", "number"):
        role = "sensitive"
    few = role == "sensitive" and profile.kind == "number" and profile.whole and profile.distinct <= FEW
    if lost > (_MOST_MISSING if role == "quasi-identifier" else _MOST_MISSING_SENSITIVE):
        return Guess(profile.name, "dropped", f"has no readable value in {100 * lost:.0f} % of the rows")
    if profile.kind == "text" or profile.distinct <= 2 or few or _is_code(profile, words):
        return _guess_labels(profile, role)
    return _guess_domain(profile, words, role)


def _is_serial(profile: Profile) -> bool:
    """Whether different values can be the numbers of the rows: texts, or whole numbers with few gaps.

    In a sample of the rows gaps are as wide as the share of the rows that it has.
    """
    if profile.kind == "text":
        return True
    if profile.kind != "number" or not profile.whole:
        return False
    gaps = np.diff(np.sort(profile.values))
    return bool(gaps.max(initial=0) <= _WIDEST_GAP * max(gaps.mean(), 1))


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
        return f"has {profile.distinct:,} different texts: to publish it, group them with castleguard hierarchy"
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
        kind = "integer" if profile.whole else "number"
        found = Guess(profile.name, role, "about a fifth of the sample in each bin, rounded", bins=edges)
        return found._replace(type=kind if profile.readable == 1.0 else None)
    known = next((_KNOWN_DOMAINS[word] for word in words if word in _KNOWN_DOMAINS), None)
    span = profile.values.max() - profile.values.min()
    fits = known is not None and known[0] <= profile.values.min() and profile.values.max() <= known[1]
    if known is not None and fits and (known != _KNOWN_DOMAINS["age"] or span >= _AGE_SPAN):
        return Guess(profile.name, role, "the usual range of such numbers", known_domain(*known, profile))
    domain, how = number_domain(profile)
    return Guess(profile.name, role, how, domain)
