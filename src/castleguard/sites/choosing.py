"""Which of the rows that are on offer a release takes, and in which box."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from castleguard.engine.member import MemberEngine
from castleguard.sites.messages import Bounds, Prepared
from castleguard.sites.releases import Lead, Verdict

Box = tuple[Bounds, Bounds]


def verdicts(lead: Lead, engine: MemberEngine) -> Iterator[tuple[Verdict, Box]]:
    """What could be published, the best first: the smallest box that will do, with those who asked to join it if that
    is worth it; then the boxes alone; and at last, all.
    """
    offers = (lead.release, *(answer.offer for answer in lead.answers.values()))
    joining = [answer for answer in lead.answers.values() if answer.lower.size]
    for level in range(len(lead.losses)):
        box = (lead.lower[level], lead.upper[level])
        alone = Verdict(offers=offers, level=level, loss=float(lead.losses[level]))
        if joining:
            wider, loss = _around(joining, box, engine)
            together = replace(alone, outside=tuple(answer.offer for answer in joining), loss=loss)
            if benefit(lead, together) > benefit(lead, alone):
                yield together, wider
        yield alone, box
    if joining:
        yield together, wider


def benefit(lead: Lead, verdict: Verdict) -> float:
    """What all rows together lose less in a release than without it, about."""
    own = np.count_nonzero(verdict.takes(lead.release, lead.levels)) * (lead.otherwise - verdict.loss)
    return float(own) + sum(
        np.count_nonzero(verdict.takes(answer.offer, answer.rows.levels)) * (answer.otherwise - verdict.loss)
        for answer in lead.answers.values()
        if answer.rows is not None
    )


def _around(joining: Sequence[Prepared], box: Box, engine: MemberEngine) -> tuple[Box, float]:
    """The box around a box and the rows of those who join it from outside; and what it loses."""
    lower = np.minimum.reduce([box[0], *(answer.lower for answer in joining)])
    upper = np.maximum.reduce([box[1], *(answer.upper for answer in joining)])
    lower, upper, loss = engine.as_published(lower, upper)
    return (lower, upper), loss
