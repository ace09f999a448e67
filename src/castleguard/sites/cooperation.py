"""What one site does together with others: the strict protocol, apart from any transport and any disk.

A site's own engine keeps the promise by itself. What is done here is to make it lose less, by three moves:

* Boxes that other sites have published are used again here (`Published`).
* A cluster that cannot leave alone is released together with rows of other sites that lie in its box, or joins the
  cluster of another site (`Share`, `Retract`, `Join`), in one release: `Prepare`, `Prepared`, a record on the log.
* Rows that another site asks for are lent to its release, if they lose no more there.

Rows that are offered are locked: they leave their cluster, and come back only when the log says that the release was
aborted. Before a row is due its release is looked up on the log, or aborted there, so that it leaves in time. A release
that should have been decided is looked up too: the message that tells so may be lost.
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
from castleguard.schema.coded import NOBODY
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
    Share,
)
from castleguard.sites.releases import ABORT, Box, Lead, Moment, Offer, Outcome, Positions, Tempo, Verdict, choose
from castleguard.sites.views import Views
from castleguard.sites.wire import Wire

_BOXES = 8  # that are proposed, one around the other
_SHARE = 0.8  # of k, divided by the number of sites: so many own rows are in the smallest box
_ANSWER_SECONDS = 2.0  # that answers are awaited, at most
_KEPT_SECONDS = (LOG_KEPT_DAYS - 1) * 86_400.0


class Local(Protocol):
    """What the protocol needs of the stream that it works for."""

    def rows(self, positions: Positions, levels: NDArray[np.int64]) -> Rows:
        """Locked rows as they travel."""

    def judge(self, lead: Lead, verdict: Verdict, box: Box) -> bool:
        """Whether what a verdict takes of the own rows and of the answers may be published as one group in a box."""

    def compose(self, lead: Lead, verdict: Verdict, box: Box) -> Outcome:
        """The release as it will be published."""

    def adopt(self, lower: Bounds, upper: Bounds) -> tuple[Bounds, Bounds]:
        """Of boxes (boxes, columns) published elsewhere those that may be used here: the gate knows them then."""

    def fits(self, answer: Prepared) -> bool:
        """Whether the columns of an answer can be published here."""


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

    def __init__(self, wire: Wire, joint: Joint, *, engine: MemberEngine, local: Local) -> None:
        self._joint = joint
        self._wire = wire
        self._engine = engine
        self._columns = engine.columns
        self._local = local
        self._views = Views(joint, engine, wire)
        self._tempo = Tempo(delay=joint.delay, slow=2 * joint.step)
        self._epochs: dict[str, str] = {}
        self._away: set[str] = set()
        self._tried: set[int] = set()
        """Rows around which a release was proposed, by their positions."""
        self._fresh: list[Box] = []
        self.ending = False
        """Whether the stream is about to end: every row is to leave before long."""
        self.offers: dict[str, Offer] = {}
        self.leads: dict[str, Lead] = {}
        self.given_up: dict[str, tuple[str, int, float]] = {}
        """Offers whose rows were given up undecided: their releases, how many, and when they were made."""
        self._now = 0.0
        self._knows_time = True
        self._scanned = -1
        self._wire.tell(None, Hello(**wire.me))

    # -- what the stream calls ---------------------------------------------------------------------------------------

    @property
    def locked(self) -> Iterator[Positions]:
        """The rows that are withdrawn from the engine."""
        yield from (offer.positions for offer in self.offers.values())
        yield from (lead.positions for lead in self.leads.values() if lead.stage != "late")

    @property
    def holding(self) -> bool:
        """Whether something locked should be decided before many more rows arrive."""
        since = self._engine.arrivals - self._patience // 2
        began = [offer.began for offer in self.offers.values()]
        began += [lead.began for lead in self.leads.values() if lead.stage != "late"]
        return min(began, default=since) < since

    @property
    def urgent(self) -> bool:
        """Whether something waits for the next commit."""
        return any(not offer.sent for offer in self.offers.values()) or any(
            lead.stage == "deciding" and not lead.tried for lead in self.leads.values()
        )

    def turn(self, arriving: int, now: float) -> Settled:
        """Take part, before so many rows arrive: answer, decide what would become due, and propose."""
        if np.isfinite(now):
            self._now = max(self._now, now)
            self._knows_time = True
        settled = Settled()
        self._listen(settled)
        self._settle_due(arriving, settled)
        self._look_up(settled)
        self._judge_ripe()
        for lead in [lead for lead in self._ready_to_commit if lead.tried]:
            self._commit(lead, settled)
        self._look_back(settled)
        if self.ending:
            self._views.share(self._engine.clusters())
            self._propose()
        elif self._engine.arrivals - self._scanned >= self._pace:
            self._scanned = self._engine.arrivals
            self._views.share(self._engine.clusters())
            self._propose()
        return settled

    def committed(self) -> Settled:
        """Everything so far is on disk, and what was published has arrived: send and decide what had to wait for it."""
        settled = Settled()
        for offer in self.offers.values():
            if not offer.sent:
                offer.sent = True
                self._wire.send(offer.coordinator, offer.answer)
        for lead in self._ready_to_commit:
            self._commit(lead, settled)
        if self._fresh and self._shares_boxes:
            lower, upper = (np.array(bounds) for bounds in zip(*self._fresh, strict=True))
            self._wire.tell(None, Published(**self._wire.me, heard=self._epochs, lower=lower, upper=upper))
        self._fresh.clear()
        return settled

    @property
    def _ready_to_commit(self) -> list[Lead]:
        """Releases with a verdict. None before the time is known: the log may have forgotten an earlier record."""
        return [lead for lead in self.leads.values() if lead.stage == "deciding" and self._knows_time]

    def _commit(self, lead: Lead, settled: Settled) -> None:
        """Write a verdict that is on disk."""
        assert lead.outcome is not None
        if self._may_be_forgotten(lead.made):
            self._forget(lead, settled)
            return
        lead.tried = True
        try:
            stands = self._wire.decide(lead.release, lead.outcome.verdict)
        except UnavailableError:
            return  # the next turn asks again
        self._close(lead, stands, settled)

    def has_resumed(self) -> None:
        """The stream continues a snapshot, which may be old: nothing is asked of the log before the time is known."""
        self._knows_time = False

    def publish(self, lower: Bounds, upper: Bounds) -> None:
        """A box is published here, and others may use it once it has arrived."""
        self._fresh.append((lower, upper))

    def take_up_offer(self, offer: Offer) -> None:
        """An offer from before a restart: it may have been sent, so it counts as sent; and is sent again."""
        offer.sent = True
        offer.began = self._engine.arrivals
        self.offers[offer.release] = offer
        self._wire.send(offer.coordinator, offer.answer)

    def settle_all(self) -> Settled:
        """The end of the stream: nothing stays locked."""
        settled = Settled()
        self._listen(settled)
        for offer in list(self.offers.values()):
            self._settle_offer(offer, settled)
        for lead in list(self.leads.values()):
            if lead.stage != "late":
                self._abort(lead, settled)
        self._look_back(settled)
        return settled

    @property
    def unsettled(self) -> bool:
        """Whether something was given up, and the log may say yet what became of it."""
        return bool(self.given_up) or any(lead.stage == "late" for lead in self.leads.values())

    @property
    def is_done(self) -> bool:
        """At the end of the stream: whether nothing is locked, and nothing is left to propose."""
        clusters = self._engine.clusters()
        return not self.offers and not self.leads and not self._leading(clusters, self._must_leave(clusters))

    # -- listening ---------------------------------------------------------------------------------------------------

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
                    self._learn(message.release, settled)
                case Published() if self._is_of_now(message):
                    self._engine.adopt(*self._local.adopt(message.lower, message.upper))
                case Share() if is_current:
                    self._views.learn(message)
                case Retract() if is_current:
                    self._views.forget(message)
                case Join() if is_current:
                    self._let_join(message)

    def _is_current(self, message: Message) -> bool:
        """Whether the sender has not started anew since. Who has is told that we are here."""
        known = self._epochs.get(message.sender, "")
        if message.epoch > known:
            self._epochs[message.sender] = message.epoch
            self._views.begin_anew(message.sender)
            self._wire.tell(message.sender, Hello(**self._wire.me))
        return message.epoch >= known

    def _is_of_now(self, message: Published) -> bool:
        """Whether boxes were told by somebody who has heard of this very start: a relay that repeats what was published
        before, maybe into another output, must not make this site believe that it is there.
        """
        return self._shares_boxes and message.heard.get(self._wire.name) == self._wire.epoch

    # -- taking part in a release of another site ----------------------------------------------------------------------

    def _answer(self, asked: Prepare) -> None:
        """Offer the rows that lie in the box, and those of clusters that asked to join."""
        self._views.leave(asked.sender, asked.cluster)
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
        for slot in self._views.who_joins(asked.sender, asked.cluster, clusters):
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
        return int(np.count_nonzero(persons != NOBODY))

    def _in_time(self, positions: Positions) -> NDArray[np.bool_]:
        """Which rows are not due before others could have answered."""
        left = positions + self._joint.delay - self._engine.arrivals >= self._patience
        if self._joint.max_wait is not None:
            due = self._engine.arrived(positions) + self._joint.max_wait
            left &= due - self._now >= self._patience_seconds
        return left

    def _learn(self, release: str, settled: Settled) -> None:
        """A release is said to be decided. If the log is away, the offer stays: it is looked up later."""
        offer = self.offers.get(release)
        if offer is None:
            return
        try:
            verdict = self._wire.decision(release)
            if verdict is None:  # its coordinator has forgotten it
                verdict = self._abort_offer(offer)
        except UnavailableError:
            return
        self._end_offer(offer, verdict, settled)

    def _look_up(self, settled: Settled) -> None:
        """Look up offers whose release should have been decided: the message may be lost, and without it the rows stay
        locked until they are due, for ever if no more rows arrive. Where the log has no record, the answer may be lost:
        send it again. A coordinator that has forgotten the release says so.
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
        """The rows of an offer must be decided now, or given up until the log can be asked."""
        try:
            verdict = self._abort_offer(offer)
        except UnavailableError:
            del self.offers[offer.release]
            self.given_up[offer.name] = (offer.release, offer.positions.size, offer.made)
            settled.undecided.append(offer.positions)
            return
        self._end_offer(offer, verdict, settled)

    def _abort_offer(self, offer: Offer) -> Verdict:
        """Write "aborted" for the release of an offer, unless it is decided; the verdict that stands. Raises
        UnavailableError, also if the log must not be asked: before the time is known, and when it may have forgotten.
        """
        if not offer.sent:  # nobody has seen the rows
            return ABORT
        if self._may_be_forgotten(offer.made):
            raise UnavailableError("the log may have forgotten the release")
        return self._wire.decide(offer.release, ABORT)

    def _end_offer(self, offer: Offer, verdict: Verdict, settled: Settled) -> None:
        del self.offers[offer.release]
        self._tempo.took(offer.began, self._moment)
        taken = verdict.takes(offer.name, offer.positions.size)
        if taken.any():
            settled.handed_over.append(offer.positions[taken])
            self._engine.learn(verdict.loss)
        self._engine.readmit(offer.positions[~taken])

    # -- coordinating a release ----------------------------------------------------------------------------------------

    def _let_join(self, asked: Join) -> None:
        """Another site cannot release its rows alone: release the cluster that it wants to join."""
        if self._is_paused:
            return
        clusters = self._engine.clusters()
        for at in np.flatnonzero(clusters.number == asked.cluster):
            if clusters.persons[at] < 2 * self._joint.k:  # a larger one does better on its own: it is split
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
        """Lock the rows in boxes, those that must be among them (`own`) and those that lose no more there; and ask the
        others for theirs.
        """
        slot, number = int(clusters.slot[at]), int(clusters.number[at])
        otherwise = self._engine.loss_from_here(slot)
        losses = np.array([self._engine.around_published(*box)[2] for box in zip(lower, upper, strict=True)])
        more = self._engine.inside(lower[-1], upper[-1], float(losses[0]))
        positions = np.union1d(own, more)
        positions = positions[self._in_time(positions)]
        positions, levels = self._by_level(positions, lower, upper)
        # Every box is told, whatever comes of it.
        told = [self._persons(positions[levels <= level]) for level in range(len(lower))]
        enough = int(np.searchsorted(told, self._joint.threshold))
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
        self._views.take_back(number)
        self._wire.tell(
            None,
            Prepare(**self._wire.me, release=lead.release, lower=lower, upper=upper, losses=losses, cluster=number),
        )

    def _by_level(self, positions: Positions, lower: Bounds, upper: Bounds) -> tuple[Positions, NDArray[np.int64]]:
        """Rows with the smallest box that each lies in, in the order in which they are offered."""
        levels = self._engine.levels(positions, lower, upper)
        order = np.lexsort((positions, levels))
        return positions[order], levels[order]

    def _take_answer(self, answer: Prepared) -> None:
        lead = self.leads.get(answer.release)
        if lead is None or lead.stage != "asking":
            # Too late: the record on the log does not name this answer.
            if lead is None and answer.rows is not None:
                self._wire.tell(answer.sender, Decided(**self._wire.me, release=answer.release))
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
        seconds = self._now - lead.made
        return self._engine.arrivals - lead.began < self._patience and seconds < self._patience_seconds

    def _judge(self, lead: Lead) -> None:
        """Choose which rows are taken; decide, as soon as that is on disk, or abort."""
        chosen = choose(lead, self._engine, lambda verdict, box: self._local.judge(lead, verdict, box))
        if chosen is not None:
            lead.outcome = self._local.compose(lead, *chosen)
            lead.answers = {}
            lead.stage = "deciding"
            return
        self._abort(lead, Settled())

    def _abort(self, lead: Lead, settled: Settled) -> None:
        """Give up a release that has not been committed; if it has been after all, keep it."""
        asked = bool(lead.answers) or lead.stage != "asking" or lead.awaited
        try:
            stands = self._wire.decide(lead.release, ABORT) if asked else ABORT
        except UnavailableError:
            if lead.tried:
                self._give_up(lead)
                settled.undecided.append(lead.positions)
                return
            stands = ABORT  # nobody else may commit it, and this site never will
        self._close(lead, stands, settled)

    def _give_up(self, lead: Lead) -> None:
        """Nobody can say in time what becomes of the rows that it would publish; the others come back anyhow."""
        assert lead.outcome is not None
        lead.stage = "late"
        taken = lead.outcome.verdict.takes(lead.release, lead.positions.size)
        self._engine.readmit(lead.positions[~taken])
        lead.positions, lead.levels = lead.positions[taken], lead.levels[taken]

    def _forget(self, lead: Lead, settled: Settled) -> None:
        """A release of which nobody will ever know what became."""
        if lead.stage != "late":
            self._give_up(lead)
            settled.undecided.append(lead.positions)
        del self.leads[lead.release]

    def _close(self, lead: Lead, stands: Verdict, settled: Settled) -> None:
        """The log has spoken."""
        del self.leads[lead.release]
        self._tempo.took(lead.began, self._moment)
        if stands.offers:
            assert lead.outcome is not None
            self._engine.learn(stands.loss)
            taken = stands.takes(lead.release, lead.positions.size)
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
        """Decide whatever holds a row that would be due before the next turn."""
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

    def _look_back(self, settled: Settled) -> None:
        """What was given up because the log was away may have been decided."""
        if not self._knows_time:
            return
        for name, (release, rows, made) in list(self.given_up.items()):
            if self._may_be_forgotten(made):
                del self.given_up[name]
                continue
            try:
                verdict = self._wire.decide(release, ABORT)
            except UnavailableError:
                continue  # one record that cannot be opened must not hold up the others
            del self.given_up[name]
            taken = verdict.offers.get(name, 0)
            settled.found_handed_over += taken
            settled.found_aborted += rows - taken
        for lead in [lead for lead in self.leads.values() if lead.stage == "late"]:
            if self._may_be_forgotten(lead.made):
                self._forget(lead, settled)
                continue
            try:
                self._close(lead, self._wire.decide(lead.release, ABORT), settled)
            except UnavailableError:
                continue

    def _may_be_forgotten(self, made: float) -> bool:
        """Whether something is so old that the log may not have its record any more, for all that is known: a second
        record could publish rows twice. The outcome of rows that are too old stays unknown.
        """
        return not self._knows_time or self._now - made > _KEPT_SECONDS

    @property
    def _moment(self) -> Moment:
        return Moment(self._engine.arrivals, self._now)

    @property
    def _is_paused(self) -> bool:
        """Whether no rows should be locked for others. At the end none arrive any more."""
        return not self.ending and self._tempo.is_paused(self._moment)

    @property
    def _has_room(self) -> bool:
        """Whether another release may be proposed. At the end, one after the other: all at once would lock the rows
        that others ask for.
        """
        return not self.leads if self.ending else self._tempo.has_room(self._moment, len(self.leads))

    @property
    def _present(self) -> int:
        """How many other sites there are, as far as is known."""
        return len(self._wire.others) - len(self._away)

    @property
    def _pace(self) -> int:
        """Arrivals between two looks at the clusters."""
        return max(1, int(self._joint.reserve * self._joint.delay) // 16)

    @property
    def _patience(self) -> int:
        """Arrivals for which answers are awaited."""
        return max(1, int(self._joint.reserve * self._joint.delay) // 2)

    @property
    def _patience_seconds(self) -> float:
        wait = self._joint.max_wait
        return _ANSWER_SECONDS if wait is None else min(_ANSWER_SECONDS, self._joint.reserve * wait / 4)

    @property
    def _shares_boxes(self) -> bool:
        return self._joint.shares_boxes

    # -- proposing -----------------------------------------------------------------------------------------------------

    def _propose(self) -> None:
        """For clusters whose oldest row must leave soon: propose them; for those that cannot leave alone, ask to join
        others.
        """
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
        """The clusters around whose oldest row a release can be proposed, the oldest first: once for each."""
        if self._joint.threshold >= self._joint.k or not self._present:
            return []
        found = [at for at in leaving if int(clusters.oldest[at]) not in self._tried]
        return sorted(found, key=lambda at: int(clusters.oldest[at]))

    def _must_leave(self, clusters: OpenClusters) -> list[int]:
        """The clusters with a row that is to leave before long; at the end of the stream, all."""
        waited = self._engine.arrivals - clusters.oldest >= (1.0 - self._joint.reserve) * self._joint.delay
        if self._joint.max_wait is not None:
            since = self._now - self._engine.arrived(clusters.oldest)
            waited |= since >= (1.0 - self._joint.reserve) * self._joint.max_wait
        return [int(at) for at in np.flatnonzero(waited | self.ending)]
