"""What a stream and a job ask of the coordinator that agrees with other streams on what they publish together.

A stream that publishes by itself has the null coordinator, `Alone`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from castleguard.algorithms.base import Policy
from castleguard.algorithms.stages import Keys, Stages
from castleguard.books import Tally
from castleguard.release.publisher import Pending
from castleguard.schema.batch_reader import PayloadTypes
from castleguard.schema.coded import Decisions
from castleguard.schema.roles import Schema


class StreamParts(NamedTuple):
    """The parts of a stream that its coordinator works on."""

    schema: Schema
    policy: Policy
    identity: Callable[[], dict[str, Any]]
    """What the streams must have in common, as JSON has it."""
    stages: Stages
    pending: Pending
    payload: PayloadTypes
    tally: Tally
    releasing: Callable[[], AbstractContextManager[None]]
    """Must be entered outside a call of the stream by whatever counts or decides rows."""


class Coordinator(Protocol):
    """Agrees with other streams on rows that are published together."""

    # What a stream asks, in this order: at its beginning,

    def share_keys(self, own: Keys) -> Keys:
        """The keys of a new stream, with those that all streams share."""

    def join(self, stream: StreamParts) -> None:
        """Take part for this stream from now on. Raises PolicyError if its policy cannot be published together."""

    # ... at every call,

    @property
    def step(self) -> int | None:
        """The most rows that may pass between two turns; None: any number."""

    def turn(self, arriving: int, now: float) -> None:
        """Take part, before so many rows arrive; 0 lets time pass."""

    def decided(self, decisions: Decisions) -> None:
        """The engine has decided these groups, and the gate has seen them."""

    def hand_out(self, tables: Sequence[pa.Table]) -> pa.Table:
        """What a call returns: the released tables, at least one, after what was won together with others."""

    def settle(self) -> None:
        """The end of the stream: bring back every row that waits for others."""

    # ... and whenever it counts or keeps its state.

    def oldest(self, own: int) -> int:
        """The position of the oldest pending row; `own` is that of the engine."""

    @property
    def locked(self) -> int:
        """Pending rows that the engine does not hold."""

    def snapshot(self, own: bytes) -> bytes:
        """The snapshot of the stream with what the coordinator must remember."""

    def restore(self, blob: bytes, restore_stream: Callable[[bytes], None]) -> None:
        """Go on from what `snapshot` returned; `restore_stream` restores the part of the stream."""

    # What a job asks.

    @property
    def urgent(self) -> bool:
        """Whether something waits for a commit: it should come soon."""

    def holds_rows(self, waited: float) -> bool:
        """Whether the next rows should wait for a decision, so many seconds after the former ones were read."""

    def committed(self) -> None:
        """All that the stream has handed out is delivered, and a snapshot of after it is on disk."""

    def wind_down(self, now: float, pending: int) -> bool:
        """No more rows come: whether nothing more is gained together before `flush`. If not, time has to pass."""

    @property
    def unsettled(self) -> str | None:
        """After `flush`: why the stream cannot end yet; None if it can."""

    @property
    def traffic(self) -> tuple[int, int]:
        """Messages and bytes sent, since the process began."""


class Alone:
    """The null coordinator: nothing is published together."""

    step: int | None = None
    locked = 0
    urgent = False
    unsettled: str | None = None
    traffic = (0, 0)

    def share_keys(self, own: Keys) -> Keys:
        """As they are."""
        return own

    def join(self, stream: StreamParts) -> None:
        """Nothing to do."""

    def turn(self, arriving: int, now: float) -> None:
        """Nothing to do."""

    def decided(self, decisions: Decisions) -> None:
        """Nothing to do."""

    def hand_out(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The released tables."""
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def settle(self) -> None:
        """Nothing to do."""

    def oldest(self, own: int) -> int:
        """That of the engine."""
        return own

    def snapshot(self, own: bytes) -> bytes:
        """That of the stream."""
        return own

    def restore(self, blob: bytes, restore_stream: Callable[[bytes], None]) -> None:
        """The stream alone."""
        restore_stream(blob)

    def holds_rows(self, waited: float) -> bool:
        """Never."""
        return False

    def committed(self) -> None:
        """Nothing to do."""

    def wind_down(self, now: float, pending: int) -> bool:
        """At once."""
        return True
