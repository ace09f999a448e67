"""A job file as text, with every guess marked: what `castleguard init` writes."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from castleguard.jobs.propose.doubts import Doubts
from castleguard.jobs.propose.guesses import Guess

_SPECIAL = {"yes", "no", "on", "off", "true", "false", "null", "y", "n", "nan", "inf"}
_K = 10
_DELAY = 1000


class Subject(NamedTuple):
    """What was looked at."""

    name: str
    """Of the file, the folder or the pattern, for people."""
    path: str
    """Of the same, from where the job file lies."""
    type: str
    rows: int
    """How many rows were looked at."""
    first: str = ""
    """The file that they are from, if there may be several."""
    in_memory: bool = False
    """Whether the rows were given as a frame, so that the path is a guess, too."""

    @property
    def job(self) -> str:
        """A name for the job: that of the file or folder, as far as letters and digits go."""
        stem = self.name.partition(".")[0]
        return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "job"


_NO_DOUBTS = Doubts({}, (), False)


def proposal(subject: Subject, guesses: list[Guess], doubts: Doubts = _NO_DOUBTS) -> str:
    """The text of a job file."""
    return "\n".join([*_head(subject), *_schema(guesses, doubts), *_privacy(subject, guesses), *_rest(), ""])


def scalar(text: str) -> str:
    r"""A text as YAML: plain where nothing can go wrong, in quotes otherwise.

    >>> [scalar(text) for text in ("Old Town", "no", "12", "a: b", 'x"\t')]
    ['Old Town', '"no"', '"12"', '"a: b"', '"x\\"\\x09"']
    """
    words = text.split(" ")
    plain = all(word and word.replace("_", "").replace("-", "").isalnum() for word in words)
    if plain and text.isascii() and text[0].isalpha() and text.lower() not in _SPECIAL:
        return text
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _head(subject: Subject) -> Iterator[str]:
    sampled = f"{scalar(subject.first)}, the first file of {scalar(subject.name)}" if subject.first else ""
    if subject.in_memory:
        yield f"# Proposed by castleguard from {subject.rows:,} rows that were given in memory."
    else:
        found = sampled or scalar(subject.name)
        yield f"# Proposed by `castleguard init` from the first {subject.rows:,} rows of {found}."
    yield "# Lines marked GUESS are guesses. You know what a column means and what is public; this program does not."
    yield "# Bounds and labels below were taken from data: correct them by what anybody may know without the data."
    yield "confirmed: false  # look at every GUESS, then set this to true (or delete the line)"
    yield ""
    yield f"name: {subject.job}  # in metrics and logs, and in the checkpoint: another name is another job"
    several = "  # with follow: true it waits for new files, for ever" if subject.first else ""
    if subject.in_memory:
        several = "  # GUESS: name the file or the broker that the rows come from"
    yield f"source: {{type: {subject.type}, path: {scalar(subject.path)}}}{several}"
    yield ""


def _schema(guesses: list[Guess], doubts: Doubts) -> Iterator[str]:
    by_role = {role: [guess for guess in guesses if guess.role == role] for role in ("person", "dropped")}
    yield "schema:"
    if by_role["person"]:
        yield f"  person: {scalar(by_role['person'][0].column)}  # GUESS: {by_role['person'][0].reason}"
        yield from _missing(by_role["person"][0], "all of them together count as one person")
    else:
        yield "  person: null  # GUESS: no column says whose row it is, so every row would count as a person of its own"
        if doubts.persons:
            yield f"      # values that come again are in {', '.join(map(scalar, doubts.persons))}: is it one of them?"
    for key, role in (("quasi_identifiers", "quasi-identifier"), ("sensitive", "sensitive")):
        found = [guess for guess in guesses if guess.role == role]
        yield f"  {key}:" if found else f"  {key}: []  # GUESS: none was found"
        for guess in found:
            yield f"    - {_entry(guess)}  # GUESS: {guess.reason}"
            yield from _missing(guess, _NULLS[key])
            if guess.column in doubts.columns:
                yield f"      # {doubts.columns[guess.column]}"
    if by_role["dropped"]:
        yield "  # GUESS: these columns are not read, and so not published. To publish one, give it a role above."
    for guess in by_role["dropped"]:
        yield f"  #   {scalar(guess.column)}: {guess.reason}"
    yield ""


_NULLS = {
    "quasi_identifiers": "null: reject refuses such a row, null: root publishes it with no detail in any column",
    "sensitive": "all of them together count as one more value",
}


def _missing(guess: Guess, what: str) -> Iterator[str]:
    """What becomes of rows without a value, where there are some."""
    if guess.missing:
        yield f"      # {guess.missing:,} rows of the sample have no value here: {what}"


def _entry(guess: Guess) -> str:
    """A column in braces. What becomes of missing values is spelt out where there are some, and of times to come: moved
    to the last one, as numbers are, they would all look the same one day.
    """
    entry = _declared(guess)
    if guess.role != "quasi-identifier":
        return entry
    answers = ", null: reject" * bool(guess.missing) + ", outside: reject" * guess.is_time
    return f"{entry[:-1]}{answers}}}"


def _declared(guess: Guess) -> str:
    name = f"name: {scalar(guess.column)}"
    if guess.labels:
        key = "hierarchy" if guess.role == "quasi-identifier" else "values"
        # A label that is not listed would cost its row; at the root it costs nothing but detail.
        unknown = ", unknown: root" if guess.rare and key == "hierarchy" else ""
        return f"{{{name}, {key}: [{', '.join(map(scalar, guess.labels))}]{unknown}}}"
    if guess.bins:
        return f"{{{name}, bins: [{', '.join(guess.bins)}]}}"
    assert guess.domain is not None
    lower, upper, step = guess.domain
    return f"{{{name}, lower: {lower}, upper: {upper}, step: {step}}}"


def _privacy(subject: Subject, guesses: list[Guess]) -> Iterator[str]:
    k = min(_K, max(2, subject.rows // 20))
    delay = max(k, min(_DELAY, subject.rows // 5))
    yield "privacy:"
    yield "  algorithm: citadel  # GUESS: narrow groups of true ranges, without noise; see the concepts for the others"
    yield f"  k: {k}  # GUESS: every published group has this many persons; the promise is yours to make"
    if any(guess.role == "sensitive" for guess in guesses):
        yield "  l: 2  # GUESS: every published group has this many values of every sensitive column"
    yield f"  delay: {delay}  # GUESS: a row leaves before this many others have arrived; longer is more precise"
    yield "  # max_wait: 30s  # a row leaves after this time, however few others arrive: for a source that never ends"
    yield ""


def _rest() -> Iterator[str]:
    yield "sink: {type: parquet, path: published/}"
    yield "checkpoint: {path: state.db, every: 5s}"
    yield "dead_letter: {path: rejects.jsonl, max_share: 0.05}"
