"""How well counts can be answered from what was published: the workload error of CASTLE, section 5.2.

Random queries count the rows whose quasi-identifiers and sensitive value lie in random ranges. The original gives the
true count; the published table gives an estimate, as if the values of a row were spread evenly over its box. The
median relative error of a window's queries is the window error, and the mean over all windows the workload error.
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
"""So many times as many queries are drawn at most, to find enough that count a row at all."""

_CELLS = 1 << 18  # rows times queries that are looked at together: they fit a cache


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Which queries are asked. The same workload asks the same queries of every publication of one original."""

    selectivity: float = 0.1
    """The share of rows that a query is expected to count if all values are spread evenly: theta."""
    queries: int = 5_000
    """Of every window."""
    window: int | None = None
    """Rows of a window; None: one window with all of them."""
    seed: int = 0
    sensitive: tuple[str, ...] | None = None
    """Sensitive columns that the queries have a predicate on; None: the first one of the schema, if it has any."""
    sample_rate: float = 1.0
    """The share of rows that was sampled before it was published, if that is public: estimates are divided by it."""

    def __post_init__(self) -> None:
        check_probability("selectivity", self.selectivity, one=True)
        check_probability("sample_rate", self.sample_rate, one=True)
        check_count("queries", self.queries)
        check_count("seed", self.seed, least=0)
        if self.window is not None:
            check_count("window", self.window)
        if isinstance(self.sensitive, str):
            raise PolicyError("sensitive must be a tuple of column names, not a single text")


class WindowError(NamedTuple):
    """The queries of one window."""

    error: float
    """The median relative error; NaN if no query counts a row of the original."""
    queries: int
    """That were answered."""
    skipped: int
    """That count no row of the original and so have no relative error; others were drawn instead."""


@dataclass(frozen=True)
class WorkloadError:
    """What came of all windows."""

    mean: float
    """The workload error: the mean of the window errors; NaN if there is none."""
    windows: tuple[WindowError, ...]
    rows_left_out: int
    """Rows at the end of the original that do not fill a window."""

    @property
    def skipped(self) -> int:
        """Queries of all windows that count no row of the original."""
        return sum(window.skipped for window in self.windows)


def workload_error(linked: Linked, workload: Workload | None = None) -> WorkloadError:
    """Windows of the original in its order of arrival, each against what was published for the same rows.

    A row that was not published is in the true count and in no estimate. A published row that has no original is left
    out.
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
    """The same without a link: the first rows published against the first that arrived, and so on.

    The error has also that rows leave in another order than they came in. With one window there is no difference to
    `workload_error`.
    """
    chosen = workload or Workload()
    attributes = attributes_of(published, original, schema, chosen)
    row: Codes = np.arange(published.num_rows, dtype=np.int64)
    if chosen.window is None:
        row = np.minimum(row, original.num_rows - 1)
    return _measure(attributes, chosen, row, original.num_rows)


def attributes_of(published: pa.Table, original: pa.Table, schema: Schema, workload: Workload) -> tuple[Attribute, ...]:
    """Every column that the queries have a predicate on."""
    sides, values = read_boxes(published, schema), read_originals(original, schema).values
    roles = {role.name: role for role in schema.sensitive}
    names = tuple(roles)[:1] if workload.sensitive is None else workload.sensitive
    for name in names:
        if name not in roles:
            raise UsageError(f"{name!r} is no sensitive column of the schema")
    return (
        *map(quasi_identifier, schema.quasi_identifiers, sides, values),
        *(sensitive(roles[name], published, original) for name in names),
    )


class Distinct(NamedTuple):
    """Rows of a table without repetition. Those of a group are equal, and so the work is done once for all of them."""

    bounds: NDArray[np.float64]
    """(2 * columns, rows): lower and upper bound of every column. Read the other way, they take five times as long."""
    weights: Numbers
    """How often each row is there."""


def distinct(rows: tuple[Ranges, ...]) -> Distinct:
    """Put equal rows together. One range per column and row."""
    table, many = np.unique(
        np.stack([bound for ranges in rows for bound in ranges], axis=1), axis=0, return_counts=True
    )
    return Distinct(np.ascontiguousarray(table.T), many.astype(np.float64))


def counts(rows: Distinct, units: tuple[int, ...], asked: tuple[Ranges, ...]) -> Numbers:
    """For every query the sum over rows of the probability that all values lie in its ranges.

    The probability for one column is the share of the row's range that the query's range covers. A range without a
    length is a point, and either lies in the other one or not.
    """
    bounds, weights = rows
    answers = np.zeros(asked[0].low.size)
    step = max(1, _CELLS // max(1, weights.size))
    for start in range(0, answers.size, step):
        part = slice(start, start + step)
        found: NDArray[Any] = np.ones((answers[part].size, weights.size), dtype=np.bool_)
        for column, (unit, ranges) in enumerate(zip(units, asked, strict=True)):
            here = Ranges(bounds[2 * column], bounds[2 * column + 1])
            # Of points all are true or false, and stay so: that is an eighth of the memory.
            found = found * _covered(here, unit, Ranges(ranges.low[part, None], ranges.high[part, None]))
        answers[part] = found @ weights
    return answers


def _covered(rows: Ranges, unit: int, asked: Ranges) -> NDArray[np.float64] | NDArray[np.bool_]:
    """Per query and row: the share of the row's range that lies in the query's."""
    points = rows.low == rows.high
    if points.all():
        inside: NDArray[np.bool_] = (asked.low <= rows.low) & (rows.low <= asked.high)
        return inside
    common = np.minimum(rows.high, asked.high)
    common -= np.maximum(rows.low, asked.low)
    # A point has no length to share out: 0 in common is inside, less than 0 is outside.
    inside = common[:, points] >= 0
    common += unit
    np.maximum(common, 0.0, out=common)
    common /= np.subtract(rows.high, rows.low, out=np.ones(points.size), where=~points) + np.where(points, 0, unit)
    common[:, points] = inside
    return common


def _measure(attributes: tuple[Attribute, ...], workload: Workload, row: Codes, arrived: int) -> WorkloadError:
    """Window by window. `row` has the position among the original rows that every published row counts for."""
    size = workload.window or max(arrived, 1)
    whole = 1 if arrived < size else arrived // size
    errors = []
    for number in range(whole):
        here: Codes = np.flatnonzero((row >= number * size) & (row < (number + 1) * size))
        originals = distinct(
            tuple(_part(each.original, slice(number * size, (number + 1) * size)) for each in attributes)
        )
        shown = distinct(tuple(_part(each.published, here) for each in attributes))
        # Not one generator for all windows: what a window is asked must not depend on the windows before it.
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
        asked = tuple(each.draw(share, missing, generator) for each in attributes)
        actual = counts(originals, units, asked)
        kept = actual > 0
        estimated = counts(shown, units, tuple(_part(ranges, kept) for ranges in asked)) / workload.sample_rate
        found.append(np.abs(actual[kept] - estimated) / actual[kept])
        answered += int(np.count_nonzero(kept))
        drawn += missing
    error = float(np.median(np.concatenate(found))) if answered else float("nan")
    return WindowError(error, answered, drawn - answered)


def _part(ranges: Ranges, rows: slice | Codes | NDArray[np.bool_]) -> Ranges:
    return Ranges(ranges.low[rows], ranges.high[rows])
