"""Coordinator: the contract between a stream, its job, and the negotiation of joint releases with other streams.

A stream that publishes alone has the null coordinator, `Alone`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from castleguard.algorithms.policy import Policy
from castleguard.algorithms.stages import Keys, Stages
from castleguard.books import Tally
from castleguard.release.publisher import Pending
from castleguard.schema.batch_reader import PayloadTypes
from castleguard.schema.coded import Decisions
from castleguard.schema.roles import Schema


class StreamParts(NamedTuple):
    """The parts of a stream that its coordinator uses."""

    schema: Schema
    policy: Policy
    identity: Callable[[], dict[str, Any]]
    """Returns what all streams must share, as JSON values."""
    stages: Stages
    pending: Pending
    payload: PayloadTypes
    tally: Tally
    releasing: Callable[[], AbstractContextManager[None]]
    """Guards code that counts or decides rows outside a call of the stream."""


class Coordinator(Protocol):
    """Negotiates joint releases with other streams."""

    # Called by a stream, in this order. When it is constructed:

    def share_keys(self, own: Keys) -> Keys:
        """Return the keys of a new stream, with shared ones in place of its own where all streams need the same."""

    def join(self, stream: StreamParts) -> None:
        """Attach to the stream. Raises PolicyError if its policy does not support joint releases."""

    # At every call:

    @property
    def step(self) -> int | None:
        """Maximum number of rows between two turns; None: no limit."""

    def turn(self, arriving: int, now: float) -> None:
        """Take part in the negotiation before `arriving` rows are pushed; 0 for a tick."""

    def decided(self, decisions: Decisions) -> None:
        """Observe the engine's decisions, after the gate has."""

    def hand_out(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Return the result of a call: rows of joint releases, then the tables of the stream (at least one)."""

    def settle(self) -> None:
        """Before a flush: return every locked row to the engine."""

    # For books and snapshots:

    def oldest(self, own: int) -> int:
        """Return the position of the oldest pending row; `own`: the oldest in the engine."""

    @property
    def locked(self) -> int:
        """Number of pending rows outside the engine, locked for joint releases."""

    def snapshot(self, own: bytes) -> bytes:
        """Return the stream's snapshot together with the coordinator's state."""

    def restore(self, blob: bytes, restore_stream: Callable[[bytes], None]) -> None:
        """Restore the result of `snapshot`; `restore_stream` restores the stream's own snapshot."""

    # Called by a job:

    @property
    def urgent(self) -> bool:
        """Whether a message or a decision waits for the next commit."""

    def holds_rows(self, waited: float) -> bool:
        """Whether the next read should wait for a decision, `waited` seconds after the latest one."""

    def committed(self) -> None:
        """Note that all returned rows are delivered, and that a later snapshot is stored."""

    def wind_down(self, now: float, pending: int) -> bool:
        """After the last row: whether to flush now. If not, call again later: joint releases are still worthwhile."""

    @property
    def unsettled(self) -> str | None:
        """After `flush`: why the stream cannot end yet; None if it can."""

    @property
    def traffic(self) -> tuple[int, int]:
        """Messages and bytes sent since the process started."""


class Alone:
    """The null coordinator, of a stream that publishes alone."""

    step: int | None = None
    locked = 0
    urgent = False
    unsettled: str | None = None
    traffic = (0, 0)

    def share_keys(self, own: Keys) -> Keys:
        """Return the stream's own keys."""
        return own

    def join(self, stream: StreamParts) -> None:
        """Do nothing."""

    def turn(self, arriving: int, now: float) -> None:
        """Do nothing."""

    def decided(self, decisions: Decisions) -> None:
        """Do nothing."""

    def hand_out(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Return the tables as one."""
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def settle(self) -> None:
        """Do nothing."""

    def oldest(self, own: int) -> int:
        """Return the oldest in the engine."""
        return own

    def snapshot(self, own: bytes) -> bytes:
        """Return the stream's snapshot."""
        return own

    def restore(self, blob: bytes, restore_stream: Callable[[bytes], None]) -> None:
        """Restore the stream."""
        restore_stream(blob)

    def holds_rows(self, waited: float) -> bool:
        """Return False: no decision is awaited."""
        return False

    def committed(self) -> None:
        """Do nothing."""

    def wind_down(self, now: float, pending: int) -> bool:
        """Return True: flush at once."""
        return True
