"""Find columns that should not be published: undeclared ones, and identifiers of persons under any name."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.judge.reading.linked import distinct_per_group
from castleguard.judge.reading.values import Codes, texts_of
from castleguard.schema.roles import Numeric, Schema

_MOSTLY = 0.5  # a column with this share of identifiers counts as an identifier column
_SHORTEST = 5  # characters of an identifier that is unlikely to occur in a text by chance


@dataclass(frozen=True)
class Leaks:
    """Names of published columns."""

    undeclared: tuple[str, ...]
    """Columns that the schema does not declare."""
    identifiers: tuple[str, ...]
    """Columns that hold the person's own identifier, under any name."""
    pseudonyms: tuple[str, ...]
    """Columns in one-to-one correspondence with the identifier."""


def find_leaks(
    published: pa.Table, original: pa.Table, schema: Schema, *, row: Codes | None = None, link: str | None = None
) -> Leaks:
    """Check every published column except `link`. `row`: original row of each published row, -1 without one."""
    names = [name for name in published.column_names if name != link or name == schema.person]
    allowed = declared_columns(schema, names)
    undeclared = tuple(name for name in names if name not in allowed)
    if schema.person is None:
        return Leaks(undeclared, (), ())
    identifiers, person = texts_of(original.column(schema.person))
    persons = {text for text in identifiers if text is not None}
    leaking = [
        name for name in names if name == schema.person or _has_identifiers(name, published, original, schema, persons)
    ]
    pseudonyms: list[str] = []
    if row is not None:
        known = np.flatnonzero(row >= 0)
        own = np.array([text or "" for text in identifiers], dtype=object)[person[row[known]]]
        for name in names:
            column = published.column(name).take(pa.array(known))
            texts, codes = texts_of(column)
            if name not in leaking and _holds_own_identifier(texts, codes, own):
                leaking.append(name)
            elif name not in leaking and _is_pseudonym(codes, person[row[known]]):
                pseudonyms.append(name)
    return Leaks(undeclared, tuple(leaking), tuple(pseudonyms))


def declared_columns(schema: Schema, published: Collection[str]) -> set[str]:
    """Names that published columns may have.

    A number is published as two bounds or under its own name, but not both: next to its bounds, a column of that name
    would be the value itself.
    """
    names = {*(role.name for role in schema.sensitive), *schema.public}
    for role in schema.quasi_identifiers:
        bounds = {f"{role.name}_min", f"{role.name}_max"} if isinstance(role, Numeric) else set()
        names |= bounds if bounds & {*published} else {role.name}
    return names


def _has_identifiers(name: str, published: pa.Table, original: pa.Table, schema: Schema, persons: set[str]) -> bool:
    """Whether most rows of a column hold the identifier of any person, judged without a link.

    Values of the same original column and bounds of numbers do not count: a clinic or an age can equal an identifier by
    chance.
    """
    if name in declared_columns(schema, published.column_names) and name not in original.column_names:
        return False
    texts, codes = texts_of(published.column(name))
    expected = set(texts_of(original.column(name))[0]) if name in original.column_names else set()
    wrong = np.array([text in persons and text not in expected for text in texts], dtype=np.bool_)
    return bool(codes.size) and float(np.mean(wrong[codes])) >= _MOSTLY


def _holds_own_identifier(texts: Sequence[str | None], codes: Codes, own: NDArray[np.object_]) -> bool:
    """Whether rows hold the identifier of their own person: most rows, or a single one if that cannot be chance."""
    if not codes.size:
        return False
    whole = np.array([text or "" for text in texts], dtype=object)[codes] == own
    if np.mean(whole & (own != "")) >= _MOSTLY:
        return True
    folded = [(text or "").casefold() for text in texts]
    pairs = {(code, identifier) for code, identifier in zip(codes.tolist(), own.tolist(), strict=True)}
    return any(_is_distinctive(identifier) and identifier.casefold() in folded[code] for code, identifier in pairs)


def _is_distinctive(identifier: str) -> bool:
    """Whether an identifier is long, and neither a number nor a word, so that a text does not contain it by chance."""
    return len(identifier) >= _SHORTEST and not identifier.isdigit() and any(map(str.isdigit, identifier))


def _is_pseudonym(codes: Codes, person: Codes) -> bool:
    """Whether values and persons correspond one to one, with at least two persons who have several rows."""
    persons, rows = np.unique(person, return_counts=True)
    if persons.size < 2 or np.count_nonzero(rows > 1) < 2:
        return False
    _, one = np.unique(person, return_inverse=True)
    _, other = np.unique(codes, return_inverse=True)
    several = distinct_per_group(one, other, persons.size), distinct_per_group(other, one, int(other.max()) + 1)
    return all(bool(np.all(each == 1)) for each in several)
