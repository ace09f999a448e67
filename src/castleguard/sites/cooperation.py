"""The strict protocol of one site with the others, independent of transport and disk.

A site's own engine keeps the guarantee alone. Cooperation only reduces the information loss, in three ways:

* A site reuses boxes that other sites have published (`Published`).
* A cluster with too few persons is released together with rows of other sites that lie in its box, or joins a cluster
  of another site (`Share`, `Retract`, `Join`). Such a release takes `Prepare`, `Prepared` and a record on the log.
* A site lends rows to another site's release, if they lose no more there.

Locked rows leave their cluster, and return only when the log says that the release was aborted. Before a row is due,
its release is looked up on the log, or aborted there, so that the row leaves in time. This module coordinates releases;
`offers.py` answers those of other sites, and `deadlines.py` knows the time.
"""

from collections.abc import Iterator

import numpy as np

from castleguard.algorithms.dcastle.engine import MemberEngine, OpenClusters
from castleguard.algorithms.facts import Joint
from castleguard.errors import UnavailableError
from castleguard.schema.coded import NO_PERSON
from castleguard.sites import site_messages as messages
from castleguard.sites.cluster_views import Views
from castleguard.sites.deadlines import Deadlines
from castleguard.sites.joint_releases import ABORT, Box, Lead, Local, Offer, Positions, Settled, Verdict, choose
from castleguard.sites.offers import Offers, order_by_level
from castleguard.sites.site_messages import Bounds
from castleguard.sites.wire import Wire

_BOXES = 8  # nested boxes per proposal
_SHARE = 0.8  # own rows in the smallest box, as a share of k / number of sites


class Cooperation:
    """One site's side of the protocol."""

    def __init__(self, wire: Wire, joint: Joint, *, engine: MemberEngine, local: Local) -> None:
        self._joint = joint
        self._wire = wire
        self._engine = engine
        self._columns = engine.columns
        self._local = local
        self._views = Views(joint, engine, wire)
        self._deadlines = Deadlines(joint, engine)
        self._lent = Offers(wire, self._views, self._deadlines, engine=engine, local=local)
        self._epochs: dict[str, str] = {}
        self._away: set[str] = set()
        self._tried: set[int] = set()
        """Positions of rows around which a release was proposed."""
        self._fresh: list[Box] = []
        self.offers = self._lent.open
        self.given_up = self._lent.given_up
        self.leads: dict[str, Lead] = {}
        self._scanned = -1
        self._wire.tell(None, messages.Hello(**wire.me))

    # -- called by the coordinator -----------------------------------------------------------------------------------

    @property
    def ending(self) -> bool:
        """Whether the stream is about to end: every row must leave soon."""
        return self._deadlines.ending

    @ending.setter
    def ending(self, ending: bool) -> None:
        self._deadlines.ending = ending

    @property
    def locked(self) -> Iterator[Positions]:
        """The rows withdrawn from the engine."""
        yield from (offer.positions for offer in self.offers.values())
        yield from (lead.positions for lead in self.leads.values() if lead.stage != "late")

    @property
    def holding(self) -> bool:
        """Whether locked rows need a decision before many more rows arrive."""
        since = self._engine.arrivals - self._deadlines.patience // 2
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
        self._deadlines.advance(now)
        settled = Settled()
        self._listen(settled)
        self._settle_due(arriving, settled)
        self._lent.look_up(settled)
        self._judge_ready()
        for lead in [lead for lead in self._ready_to_commit if lead.tried]:
            self._commit(lead, settled)
        self._look_up_given_up(settled)
        if self._deadlines.ending:
            self._views.share(self._engine.clusters())
            self._propose()
        elif self._engine.arrivals - self._scanned >= self._deadlines.pace:
            self._scanned = self._engine.arrivals
            self._views.share(self._engine.clusters())
            self._propose()
        return settled

    def committed(self) -> Settled:
        """After a commit: send the offers and write the verdicts that had to be stored first."""
        settled = Settled()
        self._lent.send()
        for lead in self._ready_to_commit:
            self._commit(lead, settled)
        if self._fresh and self._joint.shares_boxes:
            lower, upper = (np.array(bounds) for bounds in zip(*self._fresh, strict=True))
            self._wire.tell(None, messages.Published(**self._wire.me, heard=self._epochs, lower=lower, upper=upper))
        self._fresh.clear()
        return settled

    @property
    def _ready_to_commit(self) -> list[Lead]:
        """Releases with a verdict. None before the time is known: the log may have dropped an earlier record."""
        return [lead for lead in self.leads.values() if lead.stage == "deciding" and self._deadlines.knows_time]

    def _commit(self, lead: Lead, settled: Settled) -> None:
        """Write a stored verdict to the log."""
        assert lead.outcome is not None
        if self._deadlines.may_be_expired(lead.made):
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
        self._deadlines.knows_time = False

    def publish(self, lower: Bounds, upper: Bounds) -> None:
        """Offer a published box to other sites, after the next commit."""
        self._fresh.append((lower, upper))

    def restore_offer(self, offer: Offer) -> None:
        """Restore an offer of a snapshot."""
        self._lent.restore(offer)

    def settle_all(self) -> Settled:
        """At the end of the stream: unlock all rows."""
        settled = Settled()
        self._listen(settled)
        for offer in list(self.offers.values()):
            self._lent.settle(offer, settled)
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
        return not self.offers and not self.leads and not self._leading(clusters, self._deadlines.must_leave(clusters))

    # -- messages ----------------------------------------------------------------------------------------------------

    def _listen(self, settled: Settled) -> None:
        for message in self._wire.receive():
            self._away.discard(message.sender)
            is_current = self._is_current(message)
            match message:
                case messages.Prepare():
                    self._lent.answer(message)
                case messages.Prepared():
                    self._take_answer(message)
                case messages.Decided():
                    self._lent.learn_decision(message.release, settled)
                case messages.Published() if self._is_fresh(message):
                    self._engine.adopt(*self._local.adopt(message.lower, message.upper))
                case messages.Share() if is_current:
                    self._views.learn(message)
                case messages.Retract() if is_current:
                    self._views.forget(message)
                case messages.Join() if is_current:
                    self._let_join(message)

    def _is_current(self, message: messages.Message) -> bool:
        """Whether a message is from the sender's latest start. A site that has restarted gets a Hello."""
        known = self._epochs.get(message.sender, "")
        if message.epoch > known:
            self._epochs[message.sender] = message.epoch
            self._views.reset(message.sender)
            self._wire.tell(message.sender, messages.Hello(**self._wire.me))
        return message.epoch >= known

    def _is_fresh(self, message: messages.Published) -> bool:
        """Whether the sender knew of this site's current start.

        A relay may replay boxes that were published earlier, maybe into another output: they must not count as public.
        """
        return self._joint.shares_boxes and message.heard.get(self._wire.name) == self._wire.epoch

    # -- coordinating a release ----------------------------------------------------------------------------------------

    def _let_join(self, asked: messages.Join) -> None:
        """Propose a release of the cluster that another site wants to join."""
        if self._deadlines.is_paused:
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
        positions = positions[self._deadlines.in_time(positions)]
        positions, levels = order_by_level(self._engine, positions, lower, upper)
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
            made=self._deadlines.now,
        )
        self.leads[lead.release] = lead
        self._views.withdraw(number)
        me, release = self._wire.me, lead.release
        asked = messages.Prepare(**me, release=release, lower=lower, upper=upper, losses=losses, cluster=number)
        self._wire.tell(None, asked)

    def _persons(self, positions: Positions) -> int:
        persons = np.unique(self._engine.persons(positions))
        return int(np.count_nonzero(persons != NO_PERSON))

    def _take_answer(self, answer: messages.Prepared) -> None:
        lead = self.leads.get(answer.release)
        if lead is None or lead.stage != "asking":
            # Too late: the record on the log does not include this answer.
            if lead is None and answer.rows is not None:
                self._wire.tell(answer.sender, messages.Decided(**self._wire.me, release=answer.release))
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
        arrivals, seconds = self._engine.arrivals - lead.began, self._deadlines.now - lead.made
        return arrivals < self._deadlines.patience and seconds < self._deadlines.patience_seconds

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
        self._deadlines.record(lead.began)
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
        self._wire.tell(None, messages.Decided(**self._wire.me, release=lead.release))

    # -- time --------------------------------------------------------------------------------------------------------

    def _settle_due(self, arriving: int, settled: Settled) -> None:
        """Settle offers and releases with a row that would be due before the next turn."""
        for offer in list(self.offers.values()):
            if self._deadlines.is_due(offer.positions, arriving):
                self._lent.settle(offer, settled)
        for lead in list(self.leads.values()):
            if lead.stage != "late" and self._deadlines.is_due(lead.positions, arriving):
                self._abort(lead, settled)

    def _look_up_given_up(self, settled: Settled) -> None:
        """Look up rows that were given up while the log was unavailable."""
        if not self._deadlines.knows_time:
            return
        self._lent.look_up_given_up(settled)
        for lead in [lead for lead in self.leads.values() if lead.stage == "late"]:
            if self._deadlines.may_be_expired(lead.made):
                self._drop_expired(lead, settled)
                continue
            try:
                self._close(lead, self._wire.decide(lead.release, ABORT), settled)
            except UnavailableError:
                continue

    @property
    def _present(self) -> int:
        """Number of other sites that answer, as far as is known."""
        return len(self._wire.others) - len(self._away)

    # -- proposing -----------------------------------------------------------------------------------------------------

    def _propose(self) -> None:
        """Propose releases of clusters whose oldest row must leave soon; ask to join others for those below k."""
        if not self._wire.others:
            return
        since = self._engine.arrivals - self._joint.delay
        self._tried = {position for position in self._tried if position >= since}
        clusters = self._engine.clusters()
        leaving = self._deadlines.must_leave(clusters)
        while self._deadlines.has_room(len(self.leads)) and (leading := self._leading(clusters, leaving)):
            self._lead(clusters, leading[0])
            clusters = self._engine.clusters()
            leaving = self._deadlines.must_leave(clusters)
        for at in leaving:
            if clusters.persons[at] < self._joint.k:
                self._views.ask_to_join(clusters, at, again_after=self._deadlines.patience)

    def _leading(self, clusters: OpenClusters, leaving: list[int]) -> list[int]:
        """Return the clusters around whose oldest row no release was proposed yet, the oldest first."""
        if self._joint.threshold >= self._joint.k or not self._present:
            return []
        found = [at for at in leaving if int(clusters.oldest[at]) not in self._tried]
        return sorted(found, key=lambda at: int(clusters.oldest[at]))
