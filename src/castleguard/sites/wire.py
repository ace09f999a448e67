"""How a site speaks to the others and writes on the log: every message says who sends it, and everything is sealed."""

from collections.abc import Iterator
from typing import Any

from castleguard.errors import SnapshotError, UnavailableError
from castleguard.sites.membership import Membership
from castleguard.sites.messages import Message, Seal, decode, encode
from castleguard.sites.releases import Verdict, unique_name
from castleguard.sites.transport import Transport
from castleguard.telemetry.logs import LOG


class Wire:
    """One site's end of it."""

    def __init__(
        self, site: Membership, identity: dict[str, Any], transport: Transport, *, seal: Seal | None = None
    ) -> None:
        """`identity`: what the streams of all sites must have in common."""
        self.name = site.name
        self.others = site.others
        self.epoch = site.epoch
        self.me: dict[str, Any] = {"sender": site.name, "epoch": site.epoch, "agreed": site.agreement(identity)}
        """What every message begins with."""
        self.messages = 0
        self.bytes = 0
        self._transport = transport
        self._seal = seal
        self._named = 0
        self._strangers: set[str] = set()

    def new_name(self) -> str:
        """For a release or an offer: nobody ever gave it."""
        self._named += 1
        return unique_name(self.name, self.epoch, self._named)

    def tell(self, to: str | None, message: Message) -> None:
        """Send a message to a site, or to all."""
        self.send(to, self.encoded(message))

    def encoded(self, message: Message) -> bytes:
        """A message as it travels."""
        return encode(message, self._seal)

    def send(self, to: str | None, data: bytes) -> None:
        """The same, of a message that is made already."""
        if not self.others:
            return
        receivers = len(self.others) if to is None else 1
        self.messages += receivers
        self.bytes += receivers * len(data)
        self._transport.send(to, data)

    def receive(self) -> Iterator[Message]:
        """What has arrived from sites that have agreed on the same."""
        for data in self._transport.receive():
            try:
                message = decode(data, self._seal)
            except SnapshotError as exc:
                LOG.warning("a message from another site was ignored: %s", exc)
                continue
            if message.sender not in self.others:
                continue
            if message.agreed == self.me["agreed"]:
                yield message
            elif message.sender not in self._strangers:
                self._strangers.add(message.sender)
                LOG.warning("%s is not heard: its schema, policy, sites or key are others", message.sender)

    def decide(self, release: str, verdict: Verdict) -> Verdict:
        """Write a verdict unless there is one; the one that stands. Raises UnavailableError."""
        record = verdict.to_bytes()
        if self._seal is not None:
            record = self._seal.seal(record, _record_label(release))
        return self._opened(release, self._transport.decide(release, record))

    def decision(self, release: str) -> Verdict | None:
        """The verdict that stands, if there is one. Raises UnavailableError."""
        record = self._transport.decision(release)
        return None if record is None else self._opened(release, record)

    def _opened(self, release: str, record: bytes) -> Verdict:
        """The verdict in a record; one that cannot be opened is no more use than a log that cannot be reached."""
        if self._seal is None:
            return Verdict.from_bytes(record)
        try:
            return Verdict.from_bytes(self._seal.open(record, _record_label(release)))
        except SnapshotError as exc:
            LOG.warning("a record on the log was ignored: %s", exc)
            raise UnavailableError("the record on the log cannot be opened") from exc


def _record_label(release: str) -> str:
    return f"the record of release {release}"
