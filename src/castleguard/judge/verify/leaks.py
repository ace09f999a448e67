"""Columns that should not be there: undeclared ones, and identifiers of persons under whatever name."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.judge.reading.linked import distinct_per_group
from castleguard.judge.reading.values import Codes, texts_of
from castleguard.schema.roles import Numeric, Schema

_MOSTLY = 0.5  # the share of rows from which on a column holds identifiers
_SHORTEST = 5  # characters of an identifier that a text does not hold by chance


@dataclass(frozen=True)
class Leaks:
    """Names of published columns."""

    undeclared: tuple[str, ...]
    """Nothing in the schema accounts for them."""
    identifiers: tuple[str, ...]
    """They hold the person's own identifier, whatever they are called."""
    pseudonyms: tuple[str, ...]
    """They tell persons apart as the identifier does: one value for a person, one person for a value."""


def find_leaks(
    published: pa.Table, original: pa.Table, schema: Schema, *, row: Codes | None = None, link: str | None = None
) -> Leaks:
    """Look at every published column but the one that links. `row`: per published row its original, -1 if none."""
    names = [name for name in published.column_names if name != link or name == schema.person]
    allowed = declared_columns(schema, names)
    undeclared = tuple(name for name in names if name not in allowed)
    if schema.person is None:
        return Leaks(undeclared, (), ())
    who, person = texts_of(original.column(schema.person))
    persons = {text for text in who if text is not None}
    holding = [name for name in names if name == schema.person or _holds(name, published, original, schema, persons)]
    following: list[str] = []
    if row is not None:
        known = np.flatnonzero(row >= 0)
        mine = np.array([text or "" for text in who], dtype=object)[person[row[known]]]
        for name in names:
            column = published.column(name).take(pa.array(known))
            texts, codes = texts_of(column)
            if name not in holding and _names(texts, codes, mine):
                holding.append(name)
            elif name not in holding and _follows(codes, person[row[known]]):
                following.append(name)
    return Leaks(undeclared, tuple(holding), tuple(following))


def declared_columns(schema: Schema, published: Collection[str]) -> set[str]:
    """Every name that a published column may have. A number is published as two bounds or under its own name, and not
    both: beside its bounds, that would be the value itself.
    """
    names = {*(role.name for role in schema.sensitive), *schema.public}
    for role in schema.quasi_identifiers:
        bounds = {f"{role.name}_min", f"{role.name}_max"} if isinstance(role, Numeric) else set()
        names |= bounds if bounds & {*published} else {role.name}
    return names


def _holds(name: str, published: pa.Table, original: pa.Table, schema: Schema, persons: set[str]) -> bool:
    """Whether most rows of a column hold an identifier where none belongs, judged without knowing whose row it is.

    A value that the same column of the original has belongs there, and so do the bounds of numbers: that a clinic or
    an age is written like somebody's identifier is chance.
    """
    if name in declared_columns(schema, published.column_names) and name not in original.column_names:
        return False
    texts, codes = texts_of(published.column(name))
    belong = set(texts_of(original.column(name))[0]) if name in original.column_names else set()
    wrong = np.array([text in persons and text not in belong for text in texts], dtype=np.bool_)
    return bool(codes.size) and float(np.mean(wrong[codes])) >= _MOSTLY


def _names(texts: Sequence[str | None], codes: Codes, mine: NDArray[np.object_]) -> bool:
    """Whether rows hold the identifier of their own person: most of them, or any if it cannot be chance, which it can
    be where both are short or numbers.
    """
    if not codes.size:
        return False
    whole = np.array([text or "" for text in texts], dtype=object)[codes] == mine
    if np.mean(whole & (mine != "")) >= _MOSTLY:
        return True
    folded = [(text or "").casefold() for text in texts]
    pairs = {(code, who) for code, who in zip(codes.tolist(), mine.tolist(), strict=True)}
    return any(_telling(who) and who.casefold() in folded[code] for code, who in pairs)


def _telling(identifier: str) -> bool:
    """Whether an identifier is long enough, and no number, so that it does not stand in a text by chance."""
    return len(identifier) >= _SHORTEST and not identifier.isdigit() and any(map(str.isdigit, identifier))


def _follows(codes: Codes, person: Codes) -> bool:
    """Whether a column has one value for each person and one person for each value, with persons that come again."""
    persons, rows = np.unique(person, return_counts=True)
    if persons.size < 2 or np.count_nonzero(rows > 1) < 2:
        return False
    _, one = np.unique(person, return_inverse=True)
    _, other = np.unique(codes, return_inverse=True)
    several = distinct_per_group(one, other, persons.size), distinct_per_group(other, one, int(other.max()) + 1)
    return all(bool(np.all(each == 1)) for each in several)
