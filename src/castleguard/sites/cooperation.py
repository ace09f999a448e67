"""The strict protocol of one site with the others, independent of transport and disk.

A site's own engine keeps the guarantee alone. Cooperation only reduces the information loss, in three ways:

* A site reuses boxes that other sites have published (`Published`).
* A cluster with too few persons is released together with rows of other sites that lie in its box, or joins a cluster
  of another site (`Share`, `Retract`, `Join`). Such a release takes `Prepare`, `Prepared` and a record on the log.
* A site lends rows to another site's release, if they lose no more there.

Offered rows are locked: they leave their cluster, and return only when the log says that the release was aborted.
Before a row is due, its release is looked up on the log, or aborted there, so that the row leaves in time. An overdue
release is looked up as well: the message about its decision may be lost.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.dcastle.engine import OUTSIDE, MemberEngine, OpenClusters
from castleguard.algorithms.facts import Joint
from castleguard.connectors.base import LOG_KEPT_DAYS
from castleguard.errors import UnavailableError
from castleguard.schema.coded import NO_PERSON
from castleguard.sites.cluster_views import Views
from castleguard.sites.joint_releases import (
    ABORT,
    Box,
    Lead,
    Moment,
    Offer,
    Outcome,
    Positions,
    Throttle,
    Verdict,
    choose,
)
from castleguard.sites.site_messages import (
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
    Share,
)
from castleguard.sites.wire import Wire

_BOXES = 8  # nested boxes per proposal
_SHARE = 0.8  # own rows in the smallest box, as a share of k / number of sites
_ANSWER_SECONDS = 2.0  # maximum wait for answers
_KEPT_SECONDS = (LOG_KEPT_DAYS - 1) * 86_400.0


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


class Cooperation:
    """One site's side of the protocol."""

    def __init__(self, wire: Wire, joint: Joint, *, engine: MemberEngine, local: Local) -> None:
        self._joint = joint
        self._wire = wire
        self._engine = engine
        self._columns = engine.columns
        self._local = local
        self._views = Views(joint, engine, wire)
        self._throttle = Throttle(delay=joint.delay, slow=2 * joint.step)
        self._epochs: dict[str, str] = {}
        self._away: set[str] = set()
        self._tried: set[int] = set()
        """Positions of rows around which a release was proposed."""
        self._fresh: list[Box] = []
        self.ending = False
        """Whether the stream is about to end: every row must leave soon."""
        self.offers: dict[str, Offer] = {}
        self.leads: dict[str, Lead] = {}
        self.given_up: dict[str, tuple[str, int, float]] = {}
        """Offers whose rows were given up undecided: release, number of rows, and time of the offer."""
        self._now = 0.0
        self._knows_time = True
        self._scanned = -1
        self._wire.tell(None, Hello(**wire.me))

    # -- called by the coordinator -----------------------------------------------------------------------------------

    @property
    def locked(self) -> Iterator[Positions]:
        """The rows withdrawn from the engine."""
        yield from (offer.positions for offer in self.offers.values())
        yield from (lead.positions for lead in self.leads.values() if lead.stage != "late")

    @property
    def holding(self) -> bool:
        """Whether locked rows need a decision before many more rows arrive."""
        since = self._engine.arrivals - self._patience // 2
        began = [offer.began for offer in self.offers.values()]
        began += [lead.began for lead in self.leads.values() if lead.stage != "late"]
        return min(began, default=since) < since

    @property
    def urgent(self) -> bool:
        """Whether an offer or a verdict waits for the next commit."""
        return any(not offer.sent for offer in self.offers.values()) or any(
            lead.stage == "deciding" and not lead.tried for lead in self.leads.values()
        )

    def turn(self, arriving: int, now: float) -> Settled:
        """Take part before `arriving` rows are pushed: answer, settle rows that become due, and propose releases."""
        if np.isfinite(now):
            self._now = max(self._now, now)
            self._knows_time = True
        settled = Settled()
        self._listen(settled)
        self._settle_due(arriving, settled)
        self._look_up_offers(settled)
        self._judge_ready()
        for lead in [lead for lead in self._ready_to_commit if lead.tried]:
            self._commit(lead, settled)
        self._look_up_given_up(settled)
        if self.ending:
            self._views.share(self._engine.clusters())
            self._propose()
        elif self._engine.arrivals - self._scanned >= self._pace:
            self._scanned = self._engine.arrivals
            self._views.share(self._engine.clusters())
            self._propose()
        return settled

    def committed(self) -> Settled:
        """After a commit: send the offers and write the verdicts that had to be stored first."""
        settled = Settled()
        for offer in self.offers.values():
            if not offer.sent:
                offer.sent = True
                self._wire.send(offer.coordinator, offer.answer)
        for lead in self._ready_to_commit:
            self._commit(lead, settled)
        if self._fresh and self._joint.shares_boxes:
            lower, upper = (np.array(bounds) for bounds in zip(*self._fresh, strict=True))
            self._wire.tell(None, Published(**self._wire.me, heard=self._epochs, lower=lower, upper=upper))
        self._fresh.clear()
        return settled

    @property
    def _ready_to_commit(self) -> list[Lead]:
        """Releases with a verdict. None before the time is known: the log may have dropped an earlier record."""
        return [lead for lead in self.leads.values() if lead.stage == "deciding" and self._knows_time]

    def _commit(self, lead: Lead, settled: Settled) -> None:
        """Write a stored verdict to the log."""
        assert lead.outcome is not None
        if self._may_be_expired(lead.made):
            self._drop_expired(lead, settled)
            return
        lead.tried = True
        try:
            verdict = self._wire.decide(lead.release, lead.outcome.verdict)
        except UnavailableError:
            return  # the next turn retries
        self._close(lead, verdict, settled)

    def forget_time(self) -> None:
        """After a restore: do not use the log before the time is known, because the snapshot may be old."""
        self._knows_time = False

    def publish(self, lower: Bounds, upper: Bounds) -> None:
        """Offer a published box to other sites, after the next commit."""
        self._fresh.append((lower, upper))

    def restore_offer(self, offer: Offer) -> None:
        """Restore an offer of a snapshot. It may have been sent, so it counts as sent, and is sent again."""
        offer.sent = True
        offer.began = self._engine.arrivals
        self.offers[offer.release] = offer
        self._wire.send(offer.coordinator, offer.answer)

    def settle_all(self) -> Settled:
        """At the end of the stream: unlock all rows."""
        settled = Settled()
        self._listen(settled)
        for offer in list(self.offers.values()):
            self._settle_offer(offer, settled)
        for lead in list(self.leads.values()):
            if lead.stage != "late":
                self._abort(lead, settled)
        self._look_up_given_up(settled)
        return settled

    @property
    def unsettled(self) -> bool:
        """Whether rows were given up whose outcome the log may still show."""
        return bool(self.given_up) or any(lead.stage == "late" for lead in self.leads.values())

    @property
    def is_done(self) -> bool:
        """At the end of the stream: whether no row is locked and no release is left to propose."""
        clusters = self._engine.clusters()
        return not self.offers and not self.leads and not self._leading(clusters, self._must_leave(clusters))

    # -- messages ----------------------------------------------------------------------------------------------------

    def _listen(self, settled: Settled) -> None:
        for message in self._wire.receive():
            self._away.discard(message.sender)
            is_current = self._is_current(message)
            match message:
                case Prepare():
                    self._answer(message)
                case Prepared():
                    self._take_answer(message)
                case Decided():
                    self._learn_decision(message.release, settled)
                case Published() if self._is_fresh(message):
                    self._engine.adopt(*self._local.adopt(message.lower, message.upper))
                case Share() if is_current:
                    self._views.learn(message)
                case Retract() if is_current:
                    self._views.forget(message)
                case Join() if is_current:
                    self._let_join(message)

    def _is_current(self, message: Message) -> bool:
        """Whether a message is from the sender's latest start. A site that has restarted gets a Hello."""
        known = self._epochs.get(message.sender, "")
        if message.epoch > known:
            self._epochs[message.sender] = message.epoch
            self._views.reset(message.sender)
            self._wire.tell(message.sender, Hello(**self._wire.me))
        return message.epoch >= known

    def _is_fresh(self, message: Published) -> bool:
        """Whether the sender knew of this site's current start.

        A relay may replay boxes that were published earlier, maybe into another output: they must not count as public.
        """
        return self._joint.shares_boxes and message.heard.get(self._wire.name) == self._wire.epoch

    # -- taking part in a release of another site ----------------------------------------------------------------------

    def _answer(self, asked: Prepare) -> None:
        """Offer the rows in the box, and those of clusters that asked to join."""
        self._views.remove(asked.sender, asked.cluster)
        known = self.offers.get(asked.release)
        if known is not None:
            if known.sent:
                self._wire.send(known.coordinator, known.answer)
            return
        positions = self._engine.inside(asked.lower[-1], asked.upper[-1], float(asked.losses[0]))
        if self._is_paused:
            positions = positions[:0]
        clusters = self._engine.clusters()
        otherwise = max(float(asked.losses[0]), self._engine.usual_loss)
        for slot in self._views.joining(asked.sender, asked.cluster, clusters):
            otherwise = self._engine.loss_from_here(slot)
            positions = np.union1d(positions, self._engine.members(slot))
        positions = positions[self._in_time(positions)]
        if not positions.size:
            self._wire.tell(asked.sender, Prepared(**self._wire.me, release=asked.release))
            return
        positions, levels = self._by_level(positions, asked.lower, asked.upper)
        box: dict[str, Any] = {}
        outside = positions[levels == OUTSIDE]
        if outside.size:
            lower, upper, _ = self._engine.as_published(*self._engine.box_of(outside))
            box = {"lower": lower, "upper": upper}
        self._engine.withdraw(positions)
        rows, name = self._local.rows(positions, levels), self._wire.new_name()
        answer = Prepared(**self._wire.me, release=asked.release, offer=name, rows=rows, otherwise=otherwise, **box)
        self.offers[asked.release] = Offer(
            name=name,
            release=asked.release,
            positions=positions,
            answer=self._wire.encoded(answer),
            coordinator=asked.sender,
            began=self._engine.arrivals,
            made=self._now,
            looked_up=self._now,
        )

    def _persons(self, positions: Positions) -> int:
        persons = np.unique(self._engine.persons(positions))
        return int(np.count_nonzero(persons != NO_PERSON))

    def _in_time(self, positions: Positions) -> NDArray[np.bool_]:
        """Mask of the rows that are not due before others can answer."""
        left = positions + self._joint.delay - self._engine.arrivals >= self._patience
        if self._joint.max_wait is not None:
            due = self._engine.arrived(positions) + self._joint.max_wait
            left &= due - self._now >= self._patience_seconds
        return left

    def _learn_decision(self, release: str, settled: Settled) -> None:
        """Read the decision of a release. If the log is unavailable, the offer stays and is looked up later."""
        offer = self.offers.get(release)
        if offer is None:
            return
        try:
            verdict = self._wire.decision(release)
            if verdict is None:  # the coordinator no longer knows the release
                verdict = self._abort_offer(offer)
        except UnavailableError:
            return
        self._end_offer(offer, verdict, settled)

    def _look_up_offers(self, settled: Settled) -> None:
        """Look up offers whose release is overdue.

        If the message about the decision is lost, the rows would stay locked until they are due, or forever if no more
        rows arrive. If the log has no record, the answer may be lost and is sent again; a coordinator that no longer
        knows the release replies with Decided.
        """
        if not self._knows_time:
            return
        for offer in list(self.offers.values()):
            if not offer.sent or self._now - offer.looked_up < 2 * self._patience_seconds:
                continue
            offer.looked_up = self._now
            try:
                verdict = self._wire.decision(offer.release)
            except UnavailableError:
                continue
            if verdict is None:
                self._wire.send(offer.coordinator, offer.answer)
            else:
                self._end_offer(offer, verdict, settled)

    def _settle_offer(self, offer: Offer, settled: Settled) -> None:
        """Decide the rows of an offer now, or give them up until the log is available."""
        try:
            verdict = self._abort_offer(offer)
        except UnavailableError:
            del self.offers[offer.release]
            self.given_up[offer.name] = (offer.release, offer.positions.size, offer.made)
            settled.undecided.append(offer.positions)
            return
        self._end_offer(offer, verdict, settled)

    def _abort_offer(self, offer: Offer) -> Verdict:
        """Write an abort for the release of an offer, unless it is decided; return the verdict that stands.

        Raises UnavailableError, also where the log must not be used: before the time is known, and when its record may
        have expired.
        """
        if not offer.sent:  # no other site has the rows
            return ABORT
        if self._may_be_expired(offer.made):
            raise UnavailableError("the log's record of the release may have expired")
        return self._wire.decide(offer.release, ABORT)

    def _end_offer(self, offer: Offer, verdict: Verdict, settled: Settled) -> None:
        del self.offers[offer.release]
        self._throttle.record(offer.began, self._moment)
        taken = verdict.takes(offer.name, offer.positions.size)
        if taken.any():
            settled.handed_over.append(offer.positions[taken])
            self._engine.learn(verdict.loss)
        self._engine.readmit(offer.positions[~taken])

    # -- coordinating a release ----------------------------------------------------------------------------------------

    def _let_join(self, asked: Join) -> None:
        """Propose a release of the cluster that another site wants to join."""
        if self._is_paused:
            return
        clusters = self._engine.clusters()
        for at in np.flatnonzero(clusters.number == asked.cluster):
            if clusters.persons[at] < 2 * self._joint.k:  # a larger one loses less alone, because it is split
                own = self._engine.members(int(clusters.slot[at]))
                lower, upper, _ = self._engine.as_published(clusters.lower[at], clusters.upper[at])
                self._ask(clusters, int(at), lower[None, :], upper[None, :], own)

    def _lead(self, clusters: OpenClusters, at: int) -> None:
        """Propose boxes around the oldest row of a cluster."""
        oldest = int(clusters.oldest[at])
        self._tried.add(oldest)
        fewest = max(self._joint.threshold, int(_SHARE * self._joint.k / (1 + self._present)), 2)
        lower, upper = self._engine.boxes_around(oldest, fewest=fewest, most=self._joint.k, number=_BOXES)
        if len(lower):
            self._ask(clusters, at, lower, upper, np.array([oldest]))

    def _ask(self, clusters: OpenClusters, at: int, lower: Bounds, upper: Bounds, own: Positions) -> None:
        """Lock the rows in the boxes (`own`, and others that lose no more there); ask the other sites for theirs."""
        slot, number = int(clusters.slot[at]), int(clusters.number[at])
        otherwise = self._engine.loss_from_here(slot)
        losses = np.array([self._engine.around_published(*box)[2] for box in zip(lower, upper, strict=True)])
        more = self._engine.inside(lower[-1], upper[-1], float(losses[0]))
        positions = np.union1d(own, more)
        positions = positions[self._in_time(positions)]
        positions, levels = self._by_level(positions, lower, upper)
        # Every proposed box is revealed, even if the release fails: propose only boxes with enough persons.
        persons = [self._persons(positions[levels <= level]) for level in range(len(lower))]
        enough = int(np.searchsorted(persons, self._joint.threshold))
        if enough == len(lower):
            return
        lower, upper, losses = lower[enough:], upper[enough:], losses[enough:]
        self._engine.withdraw(positions)
        lead = Lead(
            release=self._wire.new_name(),
            cluster=number,
            positions=positions,
            levels=np.maximum(levels - enough, 0),
            lower=lower,
            upper=upper,
            losses=losses,
            otherwise=otherwise,
            awaited=set(self._wire.others) - self._away,
            began=self._engine.arrivals,
            made=self._now,
        )
        self.leads[lead.release] = lead
        self._views.withdraw(number)
        self._wire.tell(
            None,
            Prepare(**self._wire.me, release=lead.release, lower=lower, upper=upper, losses=losses, cluster=number),
        )

    def _by_level(self, positions: Positions, lower: Bounds, upper: Bounds) -> tuple[Positions, NDArray[np.int64]]:
        """Return rows in the order of an offer, with the smallest box that contains each."""
        levels = self._engine.levels(positions, lower, upper)
        order = np.lexsort((positions, levels))
        return positions[order], levels[order]

    def _take_answer(self, answer: Prepared) -> None:
        lead = self.leads.get(answer.release)
        if lead is None or lead.stage != "asking":
            # Too late: the record on the log does not include this answer.
            if lead is None and answer.rows is not None:
                self._wire.tell(answer.sender, Decided(**self._wire.me, release=answer.release))
            return
        lead.awaited.discard(answer.sender)
        if answer.rows is not None and self._local.fits(answer):
            lead.answers[answer.sender] = answer

    def _judge_ready(self) -> None:
        """Judge the releases whose answers are complete or overdue."""
        for lead in [lead for lead in self.leads.values() if lead.stage == "asking"]:
            if lead.awaited and self._is_patient(lead):
                continue
            self._away |= lead.awaited
            self._judge(lead)

    def _is_patient(self, lead: Lead) -> bool:
        seconds = self._now - lead.made
        return self._engine.arrivals - lead.began < self._patience and seconds < self._patience_seconds

    def _judge(self, lead: Lead) -> None:
        """Choose the rows of a release, to be decided after the next commit; abort if no choice is allowed."""
        chosen = choose(lead, self._engine, lambda verdict, box: self._local.judge(lead, verdict, box))
        if chosen is not None:
            lead.outcome = self._local.compose(lead, *chosen)
            lead.answers = {}
            lead.stage = "deciding"
            return
        self._abort(lead, Settled())

    def _abort(self, lead: Lead, settled: Settled) -> None:
        """Abort a release; if the log shows that it was committed, keep it."""
        asked = bool(lead.answers) or lead.stage != "asking" or lead.awaited
        try:
            verdict = self._wire.decide(lead.release, ABORT) if asked else ABORT
        except UnavailableError:
            if lead.tried:
                self._give_up(lead)
                settled.undecided.append(lead.positions)
                return
            verdict = ABORT  # only this site could commit it, and it never will
        self._close(lead, verdict, settled)

    def _give_up(self, lead: Lead) -> None:
        """Give up the rows that a release may have published; return the others to the engine."""
        assert lead.outcome is not None
        lead.stage = "late"
        taken = lead.outcome.verdict.takes(lead.release, lead.positions.size)
        self._engine.readmit(lead.positions[~taken])
        lead.positions, lead.levels = lead.positions[taken], lead.levels[taken]

    def _drop_expired(self, lead: Lead, settled: Settled) -> None:
        """Drop a release whose record may have expired: its outcome stays unknown."""
        if lead.stage != "late":
            self._give_up(lead)
            settled.undecided.append(lead.positions)
        del self.leads[lead.release]

    def _close(self, lead: Lead, verdict: Verdict, settled: Settled) -> None:
        """Settle a release by the verdict on the log."""
        del self.leads[lead.release]
        self._throttle.record(lead.began, self._moment)
        if verdict.offers:
            assert lead.outcome is not None
            self._engine.learn(verdict.loss)
            taken = verdict.takes(lead.release, lead.positions.size)
            self._engine.readmit(lead.positions[~taken])
            lead.positions = lead.positions[taken]
            (settled.found_published if lead.stage == "late" else settled.won).append(lead)
        elif lead.stage == "late":
            settled.found_aborted += lead.positions.size
        else:
            self._engine.readmit(lead.positions)
        self._wire.tell(None, Decided(**self._wire.me, release=lead.release))

    # -- time --------------------------------------------------------------------------------------------------------

    def _settle_due(self, arriving: int, settled: Settled) -> None:
        """Settle offers and releases with a row that would be due before the next turn."""
        for offer in list(self.offers.values()):
            if self._is_due(offer.positions, arriving):
                self._settle_offer(offer, settled)
        for lead in list(self.leads.values()):
            if lead.stage != "late" and self._is_due(lead.positions, arriving):
                self._abort(lead, settled)

    def _is_due(self, positions: Positions, arriving: int) -> bool:
        oldest = int(positions.min())
        if oldest + self._joint.delay < self._engine.arrivals + arriving + 1:
            return True
        if self._joint.max_wait is None:
            return False
        return float(self._engine.arrived(np.array([oldest]))[0]) + self._joint.max_wait <= self._now

    def _look_up_given_up(self, settled: Settled) -> None:
        """Look up rows that were given up while the log was unavailable."""
        if not self._knows_time:
            return
        for name, (release, rows, made) in list(self.given_up.items()):
            if self._may_be_expired(made):
                del self.given_up[name]
                continue
            try:
                verdict = self._wire.decide(release, ABORT)
            except UnavailableError:
                continue  # one unreadable record must not block the others
            del self.given_up[name]
            taken = verdict.offers.get(name, 0)
            settled.found_handed_over += taken
            settled.found_aborted += rows - taken
        for lead in [lead for lead in self.leads.values() if lead.stage == "late"]:
            if self._may_be_expired(lead.made):
                self._drop_expired(lead, settled)
                continue
            try:
                self._close(lead, self._wire.decide(lead.release, ABORT), settled)
            except UnavailableError:
                continue

    def _may_be_expired(self, made: float) -> bool:
        """Whether the log may have dropped the record of a release of that time, as far as is known.

        Writing a second record could publish rows twice, so the outcome of such old rows stays unknown.
        """
        return not self._knows_time or self._now - made > _KEPT_SECONDS

    @property
    def _moment(self) -> Moment:
        return Moment(self._engine.arrivals, self._now)

    @property
    def _is_paused(self) -> bool:
        """Whether locking rows for others is paused; never at the end, where no more rows arrive."""
        return not self.ending and self._throttle.is_paused(self._moment)

    @property
    def _has_room(self) -> bool:
        """Whether another release may be proposed. At the end one at a time: several would lock each other's rows."""
        return not self.leads if self.ending else self._throttle.has_room(self._moment, len(self.leads))

    @property
    def _present(self) -> int:
        """Number of other sites that answer, as far as is known."""
        return len(self._wire.others) - len(self._away)

    @property
    def _pace(self) -> int:
        """Arrivals between two scans of the clusters."""
        return max(1, int(self._joint.reserve * self._joint.delay) // 16)

    @property
    def _patience(self) -> int:
        """Arrivals to wait for answers."""
        return max(1, int(self._joint.reserve * self._joint.delay) // 2)

    @property
    def _patience_seconds(self) -> float:
        wait = self._joint.max_wait
        return _ANSWER_SECONDS if wait is None else min(_ANSWER_SECONDS, self._joint.reserve * wait / 4)

    # -- proposing -----------------------------------------------------------------------------------------------------

    def _propose(self) -> None:
        """Propose releases of clusters whose oldest row must leave soon; ask to join others for those below k."""
        if not self._wire.others:
            return
        since = self._engine.arrivals - self._joint.delay
        self._tried = {position for position in self._tried if position >= since}
        clusters = self._engine.clusters()
        leaving = self._must_leave(clusters)
        while self._has_room and (leading := self._leading(clusters, leaving)):
            self._lead(clusters, leading[0])
            clusters = self._engine.clusters()
            leaving = self._must_leave(clusters)
        for at in leaving:
            if clusters.persons[at] < self._joint.k:
                self._views.ask_to_join(clusters, at, again_after=self._patience)

    def _leading(self, clusters: OpenClusters, leaving: list[int]) -> list[int]:
        """Return the clusters around whose oldest row no release was proposed yet, the oldest first."""
        if self._joint.threshold >= self._joint.k or not self._present:
            return []
        found = [at for at in leaving if int(clusters.oldest[at]) not in self._tried]
        return sorted(found, key=lambda at: int(clusters.oldest[at]))

    def _must_leave(self, clusters: OpenClusters) -> list[int]:
        """Return the clusters with a row that must leave soon; all of them at the end of the stream."""
        waited = self._engine.arrivals - clusters.oldest >= (1.0 - self._joint.reserve) * self._joint.delay
        if self._joint.max_wait is not None:
            since = self._now - self._engine.arrived(clusters.oldest)
            waited |= since >= (1.0 - self._joint.reserve) * self._joint.max_wait
        return [int(at) for at in np.flatnonzero(waited | self.ending)]
