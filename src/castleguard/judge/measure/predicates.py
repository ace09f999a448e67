"""Predicates of COUNT queries on one column, and the column of both tables as ranges.

A predicate is a range: an interval of numbers, or the leaves under a node. A value is a range too: a published range,
or an original point. The same overlap therefore answers a query on both tables. CASTLE (section 5.2) leaves details
open; docs/reference/measures.md lists the choices made here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from castleguard.errors import UsageError
from castleguard.judge.reading.boxes import Side
from castleguard.judge.reading.values import Codes, Numbers, column_of, comparable, numbers_of, texts_of
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, QuasiIdentifier
from castleguard.schema.sensitive import Sensitive

MOST_CATEGORIES = 20
"""An undeclared sensitive column of numbers with at most this many values counts as categorical."""

_NOWHERE = np.inf  # position of missing values, outside every range


class Ranges(NamedTuple):
    """Ranges per row or per query, both ends included."""

    low: Numbers
    high: Numbers


@dataclass(frozen=True, eq=False)
class Attribute:
    """A column with a query predicate."""

    name: str
    unit: int
    """Measure of a single value: 1 for a leaf, 0 for a point of an interval."""
    draw: Callable[[float, int, np.random.Generator], Ranges]
    """Draw predicates from (share of the domain to cover, how many, generator)."""
    published: Ranges
    original: Ranges


def quasi_identifier(role: QuasiIdentifier, side: Side, values: Numbers) -> Attribute:
    """Quasi-identifier with its published `side` and original `values` (numbers or leaves, NaN for missing)."""
    original = _points(values)
    if isinstance(role, Categorical):
        return Attribute(role.name, 1, _nodes(role.hierarchy), Ranges(side.low, side.high), original)
    domain = role.domain if role.domain is not None else _extent(values)
    return Attribute(role.name, 0, _intervals(domain), Ranges(side.low, side.high), original)


def sensitive(role: Sensitive, published: pa.Table, original: pa.Table) -> Attribute:
    """Sensitive column. It is published unchanged, so a predicate on it is true or false."""
    after, before = column_of(published, role.name), column_of(original, role.name, "original")
    if _is_numeric(role, before):
        values, _ = numbers_of(before, role.kind)
        shown, _ = numbers_of(after, role.kind)
        if len(after) and np.isnan(shown).all():
            raise UsageError(f"published column {role.name!r} has no numbers, but the original column has")
        return Attribute(role.name, 0, _intervals(_extent(values)), _points(shown), _points(values))
    if role.hierarchy is not None:
        names, draw = list(role.hierarchy.leaves), _nodes(role.hierarchy)
    else:
        declared = role.labels if role.bins is None else None
        names = [str(label) for label in declared] if declared else sorted(_distinct(before))
        draw = _flat(len(names))
    numbers: dict[object, int] = {}
    for number, name in enumerate(names):
        numbers.setdefault(comparable(name), number)
    return Attribute(role.name, 1, draw, _points(_leaves(after, numbers)), _points(_leaves(before, numbers)))


def _is_numeric(role: Sensitive, column: pa.ChunkedArray) -> bool:
    """True with bins, false with declared values or a hierarchy; otherwise true if all values are numbers, and many."""
    if role.bins is not None:
        return True
    if role.values is not None or role.hierarchy is not None:
        return False
    numbers, missing = numbers_of(column, "number")
    return not np.isnan(numbers[~missing]).any() and np.unique(numbers[~missing]).size > MOST_CATEGORIES


def _intervals(domain: tuple[float, float]) -> Callable[[float, int, np.random.Generator], Ranges]:
    """Intervals of fixed length, uniformly placed inside the domain."""
    lower, upper = domain

    def draw(share: float, count: int, generator: np.random.Generator) -> Ranges:
        length = (upper - lower) * share
        low = lower + generator.random(count) * (upper - lower - length)
        return Ranges(low, np.minimum(low + length, upper) if share < 1 else np.full(count, upper))

    return draw


def _nodes(hierarchy: Hierarchy) -> Callable[[float, int, np.random.Generator], Ranges]:
    # Nodes of a chain over the same leaves are one predicate, and must not be drawn more often.
    ranges = np.unique(np.stack([hierarchy.first_leaf, hierarchy.last_leaf], axis=1), axis=0)
    return _closest(ranges[:, 0].astype(np.float64), ranges[:, 1].astype(np.float64), len(hierarchy.leaves))


def _flat(leaves: int) -> Callable[[float, int, np.random.Generator], Ranges]:
    """Predicates of a tree with a root and its leaves."""
    each = np.arange(leaves, dtype=np.float64)
    return _closest(np.append(each, 0.0), np.append(each, max(leaves - 1.0, 0.0)), max(leaves, 1))


def _closest(low: Numbers, high: Numbers, leaves: int) -> Callable[[float, int, np.random.Generator], Ranges]:
    """Draw uniformly among the nodes whose share of the leaves is closest to the given one."""

    def draw(share: float, count: int, generator: np.random.Generator) -> Ranges:
        distance = np.abs((high - low + 1) / leaves - share)
        nearest = np.flatnonzero(distance <= distance.min() + 1e-9)
        chosen = nearest[generator.integers(nearest.size, size=count)]
        return Ranges(low[chosen], high[chosen])

    return draw


def _extent(values: Numbers) -> tuple[float, float]:
    known = values[~np.isnan(values)]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)


def _points(values: Numbers) -> Ranges:
    places = np.where(np.isnan(values), _NOWHERE, values)
    return Ranges(places, places)


def _distinct(column: pa.ChunkedArray) -> list[str]:
    return [text for text in texts_of(column)[0] if text is not None]


def _leaves(column: pa.ChunkedArray, numbers: dict[object, int]) -> Numbers:
    """Leaf number of every value; NaN without one."""
    texts, codes = texts_of(column)
    found: Codes = np.array([-1 if text is None else numbers.get(comparable(text), -1) for text in texts], np.int64)
    leaves: Numbers = np.where(found < 0, np.nan, found.astype(np.float64))[codes]
    return leaves
