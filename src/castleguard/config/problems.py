"""Problems of a configuration file, one line each: file and line, key, expected value, actual value.

They replace pydantic's messages, which mention Python types and union members.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from castleguard.config.document import Document, Place, spell
from castleguard.config.secrets import HIDDEN, holds_secret
from castleguard.errors import ConfigError, Mistake

KnownKeys = Mapping[tuple[str, ...], tuple[str, ...]]  # keys of a section, by its place without list indices
LONGEST_VALUE = 40

_TAG = re.compile(r"<[a-z]+>\Z")


class Problem(NamedTuple):
    """A problem at a place; the sentence continues the place's name."""

    place: Place
    sentence: str


def report(document: Document, problems: Iterable[Problem]) -> ConfigError:
    """An error with all problems, in the order of the file."""
    return ConfigError(*located(document, problems))


def located(document: Document, problems: Iterable[Problem]) -> list[Mistake]:
    """Problems with their lines, in the order of the file."""
    ordered = sorted(problems, key=lambda problem: document.line(problem.place))
    return [Mistake(sentence, where=document.where(place), key=spell(place)) for place, sentence in ordered]


def explain(error: ValidationError, known: KnownKeys, section: Place = ()) -> list[Problem]:
    """The problems that pydantic found in a section."""
    return [_explain(details, known, section) for details in error.errors()]


def suggest(word: str, known: Iterable[str]) -> str:
    """A close match for a misspelt word, or the list of known words."""
    choices = list(known)
    close = get_close_matches(word, choices, n=1)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(choices)}"


def _explain(details: ErrorDetails, known: KnownKeys, section: Place) -> Problem:
    steps = _without_tags(details["loc"])
    if details["type"] == "extra_forbidden":
        steps = (*_without_tags(details["loc"][:-1]), details["loc"][-1])  # a key may look like a tag
    place = (*section, *steps)
    match details["type"]:
        case "missing":
            return Problem(place, "is missing")
        case "extra_forbidden":
            keys = known.get(tuple(step for step in steps[:-1] if isinstance(step, str)), ())
            return Problem(place, _unknown_key(str(steps[-1]), keys, details["loc"]))
        case "expected":
            sentence = details["msg"]
        case "list_type":
            sentence = "must be a list"
        case "model_type" | "model_attributes_type" | "dict_type":
            sentence = "must be a mapping"
        case "literal_error":
            sentence = f"must be {details['ctx']['expected']}"
        case _:
            sentence = f"is wrong: {details['msg']}"
    key = next((step for step in reversed(place) if isinstance(step, str)), None)
    return Problem(place, f"{sentence}, got {_shown(key, details['input'])}")


def _without_tags(location: tuple[int | str, ...]) -> Place:
    """The location without the tags of unions, which are not in the file."""
    return tuple(step for step in location if not _TAG.match(str(step)))


def _unknown_key(key: str, keys: tuple[str, ...], location: tuple[int | str, ...]) -> str:
    if key in keys:
        tag = next(str(step) for step in location if _TAG.match(str(step)))
        return f"is not a key of a {tag.strip('<>')} column: delete it"
    return f"is not a known key; {suggest(key, keys)}"


def _shown(key: str | None, value: object) -> str:
    """A value of the file for a message: shortened, and hidden if it is a secret."""
    if value is None:
        return "nothing"
    if not isinstance(value, dict | list) and holds_secret(key, value):
        return HIDDEN
    if isinstance(value, dict | list):
        return f"a {'mapping' if isinstance(value, dict) else 'list'} of {len(value)}"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."
