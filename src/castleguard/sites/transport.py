"""What carries messages between sites, and the log on which a release is decided.

The log alone has to be right: of two records under one name the first stands for ever. Messages may do what they like.
"""

from typing import Protocol


class Transport(Protocol):
    """How one site reaches the others."""

    def send(self, to: str | None, data: bytes) -> None:
        """Send to one site, or (None) to all others. A message that cannot be sent is lost: nothing is raised."""

    def receive(self) -> list[bytes]:
        """Whatever has arrived since the last call. Never waits."""

    def decide(self, release: str, record: bytes) -> bytes:
        """Write a record under this name unless there is one; the record that stands. Raises UnavailableError, and
        then nobody knows whether it was written."""

    def decision(self, release: str) -> bytes | None:
        """The record that stands, or None. Raises UnavailableError."""

    def close(self) -> None:
        """Leave. May be called twice."""
