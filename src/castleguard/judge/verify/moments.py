"""What a published file tells about moments: rows that left too late, and what a group may have been compared with.

The order of a file is the order of release. Whoever knows the number of each original row knows the order of arrival.
No file says when a row left, but it says of two rows which left first: a row that comes after row number m had not left
when m had arrived.
"""

from typing import NamedTuple

import numpy as np

from castleguard.judge.reading.values import Codes, Numbers
from castleguard.judge.verify.group_values import SLACK, Distance, Failures, Flags, Table, Tally, coordinates, distances
from castleguard.privacy.closeness import Closeness
from castleguard.schema.hierarchy import Hierarchy

_ANCHORS = 64
_MOST_SHARES = 50_000_000  # shares that are computed at most for one column: a second or two


class Span(NamedTuple):
    """Per group the first and the last moment at which it can have been released, as numbers of arrivals."""

    first: Codes
    last: Codes


class Column(NamedTuple):
    """A sensitive column with declared values."""

    codes: Codes
    """Of the rows in order of arrival."""
    size: int
    """How many values there are, the missing one too."""
    distance: Distance
    hierarchy: Hierarchy | None = None


def late_rows(position: Codes, delay: int) -> int:
    """How many rows certainly left late, given where the published rows stand in the order of arrival.

    A row p that comes out after a row m > p + delay was certainly late, since m had arrived before. The opposite does
    not follow: a row may be late without any such witness.

    >>> late_rows(np.array([0, 3, 1, 2]), 2), late_rows(np.array([0, 4, 1, 2]), 2)
    (0, 1)
    """
    if not position.size:
        return 0
    seen = np.maximum.accumulate(position)
    return int(np.count_nonzero(seen > position + delay))


def spans(groups: Codes, position: Codes, *, delay: int, arrivals: int, count: int) -> Span:
    """When each of `count` groups can have been released, if no row was late."""
    first: Codes = np.full(count, arrivals - 1, dtype=np.int64)
    last: Codes = np.zeros(count, dtype=np.int64)
    np.minimum.at(first, groups, position)
    np.maximum.at(last, groups, position)
    return Span(first, np.minimum(last + delay, arrivals - 1))


def references(column: Column, closeness: Closeness, start: int, stop: int) -> Table:
    """The running distribution after each of the arrivals from `start` to `stop` (excluded)."""
    rows = np.arange(stop)
    present = np.zeros((stop, column.size))
    present[rows, column.codes[:stop]] = 1.0
    if closeness.decay is not None:
        weights = np.empty((stop, column.size))
        held = np.zeros(column.size)
        for row in range(stop):
            held = held * closeness.decay + present[row]
            weights[row] = held
    else:
        weights = np.cumsum(present, axis=0)
        if closeness.window is not None and closeness.window < stop:
            weights[closeness.window :] -= weights[: -closeness.window].copy()
    weights = weights[start:] + closeness.alpha
    shares: Table = weights / weights.sum(axis=1, keepdims=True)
    return shares


def can_follow(column: Column) -> bool:
    """Whether the running distribution is small enough to be computed for every moment."""
    return column.codes.size * column.size <= _MOST_SHARES


def judge_public(counted: Tally, closeness: Closeness, column: Column, shares: Numbers) -> Failures:
    """t-closeness to shares that are public."""
    points = coordinates(counted.shares(column.size), column.distance, column.hierarchy)
    far = distances(points, coordinates(shares[None, :], column.distance, column.hierarchy)) > closeness.t + SLACK
    return Failures(far, far & ~counted.repeated)


def judge_running(counted: Tally, closeness: Closeness, column: Column, span: Span) -> Failures:
    """t-closeness to a distribution that moves on.

    `failed` is by the distribution at the last moment of a group's span. `proved` is what no moments of release can
    explain: the group is farther from the distribution Q of one moment than t and the farthest that the distribution
    ever was from Q within the span. Each release was within t of the distribution of its own moment, distances are
    convex and obey the triangle inequality; so a group that kept the promise is not.
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
        mine = np.flatnonzero((anchors == anchor) & failed)
        away = np.array([drift[span.first[group] : span.last[group] + 1].max(initial=0.0) for group in mine])
        far = distances(points[mine], moving[anchor][None, :])
        proved[mine] = far > closeness.t + away + SLACK
    return Failures(failed, proved & ~counted.repeated)


def _anchors(span: Span, moments: int, width: int) -> Codes:
    """A moment for each group that is near the middle of its span, of no more than a few different ones."""
    many = int(np.clip(_MOST_SHARES // max(moments * width, 1), 1, _ANCHORS))
    step = max(moments // many, 1)
    middle = (span.first + span.last) // 2
    near: Codes = np.minimum(middle // step * step + step // 2, moments - 1)
    return near
