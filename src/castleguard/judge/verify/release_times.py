"""Check promises about time from a published file: late rows, and t-closeness to a running distribution.

A file is in release order, and original row numbers give the arrival order. The file does not say when a row left, but
it says which of two rows left first: a row that follows row number m in the file had not left when m arrived.
"""

from typing import NamedTuple

import numpy as np

from castleguard.judge.reading.values import Codes, Numbers
from castleguard.judge.verify.group_values import SLACK, Distance, Failures, Flags, Table, Tally, coordinates, distances
from castleguard.privacy.closeness import Closeness
from castleguard.schema.hierarchy import Hierarchy

_ANCHORS = 64
_MOST_SHARES = 50_000_000  # upper limit of shares computed for one column: a second or two


class Span(NamedTuple):
    """First and last moment at which each group can have been released, as numbers of arrivals."""

    first: Codes
    last: Codes


class Column(NamedTuple):
    """A sensitive column with declared values."""

    codes: Codes
    """Codes of the rows, in arrival order."""
    size: int
    """Number of values, including the missing one."""
    distance: Distance
    hierarchy: Hierarchy | None = None


def late_rows(position: Codes, delay: int) -> int:
    """Count the rows that certainly left late, given the arrival positions of the published rows.

    A row p published after a row m > p + delay was certainly late, because m had arrived before. This is a lower bound:
    a row may be late without such a witness.

    >>> late_rows(np.array([0, 3, 1, 2]), 2), late_rows(np.array([0, 4, 1, 2]), 2)
    (0, 1)
    """
    if not position.size:
        return 0
    seen = np.maximum.accumulate(position)
    return int(np.count_nonzero(seen > position + delay))


def spans(groups: Codes, position: Codes, *, delay: int, arrivals: int, count: int) -> Span:
    """Span of possible releases for each of `count` groups, if no row was late."""
    first: Codes = np.full(count, arrivals - 1, dtype=np.int64)
    last: Codes = np.zeros(count, dtype=np.int64)
    np.minimum.at(first, groups, position)
    np.maximum.at(last, groups, position)
    return Span(first, np.minimum(last + delay, arrivals - 1))


def references(column: Column, closeness: Closeness, start: int, stop: int) -> Table:
    """Running distribution after each arrival from `start` to `stop` (exclusive)."""
    rows = np.arange(stop)
    present = np.zeros((stop, column.size))
    present[rows, column.codes[:stop]] = 1.0
    if closeness.decay is not None:
        weights = np.empty((stop, column.size))
        decayed = np.zeros(column.size)
        for row in range(stop):
            decayed = decayed * closeness.decay + present[row]
            weights[row] = decayed
    else:
        weights = np.cumsum(present, axis=0)
        if closeness.window is not None and closeness.window < stop:
            weights[closeness.window :] -= weights[: -closeness.window].copy()
    weights = weights[start:] + closeness.alpha
    shares: Table = weights / weights.sum(axis=1, keepdims=True)
    return shares


def can_follow(column: Column) -> bool:
    """Whether the running distribution is small enough to compute at every moment."""
    return column.codes.size * column.size <= _MOST_SHARES


def judge_public(counted: Tally, closeness: Closeness, column: Column, shares: Numbers) -> Failures:
    """Check t-closeness to public shares."""
    points = coordinates(counted.shares(column.size), column.distance, column.hierarchy)
    far = distances(points, coordinates(shares[None, :], column.distance, column.hierarchy)) > closeness.t + SLACK
    return Failures(far, far & ~counted.repeated)


def judge_running(counted: Tally, closeness: Closeness, column: Column, span: Span) -> Failures:
    """Check t-closeness to a running distribution.

    `failed` compares with the distribution at the last moment of a group's span. `proved` holds for any moments of
    release: let Q be the distribution at one moment and d the largest distance of the running distribution from Q
    within the span; the group is farther from Q than t + d. A group that kept the promise cannot be, because each
    release was within t of the distribution at its own moment, and distances are convex and obey the triangle
    inequality.
    """
    shares = references(column, closeness, 0, column.codes.size)
    moving = coordinates(shares, column.distance, column.hierarchy)
    points = coordinates(counted.shares(column.size), column.distance, column.hierarchy)
    there = counted.totals > 0
    failed: Flags = there & (distances(points, moving[span.last]) > closeness.t + SLACK)
    proved: Flags = np.zeros(counted.groups, dtype=np.bool_)
    anchors = _anchors(span, len(moving), moving.shape[1])
    for anchor in np.unique(anchors[failed]):
        drift = np.abs(moving - moving[anchor]).sum(axis=1)
        members = np.flatnonzero((anchors == anchor) & failed)
        largest_drift = np.array(
            [drift[span.first[group] : span.last[group] + 1].max(initial=0.0) for group in members]
        )
        far = distances(points[members], moving[anchor][None, :])
        proved[members] = far > closeness.t + largest_drift + SLACK
    return Failures(failed, proved & ~counted.repeated)


def _anchors(span: Span, moments: int, width: int) -> Codes:
    """A moment near the middle of each group's span, chosen from a few, because each costs a pass over all moments."""
    many = int(np.clip(_MOST_SHARES // max(moments * width, 1), 1, _ANCHORS))
    step = max(moments // many, 1)
    middle = (span.first + span.last) // 2
    near: Codes = np.minimum(middle // step * step + step // 2, moments - 1)
    return near
