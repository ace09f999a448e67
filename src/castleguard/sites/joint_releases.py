"""Joint releases from the view of one site: those it coordinates, and those it has offered rows to.

A row may be published by its own site while it is not locked, or by the coordinator of the one release that it is
locked for, if the log has committed that release with the row's offer; never by both, nor by any other site.

`choose` selects the rows of a release and its box. `Throttle` limits the number of open releases of a site, and backs
off when decisions are slower than arrivals. Locked rows are missing from the clusters of their site. That is
harmless while few rows arrive before the decision; if many arrive, the local groups lose more than joint releases gain.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from math import ceil, inf
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.dcastle.engine import OUTSIDE, MemberEngine
from castleguard.sites.site_messages import Bounds, Prepared, Rows

Positions = NDArray[np.int64]
Stage = Literal["asking", "deciding", "late"]
"""Stage of a release coordinated here: waiting for answers; waiting for its record on the log; its rows were due while
the log was unavailable, and are given up unless the log shows that it was committed."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The decision of a release, as recorded on the log."""

    offers: dict[str, int] = field(default_factory=dict)
    """Number of published rows per offer, counted from its first row; the coordinator's own under the release's name.
    Empty if aborted. Keyed by offer, not by site: a repeated question may lead to a second offer of one site."""
    loss: float = 0.0
    """Information loss of the group."""

    def takes(self, offer: str, rows: int) -> NDArray[np.bool_]:
        """Mask of the published rows of an offer."""
        return np.arange(rows) < self.offers.get(offer, 0)

    def to_bytes(self) -> bytes:
        """Encode the verdict for the log."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Verdict":
        """Decode a verdict from the log."""
        return cls(**json.loads(data))


ABORT = Verdict()


@dataclass(eq=False, kw_only=True)
class Offer:
    """Rows of this site that are locked for a release of another site."""

    name: str
    release: str
    positions: Positions
    """Ordered by box, the smallest first, then by age, the oldest first."""
    answer: bytes = field(repr=False)
    """The message with the rows; sent once the lock is stored."""
    coordinator: str
    began: int = 0
    """Number of arrivals when the offer was made."""
    made: float
    """Time of the offer, in seconds."""
    sent: bool = False
    looked_up: float = -inf
    """Time of the latest look-up on the log, or of the offer; minus infinity after a restore, to look it up at once."""


@dataclass(eq=False, kw_only=True)
class Outcome:
    """A release in its published form."""

    lower: Bounds
    upper: Bounds
    rows: int
    payload: pa.Table = field(repr=False)
    """Payload of all rows, in their final order."""
    verdict: Verdict


@dataclass(eq=False, kw_only=True)
class Lead:
    """A release that this site coordinates."""

    release: str
    cluster: int
    positions: Positions
    """Locked rows of this site, ordered by box, the smallest first."""
    levels: NDArray[np.int64]
    """(rows,) index of the smallest box that contains each row."""
    lower: Bounds
    """(boxes, columns), the smallest first."""
    upper: Bounds
    losses: NDArray[np.float64]
    otherwise: float
    """Estimated information loss of the own rows without the release."""
    awaited: set[str] = field(default_factory=set)
    answers: dict[str, Prepared] = field(default_factory=dict)
    began: int = 0
    """Number of arrivals when it was proposed."""
    made: float
    """Time of the proposal, in seconds."""
    stage: Stage = "asking"
    tried: bool = False
    """Whether a write of the verdict was attempted: if not, the release is not committed."""
    outcome: Outcome | None = None


def facts_of(lead: Lead) -> dict[str, Any]:
    """Return the scalar fields of a release as JSON values."""
    facts: dict[str, Any] = {"release": lead.release, "stage": lead.stage, "made": lead.made}
    if lead.outcome is not None:
        facts |= {"rows": lead.outcome.rows, "verdict": asdict(lead.outcome.verdict)}
    return facts


Box = tuple[Bounds, Bounds]
Judge = Callable[[Verdict, Box], bool]
"""Whether the rows that a verdict takes may be published as one group in a box."""

_ROUNDS = 5  # steps of the binary search for the share of the others' rows


def choose(lead: Lead, engine: MemberEngine, is_allowed: Judge) -> tuple[Verdict, Box] | None:
    """Return the best allowed verdict that reduces the information loss; None if no verdict does."""
    for verdict, box in _candidates(lead, engine):
        if _benefit(lead, verdict) > 0.0 and is_allowed(verdict, box):
            return _trim(lead, verdict, box, is_allowed), box
    return None


def _candidates(lead: Lead, engine: MemberEngine) -> Iterator[tuple[Verdict, Box]]:
    """Yield verdicts, best first: boxes by increasing size, and all rows, including those outside the boxes, as soon as
    that saves more.
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
    """Return the verdict that takes all offered rows, in the box around all of them; None if all are inside a box."""
    outside = [answer for answer in lead.answers.values() if answer.lower.size]
    if not outside:
        return None
    lower = np.minimum.reduce([lead.lower[-1], *(answer.lower for answer in outside)])
    upper = np.maximum.reduce([lead.upper[-1], *(answer.upper for answer in outside)])
    lower, upper, loss = engine.around_published(lower, upper)
    return _all_of(lead, OUTSIDE, loss), (lower, upper)


def _all_of(lead: Lead, level: int, loss: float) -> Verdict:
    """Return the verdict that takes all rows up to a level."""
    offers = {lead.release: _count(lead.levels, level)}
    for answer in lead.answers.values():
        if answer.rows is not None:
            offers[answer.offer] = _count(answer.rows.levels, level)
    return Verdict(offers=offers, loss=loss)


def _count(levels: NDArray[np.int64], level: int) -> int:
    return int(np.searchsorted(levels, level, side="right"))


def _trim(lead: Lead, verdict: Verdict, box: Box, is_allowed: Judge) -> Verdict:
    """Take the smallest share of the others' rows that is allowed: the rest can form groups elsewhere."""
    low, high = 0.0, 1.0
    for _ in range(_ROUNDS):
        share = (low + high) / 2
        fewer = {name: rows if name == lead.release else ceil(share * rows) for name, rows in verdict.offers.items()}
        if is_allowed(Verdict(offers=fewer, loss=verdict.loss), box):
            high = share
        else:
            low = share
    fewer = {name: rows if name == lead.release else ceil(high * rows) for name, rows in verdict.offers.items()}
    return Verdict(offers=fewer, loss=verdict.loss)


def _benefit(lead: Lead, verdict: Verdict) -> float:
    """Return the estimated information loss that a release saves over all its rows."""
    benefit = verdict.offers[lead.release] * (lead.otherwise - verdict.loss)
    for answer in lead.answers.values():
        benefit += verdict.offers.get(answer.offer, 0) * (answer.otherwise - verdict.loss)
    return benefit


_MOST = 128  # open releases
_PAUSE = 5.0  # seconds after which a pause ends if few rows arrive


class Moment(NamedTuple):
    """A time in arrivals and in seconds."""

    arrivals: int
    seconds: float


@dataclass(kw_only=True)
class Settled:
    """Outcomes of a turn, for the books."""

    won: list[Lead] = field(default_factory=list)
    """Committed releases to be published here."""
    handed_over: list[Positions] = field(default_factory=list)
    """Rows that another site publishes."""
    undecided: list[Positions] = field(default_factory=list)
    """Rows given up at their deadline without a decision."""
    found_published: list[Lead] = field(default_factory=list)
    """Releases given up earlier that the log shows as committed: to be published here."""
    found_handed_over: int = 0
    """Rows given up earlier that another site has published."""
    found_aborted: int = 0
    """Rows given up earlier whose release was aborted."""


class Local(Protocol):
    """The services of the local stream that the protocol calls."""

    def rows(self, positions: Positions, levels: NDArray[np.int64]) -> Rows:
        """Return locked rows in the form that is sent to other sites."""

    def judge(self, lead: Lead, verdict: Verdict, box: Box) -> bool:
        """Whether the rows that a verdict takes, own and offered, may be published as one group in a box."""

    def compose(self, lead: Lead, verdict: Verdict, box: Box) -> Outcome:
        """Return the release in its published form."""

    def adopt(self, lower: Bounds, upper: Bounds) -> tuple[Bounds, Bounds]:
        """Register boxes (boxes, columns) published elsewhere with the gate; return those that may be reused here."""

    def fits(self, answer: Prepared) -> bool:
        """Whether the columns of an answer can be published here."""


class Throttle:
    """Limits open releases: doubles the limit after a fast decision; after a slow one resets it to 1 and pauses."""

    def __init__(self, *, delay: int, slow: int) -> None:
        """`slow`: number of arrivals above which a decision counts as slow."""
        self._delay = delay
        self._slow = slow
        self._window = 1
        self._paused: Moment | None = None

    def record(self, began: int, now: Moment) -> None:
        """Record a decision, now, about rows that were locked at arrival `began`."""
        if now.arrivals - began > self._slow:
            self._window = 1
            self._paused = now
        else:
            self._window = min(2 * self._window, _MOST)

    def is_paused(self, now: Moment) -> bool:
        """Whether locking rows is paused."""
        since = self._paused
        if since is not None and (
            now.arrivals - since.arrivals >= self._delay // 4 or now.seconds - since.seconds >= _PAUSE
        ):
            self._paused = None
        return self._paused is not None

    def has_room(self, now: Moment, releases: int) -> bool:
        """Whether another release may be proposed while `releases` are open."""
        return releases < self._window and not self.is_paused(now)
