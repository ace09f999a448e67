"""The sites of dCASTLE and what connects them (4.1, 4.2), driven step by step so that a run can be repeated.

A schedule is a list of events. Each is one step (reading D28 of `dcastle`): a site takes in a row, lets its oldest row
expire, or takes in the oldest message that another site has sent it. The relay server has no say but to pass
messages on. Between two sites they stay in order; what different sites sent may overtake, as it can with a TCP
connection each.

Bytes are counted once per message a site sends, as Figure 3 has it: 4 for each number (the two of an ID, the size, two
for a continuous generalisation, one for a node of a hierarchy), and for the sensitive attribute 1 for each leaf of
its hierarchy, or 4 for each distinct value if it is continuous, or nothing if there is none. What the relay sends on
to the other sites, and TCP's own bytes, are not counted; the type of a message is not in Figure 3 and not counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from .dcastle import Chooser, Message, Release, Settings, Site
from .measure import Attribute, Box, Categorical, Row

NUMBER_BYTES = 4
ENTRY_BYTES = 1


class Arrive(NamedTuple):
    """A site receives a row. The row's position is set to the site's count; give any."""

    site: int
    row: Row


class Expire(NamedTuple):
    """The oldest row of a site must leave."""

    site: int


class Deliver(NamedTuple):
    """The oldest message from one site to another arrives."""

    sender: int
    receiver: int


Event = Arrive | Expire | Deliver
Schedule = Sequence[Event]


class Step(NamedTuple):
    """One event and everything it caused, in order."""

    event: Event
    releases: list[Release]
    messages: list[Message]


@dataclass
class Traffic:
    """What the sites have sent."""

    messages: int = 0
    bytes: int = 0


class Network:
    """n sites that begin with nothing. `choosers` has one for each site."""

    def __init__(
        self,
        attributes: Sequence[Attribute],
        settings: Settings,
        choosers: Sequence[Chooser],
        *,
        sensitive_leaves: int | None = None,  # None: a_s is continuous, or absent
    ) -> None:
        if len(choosers) != settings.sites:
            raise ValueError(f"{settings.sites} sites need as many choosers, got {len(choosers)}")
        self.attributes = attributes
        self.sites = [Site(x, attributes, settings, choose) for x, choose in enumerate(choosers)]
        self.sensitive_leaves = sensitive_leaves
        self.traffic = Traffic()
        self.steps: list[Step] = []  # everything that has happened
        self.rows: dict[tuple[int, int], Row] = {}  # by site and position there
        pairs = [(i, j) for i in range(settings.sites) for j in range(settings.sites) if i != j]
        self._queues: dict[tuple[int, int], deque[tuple[int, Message]]] = {pair: deque() for pair in pairs}

    # -- driving ---------------------------------------------------------------------------------------------------

    def play(self, event: Event) -> Step:
        """One event."""
        if isinstance(event, Arrive):
            site = self.sites[event.site]
            row = replace(event.row, position=site.arrivals)
            self.rows[site.x, row.position] = row
            releases = site.receive(row)
        elif isinstance(event, Expire):
            site = self.sites[event.site]
            if not site.pending:
                raise ValueError(f"site {event.site} has no row that could expire")
            releases = site.expire_oldest()
        else:
            site = self.sites[event.receiver]
            queue = self._queues[event.sender, event.receiver]
            if not queue:
                raise ValueError(f"there is no message from site {event.sender} to site {event.receiver}")
            releases = site.d_update_clusters(queue.popleft()[1])
        step = Step(event, releases, self._collect(site))
        self.steps.append(step)
        return step

    def run(self, schedule: Schedule) -> list[Step]:
        return [self.play(event) for event in schedule]

    def settle(self) -> list[Step]:
        """Deliver all messages and those they cause: first sent, first delivered, to its receivers in order."""
        steps: list[Step] = []
        while waiting := [(queue[0][0], j, i) for (i, j), queue in self._queues.items() if queue]:
            _, receiver, sender = min(waiting)
            steps.append(self.play(Deliver(sender, receiver)))
        return steps

    def run_at_once(self, events: Iterable[Event]) -> None:
        """Every message is delivered before the next event."""
        for event in events:
            self.play(event)
            self.settle()

    def finish(self) -> None:
        """End all streams (D27): the sites take turns to expire a row, messages are delivered immediately."""
        self.settle()
        while pending := [site.x for site in self.sites if site.pending]:
            for x in pending:
                if self.sites[x].pending:  # a message may have emptied it meanwhile
                    self.run_at_once([Expire(x)])

    def waiting(self) -> list[tuple[int, int]]:
        """Pairs of sender and receiver with a message in transit."""
        return [pair for pair, queue in self._queues.items() if queue]

    def _collect(self, site: Site) -> list[Message]:
        """Take what the site has sent, and address it to every other one."""
        messages, site.outbox = site.outbox, []
        for message in messages:
            self.traffic.messages += 1
            self.traffic.bytes += message_bytes(message, self.attributes, self.sensitive_leaves)
            for (sender, _), queue in self._queues.items():
                if sender == site.x:
                    queue.append((self.traffic.messages, message))
        return messages

    # -- looking at it ---------------------------------------------------------------------------------------------

    @property
    def schedule(self) -> list[Event]:
        """Recorded events, which another network or an engine can replay."""
        return [step.event for step in self.steps]

    @property
    def releases(self) -> list[Release]:
        return [release for step in self.steps for release in step.releases]

    @property
    def messages(self) -> list[Message]:
        return [message for step in self.steps for message in step.messages]

    def published(self) -> dict[Box, set[Hashable]]:
        """Persons published under each generalisation, over all sites: the merged stream of Figure 1."""
        found: dict[Box, set[Hashable]] = {}
        for release in self.releases:
            people = found.setdefault(release.box, set())
            people.update(self.rows[release.site, position].person for position in release.rows)
        return found


def round_robin(rows: Iterable[Row], sites: int) -> list[Event]:
    """Section 6.4: the first row to the first site, the second to the second, and so on in turn."""
    return [Arrive(i % sites, row) for i, row in enumerate(rows)]


def message_bytes(message: Message, attributes: Sequence[Attribute], sensitive_leaves: int | None) -> int:
    """The size of a message, as the module says."""
    numbers = 3  # the site and the number of the ID, and the size
    for attribute in attributes:
        numbers += 1 if isinstance(attribute, Categorical) else 2
    total = 0
    for record in message.clusters:
        total += numbers * NUMBER_BYTES
        if sensitive_leaves is not None:
            total += sensitive_leaves * ENTRY_BYTES
        else:
            total += len(record.values - {None}) * NUMBER_BYTES
    return total
