"""dCASTLE as printed, in one process and for experiments: the sites, their connections, and a run over a table.

It does not keep its guarantee. A site counts persons of other sites towards k that are then published elsewhere, or not
at all (see `PaperRun.groups_below_k`); messages hold exact values of persons. Never publish its output.

Every event is one step: a site receives a row, lets its oldest row expire, or receives the oldest message from another
site. Messages between two sites stay in order; those of different sites may overtake each other.

>>> from castleguard.schema.roles import Numeric, Schema
>>> schema = Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=100)])
>>> network = PaperNetwork(schema, PaperPolicy(k=2, delay=2, sites=2), seed=1)
>>> run = network.run_round_robin([{"age": age} for age in (31, 30, 33, 34, 72, 75)])
>>> run.published + run.suppressed, run.groups_below_k
(6, 3)
"""

from collections import deque
from collections.abc import Hashable, Sequence
from random import Random

import numpy as np

from castleguard.errors import UsageError
from castleguard.lab.transcriptions.dcastle.books import Books, PaperRun
from castleguard.lab.transcriptions.dcastle.messages import Message, Release, Scale, Step
from castleguard.lab.transcriptions.dcastle.policy import PaperPolicy
from castleguard.lab.transcriptions.dcastle.site import Chooser, Site
from castleguard.lab.transcriptions.dcastle.space import Bounds, Box, Space
from castleguard.schema.coded import CodedRows
from castleguard.schema.decode import Decoder
from castleguard.schema.roles import Schema
from castleguard.schema.table import to_table

_KEY = np.arange(2, dtype=np.uint64)  # of the hashes: persons must be distinguishable, not hidden


class PaperNetwork:
    """`policy.sites` empty sites.

    `choosers` has one for each site, for experiments that script the random choices; otherwise they follow from `seed`.
    """

    def __init__(
        self, schema: Schema, policy: PaperPolicy, *, seed: int = 0, choosers: Sequence[Chooser] | None = None
    ) -> None:
        policy.check(schema)
        self._schema = schema
        self._policy = policy
        self._space = Space(schema)
        self._scale = Scale(schema)
        chosen = [_drawn(seed, site) for site in range(policy.sites)] if choosers is None else choosers
        if len(chosen) != policy.sites:
            raise UsageError(f"{policy.sites} sites need as many choosers, got {len(chosen)}")
        self.sites = [Site(number, self._space, policy, choose) for number, choose in enumerate(chosen)]
        self.messages = 0
        self.bytes = 0
        pairs = [(sender, receiver) for sender in range(policy.sites) for receiver in range(policy.sites)]
        self._queues: dict[tuple[int, int], deque[tuple[int, Message]]] = {
            (sender, receiver): deque() for sender, receiver in pairs if sender != receiver
        }
        self._order: deque[tuple[int, int, int]] = deque()  # number, sender, receiver of what is or was under way
        self._books = Books(policy, self._space)

    @property
    def root(self) -> Box:
        """The most general values, with which the paper suppresses a row."""
        return self._space.root

    def arrive(self, site: int, row: CodedRows) -> Step:
        """Hand a row to a site, as coded rows of length 1."""
        (point,) = self._space.points(row.quasi).T
        value = row.sensitive[0, 0].item() if row.sensitive.shape[1] else None
        return self._arrive(site, point, row.person[0].item(), value)

    def expire(self, site: int) -> Step:
        """Let the oldest row of a site leave."""
        if not self.sites[site].pending:
            raise UsageError(f"site {site} has no row that could expire")
        return self._step(self.sites[site], self.sites[site].expire_oldest())

    def deliver(self, sender: int, receiver: int) -> Step:
        """Deliver the oldest message from one site to another."""
        queue = self._queues.get((sender, receiver))
        if not queue:
            raise UsageError(f"there is no message from site {sender} to site {receiver}")
        _, message = queue.popleft()
        return self._step(self.sites[receiver], self.sites[receiver].update(message))

    def waiting(self) -> list[tuple[int, int]]:
        """Pairs of sender and receiver with a message in transit."""
        return [pair for pair, queue in self._queues.items() if queue]

    def settle(self) -> list[Step]:
        """Deliver all messages and those they cause, in the order of sending, to their receivers in order."""
        steps: list[Step] = []
        while self._order:
            number, sender, receiver = self._order.popleft()
            queue = self._queues[sender, receiver]
            if queue and queue[0][0] == number:  # else it was delivered before
                steps.append(self.deliver(sender, receiver))
        return steps

    def finish(self) -> list[Step]:
        """End all streams: the sites take turns to let a row expire; messages are delivered at once."""
        steps = self.settle()
        while pending := [site.number for site in self.sites if site.pending]:
            for site in pending:
                if self.sites[site].pending:  # a message may have emptied it meanwhile
                    steps.append(self.expire(site))
                    steps += self.settle()
        return steps

    def run_round_robin(self, table: object) -> PaperRun:
        """Section 6.4: the first row to the first site, the second to the second, and so on in turn, to the end.

        Every message is delivered before the next row arrives.
        """
        given = to_table(table, self._schema.columns)
        rows = Decoder(self._schema, key=_KEY).decode(given).rows
        rows = rows.take(np.flatnonzero(~rows.to_root))
        points = self._space.points(rows.quasi)
        persons = rows.person.tolist()
        values: list[Hashable] = rows.sensitive[:, 0].tolist() if rows.sensitive.shape[1] else [None] * len(persons)
        for number, (person, value) in enumerate(zip(persons, values, strict=True)):
            self._arrive(number % self._policy.sites, points[:, number], person, value)
            self.settle()
        self.finish()
        return self.run(rejected=given.num_rows - len(persons))

    def run(self, *, rejected: int = 0) -> PaperRun:
        """Outcomes of the rows so far."""
        return self._books.close(
            rejected=rejected,
            messages=self.messages,
            bytes=self.bytes,
            most_clusters=max(site.gamma.most for site in self.sites),
        )

    def _arrive(self, site: int, point: Bounds, person: Hashable, value: Hashable) -> Step:
        return self._step(self.sites[site], self.sites[site].receive(point, person, value))

    def _step(self, site: Site, releases: list[Release]) -> Step:
        """Record the releases of a site, and send its messages to every other site."""
        messages, site.outbox = site.outbox, []
        for release in releases:
            self._books.enter(release, site.rows)
        for message in messages:
            self.messages += 1
            self.bytes += self._scale.bytes(message)
            for receiver in range(self._policy.sites):
                if receiver != site.number:
                    self._queues[site.number, receiver].append((self.messages, message))
                    self._order.append((self.messages, site.number, receiver))
        return Step(releases, messages)


def _drawn(seed: int, site: int) -> Chooser:
    """Random choices from a seed, predictable for experiments."""
    random = Random(f"{seed} {site}")
    return lambda purpose, position, n: random.randrange(n)
