"""Which of the rows on offer a release takes, and in which box."""

from collections.abc import Callable, Iterator
from math import ceil

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.dcastle.engine import OUTSIDE, MemberEngine
from castleguard.sites.messages import Bounds
from castleguard.sites.releases import Lead, Verdict

Box = tuple[Bounds, Bounds]
Judge = Callable[[Verdict, Box], bool]
"""Whether what a verdict takes may be published as one group in a box."""

_ROUNDS = 5  # in which the share of the others' rows is halved


def choose(lead: Lead, engine: MemberEngine, may_be: Judge) -> tuple[Verdict, Box] | None:
    """The best that may be published, and loses less than the rows would without it."""
    for verdict, box in _verdicts(lead, engine):
        if _benefit(lead, verdict) > 0.0 and may_be(verdict, box):
            return _no_more_than_needed(lead, verdict, box, may_be), box
    return None


def _verdicts(lead: Lead, engine: MemberEngine) -> Iterator[tuple[Verdict, Box]]:
    """What could be published, the best first: the smallest box that will do, or everything with those who asked to
    join if that is worth more.
    """
    everything = _everything(lead, engine)
    for level in range(len(lead.losses)):
        alone = _all_of(lead, level, float(lead.losses[level]))
        if everything is not None and _benefit(lead, everything[0]) > _benefit(lead, alone):
            yield everything
        yield alone, (lead.lower[level], lead.upper[level])
    if everything is not None:
        yield everything


def _everything(lead: Lead, engine: MemberEngine) -> tuple[Verdict, Box] | None:
    """All rows on offer, if some lie outside of the boxes: in the box around the largest one and those."""
    outside = [answer for answer in lead.answers.values() if answer.lower.size]
    if not outside:
        return None
    lower = np.minimum.reduce([lead.lower[-1], *(answer.lower for answer in outside)])
    upper = np.maximum.reduce([lead.upper[-1], *(answer.upper for answer in outside)])
    lower, upper, loss = engine.around_published(lower, upper)
    return _all_of(lead, OUTSIDE, loss), (lower, upper)


def _all_of(lead: Lead, level: int, loss: float) -> Verdict:
    """All rows up to a level."""
    offers = {lead.release: _count(lead.levels, level)}
    for answer in lead.answers.values():
        if answer.rows is not None:
            offers[answer.offer] = _count(answer.rows.levels, level)
    return Verdict(offers=offers, loss=loss)


def _count(levels: NDArray[np.int64], level: int) -> int:
    return int(np.searchsorted(levels, level, side="right"))


def _no_more_than_needed(lead: Lead, verdict: Verdict, box: Box, may_be: Judge) -> Verdict:
    """With fewer rows of the others, of each as large a share, if that will do: what is not needed here may make a
    group elsewhere.
    """
    low, high = 0.0, 1.0
    for _ in range(_ROUNDS):
        share = (low + high) / 2
        fewer = {name: rows if name == lead.release else ceil(share * rows) for name, rows in verdict.offers.items()}
        if may_be(Verdict(offers=fewer, loss=verdict.loss), box):
            high = share
        else:
            low = share
    fewer = {name: rows if name == lead.release else ceil(high * rows) for name, rows in verdict.offers.items()}
    return Verdict(offers=fewer, loss=verdict.loss)


def _benefit(lead: Lead, verdict: Verdict) -> float:
    """What all rows together lose less in a release than without it, about."""
    benefit = verdict.offers[lead.release] * (lead.otherwise - verdict.loss)
    for answer in lead.answers.values():
        benefit += verdict.offers.get(answer.offer, 0) * (answer.otherwise - verdict.loss)
    return benefit
