"""A dry run: a source that is never acknowledged, and a sink that keeps nothing."""

from typing import cast, get_args

import pyarrow as pa

from castleguard.config.job_model import Endpoint, JobFile
from castleguard.connectors.base import Position, Source
from castleguard.connectors.formats import Format
from castleguard.connectors.holding import check_held
from castleguard.jobs.endpoints import open_source


class Nowhere:
    """A sink that keeps nothing: for a dry run."""

    exactly_once = True
    longest_row = None

    def __init__(self, sink: Endpoint) -> None:
        """In place of a sink, whose format it knows."""
        format = getattr(sink.options, "format", sink.type)
        self._format = "jsonl" if format == "json" else format

    def last(self) -> int:
        """Nothing is there."""
        return 0

    def check(self, columns: pa.Schema) -> None:
        """Refuse what the format of the real sink cannot hold."""
        if self._format in get_args(Format):
            check_held(columns, cast(Format, self._format), "the sink")

    def deliver(self, number: int, table: pa.Table) -> None:
        """Forget it."""

    def close(self) -> None:
        """Nothing to let go of."""


class _Quiet:
    """A source that is not told what was read: its broker keeps no mark of a dry run."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.read, self.position, self.lag, self.close = source.read, source.position, source.lag, source.close

    @property
    def finished(self) -> bool:
        return self._source.finished

    def acknowledge(self, position: Position) -> None:
        """Keep it to ourselves."""


def open_quietly(job: JobFile, position: Position | None) -> Source:
    """The source, without acknowledgements."""
    return _Quiet(open_source(job, position))
