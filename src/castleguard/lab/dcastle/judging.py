"""Verdicts on the paper's statements: rules over figures, the same for every figure of a kind.

Statements such as "holds most of the time" or "insignificant" need a limit before they can be checked. The limits are
here, beside their purpose.
"""

from collections.abc import Sequence
from itertools import combinations
from statistics import median

from castleguard.lab.result import Claim, Word

INSIGNIFICANT, NOTICEABLE = 0.10, 0.25
"""A change up to the first limit is insignificant; up to the second, partly so."""
NEAR, LESS_NEAR = 0.10, 0.20
"""Losses within the first limit are close to each other; within the second, partly so."""
STEADY = 0.6
"""Kendall's tau from which on a curve has a direction: with 5 points, at most 2 of 10 pairs go the other way."""
SHARE_NEAR, SHARE_LEAST = 0.25, 0.02
"""Shares of the variation agree within a quarter of the stated one, or two points; partly within twice that."""
MOST = 0.75
"""A statement about all points holds partly from this share of the points on: at half of them it would be chance."""


def claim(paper: str, ours: str, verdict: Word, reason: str) -> Claim:
    """A claim, with the reason if one is needed."""
    return Claim(paper=paper, ours=ours, verdict=verdict, reason="" if verdict == "reproduced" else reason)


def combined(words: Sequence[Word]) -> Word:
    """The common verdict if all agree; otherwise partly."""
    return words[0] if len(set(words)) == 1 else "partly"


def trend(values: Sequence[float], *, rising: bool) -> Word:
    """Whether a curve goes that way: steadily, or at least from its first to its last point."""
    sign = 1 if rising else -1
    if sign * (values[-1] - values[0]) <= 0:
        return "not reproduced"
    pairs = [sign * (later - earlier) for earlier, later in combinations(values, 2)]
    tau = sum((pair > 0) - (pair < 0) for pair in pairs) / len(pairs)
    return "reproduced" if tau >= STEADY else "partly"


def insignificant(values: Sequence[float]) -> Word:
    """Whether a curve stays near its first value."""
    return _graded(max(abs(value / values[0] - 1) for value in values), INSIGNIFICANT, NOTICEABLE)


def always(holds: Sequence[bool]) -> Word:
    """At all points, or at most of them."""
    if all(holds):
        return "reproduced"
    return "partly" if sum(holds) >= MOST * len(holds) else "not reproduced"


def guaranteed(holds: Sequence[bool]) -> Word:
    """At all points: a guarantee has no exceptions."""
    return "reproduced" if all(holds) else "not reproduced"


def mostly_near(changes: Sequence[float]) -> Word:
    """More than half of the points near, or less near."""
    return _graded(median(abs(change) for change in changes), NEAR, LESS_NEAR)


def at_most(values: Sequence[float], limit: float) -> Word:
    """All within the limit, or half of them."""
    if max(values) <= limit:
        return "reproduced"
    return "partly" if median(values) <= limit else "not reproduced"


def in_range(values: Sequence[float], low: float, high: float) -> Word:
    """More than half within a stated range; or at least one, and the median no further off than the range is wide."""
    inside = [low <= value <= high for value in values]
    if sum(inside) > len(inside) / 2:
        return "reproduced"
    wide = high - low
    return "partly" if any(inside) and low - wide <= median(values) <= high + wide else "not reproduced"


def reaches(values: Sequence[float], stated: float) -> Word:
    """The largest comes within a fifth of the stated value, or to a third of it."""
    largest = max(values)
    if largest >= 0.8 * stated:
        return "reproduced"
    return "partly" if largest >= stated / 3 else "not reproduced"


def same_share(found: float, stated: float) -> Word:
    """A share of the variation as stated, within the limits."""
    near = max(SHARE_NEAR * stated, SHARE_LEAST)
    return _graded(abs(found - stated), near, 2 * near)


def hardly_more_bytes(increases: Sequence[float]) -> Word:
    """More at more than half of the points, and not much more; or one of the two."""
    more = sum(increase >= 0 for increase in increases) > len(increases) / 2
    little = median(increases) <= INSIGNIFICANT
    if more and little:
        return "reproduced"
    return "partly" if more or little else "not reproduced"


def spread(changes: Sequence[float]) -> str:
    """Smallest, largest and median."""
    return f"{min(changes):+.1%} to {max(changes):+.1%}, median {median(changes):+.1%}"


def _graded(distance: float, near: float, less_near: float) -> Word:
    if distance <= near:
        return "reproduced"
    return "partly" if distance <= less_near else "not reproduced"
