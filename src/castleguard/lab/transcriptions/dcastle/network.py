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
from dataclasses import dataclass
from random import Random

import numpy as np

from castleguard.errors import UsageError
from castleguard.lab.transcriptions.dcastle.arrived_rows import Rows
from castleguard.lab.transcriptions.dcastle.paper_messages import Message, Release, Scale, Step
from castleguard.lab.transcriptions.dcastle.paper_policy import PaperPolicy
from castleguard.lab.transcriptions.dcastle.paper_site import Chooser, Site
from castleguard.lab.transcriptions.dcastle.space import Bounds, Box, Space
from castleguard.schema.coded import NO_PERSON, CodedRows
from castleguard.schema.decode import Decoder
from castleguard.schema.roles import Schema
from castleguard.schema.table import to_table

_KEY = np.arange(2, dtype=np.uint64)  # key of the hashes: persons must be distinguishable, not hidden


@dataclass(frozen=True, kw_only=True)
class PaperRun:
    """Outcomes of the rows, and their cost."""

    information_loss: float | None
    """Mean over rows and attributes, 0 = published unchanged, 1 = root or suppressed; None: no row."""
    published: int
    """Rows in a generalisation below the root."""
    suppressed: int
    """Rows output at the most general values, the paper's form of suppression."""
    rejected: int
    """Rows that no site got: the schema rejects them, or allows them at the most general values only."""
    groups: int
    """Distinct generalisations over all sites, without the most general one."""
    groups_below_k: int
    """Generalisations with fewer than k persons."""
    groups_below_l: int
    """Generalisations with fewer than l sensitive values."""
    messages: int
    """Messages sent by the sites, without those that the relay forwards."""
    bytes: int
    """Bytes of these messages."""
    most_clusters: int
    """Most clusters of a site at any time: the paper's beta+."""


class Books:
    """Counter for the joint output of all sites, the merged stream of the paper's Figure 1."""

    def __init__(self, policy: PaperPolicy, space: Space) -> None:
        self._policy = policy
        self._space = space
        self._loss = 0.0  # summed over rows and attributes
        self._suppressed = self._rows = 0
        self._persons: dict[Box, set[Hashable]] = {}
        self._values: dict[Box, set[Hashable]] = {}

    def enter(self, release: Release, rows: Rows) -> None:
        """Add one release, with the rows of its site."""
        self._rows += len(release.rows)
        self._loss += release.loss * len(release.rows)
        if release.box == self._space.root:
            self._suppressed += len(release.rows)
            return
        self._persons.setdefault(release.box, set()).update(
            person for row in release.rows if (person := rows.persons[row]) != NO_PERSON
        )
        self._values.setdefault(release.box, set()).update(rows.values[row] for row in release.rows)

    def close(self, *, rejected: int, messages: int, bytes: int, most_clusters: int) -> PaperRun:
        """The numbers so far, with those counted elsewhere."""
        return PaperRun(
            information_loss=self._loss / (self._rows * self._space.columns) if self._rows else None,
            published=self._rows - self._suppressed,
            suppressed=self._suppressed,
            rejected=rejected,
            groups=len(self._persons),
            groups_below_k=sum(len(persons) < self._policy.k for persons in self._persons.values()),
            groups_below_l=sum(len(values) < self._policy.l for values in self._values.values()),
            messages=messages,
            bytes=bytes,
            most_clusters=most_clusters,
        )


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
        self._order: deque[tuple[int, int, int]] = deque()  # number, sender, receiver of each message
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
