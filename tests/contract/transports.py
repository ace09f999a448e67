"""The transports between sites that have to keep the contract, each with a network that a test can cut."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from castleguard.connectors.nats.nats_options import Access
from castleguard.connectors.nats.relay import NatsRelay
from castleguard.errors import UnavailableError
from castleguard.sites.memory_relay import Relay
from castleguard.sites.transport import Transport
from tests.integration.broker_nats import NatsBroker
from tests.patience import PATIENCE, eventually


class TransportAdapter:
    """A network of one kind."""

    def join(self, name: str) -> Transport:
        """Connect a site and return its transport."""
        raise NotImplementedError

    def cut(self) -> None:
        """Disconnect all sites from each other and from the log."""
        raise NotImplementedError

    def mend(self) -> None:
        """Reconnect all sites; they may need a moment to notice."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the resources of the network."""


class MemoryAdapter(TransportAdapter):
    """The relay of tests and simulations."""

    def __init__(self, folder: Path) -> None:
        self.relay = Relay()
        self.names: set[str] = set()

    def join(self, name: str) -> Transport:
        self.names.add(name)
        return self.relay.join(name)

    def cut(self) -> None:
        self.relay.faults.away = set(self.names)

    def mend(self) -> None:
        self.relay.faults.away = set()


class NatsAdapter(TransportAdapter):
    """A server of its own."""

    def __init__(self, folder: Path) -> None:
        self.broker = NatsBroker(folder)
        self.broker.start()
        self.joined: list[NatsRelay] = []

    def join(self, name: str) -> Transport:
        self.joined.append(NatsRelay(Access(servers=self.broker.url, timeout=PATIENCE), "trips", name))
        return self.joined[-1]

    def cut(self) -> None:
        self.broker.kill()

    def mend(self) -> None:
        self.broker.start()

    def close(self) -> None:
        for relay in self.joined:
            relay.close()
        self.broker.kill()


TRANSPORTS: dict[str, Callable[[Path], TransportAdapter]] = {"memory": MemoryAdapter, "nats": NatsAdapter}


def wait_for(transport: Transport, messages: int) -> list[bytes]:
    """So many messages, as soon as they have arrived."""
    found: list[bytes] = []

    def arrived() -> bool:
        found.extend(transport.receive())
        return len(found) >= messages

    eventually(arrived, "messages do not arrive")
    return found


def decided_again(transport: Transport, release: str, record: bytes) -> bytes:
    """A decision as soon as the log is back."""
    found: list[bytes] = []

    def decided() -> bool:
        with suppress(UnavailableError):
            found.append(transport.decide(release, record))
        return bool(found)

    eventually(decided, "it does not come back")
    return found[0]
