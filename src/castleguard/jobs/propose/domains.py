"""Domains proposed from a sample, with margins.

The published bounds of a column come from its domain. A domain that ended exactly where the sample ends would publish
its smallest and largest value, so it gets a margin of a tenth on both sides, and round bounds.
"""

import datetime as dt
import math
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from castleguard.jobs.propose.profile import Profile
from castleguard.schema.grid import EPOCH

CELLS = 20  # approximate number of grid cells
FEW = 20  # different whole numbers that are a cell each
_TAIL = 0.005  # share of the values at each end that may lie far away
_LEAST_TAILED = 200  # values: with fewer, none are so rare
_LONG = 4  # times the range of the others: how far is far

_DAY_STEPS = (1, 7, 14, 30, 91, 365)
_SECOND_STEPS = (1, 10, 60, 300, 900, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400)
_FIRST, _LAST = dt.datetime(1, 1, 2, tzinfo=dt.UTC), dt.datetime(9999, 12, 30, tzinfo=dt.UTC)


class Domain(NamedTuple):
    """A public domain in YAML form."""

    lower: str
    upper: str
    step: str


def number_domain(profile: Profile) -> tuple[Domain, str]:
    """Domain with round bounds around the numbers of the sample, and how it was found."""
    values = profile.values
    low, high = _decimal(values.min()), _decimal(values.max())
    if profile.whole and profile.distinct <= FEW and high - low < 2 * FEW:
        return Domain(str(int(low)), str(int(high) + 1), "1"), "few whole numbers: each is a cell"
    how = "numbers of the sample with a margin"
    most = [_decimal(edge) for edge in np.quantile(values, [_TAIL, 1 - _TAIL])]
    has_tail = high - low > _LONG * (most[1] - most[0]) > 0
    if has_tail and values.size >= _LEAST_TAILED:
        low, high = max(low, most[0]), min(high, most[1])
        how = "numbers of the sample without the farthest 1 %, which are clamped"
    room = (high - low) / 10 or max(abs(low) / 10, Decimal(1))
    unit = nice(room)
    if profile.whole:
        unit = max(unit, Decimal(1))
    lower = _floor((low - room) / unit) * unit
    upper = -_floor(-(high + room) / unit) * unit
    if values.min() >= 0:
        lower = max(lower, Decimal(0))
    step = _step(lower, upper, profile)
    return Domain(*(_spell(number, profile.whole) for number in (lower, upper, step))), how


def _decimal(number: float) -> Decimal:
    return Decimal(repr(float(number)))


def number_bins(profile: Profile) -> tuple[str, ...]:
    """Round bin edges with about equally many values of the sample in each bin."""
    edges = {Decimal(repr(float(edge))) for edge in np.quantile(profile.values, [0.2, 0.4, 0.6, 0.8])}
    unit = nice((max(edges) - min(edges)) / 10 or max(max(map(abs, edges)) / 10, Decimal(1)))
    if profile.whole:
        unit = max(unit, Decimal(1))
    rounded = sorted({_floor(edge / unit + Decimal("0.5")) * unit for edge in edges})
    return tuple(_spell(edge, profile.whole) for edge in rounded)


def known_domain(lower: int, upper: int, profile: Profile) -> Domain:
    """A well-known domain, with a step that fits the sample."""
    step = _coarser(nice(Decimal(upper - lower) / CELLS), Decimal(upper - lower), profile)
    return Domain(*(_spell(Decimal(bound), profile.whole) for bound in (lower, upper, step)))


def time_domain(profile: Profile) -> Domain:
    """Domain of whole days, months or years around the times of the sample."""
    per_unit = dt.timedelta(days=1) if profile.kind == "date" else dt.timedelta(microseconds=1)
    low, high = (_time(float(bound), per_unit) for bound in (profile.values.min(), profile.values.max()))
    room = max((high - low) / 10, dt.timedelta(days=1))
    low, high = max(low, _FIRST + room) - room, min(high, _LAST - room) + room
    lower, upper = _round_down(low, high - low), _round_up(high, high - low)
    span = (upper - lower).total_seconds()
    if profile.kind == "date":
        step = _nearest(_DAY_STEPS, span / 86400 / CELLS)
        return Domain(lower.date().isoformat(), upper.date().isoformat(), str(step))
    step = _nearest(_SECOND_STEPS, span / CELLS)
    return Domain(f"{lower:%Y-%m-%d} 00:00:00".zfill(19), f"{upper:%Y-%m-%d} 00:00:00".zfill(19), str(step))


def nice(number: Decimal) -> Decimal:
    """The largest of 1, 2, 5, 10, 20, 50, ... up to a number.

    >>> [str(nice(Decimal(text))) for text in ("7", "0.03", "260")]
    ['5', '0.02', '2E+2']
    """
    power = Decimal(1).scaleb(number.adjusted())
    return next(power * factor for factor in (5, 2, 1) if power * factor <= number)


def _step(lower: Decimal, upper: Decimal, profile: Profile) -> Decimal:
    """About a twentieth of the range of most values."""
    most = np.quantile(profile.values, [0.05, 0.95])
    spread = _decimal(most[1] - most[0])
    width = upper - lower
    return _coarser(nice((min(spread, width) if spread > 0 else width) / CELLS), width, profile)


def _coarser(step: Decimal, width: Decimal, profile: Profile) -> Decimal:
    """A step that is coarser than the data: otherwise a bound is a person's value."""
    if profile.whole:
        step = max(step, Decimal(1))
    finest = Decimal(repr(profile.finest))
    return step if step > finest else min(2 * finest, width)


def _spell(number: Decimal, whole: bool) -> str:
    return str(int(number)) if whole and number == int(number) else repr(float(number))


def _floor(number: Decimal) -> int:
    return math.floor(number)


def _time(coded: float, unit: dt.timedelta) -> dt.datetime:
    try:
        return min(max(EPOCH + coded * unit, _FIRST), _LAST)
    except OverflowError:
        return _LAST if coded > 0 else _FIRST


def _round_down(moment: dt.datetime, span: dt.timedelta) -> dt.datetime:
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if span > dt.timedelta(days=730):
        return midnight.replace(month=1, day=1)
    return midnight.replace(day=1) if span > dt.timedelta(days=60) else midnight


def _round_up(moment: dt.datetime, span: dt.timedelta) -> dt.datetime:
    down = _round_down(moment, span)
    if span > dt.timedelta(days=730):
        return down.replace(year=min(down.year + 1, 9999))
    if span > dt.timedelta(days=60):
        return (down + dt.timedelta(days=31)).replace(day=1)
    return down + dt.timedelta(days=1)


def _nearest(steps: tuple[int, ...], wanted: float) -> int:
    """The largest step up to `wanted`, or the smallest step."""
    return max((step for step in steps if step <= wanted), default=steps[0])
