"""The public grid of a numeric column: bounds and a step give the edges that published bounds are rounded to.

A tight range would publish the value of one person (docs/concepts/castle.md, C23), so bounds are rounded outward to a
grid that depends on the schema alone. Dates are coded as days, timestamps as microseconds since 1970 (UTC). The
arithmetic is exact: with a step of 0.1, edge 3 is 0.3, not 0.30000000000000004.
"""

import datetime as dt
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isfinite, lcm
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import SchemaError

Bound = int | float | dt.date | dt.datetime
Step = int | float | dt.timedelta
Kind = Literal["number", "date", "timestamp"]
Edges = NDArray[np.float64]

MAX_EDGES = 2**22
EXACT = 2**53  # whole numbers up to this are exact as float64
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class Grid:
    """A public domain and its spacing, in coded units. The last cell may be shorter than the others."""

    kind: Kind
    lower: Fraction
    upper: Fraction
    step: Fraction

    @property
    def cells(self) -> int:
        """Number of cells between `lower` and `upper`."""
        return ceil((self.upper - self.lower) / self.step)

    def edges(self) -> Edges:
        """Sorted edges from `lower` to `upper`, both included; read-only."""
        edges = np.append(self._edges_below_upper(), float(self.upper))
        if np.any(np.diff(edges) <= 0):
            raise SchemaError("step is too small for bounds of this size: some of its edges are equal as float64")
        edges.flags.writeable = False
        return edges

    def _edges_below_upper(self) -> Edges:
        """lower + i * step for all i that stay below `upper`, each rounded once."""
        scale = lcm(self.lower.denominator, self.step.denominator)
        first, stride = int(self.lower * scale), int(self.step * scale)
        if max(scale, abs(first), abs(first + self.cells * stride)) <= EXACT:
            # Both operands are exact, so the division rounds once, to the nearest float64.
            whole = first + stride * np.arange(self.cells, dtype=np.int64)
            return whole / np.float64(scale)
        return np.array([float(self.lower + i * self.step) for i in range(self.cells)], dtype=np.float64)


def make_grid(lower: Bound, upper: Bound, step: Step | None) -> Grid:
    """Grid of a declared domain. Raises SchemaError with the reason; the caller adds the column."""
    kind = kind_of(lower)
    if kind_of(upper) != kind:
        raise SchemaError(f"lower is a {kind} and upper is a {kind_of(upper)}: use the same kind for both")
    low, high = coded(lower), coded(upper)
    if low > high:
        raise SchemaError(f"lower must not be above upper, got {lower} and {upper}")
    if step is None:
        spacing = _default_step(kind, high - low, whole=isinstance(lower, int) and isinstance(upper, int))
    else:
        spacing = _coded_step(kind, step)
    grid = Grid(kind, low, high, spacing)
    if grid.cells >= MAX_EDGES:
        raise SchemaError(
            f"step {step} makes {grid.cells + 1} published bounds, more than {MAX_EDGES}: use a larger step"
        )
    return grid


def kind_of(bound: Bound) -> Kind:
    """Kind of a bound: number, date or timestamp (a datetime is not a date here, although it is in Python)."""
    if isinstance(bound, dt.datetime):
        return "timestamp"
    if isinstance(bound, dt.date):
        return "date"
    if isinstance(bound, int | float) and not isinstance(bound, bool):
        return "number"
    raise SchemaError(f"a bound must be a number, a date or a datetime, got {type(bound).__name__}")


def coded(bound: Bound) -> Fraction:
    """A bound in exact coded units: the number as printed, or days or microseconds since 1970 (naive = UTC)."""
    if isinstance(bound, dt.datetime):
        aware = bound if bound.tzinfo is not None else bound.replace(tzinfo=dt.UTC)
        microseconds = (aware - EPOCH) // MICROSECOND
        if abs(microseconds) > EXACT:
            raise SchemaError(f"{bound} is too far from 1970 for microseconds: use bounds from 1685 to 2255, or dates")
        return Fraction(microseconds)
    if isinstance(bound, dt.date):
        return Fraction((bound - EPOCH.date()).days)
    if not isfinite(bound):
        raise SchemaError(f"a bound must be finite, got {bound}")
    if abs(bound) > EXACT:
        raise SchemaError(
            f"{bound} is beyond 2^53, where float64 no longer represents every whole number: "
            f"declare the column in a larger unit"
        )
    return Fraction(repr(bound))


def resolution(values: NDArray[np.float64]) -> float | None:
    """Widest spacing whose shifted multiples include all values: 1 for whole numbers, 0.05 for 1.10, 1.15, 1.25.

    0.0 if no decimal spacing of up to nine digits fits, None for fewer than two distinct values.
    """
    distinct = np.unique(values[np.isfinite(values)])
    if distinct.size < 2:
        return None
    for digits in range(10):
        scaled = distinct * 10.0**digits
        whole = np.rint(scaled)
        if np.abs(whole[[0, -1]]).max() > EXACT:
            return 0.0
        if np.all(np.abs(scaled - whole) <= 1e-9 * np.maximum(1.0, np.abs(scaled))):
            return float(np.gcd.reduce(np.diff(whole.astype(np.int64)))) / 10.0**digits
    return 0.0


def _default_step(kind: Kind, width: Fraction, whole: bool) -> Fraction:
    """A hundredth of the domain, rounded up to a whole number, day or second for whole, date or timestamp bounds."""
    hundredth = width / 100
    unit = 1_000_000 if kind == "timestamp" else 1
    if kind != "number" or whole:
        return Fraction(max(ceil(hundredth / unit), 1) * unit)
    return hundredth or Fraction(1)


def _coded_step(kind: Kind, step: Step) -> Fraction:
    """A declared step in coded units: a number of days for dates, of seconds for timestamps."""
    if isinstance(step, dt.timedelta):
        if kind == "number":
            raise SchemaError("step is a timedelta, but the bounds are numbers")
        size = Fraction(step // MICROSECOND, 86_400_000_000 if kind == "date" else 1)
    elif isinstance(step, int | float) and not isinstance(step, bool):
        if not isfinite(step):
            raise SchemaError(f"step must be finite, got {step}")
        size = Fraction(repr(step)) * (1_000_000 if kind == "timestamp" else 1)
    else:
        raise SchemaError(f"step must be a number or a timedelta, got {type(step).__name__}")
    if size <= 0:
        raise SchemaError(f"step must be above 0, got {step}")
    if kind != "number" and size.denominator != 1:
        raise SchemaError(f"step must be a whole number of {'days' if kind == 'date' else 'microseconds'}, got {step}")
    return size
