"""Parts: the components of a job."""

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
    """The components of a job."""

    open_source: Callable[[Position | None], Source]
    """Opens the source at a position; None: at the beginning."""
    make_stream: Callable[[bytes | None], Anonymiser]
    """Restores a stream from a snapshot; None: creates a new one."""
    sink: Sink
    store: Store | None = None
    """The checkpoint. Without one the job cannot be restored: when it is stopped, it flushes the stream."""
    letters: DeadLetters | None = None
    """The file of rejected rows; without one they are only counted."""
    max_reject_share: float = 1.0
    """The job stops if it rejects a larger share of the rows read since its start."""
    identity: dict[str, Any] = field(default_factory=dict)
    """Identity of source and sink as JSON values: a job refuses the checkpoint of another identity."""
    manifest: Manifest | None = None
    """Maps the parts in the sink to the statements they were published under."""
    observed: bool = True
    """Whether the output can be observed; a dry run is not, and never waits for the end of a window."""
    close: Callable[[], None] = lambda: None
    """Releases further resources of the stream; called last."""
