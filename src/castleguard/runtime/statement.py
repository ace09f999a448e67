"""The statement of a running job: the epoch that it is in, and what readers of its sink are told."""

from typing import Any, Protocol

from castleguard.checkpoint.store import Checkpoint
from castleguard.connectors.manifest import Manifest
from castleguard.privacy.guarantee import Guarantee
from castleguard.runtime.epochs import Described, Epochs, other_parts, sink_name
from castleguard.telemetry.logs import LOG


class Counted(Protocol):
    """What a statement asks of a stream."""

    def describe(self) -> Described:
        """What tells its output from that of another stream, and what it promises."""

    def take_over(self, carried: bytes) -> list[str]:
        """Go on with the counts of an earlier stream; what differs, if that cannot be."""


class Statement:
    """The epochs of one job; `guarantee` is what is promised in the open one."""

    def __init__(
        self, latest: Checkpoint, stream: Counted, identity: dict[str, Any], manifest: Manifest | None, version: str
    ) -> None:
        """Begin an epoch with a new stream, which counts on the rows of each person if it can; or go on with the one
        that a restored stream belongs to.
        """
        self._epochs = Epochs.of(latest)
        self._sink = sink_name(identity)
        self._manifest = manifest
        self._version = version
        described = stream.describe()
        if latest.snapshot is None or not self._epochs.is_open:
            self._begin(latest, stream, described)
        self.guarantee: Guarantee = self._epochs.together(described)

    def _begin(self, latest: Checkpoint, stream: Counted, described: Described) -> None:
        differing = [] if latest.carried is None else stream.take_over(latest.carried)
        if latest.counts_wiped:
            LOG.warning(
                "rows of a person that were published before do not count any more: their counts were deleted when the "
                "checkpoint lost its key. The statement says what all epochs of the job together promise"
            )
        if differing:
            LOG.warning(
                "rows of a person that were published before do not count any more: another %s than then. The "
                "statement says what all epochs of the job together promise",
                " and another ".join(differing),
            )
        for found in other_parts(self._epochs.manifest(self._sink), described):
            LOG.warning("the sink has %s: name another one to keep them apart", found)
        carried = latest.carried is not None and not differing
        self._epochs.begin(described, version=self._version, sink=self._sink, carried=carried)

    def after(self, part: int | None, ended: str | None) -> dict[str, Any]:
        """The epochs as a commit stores them that publishes `part`, if it does, and ends the open epoch, if it does."""
        return self._epochs.after(part, ended).facts()

    def commit(self, epochs: dict[str, Any]) -> None:
        """A commit has stored what `after` returned."""
        self._epochs = Epochs.load(epochs)

    def write(self, ended: str | None = None) -> None:
        """Tell readers of the sink what was promised for which part: at the start of a process and at the end of an
        epoch, never at a commit. What a process that died could not write is made up for at the next start.
        """
        if self._manifest is not None:
            epochs = self._epochs if ended is None else self._epochs.after(None, ended)
            self._manifest.write(epochs.manifest(self._sink))
