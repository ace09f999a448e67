"""Wire: one site's sealed messages to the others, and its sealed records on the log."""

from collections.abc import Iterator
from typing import Any

from castleguard.errors import SnapshotError, UnavailableError
from castleguard.sites.joint_releases import Verdict
from castleguard.sites.site_membership import Membership
from castleguard.sites.site_messages import Message, Seal, decode, encode
from castleguard.sites.transport import Transport
from castleguard.telemetry.logs import LOG


class Wire:
    """Sends and receives the messages of one site, and reads and writes the log."""

    def __init__(
        self, site: Membership, identity: dict[str, Any], transport: Transport, *, seal: Seal | None = None
    ) -> None:
        """`identity`: what the streams of all sites must share."""
        self.name = site.name
        self.others = site.others
        self.epoch = site.epoch
        self.me: dict[str, Any] = {"sender": site.name, "epoch": site.epoch, "agreed": site.agreement(identity)}
        """The common fields of all messages."""
        self.messages = 0
        self.bytes = 0
        self._transport = transport
        self._seal = seal
        self._names = 0
        self._ignored: set[str] = set()

    def new_name(self) -> str:
        """Return a globally unique name for a release or an offer."""
        self._names += 1
        return f"{self.name}.{self.epoch}.{self._names}"

    def tell(self, to: str | None, message: Message) -> None:
        """Send a message to one site, or to all (None)."""
        self.send(to, self.encoded(message))

    def encoded(self, message: Message) -> bytes:
        """Encode and seal a message."""
        return encode(message, self._seal)

    def send(self, to: str | None, data: bytes) -> None:
        """Send an encoded message."""
        if not self.others:
            return
        receivers = len(self.others) if to is None else 1
        self.messages += receivers
        self.bytes += receivers * len(data)
        self._transport.send(to, data)

    def receive(self) -> Iterator[Message]:
        """Yield the messages of sites with the same agreement."""
        for data in self._transport.receive():
            try:
                message = decode(data, self._seal)
            except SnapshotError as exc:
                LOG.warning("ignoring a message from another site: %s", exc)
                continue
            if message.sender not in self.others:
                continue
            if message.agreed == self.me["agreed"]:
                yield message
            elif message.sender not in self._ignored:
                self._ignored.add(message.sender)
                LOG.warning(
                    "ignoring site %s: its schema, policy, list of sites or key differs; use the same job file at all "
                    "sites",
                    message.sender,
                )

    def decide(self, release: str, verdict: Verdict) -> Verdict:
        """Write a verdict unless one exists; return the one that stands. Raises UnavailableError."""
        record = verdict.to_bytes()
        if self._seal is not None:
            record = self._seal.seal(record, _record_label(release))
        return self._opened(release, self._transport.decide(release, record))

    def decision(self, release: str) -> Verdict | None:
        """Return the verdict that stands, or None. Raises UnavailableError."""
        record = self._transport.decision(release)
        return None if record is None else self._opened(release, record)

    def _opened(self, release: str, record: bytes) -> Verdict:
        """Decode a record. One that cannot be opened counts as an unavailable log."""
        if self._seal is None:
            return Verdict.from_bytes(record)
        try:
            return Verdict.from_bytes(self._seal.open(record, _record_label(release)))
        except SnapshotError as exc:
            LOG.warning("ignoring a record on the log: %s", exc)
            raise UnavailableError("the record on the log cannot be opened") from exc


def _record_label(release: str) -> str:
    return f"the record of release {release}"
