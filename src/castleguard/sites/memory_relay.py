"""A relay in memory for simulation and tests, with seeded faults: messages lost, duplicated, delayed or reordered."""

import random
from dataclasses import dataclass, field

from castleguard.errors import UnavailableError


@dataclass(kw_only=True)
class Faults:
    """Faults of the relay. May be changed at any time."""

    loss: float = 0.0
    """Share of messages that are lost."""
    doubled: float = 0.0
    """Share of messages that arrive twice."""
    delay: int = 0
    """Maximum delay of a message in calls of `Relay.pass_time`; delayed messages arrive out of order."""
    away: set[str] = field(default_factory=set)
    """Sites that reach neither the others nor the log."""
    parted: set[frozenset[str]] = field(default_factory=set)
    """Pairs of sites that cannot reach each other."""
    unsure: float = 0.0
    """Share of log writes that succeed but report an error."""


class Relay:
    """Carries the messages of all sites, and keeps the log."""

    def __init__(self, *, seed: int = 0, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.log: dict[str, bytes] = {}
        self.messages = 0
        self.bytes = 0
        self._chance = random.Random(seed)
        self._moment = 0
        self._boxes: dict[str, list[tuple[int, int, bytes]]] = {}
        self._sent = 0

    def join(self, name: str) -> "MemoryTransport":
        """Connect a site, or reconnect it: messages in transit to it still arrive."""
        self._boxes.setdefault(name, [])
        return MemoryTransport(self, name)

    def pass_time(self) -> None:
        """Advance the time by one step."""
        self._moment += 1

    def send(self, sender: str, to: str | None, data: bytes) -> None:
        """See `Transport.send`."""
        for name in [to] if to is not None else [name for name in self._boxes if name != sender]:
            self.messages += 1
            self.bytes += len(data)
            lost = self._chance.random() < self.faults.loss or self._is_parted(sender, name)
            copies = 1 + (self._chance.random() < self.faults.doubled)
            for _ in range(0 if lost else copies):
                self._sent += 1
                due = self._moment + self._chance.randint(0, self.faults.delay)
                self._boxes.setdefault(name, []).append((due, self._sent, data))

    def receive(self, name: str) -> list[bytes]:
        """See `Transport.receive`."""
        if name in self.faults.away:
            return []
        box = self._boxes[name]
        here = sorted(item for item in box if item[0] <= self._moment)
        self._boxes[name] = [item for item in box if item[0] > self._moment]
        return [data for _, _, data in here]

    def decide(self, name: str, release: str, record: bytes) -> bytes:
        """See `Transport.decide`."""
        self._check(name)
        stands = self.log.setdefault(release, record)
        if self._chance.random() < self.faults.unsure:
            raise UnavailableError("the log did not answer")
        return stands

    def decision(self, name: str, release: str) -> bytes | None:
        """See `Transport.decision`."""
        self._check(name)
        return self.log.get(release)

    def waiting(self) -> int:
        """Return the number of messages in transit."""
        return sum(len(box) for box in self._boxes.values())

    def _check(self, name: str) -> None:
        if name in self.faults.away:
            raise UnavailableError("the log cannot be reached")

    def _is_parted(self, one: str, other: str) -> bool:
        return bool({one, other} & self.faults.away) or frozenset((one, other)) in self.faults.parted


class MemoryTransport:
    """See `transport.Transport`."""

    def __init__(self, relay: Relay, name: str) -> None:
        self._relay = relay
        self._name = name

    def send(self, to: str | None, data: bytes) -> None:
        """Send through the relay."""
        self._relay.send(self._name, to, data)

    def receive(self) -> list[bytes]:
        """Receive from the relay."""
        return self._relay.receive(self._name)

    def decide(self, release: str, record: bytes) -> bytes:
        """Write a record to the relay's log."""
        return self._relay.decide(self._name, release, record)

    def decision(self, release: str) -> bytes | None:
        """Read a record from the relay's log."""
        return self._relay.decision(self._name, release)

    def close(self) -> None:
        """Do nothing."""
