"""Releases across sites, as one site sees them: those it coordinates, and those it has offered rows to.

Who may publish a row: its own site while the row is not locked, and the coordinator of the one release that it is
locked for, if that is committed on the log with this site in it. Nobody else, and never both.

`choose` says which of the rows on offer a release takes, and in which box. `Tempo` says how much a site takes part: as
long as others agree faster than its own rows arrive, more and more; else hardly. Locked rows are missing in the
clusters of their site. While only few rows arrive before they are decided that does no harm; where many do, the groups
that are made of the others lose more than those that are made together gain.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from math import ceil, inf
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.dcastle.engine import OUTSIDE, MemberEngine
from castleguard.sites.messages import Bounds, Prepared

Positions = NDArray[np.int64]
Stage = Literal["asking", "deciding", "late"]
"""Of a release that is coordinated here: answers are awaited; it waits for its place on the log; its rows were due
before the log could be reached, and have been given up unless the log says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the log says about a release."""

    offers: dict[str, int] = field(default_factory=dict)
    """How many rows of which offers are published by it, in the order in which they were offered; its coordinator's are
    under its own name. None, if it was aborted. An offer is named, not its site: one that is made later for the same
    release, because the question came twice, is another one."""
    loss: float = 0.0
    """Of the group."""

    def takes(self, offer: str, rows: int) -> NDArray[np.bool_]:
        """Which of the rows of an offer are published."""
        return np.arange(rows) < self.offers.get(offer, 0)

    def to_bytes(self) -> bytes:
        """As it stands on the log."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Verdict":
        """The verdict in a record."""
        return cls(**json.loads(data))


ABORT = Verdict()


@dataclass(eq=False, kw_only=True)
class Offer:
    """Rows of this site that are locked for a release which another site coordinates."""

    name: str
    release: str
    positions: Positions
    """In the order in which they are offered: the deepest in the boxes first, the oldest of these first."""
    answer: bytes = field(repr=False)
    """The message with the rows; to be sent once the lock is on disk."""
    coordinator: str
    began: int = 0
    """Arrivals when it was made."""
    made: float
    """When that was, in seconds."""
    sent: bool = False
    looked_up: float = -inf
    """When the log was asked last, or the offer was made, in seconds; after a restart it is asked at once."""


@dataclass(eq=False, kw_only=True)
class Outcome:
    """A release as it will be published."""

    lower: Bounds
    upper: Bounds
    rows: int
    payload: pa.Table = field(repr=False)
    """Of all rows, in their final order."""
    verdict: Verdict


@dataclass(eq=False, kw_only=True)
class Lead:
    """A release that this site coordinates."""

    release: str
    cluster: int
    positions: Positions
    """The own rows that it locks, the deepest in the boxes first."""
    levels: NDArray[np.int64]
    """(rows,) the smallest box that each lies in."""
    lower: Bounds
    """(boxes, columns), the smallest first."""
    upper: Bounds
    losses: NDArray[np.float64]
    otherwise: float
    """About what the own rows would lose without it."""
    awaited: set[str] = field(default_factory=set)
    answers: dict[str, Prepared] = field(default_factory=dict)
    began: int = 0
    """Arrivals when it was proposed."""
    made: float
    """When that was, in seconds."""
    stage: Stage = "asking"
    tried: bool = False
    """Whether the log was asked to commit it: until then it is not committed."""
    outcome: Outcome | None = None


def unique_name(site: str, epoch: str, number: int) -> str:
    """A name that no other release or offer has."""
    return f"{site}.{epoch}.{number}"


def facts_of(lead: Lead) -> dict[str, Any]:
    """What JSON can hold of a release."""
    facts: dict[str, Any] = {"release": lead.release, "stage": lead.stage, "made": lead.made}
    if lead.outcome is not None:
        facts |= {"rows": lead.outcome.rows, "verdict": asdict(lead.outcome.verdict)}
    return facts


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


_MOST = 128  # releases that are open at once
_PAUSE = 5.0  # seconds after which a pause ends, if too few rows arrive


class Moment(NamedTuple):
    """When something is."""

    arrivals: int
    seconds: float


class Tempo:
    """How long agreements take, in arrivals."""

    def __init__(self, *, delay: int, slow: int) -> None:
        """`slow`: arrivals that are too many for an agreement."""
        self._delay = delay
        self._slow = slow
        self._window = 1
        self._paused: Moment | None = None

    def took(self, began: int, now: Moment) -> None:
        """Rows were locked at so many arrivals, and have been decided now."""
        if now.arrivals - began > self._slow:
            self._window = 1
            self._paused = now
        else:
            self._window = min(2 * self._window, _MOST)

    def is_paused(self, now: Moment) -> bool:
        """Whether no rows should be locked."""
        since = self._paused
        if since is not None and (
            now.arrivals - since.arrivals >= self._delay // 4 or now.seconds - since.seconds >= _PAUSE
        ):
            self._paused = None
        return self._paused is not None

    def has_room(self, now: Moment, releases: int) -> bool:
        """Whether another release may be proposed, while so many are open."""
        return releases < self._window and not self.is_paused(now)
