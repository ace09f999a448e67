"""Text of a proposed job file, with every guess marked."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from castleguard.config.schema_file import OPEN
from castleguard.connectors.csv_input import PLAIN, CsvInput
from castleguard.jobs.propose.doubts import Doubts, K
from castleguard.jobs.propose.guesses import Guess

_SPECIAL = {"yes", "no", "on", "off", "true", "false", "null", "y", "n", "nan", "inf"}
_DELAY = 1000


class Subject(NamedTuple):
    """The sampled source."""

    name: str
    """Name of the file, folder or pattern."""
    path: str
    """Path of the source, relative to the job file."""
    type: str
    rows: int
    """Number of rows read."""
    whole: bool = True
    """Whether these are all rows."""
    csv: CsvInput = PLAIN
    """How the file is written, if it is CSV."""
    first: str = ""
    """The sampled file, if the source may have several."""
    in_memory: bool = False
    """Whether the rows were given as a frame, which makes the path a guess."""

    @property
    def job(self) -> str:
        """Job name derived from the file or folder name."""
        stem = self.name.partition(".")[0]
        return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "job"


_NO_DOUBTS = Doubts({}, (), headless=False)


def proposal(subject: Subject, guesses: list[Guess], doubts: Doubts = _NO_DOUBTS) -> str:
    """The text of a job file."""
    return "\n".join([*_head(subject), *_schema(guesses, doubts), *_privacy(subject, guesses, doubts), *_rest(), ""])


def scalar(text: str) -> str:
    r"""A text as a YAML scalar: plain where that is safe, quoted otherwise.

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
        yield f"# Proposed by castleguard from {subject.rows:,} rows in memory."
    else:
        found = sampled or scalar(subject.name)
        read = "all" if subject.whole else "the first"
        yield f"# Proposed by `castleguard init` from {read} {subject.rows:,} rows of {found}."
    yield "# Lines marked GUESS are guesses: only you know what a column means and what is public about it."
    yield "# Bounds and labels below come from the data: replace them by what is known without the data."
    yield "confirmed: false  # check every GUESS, then set this to true (or delete the line)"
    yield ""
    yield f"name: {subject.job}  # in metrics, logs and the checkpoint; a job with another name is another job"
    several = "  # add follow: true to wait for new files forever" if subject.first else ""
    if subject.in_memory:
        several = "  # GUESS: name the file or broker that the rows come from"
    changed = subject.csv.changed()
    csv = f", csv: {{{', '.join(f'{key}: {_value(value)}' for key, value in changed.items())}}}" if changed else ""
    yield f"source: {{type: {subject.type}, path: {scalar(subject.path)}{csv}}}{several}"
    yield ""


def _value(value: object) -> str:
    """An option of CSV as YAML."""
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return str(value).lower() if isinstance(value, bool) else scalar(str(value))


def _schema(guesses: list[Guess], doubts: Doubts) -> Iterator[str]:
    by_role = {role: [guess for guess in guesses if guess.role == role] for role in ("person", "dropped")}
    yield "schema:"
    if by_role["person"]:
        yield f"  person: {scalar(by_role['person'][0].column)}  # GUESS: {by_role['person'][0].reason}"
        yield from _missing(by_role["person"][0], "they count as one person together")
        for candidate in doubts.persons:
            yield f"      # or {scalar(candidate.column)}: {candidate}"
    elif doubts.alone:
        yield "  person: null  # every row is a person of its own"
    else:
        yield f'  person: "{OPEN}"  # OPEN: which column identifies persons? Write its name,'
        yield "      # or null if no person has more than one row; a person with several rows weakens the promise then"
        for candidate in doubts.persons:
            yield f"      # {scalar(candidate.column)}: {candidate}"
    for key, role in (("quasi_identifiers", "quasi-identifier"), ("sensitive", "sensitive")):
        found = [guess for guess in guesses if guess.role == role]
        yield f"  {key}:" if found else f"  {key}: []  # GUESS: none found"
        for guess in found:
            yield f"    - {_entry(guess)}  # GUESS: {guess.reason}"
            yield from _missing(guess, _NULLS[key])
            if guess.column in doubts.columns:
                yield f"      # {doubts.columns[guess.column]}"
    if by_role["dropped"]:
        yield "  # GUESS: these columns are neither read nor published. To publish one, give it a role above."
    for guess in by_role["dropped"]:
        yield f"  #   {scalar(guess.column)}: {guess.reason}"
    yield ""


_NULLS = {
    "quasi_identifiers": "null: reject rejects them, null: root publishes them without detail in any column",
    "sensitive": "together they count as one additional value",
}


def _missing(guess: Guess, what: str) -> Iterator[str]:
    """A comment on rows without a value, if the sample has some."""
    if guess.to_root:
        what = "they are published without detail in any column, because rejecting them would cost too many"
    if guess.missing:
        rows = "1 row of the sample has" if guess.missing == 1 else f"{guess.missing:,} rows of the sample have"
        yield f"      # {rows} no value here: {what}"


def _entry(guess: Guess) -> str:
    """A column in braces, with `null` if values are missing, and `outside: reject` for times: clamped like numbers, all
    future times would become the last one.
    """
    entry = _declared(guess)
    if guess.role != "quasi-identifier":
        return entry
    answer = "root" if guess.to_root else "reject"
    answers = f", null: {answer}" * bool(guess.missing) + ", outside: reject" * guess.is_time
    if guess.to_root and not guess.labels:
        answers += ", invalid: root"
    return f"{entry[:-1]}{answers}}}"


def _declared(guess: Guess) -> str:
    name = f"name: {scalar(guess.column)}"
    if guess.labels:
        key = "hierarchy" if guess.role == "quasi-identifier" else "values"
        # An unlisted label would cost the row; at the root it costs only detail.
        unknown = ", unknown: root" if guess.rare and key == "hierarchy" else ""
        return f"{{{name}, {key}: [{', '.join(map(scalar, guess.labels))}]{unknown}}}"
    if guess.bins:
        kind = f", type: {guess.type}" if guess.type else ""
        return f"{{{name}, bins: [{', '.join(guess.bins)}]{kind}}}"
    assert guess.domain is not None
    lower, upper, step = guess.domain
    return f"{{{name}, lower: {lower}, upper: {upper}, step: {step}}}"


def _privacy(subject: Subject, guesses: list[Guess], doubts: Doubts) -> Iterator[str]:
    k = min(K, max(2, subject.rows // 20))
    delay = max(k, min(_DELAY if doubts.delay is None else doubts.delay, subject.rows // 5))
    yield "privacy:"
    yield "  algorithm: citadel  # GUESS: narrow groups of true ranges, without noise; see the concepts for the others"
    yield f"  k: {k}  # GUESS: distinct persons in every published group"
    if doubts.sorted_by:
        yield f"  # l: 2  # left out: rows with equal {', '.join(map(scalar, doubts.sorted_by))} arrive together,"
        yield "      # so most rows would be suppressed; shuffle the file, or set l with a longer delay"
    elif any(guess.role == "sensitive" for guess in guesses):
        yield "  l: 2  # GUESS: distinct values of every sensitive column in every published group"
    why = "more is more precise"
    if doubts.delay is not None:
        why = "long, because rows of few persons arrive together, or rows with equal values"
    yield f"  delay: {delay}  # GUESS: rows that may arrive before a row must be published; {why}"
    yield "  # max_wait: 30s  # longest wait of a row, for a source that never ends"
    yield ""


def _rest() -> Iterator[str]:
    yield "sink: {type: parquet, path: published/}"
    yield "checkpoint: {path: state.db, every: 5s}"
    yield "dead_letter: {path: rejects.jsonl, max_share: 0.05}"
