"""A relay in memory, for simulation and tests: it can lose, double, delay and reorder messages, all by a seed."""

import random
from dataclasses import dataclass, field

from castleguard.errors import UnavailableError


@dataclass(kw_only=True)
class Weather:
    """What happens to messages. May be changed at any time."""

    loss: float = 0.0
    """The share of messages that never arrive."""
    doubled: float = 0.0
    """The share that arrives twice."""
    delay: int = 0
    """Messages arrive after up to so many other moments (`Relay.pass_time`), out of order."""
    away: set[str] = field(default_factory=set)
    """Sites that reach neither the others nor the log."""
    parted: set[frozenset[str]] = field(default_factory=set)
    """Pairs of sites between which nothing passes."""
    unsure: float = 0.0
    """The share of log writes that are done although an error is reported."""


class Relay:
    """All messages, and the log."""

    def __init__(self, *, seed: int = 0, weather: Weather | None = None) -> None:
        self.weather = weather or Weather()
        self.log: dict[str, bytes] = {}
        self.messages = 0
        self.bytes = 0
        self._chance = random.Random(seed)
        self._moment = 0
        self._boxes: dict[str, list[tuple[int, int, bytes]]] = {}
        self._sent = 0

    def join(self, name: str) -> "MemoryTransport":
        """A site comes, or comes back: what is on its way to it still arrives."""
        self._boxes.setdefault(name, [])
        return MemoryTransport(self, name)

    def pass_time(self) -> None:
        """One moment passes."""
        self._moment += 1

    def send(self, sender: str, to: str | None, data: bytes) -> None:
        """See `Transport.send`."""
        for name in [to] if to is not None else [name for name in self._boxes if name != sender]:
            self.messages += 1
            self.bytes += len(data)
            lost = self._chance.random() < self.weather.loss or self._is_parted(sender, name)
            copies = 1 + (self._chance.random() < self.weather.doubled)
            for _ in range(0 if lost else copies):
                self._sent += 1
                due = self._moment + self._chance.randint(0, self.weather.delay)
                self._boxes.setdefault(name, []).append((due, self._sent, data))

    def receive(self, name: str) -> list[bytes]:
        """See `Transport.receive`."""
        if name in self.weather.away:
            return []
        box = self._boxes[name]
        here = sorted(item for item in box if item[0] <= self._moment)
        self._boxes[name] = [item for item in box if item[0] > self._moment]
        return [data for _, _, data in here]

    def decide(self, name: str, release: str, record: bytes) -> bytes:
        """See `Transport.decide`."""
        self._check(name)
        stands = self.log.setdefault(release, record)
        if self._chance.random() < self.weather.unsure:
            raise UnavailableError("the log did not answer")
        return stands

    def decision(self, name: str, release: str) -> bytes | None:
        """See `Transport.decision`."""
        self._check(name)
        return self.log.get(release)

    def waiting(self) -> int:
        """Messages that are on their way."""
        return sum(len(box) for box in self._boxes.values())

    def _check(self, name: str) -> None:
        if name in self.weather.away:
            raise UnavailableError("the log cannot be reached")

    def _is_parted(self, one: str, other: str) -> bool:
        return bool({one, other} & self.weather.away) or frozenset((one, other)) in self.weather.parted


class MemoryTransport:
    """See `transport.Transport`."""

    def __init__(self, relay: Relay, name: str) -> None:
        self._relay = relay
        self._name = name

    def send(self, to: str | None, data: bytes) -> None:
        """Send."""
        self._relay.send(self._name, to, data)

    def receive(self) -> list[bytes]:
        """Receive."""
        return self._relay.receive(self._name)

    def decide(self, release: str, record: bytes) -> bytes:
        """Write unless there is one."""
        return self._relay.decide(self._name, release, record)

    def decision(self, release: str) -> bytes | None:
        """Read."""
        return self._relay.decision(self._name, release)

    def close(self) -> None:
        """Nothing to let go of."""
