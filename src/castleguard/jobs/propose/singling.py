"""Ranks columns by how much they single out persons, and keeps few of them as quasi-identifiers.

Every quasi-identifier makes groups wider in all others, so a column that others cannot know, or that says what the
chosen ones say, costs more than it protects.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.jobs.propose.domains import CELLS
from castleguard.jobs.propose.profile import Profile
from castleguard.jobs.propose.words import word_set, words_of
from castleguard.schema.column import FINE, as_text
from castleguard.schema.numbers import read_numbers

MOST = 6

_KNOWABLE = word_set("""
    address age area birth birthday birthdate born city county country dob date day dest destination district
    dropoff education educ employer ethnic ethnicity gender grade height home hour household job language lat
    latitude location lon longitude lng marital married month nationality neighborhood neighbourhood
    occupation origin pickup place postal postcode profession race region religion school sector sex state
    time town union weight work year zip zone
""")
_WEIGHT = 2.0  # of a column that others are likely to know
_LEAST_GAIN = 0.1  # share of a column's own entropy that counts even if the chosen columns imply it


def choose_columns(codes: Sequence[NDArray[np.int64]], names: Sequence[str]) -> list[int]:
    """Indices of at most six columns, the one that singles out most first. `codes`: per column, the cell of each row.

    >>> age, sex, noise = np.arange(100) % 50, np.arange(100) % 2, np.zeros(100, dtype=int)
    >>> choose_columns([noise, sex, age], ["x", "sex", "age"])
    [2, 1, 0]
    """
    own = [_entropy(column) for column in codes]
    weights = [_WEIGHT if _KNOWABLE.intersection(words_of(name)) else 1.0 for name in names]
    joint = np.zeros(codes[0].size if codes else 0, dtype=np.int64)
    entropy = 0.0
    chosen: list[int] = []
    while len(chosen) < min(MOST, len(codes)):
        best, most, after = -1, -1.0, (joint, entropy)
        for at, column in enumerate(codes):
            if at in chosen:
                continue
            together = np.unique(np.stack([joint, column], axis=1), axis=0, return_inverse=True)[1].ravel()
            bits = _entropy(together)
            gain = weights[at] * max(bits - entropy, _LEAST_GAIN * own[at])
            if gain > most:
                best, most, after = at, gain, (together, bits)
        chosen.append(best)
        joint, entropy = after
    return chosen


def _entropy(codes: NDArray[np.int64]) -> float:
    """Bits that a column says about a row."""
    if not codes.size:
        return 0.0
    shares = np.unique(codes, return_counts=True)[1] / codes.size
    return float(-np.sum(shares * np.log2(shares)))


def codes_of(column: pa.ChunkedArray, profile: Profile) -> NDArray[np.int64]:
    """The cell of each row: its label, or the twentieth of the numbers that it is among; -1 without a value."""
    text = as_text(column.combine_chunks())
    codes = np.full(len(column), -1, dtype=np.int64)
    if text is None:
        return codes
    if not profile.values.size or profile.distinct <= CELLS:
        indices = pc.fill_null(text.dictionary_encode().indices, -1)
        return np.asarray(indices, dtype=np.int64)
    read = read_numbers(text, "number" if profile.kind == "number" else "timestamp")
    good = read.problem == FINE
    edges = np.quantile(read.values[good], np.linspace(0, 1, CELLS + 1)[1:-1])
    codes[good] = np.searchsorted(edges, read.values[good])
    return codes
