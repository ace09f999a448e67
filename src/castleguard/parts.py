"""What a job is made of."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from castleguard.checkpoint.dead_letters import DeadLetters
from castleguard.checkpoint.store import Store
from castleguard.connectors.base import Position, Sink, Source
from castleguard.connectors.manifest import Manifest
from castleguard.stream import Anonymiser


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a job is made of."""

    open_source: Callable[[Position | None], Source]
    """From where to continue; None is the very beginning."""
    make_stream: Callable[[bytes | None], Anonymiser]
    """From a snapshot; None is a new stream."""
    sink: Sink
    store: Store | None = None
    """Without one nothing can be continued: the job runs to its end, and flushes when it is told to stop."""
    letters: DeadLetters | None = None
    """Where rejected rows go; without one they are counted only."""
    max_reject_share: float = 1.0
    """Of all rows since it was started; a job that rejects more stops."""
    identity: dict[str, Any] = field(default_factory=dict)
    """What it reads from and writes to, as JSON can hold it: no other job continues its checkpoint."""
    manifest: Manifest | None = None
    """Where readers of the sink find what was promised for which part."""
    observed: bool = True
    """Whether the sink can be looked at; a dry run has none, and does not wait for the end of a window."""
    close: Callable[[], None] = lambda: None
    """Lets go of what the stream uses besides; called last."""
