"""Error of COUNT queries on the published table: the workload error of CASTLE, section 5.2.

Random queries count the rows whose quasi-identifiers and sensitive value lie in random ranges. The original gives the
true count; the published table gives an estimate that assumes values uniformly distributed over their box. The window
error is the median relative error of a window's queries, and the workload error is the mean over all windows.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.errors import PolicyError, UsageError
from castleguard.judge.measure.predicates import Attribute, Ranges, quasi_identifier, sensitive
from castleguard.judge.reading.boxes import read_boxes
from castleguard.judge.reading.linked import Linked
from castleguard.judge.reading.originals import read_originals
from castleguard.judge.reading.values import Codes, Numbers
from castleguard.privacy.parameters import check_count, check_probability
from castleguard.schema.roles import Schema

DRAWS = 20
"""Upper limit of drawn queries per wanted query, because queries that count no row are drawn again."""

_CELLS = 1 << 18  # rows times queries processed together, to fit the CPU cache


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Query settings. A workload asks the same queries of every publication of one original."""

    selectivity: float = 0.1
    """Share of rows that a query counts if all values are uniformly distributed: theta."""
    queries: int = 5_000
    """Queries per window."""
    window: int | None = None
    """Rows per window; None for a single window."""
    seed: int = 0
    sensitive: tuple[str, ...] | None = None
    """Sensitive columns with a predicate; None for the first one of the schema, if any."""
    sample_rate: float = 1.0
    """Public rate at which rows were sampled before publishing; estimates are divided by it."""

    def __post_init__(self) -> None:
        check_probability("selectivity", self.selectivity, one=True)
        check_probability("sample_rate", self.sample_rate, one=True)
        check_count("queries", self.queries)
        check_count("seed", self.seed, least=0)
        if self.window is not None:
            check_count("window", self.window)
        if isinstance(self.sensitive, str):
            raise PolicyError("sensitive must be a tuple of column names, not a string")


class WindowError(NamedTuple):
    """Error of one window."""

    error: float
    """Median relative error; NaN if no query counts an original row."""
    queries: int
    """Answered queries."""
    skipped: int
    """Queries that count no original row, which have no relative error and were drawn again."""


@dataclass(frozen=True)
class WorkloadError:
    """Errors of all windows."""

    mean: float
    """Workload error: the mean of the window errors; NaN if none is defined."""
    windows: tuple[WindowError, ...]
    rows_left_out: int
    """Rows at the end of the original that do not fill a window."""

    @property
    def skipped(self) -> int:
        """Queries of all windows that count no original row."""
        return sum(window.skipped for window in self.windows)


def workload_error(linked: Linked, workload: Workload | None = None) -> WorkloadError:
    """Compare windows of the original, in arrival order, with the published rows of the same original rows.

    An unpublished row counts in the true count but in no estimate. A published row without an original is left out.
    """
    return _measure(
        attributes_of(linked.published, linked.original, linked.schema, workload or Workload()),
        workload or Workload(),
        linked.row,
        linked.original.num_rows,
    )


def workload_error_in_order(
    published: pa.Table, original: pa.Table, schema: Schema, workload: Workload | None = None
) -> WorkloadError:
    """Workload error without a link: the first published rows against the first arrivals, and so on.

    The error also includes the effect of the different order. With one window the result equals `workload_error`.
    """
    chosen = workload or Workload()
    attributes = attributes_of(published, original, schema, chosen)
    row: Codes = np.arange(published.num_rows, dtype=np.int64)
    if chosen.window is None:
        row = np.minimum(row, original.num_rows - 1)
    return _measure(attributes, chosen, row, original.num_rows)


def attributes_of(published: pa.Table, original: pa.Table, schema: Schema, workload: Workload) -> tuple[Attribute, ...]:
    """All columns with a query predicate."""
    sides, values = read_boxes(published, schema), read_originals(original, schema).values
    roles = {role.name: role for role in schema.sensitive}
    names = tuple(roles)[:1] if workload.sensitive is None else workload.sensitive
    for name in names:
        if name not in roles:
            raise UsageError(f"{name!r} is not a sensitive column of the schema")
    return (
        *map(quasi_identifier, schema.quasi_identifiers, sides, values),
        *(sensitive(roles[name], published, original) for name in names),
    )


class Distinct(NamedTuple):
    """Distinct rows of a table with their counts, so that equal rows of a group are processed once."""

    bounds: NDArray[np.float64]
    """(2 * columns, rows): lower and upper bound of every column. The transposed layout is five times slower."""
    weights: Numbers
    """Count of each row."""


def distinct(rows: tuple[Ranges, ...]) -> Distinct:
    """Merge equal rows. One range per column and row."""
    table, many = np.unique(
        np.stack([bound for ranges in rows for bound in ranges], axis=1), axis=0, return_counts=True
    )
    return Distinct(np.ascontiguousarray(table.T), many.astype(np.float64))


def counts(rows: Distinct, units: tuple[int, ...], predicates: tuple[Ranges, ...]) -> Numbers:
    """Estimated count of every query: the sum over rows of the probability that all values lie in its ranges.

    The probability for one column is the share of the row's range that the query's range covers. A range of length 0 is
    a point, which lies inside or outside.
    """
    bounds, weights = rows
    answers = np.zeros(predicates[0].low.size)
    step = max(1, _CELLS // max(1, weights.size))
    for start in range(0, answers.size, step):
        part = slice(start, start + step)
        found: NDArray[Any] = np.ones((answers[part].size, weights.size), dtype=np.bool_)
        for column, (unit, ranges) in enumerate(zip(units, predicates, strict=True)):
            here = Ranges(bounds[2 * column], bounds[2 * column + 1])
            # Points give booleans, which take an eighth of the memory of floats.
            found = found * _covered(here, unit, Ranges(ranges.low[part, None], ranges.high[part, None]))
        answers[part] = found @ weights
    return answers


def _covered(rows: Ranges, unit: int, predicates: Ranges) -> NDArray[np.float64] | NDArray[np.bool_]:
    """Share of each row's range that each query's range covers."""
    points = rows.low == rows.high
    if points.all():
        inside: NDArray[np.bool_] = (predicates.low <= rows.low) & (rows.low <= predicates.high)
        return inside
    common = np.minimum(rows.high, predicates.high)
    common -= np.maximum(rows.low, predicates.low)
    # For a point, an overlap of 0 is inside and a negative overlap is outside.
    inside = common[:, points] >= 0
    common += unit
    np.maximum(common, 0.0, out=common)
    common /= np.subtract(rows.high, rows.low, out=np.ones(points.size), where=~points) + np.where(points, 0, unit)
    common[:, points] = inside
    return common


def _measure(attributes: tuple[Attribute, ...], workload: Workload, row: Codes, arrived: int) -> WorkloadError:
    """Measure window by window. `row`: original position of each published row."""
    size = workload.window or max(arrived, 1)
    whole = 1 if arrived < size else arrived // size
    errors = []
    for number in range(whole):
        here: Codes = np.flatnonzero((row >= number * size) & (row < (number + 1) * size))
        originals = distinct(
            tuple(_part(each.original, slice(number * size, (number + 1) * size)) for each in attributes)
        )
        shown = distinct(tuple(_part(each.published, here) for each in attributes))
        # One generator per window: the queries of a window must not depend on earlier windows.
        generator = np.random.default_rng([workload.seed, number])
        errors.append(_window_error(attributes, originals, shown, workload, generator))
    known = [window.error for window in errors if window.queries]
    mean = float(np.mean(known)) if known else float("nan")
    return WorkloadError(mean, tuple(errors), max(0, arrived - whole * size))


def _window_error(
    attributes: tuple[Attribute, ...],
    originals: Distinct,
    shown: Distinct,
    workload: Workload,
    generator: np.random.Generator,
) -> WindowError:
    units = tuple(each.unit for each in attributes)
    share = workload.selectivity ** (1 / len(attributes))
    found: list[Numbers] = []
    answered = drawn = 0
    while answered < workload.queries and drawn < DRAWS * workload.queries:
        missing = workload.queries - answered
        predicates = tuple(each.draw(share, missing, generator) for each in attributes)
        actual = counts(originals, units, predicates)
        kept = actual > 0
        estimated = counts(shown, units, tuple(_part(ranges, kept) for ranges in predicates)) / workload.sample_rate
        found.append(np.abs(actual[kept] - estimated) / actual[kept])
        answered += int(np.count_nonzero(kept))
        drawn += missing
    error = float(np.median(np.concatenate(found))) if answered else float("nan")
    return WindowError(error, answered, drawn - answered)


def _part(ranges: Ranges, rows: slice | Codes | NDArray[np.bool_]) -> Ranges:
    return Ranges(ranges.low[rows], ranges.high[rows])
