"""Error of published numbers: the two measures of DOCA's paper, and a pairing for multisets.

Leal, Vidal and Machado (2018, section 4) judge DOCA by the mean squared error of its values and by the intersection of
the histograms. The first needs the original value of each published value, which is unknown if a window is published as
a multiset; `paired_by_rank` defines the pairs to compare in that case. `numeric_errors` computes both for two tables:
the number of a row is the middle of its range, or the number published in place of a range (the middle itself, or a
noisy mean).
"""

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from castleguard.errors import InputError, PolicyError, UsageError
from castleguard.judge.reading.boxes import read_boxes
from castleguard.judge.reading.originals import read_originals
from castleguard.judge.reading.values import Codes, Numbers, numbers_of
from castleguard.privacy.parameters import check_count, is_number
from castleguard.schema.roles import Categorical, Numeric, Schema


def mean_squared_error(original: ArrayLike, published: ArrayLike) -> float:
    """Mean of the squared differences, value by value; infinite if it overflows a float64.

    >>> mean_squared_error([1, 2, 3], [1, 4, 4])
    1.6666666666666667
    """
    before, after = finite_numbers("original", original), finite_numbers("published", published)
    if before.size != after.size:
        raise InputError(
            f"original and published must have equally many values, got {before.size:,} and {after.size:,}"
        )
    with np.errstate(over="ignore"):
        return float(np.mean(np.square(after - before)))


def histogram_intersection(
    original: ArrayLike, published: ArrayLike, *, bins: int = 100, range: tuple[float, float] | None = None
) -> float:
    """Common area of the two histograms: 1 if they are equal, 0 if no bin has values of both.

    Both have the same bins of equal width and are normalised by their own number of values, which may differ. The bins
    cover `range`, both ends included; values outside are in no bin and count as different.

    Without `range`, the bins reach from the smallest to the largest value of both, as in the paper's figure. A single
    published outlier then widens all bins, and wide bins hide differences: use the same `range` to compare methods. If
    all values are equal, the result is 1.

    >>> histogram_intersection([0, 1, 2, 3], [1, 1, 1, 400], bins=4)
    0.75
    >>> histogram_intersection([0, 1, 2, 3], [1, 1, 1, 400], bins=4, range=(0, 4))
    0.25
    """
    before, after = finite_numbers("original", original), finite_numbers("published", published)
    edges = _edges(before, after, check_count("bins", bins), range)
    # Use integers throughout, so that equal histograms give exactly 1.
    here, there = (np.histogram(values, edges)[0].astype(np.int64) for values in (before, after))
    common = np.minimum(here * after.size, there * before.size).sum()
    return int(common) / (before.size * after.size)


def paired_by_rank(original: ArrayLike, published: ArrayLike, *, window: int) -> tuple[Numbers, Numbers]:
    """Pair values that are published window by window as multisets, by their rank within the window.

    `original`: values in arrival order, in windows of `window` values. `published`: the same windows in the same order,
    each with its values in any order. The last window may be missing if it is shorter than the others.

    No other pairing within the windows has a smaller mean squared error, so this is a lower bound on the true error. Do
    not compare it with the error of values that are paired by their rows.

    >>> paired_by_rank([3, 1, 9, 5], [2.0, 1.5, 6.0, 8.0], window=2)
    (array([1., 3., 5., 9.]), array([1.5, 2. , 6. , 8. ]))
    """
    before, after = finite_numbers("original", original), finite_numbers("published", published)
    size = check_count("window", window)
    whole = before.size - before.size % size
    if after.size not in (before.size, whole):
        raise InputError(
            f"published must have {before.size:,} values, or {whole:,} without a last window that is shorter than "
            f"{size:,}, got {after.size:,}"
        )
    return _sorted_windows(before[: after.size], size), _sorted_windows(after, size)


def finite_numbers(name: str, values: ArrayLike) -> Numbers:
    """Values as a one-dimensional array. Raises InputError if it is empty or has values that are not finite."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        # Do not chain the exception: numpy's message contains the value.
        raise InputError(f"{name} must hold numbers only") from None
    if numbers.ndim != 1:
        raise InputError(f"{name} must have one dimension, got {numbers.ndim}")
    if not numbers.size:
        raise InputError(f"{name} must hold at least one value, got none")
    bad = numbers.size - int(np.count_nonzero(np.isfinite(numbers)))
    if bad:
        raise InputError(f"{name} must hold finite numbers only, got {bad:,} that are missing or infinite")
    return numbers


def _edges(before: Numbers, after: Numbers, bins: int, range: tuple[float, float] | None) -> Numbers:
    """Edges of the bins, including the last one."""
    if range is None:
        low, high = float(min(before.min(), after.min())), float(max(before.max(), after.max()))
        if not math.isfinite(high - low):
            raise InputError("the values are too far apart for bins: their range overflows a float64")
    else:
        low, high = range
        if not (is_number(low) and is_number(high) and math.isfinite(high - low) and low < high):
            raise PolicyError(f"range must be two finite numbers, the lower one first, got {range}")
    return np.linspace(low, high, bins + 1)


def _sorted_windows(values: Numbers, size: int) -> Numbers:
    whole = values.size - values.size % size
    windows = np.sort(values[:whole].reshape(-1, size), axis=1)
    return np.concatenate([windows.ravel(), np.sort(values[whole:])])


@dataclass(frozen=True, kw_only=True)
class NumericError:
    """Errors of one numeric quasi-identifier; NaN without values to compare."""

    name: str
    mean_squared_error: float
    """In squared units of the column (days of a date, microseconds of a timestamp); NaN without a link."""
    root_share: float
    """Root of the mean squared error as a share of the domain; NaN without a link."""
    histogram: float
    """Common area of both histograms over the domain. Needs no link."""


def numeric_errors(
    published: pa.Table, original: pa.Table, schema: Schema, *, row: Codes | None = None, bins: int = 100
) -> tuple[NumericError, ...]:
    """Errors of every numeric quasi-identifier. `row`: original row of each published row, -1 without one."""
    values = read_originals(original, schema).values
    found = []
    for role, before in zip(schema.quasi_identifiers, values, strict=True):
        if isinstance(role, Categorical):
            continue
        after = middles(published, role)
        known_before, known_after = before[~np.isnan(before)], after[~np.isnan(after)]
        both = known_before.size and known_after.size
        found.append(
            NumericError(
                name=role.name,
                mean_squared_error=(error := float("nan") if row is None else _paired_error(before, after, row)),
                root_share=math.sqrt(error) / _width(role, known_before) if both else float("nan"),
                histogram=histogram_intersection(known_before, known_after, bins=bins, range=_domain(role))
                if both
                else float("nan"),
            )
        )
    return tuple(found)


def middles(published: pa.Table, role: Numeric) -> Numbers:
    """Number of each published row: the middle of its range, or the published number."""
    try:
        (side,) = read_boxes(published, Schema(person=None, quasi_identifiers=[role]))
    except UsageError:
        numbers, _ = numbers_of(published.column(role.name), role.kind)
        if numbers.size and np.isnan(numbers).all():
            raise InputError(f"published column {role.name!r} holds neither ranges nor numbers") from None
        return numbers
    return side.low + (side.high - side.low) / 2


def _paired_error(before: Numbers, after: Numbers, row: Codes) -> float:
    linked = row >= 0
    original, shown = before[row[linked]], after[linked]
    known = ~(np.isnan(original) | np.isnan(shown))
    return mean_squared_error(original[known], shown[known]) if known.any() else float("nan")


def _domain(role: Numeric) -> tuple[float, float] | None:
    return role.domain if role.domain is not None and role.domain[0] < role.domain[1] else None


def _width(role: Numeric, values: Numbers) -> float:
    lower, upper = role.domain or (float(values.min()), float(values.max()))
    return upper - lower or 1.0
