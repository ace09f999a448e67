"""Offers: the rows that a site lends to releases of other sites.

Offered rows are locked: they leave their cluster, and return only when the log says that the release was aborted. An
overdue release is looked up in the log: the message about its decision may have been lost.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.dcastle.engine import OUTSIDE, MemberEngine
from castleguard.errors import UnavailableError
from castleguard.sites.cluster_views import Views
from castleguard.sites.deadlines import Deadlines
from castleguard.sites.joint_releases import ABORT, Local, Offer, Positions, Settled, Verdict
from castleguard.sites.site_messages import Bounds, Prepare, Prepared
from castleguard.sites.wire import Wire


class Offers:
    """Open offers of one site."""

    def __init__(self, wire: Wire, views: Views, deadlines: Deadlines, *, engine: MemberEngine, local: Local) -> None:
        self._wire = wire
        self._views = views
        self._deadlines = deadlines
        self._engine = engine
        self._local = local
        self.open: dict[str, Offer] = {}
        self.given_up: dict[str, tuple[str, int, float]] = {}
        """Offers whose rows were given up undecided: release, number of rows, and time of the offer."""

    def send(self) -> None:
        """After a commit: send the offers that had to be stored first."""
        for offer in self.open.values():
            if not offer.sent:
                offer.sent = True
                self._wire.send(offer.coordinator, offer.answer)

    def restore(self, offer: Offer) -> None:
        """Restore an offer of a snapshot. It may have been sent, so it counts as sent, and is sent again."""
        offer.sent = True
        offer.began = self._engine.arrivals
        self.open[offer.release] = offer
        self._wire.send(offer.coordinator, offer.answer)

    def answer(self, asked: Prepare) -> None:
        """Offer the rows in the box, and those of clusters that asked to join."""
        self._views.remove(asked.sender, asked.cluster)
        known = self.open.get(asked.release)
        if known is not None:
            if known.sent:
                self._wire.send(known.coordinator, known.answer)
            return
        positions = self._engine.inside(asked.lower[-1], asked.upper[-1], float(asked.losses[0]))
        if self._deadlines.is_paused:
            positions = positions[:0]
        clusters = self._engine.clusters()
        otherwise = max(float(asked.losses[0]), self._engine.usual_loss)
        for slot in self._views.joining(asked.sender, asked.cluster, clusters):
            otherwise = self._engine.loss_from_here(slot)
            positions = np.union1d(positions, self._engine.members(slot))
        positions = positions[self._deadlines.in_time(positions)]
        if not positions.size:
            self._wire.tell(asked.sender, Prepared(**self._wire.me, release=asked.release))
            return
        positions, levels = order_by_level(self._engine, positions, asked.lower, asked.upper)
        box: dict[str, Any] = {}
        outside = positions[levels == OUTSIDE]
        if outside.size:
            lower, upper, _ = self._engine.as_published(*self._engine.box_of(outside))
            box = {"lower": lower, "upper": upper}
        self._engine.withdraw(positions)
        rows, name = self._local.rows(positions, levels), self._wire.new_name()
        answer = Prepared(**self._wire.me, release=asked.release, offer=name, rows=rows, otherwise=otherwise, **box)
        self.open[asked.release] = Offer(
            name=name,
            release=asked.release,
            positions=positions,
            answer=self._wire.encoded(answer),
            coordinator=asked.sender,
            began=self._engine.arrivals,
            made=self._deadlines.now,
            looked_up=self._deadlines.now,
        )

    def learn_decision(self, release: str, settled: Settled) -> None:
        """Read the decision of a release. If the log is unavailable, the offer stays and is looked up later."""
        offer = self.open.get(release)
        if offer is None:
            return
        try:
            verdict = self._wire.decision(release)
            if verdict is None:  # the coordinator no longer knows the release
                verdict = self._abort(offer)
        except UnavailableError:
            return
        self._end(offer, verdict, settled)

    def look_up(self, settled: Settled) -> None:
        """Look up offers whose release is overdue.

        If the message about the decision was lost, the rows would stay locked until they are due, or forever if no more
        rows arrive. If the log has no record, the answer may be lost and is sent again; a coordinator that no longer
        knows the release replies with Decided.
        """
        if not self._deadlines.knows_time:
            return
        for offer in list(self.open.values()):
            if not offer.sent or self._deadlines.now - offer.looked_up < 2 * self._deadlines.patience_seconds:
                continue
            offer.looked_up = self._deadlines.now
            try:
                verdict = self._wire.decision(offer.release)
            except UnavailableError:
                continue
            if verdict is None:
                self._wire.send(offer.coordinator, offer.answer)
            else:
                self._end(offer, verdict, settled)

    def settle(self, offer: Offer, settled: Settled) -> None:
        """Decide the rows of an offer now, or give them up until the log is available."""
        try:
            verdict = self._abort(offer)
        except UnavailableError:
            del self.open[offer.release]
            self.given_up[offer.name] = (offer.release, offer.positions.size, offer.made)
            settled.undecided.append(offer.positions)
            return
        self._end(offer, verdict, settled)

    def _abort(self, offer: Offer) -> Verdict:
        """Write an abort for the release of an offer, unless it is decided; return the final verdict.

        Raises UnavailableError if the log is unavailable or must not be used: before the time is known, and when its
        record may have expired.
        """
        if not offer.sent:  # no other site has the rows
            return ABORT
        if self._deadlines.may_be_expired(offer.made):
            raise UnavailableError("the log's record of the release may have expired")
        return self._wire.decide(offer.release, ABORT)

    def _end(self, offer: Offer, verdict: Verdict, settled: Settled) -> None:
        del self.open[offer.release]
        self._deadlines.record(offer.began)
        taken = verdict.takes(offer.name, offer.positions.size)
        if taken.any():
            settled.handed_over.append(offer.positions[taken])
            self._engine.learn(verdict.loss)
        self._engine.readmit(offer.positions[~taken])

    def look_up_given_up(self, settled: Settled) -> None:
        """Look up rows that were given up while the log was unavailable."""
        for name, (release, rows, made) in list(self.given_up.items()):
            if self._deadlines.may_be_expired(made):
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


def order_by_level(
    engine: MemberEngine, positions: Positions, lower: Bounds, upper: Bounds
) -> tuple[Positions, NDArray[np.int64]]:
    """Return rows in the order of an offer, with the smallest box that contains each."""
    levels = engine.levels(positions, lower, upper)
    order = np.lexsort((positions, levels))
    return positions[order], levels[order]
