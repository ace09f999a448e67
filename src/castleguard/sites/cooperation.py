"""What one site does together with others: the strict protocol, apart from any transport and any disk.

A site's own engine keeps the promise by itself. What is done here can only make it lose less, by three moves:

* Boxes that other sites have published are used again here (`Published`).
* A cluster that cannot leave alone is released together with rows of other sites that lie in its box, or joins the
  cluster of another site (`Share`, `Retract`, `Join`), in one release: `Prepare`, `Prepared`, a record on the log.
* Rows that another site asks for are lent to its release, if they lose no more there.

Rows that are offered are locked: they leave their cluster, and come back only when the log says that the release was
aborted. Before a row is due its release is looked up on the log, or aborted there, so that it leaves in time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from castleguard.engine.dcastle_policy import Dcastle
from castleguard.engine.member import OUTSIDE, MemberEngine, OpenClusters
from castleguard.errors import SnapshotError, UnavailableError
from castleguard.sites.membership import Membership
from castleguard.sites.messages import (
    Bounds,
    Decided,
    Hello,
    Join,
    Message,
    Prepare,
    Prepared,
    Published,
    Retract,
    Rows,
    Seal,
    Share,
    decode,
    encode,
)
from castleguard.sites.releases import ABORT, Lead, Offer, Outcome, Positions, Verdict, unique_name
from castleguard.sites.transport import Transport
from castleguard.telemetry.logs import LOG

_ATTEMPTS = 1  # at a release of the same row's cluster
_BOXES = 8  # that are proposed, one around the other
_MORE = 1.2  # times the own persons in the next larger box
Box = tuple[Bounds, Bounds]
_GROWTH = 1.5  # a cluster is told of again when it has so many times the persons


class Local(Protocol):
    """What the protocol needs of the stream that it works for."""

    def identity(self) -> dict[str, Any]:
        """What the streams of all sites must have in common, as JSON has it."""

    def rows(self, positions: Positions, levels: NDArray[np.int64]) -> Rows:
        """Locked rows as they travel."""

    def judge(self, lead: Lead, verdict: Verdict, box: Box) -> bool:
        """Whether what a verdict takes of the own rows and of the answers may be published as one group in a box."""

    def compose(self, lead: Lead, verdict: Verdict, box: Box) -> Outcome:
        """The release as it will be published."""

    def fits(self, answer: Prepared) -> bool:
        """Whether the columns of an answer can be published here."""


@dataclass(frozen=True, eq=False)
class _View:
    """A cluster of another site, as it told."""

    version: int
    persons: int
    lower: Bounds
    upper: Bounds


@dataclass(kw_only=True)
class Settled:
    """What a turn has settled, for the books."""

    won: list[Lead] = field(default_factory=list)
    """To be published here."""
    handed_over: list[Positions] = field(default_factory=list)
    """Rows that another site publishes."""
    undecided: list[Positions] = field(default_factory=list)
    """Rows that were given up because nobody could say in time what becomes of them."""
    found_published: list[Lead] = field(default_factory=list)
    """Releases given up before, which the log says were committed: to be published here."""
    found_handed_over: int = 0
    """Rows given up before that another site has published after all."""
    found_aborted: int = 0
    """Rows given up before that nobody has published."""


class Cooperation:
    """One site's part."""

    def __init__(
        self,
        site: Membership,
        policy: Dcastle,
        *,
        engine: MemberEngine,
        local: Local,
        transport: Transport,
        seal: Seal | None = None,
    ) -> None:
        self.name = site.name
        self.policy = policy
        self._agreed = site.agreement(local.identity())
        self._others = site.others
        self._epoch = site.epoch
        self._engine = engine
        self._columns = engine.columns
        self._local = local
        self._transport = transport
        self._seal = seal
        self._named = 0
        self._epochs: dict[str, str] = {}
        self._away: set[str] = set()
        self._strangers: set[str] = set()
        self._views: dict[tuple[str, int], _View] = {}
        self._told: dict[int, _View] = {}
        self._asked: dict[int, tuple[str, int, int]] = {}
        """By own cluster: whose cluster it asked to join, which, and at how many arrivals."""
        self._tried: dict[int, int] = {}
        """By the position of a cluster's oldest row: how often it was proposed."""
        self._fresh: list[tuple[Bounds, Bounds]] = []
        self.ending = False
        """Whether the stream is about to end: every row is to leave before long."""
        self.offers: dict[str, Offer] = {}
        self.leads: dict[str, Lead] = {}
        self.given_up: dict[str, tuple[str, list[int]]] = {}
        """Offers whose rows were given up undecided: their releases, and the levels of the rows."""
        self.messages = 0
        self.bytes = 0
        self._now = 0.0
        self._scanned = -1
        self._tell(None, Hello(**self._me))

    # -- what the stream calls ---------------------------------------------------------------------------------------

    @property
    def locked(self) -> Iterator[Positions]:
        """The rows that are withdrawn from the engine."""
        yield from (offer.positions for offer in self.offers.values())
        yield from (lead.positions for lead in self.leads.values() if lead.stage != "late")

    @property
    def urgent(self) -> bool:
        """Whether something waits for the next commit."""
        return any(not offer.sent for offer in self.offers.values()) or any(
            lead.stage == "deciding" for lead in self.leads.values()
        )

    def turn(self, arriving: int, now: float) -> Settled:
        """Take part, before so many rows arrive: answer, decide what would become due, and propose."""
        self._now = max(self._now, now) if np.isfinite(now) else self._now
        settled = Settled()
        self._listen(settled)
        self._settle_due(arriving, settled)
        self._judge_ripe()
        self._look_back(settled)
        if self.ending:
            self._share(self._engine.clusters())
            self._propose(most=1)  # all at once would lock the rows that others ask for
        elif self._engine.arrivals - self._scanned >= self._pace:
            self._scanned = self._engine.arrivals
            self._share(self._engine.clusters())
            self._propose()
        return settled

    def committed(self) -> Settled:
        """Everything so far is on disk, and what was published has arrived: send and decide what had to wait for it."""
        settled = Settled()
        for offer in self.offers.values():
            if not offer.sent:
                offer.sent = True
                self._send(offer.coordinator, offer.answer)
        for lead in [lead for lead in self.leads.values() if lead.stage == "deciding"]:
            assert lead.outcome is not None
            try:
                stands = self._decide(lead.release, lead.outcome.verdict)
            except UnavailableError:
                continue
            self._close(lead, stands, settled)
        if self._fresh and self._shares_boxes:
            lower, upper = (np.array(bounds) for bounds in zip(*self._fresh, strict=True))
            self._tell(None, Published(**self._me, lower=lower, upper=upper))
        self._fresh.clear()
        return settled

    def publish(self, lower: Bounds, upper: Bounds) -> None:
        """A box is published here, and others may use it once it has arrived."""
        self._fresh.append((lower, upper))

    def take_up_offer(self, offer: Offer) -> None:
        """An offer from before a restart: it may have been sent, so it counts as sent; and is sent again."""
        offer.sent = True
        self.offers[offer.release] = offer
        self._send(offer.coordinator, offer.answer)

    def settle_all(self) -> Settled:
        """The end of the stream: nothing stays locked."""
        settled = Settled()
        self._listen(settled)
        for offer in list(self.offers.values()):
            self._settle_offer(offer, settled)
        for lead in list(self.leads.values()):
            if lead.stage != "late":
                self._abort(lead, settled)
        return settled

    @property
    def is_done(self) -> bool:
        """At the end of the stream: whether nothing is locked, and nothing is left to propose."""
        clusters = self._engine.clusters()
        return not self.offers and not self.leads and not self._leading(clusters, self._must_leave(clusters))

    # -- listening ---------------------------------------------------------------------------------------------------

    def _listen(self, settled: Settled) -> None:
        for data in self._transport.receive():
            try:
                message = decode(data, self._seal)
            except SnapshotError as exc:
                LOG.warning("a message from another site was ignored: %s", exc)
                continue
            if message.sender not in self._others:
                continue
            if message.agreed != self._agreed:
                if message.sender not in self._strangers:
                    self._strangers.add(message.sender)
                    LOG.warning("%s is not heard: its schema, policy, sites or key are others", message.sender)
                continue
            self._away.discard(message.sender)
            self._hear(message, settled)

    def _hear(self, message: Message, settled: Settled) -> None:
        match message:
            case Prepare():
                self._answer(message)
            case Prepared():
                self._take_answer(message)
            case Decided():
                self._learn(message.release, settled)
            case Published() if self._shares_boxes:
                for lower, upper in zip(message.lower, message.upper, strict=True):
                    self._adopt(lower, upper)
            case _ if not self._is_current(message):
                pass
            case Share():
                known = self._views.get((message.sender, message.cluster))
                if known is None or known.version < message.version:
                    view = _View(message.version, message.persons, message.lower, message.upper)
                    self._views[message.sender, message.cluster] = view
            case Retract():
                for cluster in message.clusters:
                    self._views.pop((message.sender, cluster), None)
            case Join():
                self._let_join(message)

    def _is_current(self, message: Message) -> bool:
        """Whether the sender has not started anew since; a new start makes its clusters void, and wants ours."""
        known = self._epochs.get(message.sender, "")
        if message.epoch < known:
            return False
        if message.epoch > known:
            self._epochs[message.sender] = message.epoch
            self._views = {key: view for key, view in self._views.items() if key[0] != message.sender}
            self._told.clear()
        return True

    adopt_box: Callable[[Bounds, Bounds], bool] = staticmethod(lambda lower, upper: False)
    """Set by the stream: whether a box published elsewhere may be used here, entered into its gate."""

    def _adopt(self, lower: Bounds, upper: Bounds) -> None:
        if self.adopt_box(lower, upper):
            self._engine.adopt(lower, upper)

    # -- taking part in a release of another site ----------------------------------------------------------------------

    def _answer(self, asked: Prepare) -> None:
        """Offer the rows that lie in the box, and those of clusters that asked to join."""
        self._views.pop((asked.sender, asked.cluster), None)
        known = self.offers.get(asked.release)
        if known is not None:
            if known.sent:
                self._send(known.coordinator, known.answer)
            return
        positions = self._engine.inside(asked.lower[-1], asked.upper[-1], float(asked.losses[0]))
        clusters = self._engine.clusters()
        otherwise = max(float(asked.losses[0]), self._engine.threshold)
        for slot, number in zip(clusters.slot, clusters.number, strict=True):
            if self._asked.get(int(number), ("", 0, 0))[:2] == (asked.sender, asked.cluster):
                otherwise = self._engine.loss_if_merged(int(slot))
                positions = np.union1d(positions, self._engine.members(int(slot)))
        positions = positions[self._in_time(positions)]
        if self.policy.k_scope == "per_site" and self._persons(positions) < self.policy.k:
            positions = positions[:0]
        if not positions.size:
            self._tell(asked.sender, Prepared(**self._me, release=asked.release))
            return
        levels = self._engine.levels(positions, asked.lower, asked.upper)
        box: dict[str, Any] = {}
        outside = positions[levels == OUTSIDE]
        if outside.size:
            lower, upper, _ = self._engine.as_published(*self._engine.box_of(outside))
            box = {"lower": lower, "upper": upper}
        self._engine.withdraw(positions)
        rows, name = self._local.rows(positions, levels), self._new_name()
        answer = Prepared(**self._me, release=asked.release, offer=name, rows=rows, otherwise=otherwise, **box)
        self.offers[asked.release] = Offer(
            name=name,
            release=asked.release,
            positions=positions,
            levels=levels,
            answer=encode(answer, self._seal),
            coordinator=asked.sender,
            made=self._now,
        )

    def _persons(self, positions: Positions) -> int:
        return int(np.unique(self._engine.persons(positions)).size)

    def _in_time(self, positions: Positions) -> NDArray[np.bool_]:
        """Which rows are not due before others could have answered."""
        left = positions + self.policy.delay - self._engine.arrivals >= self._patience
        if self.policy.max_wait is not None:
            due = self._engine.arrived(positions) + self.policy.max_wait
            left &= due - self._now >= self._patience_seconds
        return left

    def _learn(self, release: str, settled: Settled) -> None:
        """A release is said to be decided."""
        offer = self.offers.get(release)
        if offer is None:
            return
        try:
            verdict = self._decision(release)
        except UnavailableError:
            return
        if verdict is not None:
            self._end_offer(offer, verdict, settled)
        else:  # its coordinator has forgotten it
            self._settle_offer(offer, settled)

    def _settle_offer(self, offer: Offer, settled: Settled) -> None:
        """The rows of an offer must be decided now."""
        if not offer.sent:  # nobody has seen them
            self._end_offer(offer, ABORT, settled)
            return
        try:
            verdict = self._decide(offer.release, ABORT)
        except UnavailableError:
            del self.offers[offer.release]
            self.given_up[offer.name] = (offer.release, offer.levels.tolist())
            settled.undecided.append(offer.positions)
            return
        self._end_offer(offer, verdict, settled)

    def _end_offer(self, offer: Offer, verdict: Verdict, settled: Settled) -> None:
        del self.offers[offer.release]
        taken = verdict.takes(offer.name, offer.levels)
        if taken.any():
            settled.handed_over.append(offer.positions[taken])
            self._engine.learn(verdict.loss)
        self._engine.readmit(offer.positions[~taken])

    # -- coordinating a release ----------------------------------------------------------------------------------------

    def _let_join(self, asked: Join) -> None:
        """Another site cannot release its rows alone: release the cluster that it wants to join."""
        clusters = self._engine.clusters()
        for at in np.flatnonzero(clusters.number == asked.cluster):
            if clusters.persons[at] < 2 * self.policy.k:  # a larger one does better on its own: it is split
                self._lead(clusters, int(at))

    def _lead(self, clusters: OpenClusters, at: int, persons: int = 1) -> None:
        """Propose a cluster for release, or boxes around its oldest row, the smallest with so many own persons."""
        slot, number, oldest = (int(column[at]) for column in (clusters.slot, clusters.number, clusters.oldest))
        self._tried[oldest] = self._tried.get(oldest, 0) + 1
        otherwise = self._engine.loss_if_merged(slot)
        if persons == 1:
            cores = [self._engine.members(slot)]
        else:
            wanted = [int(persons * _MORE**level) for level in range(_BOXES)]
            cores = self._engine.nearest(oldest, sorted({min(some, self.policy.k) for some in wanted}))
        cores = [core[self._in_time(core)] for core in cores]
        # Every box is told, whatever comes of it.
        cores = [core for core in cores if self._persons(core) >= self.policy.chosen_threshold]
        if not cores:
            return
        boxes = [self._engine.as_published(*self._engine.box_of(core)) for core in cores]
        lower, upper, losses = (np.array(part) for part in zip(*boxes, strict=True))
        more = self._engine.inside(lower[-1], upper[-1], float(losses[0]))
        positions = np.union1d(cores[-1], more[self._in_time(more)])
        self._engine.withdraw(positions)
        lead = Lead(
            release=self._new_name(),
            cluster=number,
            positions=positions,
            levels=self._engine.levels(positions, lower, upper),
            lower=lower,
            upper=upper,
            losses=losses,
            otherwise=otherwise,
            awaited=set(self._others) - self._away,
            began=(self._engine.arrivals, self._now),
        )
        self.leads[lead.release] = lead
        self._told.pop(number, None)
        self._tell(
            None,
            Prepare(**self._me, release=lead.release, lower=lower, upper=upper, losses=losses, cluster=number),
        )

    def _take_answer(self, answer: Prepared) -> None:
        lead = self.leads.get(answer.release)
        if lead is None or lead.stage != "asking":
            # Too late: the record on the log does not name this answer.
            if lead is None and answer.rows is not None:
                self._tell(answer.sender, Decided(**self._me, release=answer.release))
            return
        lead.awaited.discard(answer.sender)
        if answer.rows is not None and self._local.fits(answer):
            lead.answers[answer.sender] = answer

    def _judge_ripe(self) -> None:
        """Judge the releases for which nobody is awaited any more, or long enough."""
        for lead in [lead for lead in self.leads.values() if lead.stage == "asking"]:
            if lead.awaited and self._is_patient(lead):
                continue
            self._away |= lead.awaited
            self._judge(lead)

    def _is_patient(self, lead: Lead) -> bool:
        arrivals, seconds = lead.began
        late = self.policy.max_wait is not None and self._now - seconds >= self._patience_seconds
        return self._engine.arrivals - arrivals < self._patience and not late

    def _judge(self, lead: Lead) -> None:
        """Choose which rows are taken; decide, as soon as that is on disk, or abort."""
        for verdict, box in self._verdicts(lead):
            if self._benefit(lead, verdict) > 0.0 and self._local.judge(lead, verdict, box):
                lead.outcome = self._local.compose(lead, verdict, box)
                lead.answers = {}
                lead.stage = "deciding"
                return
        self._abort(lead, Settled())

    def _verdicts(self, lead: Lead) -> Iterator[tuple[Verdict, Box]]:
        """What could be published, the best first: the smallest box that will do, with those who asked to join it if
        that is worth it; then the boxes alone; and at last, all.
        """
        offers = (lead.release, *(answer.offer for answer in lead.answers.values()))
        joining = [answer for answer in lead.answers.values() if answer.lower.size]
        for level in range(len(lead.losses)):
            box = (lead.lower[level], lead.upper[level])
            alone = Verdict(offers=offers, level=level, loss=float(lead.losses[level]))
            if joining:
                wider, loss = self._wider(joining, box)
                together = replace(alone, outside=tuple(answer.offer for answer in joining), loss=loss)
                if self._benefit(lead, together) > self._benefit(lead, alone):
                    yield together, wider
            yield alone, box
        if joining:
            yield together, wider

    def _wider(self, joining: list[Prepared], box: Box) -> tuple[Box, float]:
        """The box around a box and the rows of those who join it from outside; and what it loses."""
        lower = np.minimum.reduce([box[0], *(answer.lower for answer in joining)])
        upper = np.maximum.reduce([box[1], *(answer.upper for answer in joining)])
        lower, upper, loss = self._engine.as_published(lower, upper)
        return (lower, upper), loss

    def _benefit(self, lead: Lead, verdict: Verdict) -> float:
        """What all rows together lose less in a release than without it, about."""
        own = np.count_nonzero(verdict.takes(lead.release, lead.levels)) * (lead.otherwise - verdict.loss)
        return float(own) + sum(
            np.count_nonzero(verdict.takes(answer.offer, answer.rows.levels)) * (answer.otherwise - verdict.loss)
            for answer in lead.answers.values()
            if answer.rows is not None
        )

    def _abort(self, lead: Lead, settled: Settled) -> None:
        """Give up a release that has not been committed; if it has been after all, keep it."""
        asked = bool(lead.answers) or lead.stage != "asking" or lead.awaited
        try:
            stands = self._decide(lead.release, ABORT) if asked else ABORT
        except UnavailableError:
            if lead.stage == "asking":
                stands = ABORT  # nobody else may commit it, and this site never will
            else:
                self._give_up(lead)
                settled.undecided.append(lead.positions)
                return
        self._close(lead, stands, settled)

    def _give_up(self, lead: Lead) -> None:
        """Nobody can say in time what becomes of the rows that it would publish; the others come back anyhow."""
        assert lead.outcome is not None
        lead.stage = "late"
        taken = lead.outcome.verdict.takes(lead.release, lead.levels)
        self._engine.readmit(lead.positions[~taken])
        lead.positions, lead.levels = lead.positions[taken], lead.levels[taken]

    def _close(self, lead: Lead, stands: Verdict, settled: Settled) -> None:
        """The log has spoken."""
        del self.leads[lead.release]
        if stands.offers:
            assert lead.outcome is not None
            self._engine.learn(stands.loss)
            taken = stands.takes(lead.release, lead.levels)
            self._engine.readmit(lead.positions[~taken])
            lead.positions = lead.positions[taken]
            (settled.found_published if lead.stage == "late" else settled.won).append(lead)
        elif lead.stage == "late":
            settled.found_aborted += lead.positions.size
        else:
            self._engine.readmit(lead.positions)
        self._tell(None, Decided(**self._me, release=lead.release))

    # -- time --------------------------------------------------------------------------------------------------------

    def _settle_due(self, arriving: int, settled: Settled) -> None:
        """Decide whatever holds a row that would be due before the next turn."""
        for offer in list(self.offers.values()):
            if self._is_due(offer.positions, arriving):
                self._settle_offer(offer, settled)
        for lead in list(self.leads.values()):
            if lead.stage != "late" and self._is_due(lead.positions, arriving):
                self._abort(lead, settled)

    def _is_due(self, positions: Positions, arriving: int) -> bool:
        oldest = int(positions[0])
        if oldest + self.policy.delay < self._engine.arrivals + arriving + 1:
            return True
        if self.policy.max_wait is None:
            return False
        return float(self._engine.arrived(positions[:1])[0]) + self.policy.max_wait <= self._now

    def _look_back(self, settled: Settled) -> None:
        """What was given up because the log was away may have been decided."""
        for name, (release, levels) in list(self.given_up.items()):
            try:
                verdict = self._decide(release, ABORT)
            except UnavailableError:
                return
            del self.given_up[name]
            taken = int(np.count_nonzero(verdict.takes(name, np.array(levels))))
            settled.found_handed_over += taken
            settled.found_aborted += len(levels) - taken
        for lead in [lead for lead in self.leads.values() if lead.stage == "late"]:
            try:
                self._close(lead, self._decide(lead.release, ABORT), settled)
            except UnavailableError:
                return

    @property
    def _share_of_k(self) -> int:
        """How many own persons a box should have so that all sites together have k in it, if all are alike.

        The box of m rows holds fewer rows of another site that has as many around: in every direction it reaches
        (m - 1) / (m + 1) as far as the rows would need.
        """
        columns, others = self._columns, len(self._others) - len(self._away)
        m = 2
        while m < self.policy.k and m * (1 + others * ((m - 1) / (m + 1)) ** columns) < self.policy.k:
            m += 1
        return m

    @property
    def _pace(self) -> int:
        """Arrivals between two looks at the clusters."""
        return max(1, int(self.policy.reserve * self.policy.delay) // 16)

    @property
    def step(self) -> int:
        """The most rows that may arrive between two turns."""
        return max(1, int(self.policy.reserve * self.policy.delay) // 8)

    @property
    def _patience(self) -> int:
        """Arrivals for which answers are awaited."""
        return max(1, int(self.policy.reserve * self.policy.delay) // 4)

    @property
    def _patience_seconds(self) -> float:
        assert self.policy.max_wait is not None
        return self.policy.reserve * self.policy.max_wait / 4

    # -- views -------------------------------------------------------------------------------------------------------

    def _share(self, clusters: OpenClusters) -> None:
        """Tell of clusters that have enough persons, and of those that are gone."""
        gone = sorted(self._told.keys() - set(clusters.number.tolist()))
        if gone:
            for number in gone:
                del self._told[number]
            self._tell(None, Retract(**self._me, clusters=gone))
        self._asked = {number: to for number, to in self._asked.items() if number in set(clusters.number.tolist())}
        for at in np.flatnonzero(clusters.persons >= self.policy.chosen_threshold):
            number, persons = int(clusters.number[at]), int(clusters.persons[at])
            told = self._told.get(number)
            if told is not None and persons < _GROWTH * told.persons:
                continue
            lower, upper, _ = self._engine.as_published(clusters.lower[at], clusters.upper[at])
            version = self._engine.arrivals
            self._told[number] = _View(version, persons, lower, upper)
            self._tell(
                None,
                Share(**self._me, cluster=number, version=version, persons=persons, lower=lower, upper=upper),
            )

    def _propose(self, most: int = 1 << 30) -> None:
        """For clusters whose oldest row must leave soon: propose them, so many at most; for those that cannot leave
        alone, ask to join others.
        """
        if not self._others:
            return
        since = self._engine.arrivals - self.policy.delay
        self._tried = {oldest: times for oldest, times in self._tried.items() if oldest >= since}
        clusters = self._engine.clusters()
        leaving = self._must_leave(clusters)
        while most and (leading := self._leading(clusters, leaving)):
            self._lead(clusters, *leading[0])
            most -= 1
            clusters = self._engine.clusters()
            leaving = self._must_leave(clusters)
        for at in leaving:
            if clusters.persons[at] < self.policy.k:
                self._ask_to_join(clusters, at)

    def _leading(self, clusters: OpenClusters, leaving: list[int]) -> list[tuple[int, int]]:
        """The clusters that can be proposed, the oldest first, each with the own persons of its smallest box."""
        found = [(at, persons) for at in leaving if (persons := self._wanted(clusters, at)) < self.policy.k]
        return sorted(found, key=lambda one: int(clusters.oldest[one[0]]))

    def _must_leave(self, clusters: OpenClusters) -> list[int]:
        """The clusters with a row that is to leave before long; at the end of the stream, all."""
        waited = self._engine.arrivals - clusters.oldest >= (1.0 - self.policy.reserve) * self.policy.delay
        if self.policy.max_wait is not None:
            since = self._now - self._engine.arrived(clusters.oldest)
            waited |= since >= (1.0 - self.policy.reserve) * self.policy.max_wait
        return [int(at) for at in np.flatnonzero(waited | self.ending)]

    def _wanted(self, clusters: OpenClusters, at: int) -> int:
        """With how many own persons to propose a cluster: its share of k, more with every attempt; k: not any more."""
        tried = self._tried.get(int(clusters.oldest[at]), 0)
        if tried >= _ATTEMPTS:
            return self.policy.k
        return max(self.policy.chosen_threshold, int(self._share_of_k / 1.5), 2)

    def _ask_to_join(self, clusters: OpenClusters, at: int) -> None:
        """Ask for the release of the cluster of another site that costs least together with this one."""
        number = int(clusters.number[at])
        before = self._asked.get(number)
        if before is not None and self._engine.arrivals - before[2] < self._patience:
            return
        keys = [key for key, view in self._views.items() if view.persons + clusters.persons[at] >= self.policy.k]
        if before is not None:
            keys = [key for key in keys if key != before[:2]]
        if not keys:
            return
        bounds = tuple(np.array([getattr(self._views[key], side) for key in keys]) for side in ("lower", "upper"))
        losses = self._engine.union_losses(clusters.lower[at], clusters.upper[at], (bounds[0], bounds[1]))
        best = int(np.argmin(losses))
        if losses[best] >= self._engine.loss_if_merged(int(clusters.slot[at])):
            return
        owner, cluster = keys[best]
        self._asked[number] = (owner, cluster, self._engine.arrivals)
        self._tell(owner, Join(**self._me, cluster=cluster, version=self._views[keys[best]].version))

    # -- speaking ----------------------------------------------------------------------------------------------------

    @property
    def _me(self) -> dict[str, Any]:
        return {"sender": self.name, "epoch": self._epoch, "agreed": self._agreed}

    def _new_name(self) -> str:
        self._named += 1
        return unique_name(self.name, self._epoch, self._named)

    @property
    def _shares_boxes(self) -> bool:
        return self.policy.reuse != "off" and self.policy.k_scope == "global"

    def _tell(self, to: str | None, message: Message) -> None:
        self._send(to, encode(message, self._seal))

    def _send(self, to: str | None, data: bytes) -> None:
        if not self._others:
            return
        self.messages += 1
        self.bytes += len(data)
        self._transport.send(to, data)

    def _decide(self, release: str, verdict: Verdict) -> Verdict:
        """Write a verdict unless there is one; the one that stands. Raises UnavailableError."""
        record = verdict.to_bytes()
        if self._seal is not None:
            record = self._seal.seal(record, _record_label(release))
        return self._opened(release, self._transport.decide(release, record))

    def _decision(self, release: str) -> Verdict | None:
        """The verdict that stands, if there is one. Raises UnavailableError."""
        record = self._transport.decision(release)
        return None if record is None else self._opened(release, record)

    def _opened(self, release: str, record: bytes) -> Verdict:
        """The verdict in a record; one that cannot be opened is no more use than a log that cannot be reached."""
        if self._seal is None:
            return Verdict.from_bytes(record)
        try:
            return Verdict.from_bytes(self._seal.open(record, _record_label(release)))
        except SnapshotError as exc:
            LOG.warning("a record on the log was ignored: %s", exc)
            raise UnavailableError("the record on the log cannot be opened") from exc


def _record_label(release: str) -> str:
    return f"the record of release {release}"
