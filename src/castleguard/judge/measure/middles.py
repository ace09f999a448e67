"""How far the middle of what was published is from the original number: DOCA's two measures, for any publication.

Whoever needs one number per row takes the middle of its range. Where a number was published instead of a range (the
middle itself, or a noisy mean), it is taken as it is.
"""

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from castleguard.errors import InputError, UsageError
from castleguard.judge.measure.error import histogram_intersection, mean_squared_error
from castleguard.judge.reading.boxes import read_boxes
from castleguard.judge.reading.originals import read_originals
from castleguard.judge.reading.values import Codes, Numbers, numbers_of
from castleguard.schema.roles import Categorical, Numeric, Schema


@dataclass(frozen=True, kw_only=True)
class NumericError:
    """One numeric quasi-identifier. NaN where there is nothing to compare."""

    name: str
    mean_squared_error: float
    """In squared units of the column (days of a date, microseconds of a timestamp); NaN without a link."""
    root_share: float
    """The root of it as a share of the domain; NaN without a link."""
    histogram: float
    """The share of area that the histograms of both have in common, over the domain. Needs no link."""


def numeric_errors(
    published: pa.Table, original: pa.Table, schema: Schema, *, row: Codes | None = None, bins: int = 100
) -> tuple[NumericError, ...]:
    """Every numeric quasi-identifier. `row` has the original row of every published one, -1 if there is none."""
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
    """The number that stands for every published row."""
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
