"""Transport: carries messages between sites, and keeps the log of decisions.

Correctness rests on the log alone: of two records under one name, the first stands forever. Messages may be lost,
duplicated or reordered.
"""

from typing import Protocol


class Transport(Protocol):
    """Connection of one site to the others."""

    def send(self, to: str | None, data: bytes) -> None:
        """Send to one site, or to all others (None). A message that cannot be sent is lost; never raises."""

    def receive(self) -> list[bytes]:
        """Return the messages received since the last call. Never waits."""

    def decide(self, release: str, record: bytes) -> bytes:
        """Write a record under this name unless one exists; return the record that stands.

        Raises UnavailableError; the record may or may not have been written then.
        """

    def decision(self, release: str) -> bytes | None:
        """Return the record that stands, or None. Raises UnavailableError."""

    def close(self) -> None:
        """Disconnect. May be called twice."""
