"""Adapters through which the suite tests each source."""

import gzip
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from castleguard.connectors import files, kafka, nats, stdio
from castleguard.connectors.base import Position, Read, Source
from castleguard.connectors.formats import open_writer
from castleguard.connectors.kafka.kafka_options import KafkaSourceOptions
from castleguard.connectors.registry import Connector
from castleguard.testing.in_memory import MemoryLog, MemorySource
from tests.integration.broker_nats import NatsBroker
from tests.integration.mock_kafka import MockCluster
from tests.patience import PATIENCE

COLUMNS = ["text", "number"]
"""The declared columns. The stored data may have others, in another order."""
MOST_READS = 1000  # far more than the rows of the suite


class Row(NamedTuple):
    """One row to be read. Both values are compared as text."""

    number: int
    text: str = "Zanzibar"


class Bad(NamedTuple):
    """An entry that is not a row; `mark` is in its bytes."""

    mark: str


Entry = Row | Bad


class SourceAdapter(ABC):
    """One kind of source, and a way to give it entries."""

    replays = True
    """Whether a position can be restored."""
    ends = True
    """Whether it finishes when all entries have been read."""
    grows = False
    """Whether entries added while it is open are read."""
    holds_bad = False
    """Whether it can hold bad entries."""
    quiet_seconds = 0.0
    """Seconds to wait for duplicates after the last entry; 0 if none can be in flight."""

    def __init__(self, folder: Path) -> None:
        """`folder` is empty and may be used for storage."""
        self.folder = folder
        self.ended = False

    @abstractmethod
    def add(self, entries: Sequence[Entry]) -> None:
        """Append entries. Called once before the source is opened, later only if it grows."""

    @abstractmethod
    def open(self, position: Position | None = None) -> Source:
        """A new source at the position, with small reads: the suite needs several for 20 rows."""

    def end(self) -> None:
        """No more entries will be added."""
        self.ended = True

    def close(self) -> None:
        """Release all resources."""
        return


class FileAdapter(SourceAdapter):
    """One file of a format; its ending decides about compression."""

    def __init__(self, folder: Path, connector: Connector, ending: str) -> None:
        super().__init__(folder)
        self.connector = connector
        self.ending = ending
        self.holds_bad = connector in (files.CSV, files.JSONL)

    def add(self, entries: Sequence[Entry]) -> None:
        self.store("rows", entries)

    def open(self, position: Position | None = None) -> Source:
        return self.open_at(self.folder / f"rows{self.ending}", position)

    def open_at(self, path: Path, position: Position | None, *, follow: bool = False) -> Source:
        assert self.connector.open_source is not None
        options = files.FileSourceOptions(path=path, follow=follow, batch_rows=3)
        return self.connector.open_source(options, COLUMNS, position)

    def store(self, name: str, entries: Sequence[Entry]) -> None:
        """Write a file under another name first, as a producer should."""
        hidden = self.folder / f".{name}{self.ending}"
        if self.holds_bad:
            content = (as_csv if self.connector is files.CSV else as_jsonl)(entries)
            hidden.write_bytes(gzip.compress(content) if self.ending.endswith(".gz") else content)
        else:
            rows = [entry for entry in entries if isinstance(entry, Row)]
            writer = open_writer(hidden)
            numbers, texts = [row.number for row in rows], [row.text for row in rows]
            writer.write(pa.table({"number": numbers, "other": [0.5] * len(rows), "text": texts}))
            writer.close()
        os.rename(hidden, self.folder / f"{name}{self.ending}")


class FolderAdapter(FileAdapter):
    """A folder with four entries per file."""

    follow = False

    def __init__(self, folder: Path, connector: Connector, ending: str) -> None:
        super().__init__(folder, connector, ending)
        self.stored = 0

    def add(self, entries: Sequence[Entry]) -> None:
        for start in range(0, len(entries), 4):
            self.stored += 1
            self.store(f"{self.stored:03d}", entries[start : start + 4])

    def open(self, position: Position | None = None) -> Source:
        return self.open_at(self.folder, position, follow=self.follow)


class PatternAdapter(FolderAdapter):
    """The same with a pattern, beside a file that does not match."""

    def open(self, position: Position | None = None) -> Source:
        (self.folder / "readme.md").write_text("something else")
        return self.open_at(self.folder / "0*", position)


class FollowedAdapter(FolderAdapter):
    """A folder that is followed."""

    follow = True
    ends = False
    grows = True


class StdinAdapter(SourceAdapter):
    """A pipe."""

    replays = False
    grows = True
    holds_bad = True
    quiet_seconds = 0.1

    def __init__(self, folder: Path, render: Callable[..., bytes]) -> None:
        super().__init__(folder)
        self.render = render
        self.read_end, self.write_end = os.pipe()
        self.begun = False

    def add(self, entries: Sequence[Entry]) -> None:
        os.write(self.write_end, self.render(entries, header=not self.begun))
        self.begun = True

    def open(self, position: Position | None = None) -> Source:
        options = stdio.StdinOptions(format="csv" if self.render is as_csv else "jsonl", batch_rows=3)
        return stdio.StdinSource(options, COLUMNS, self.read_end)

    def end(self) -> None:
        super().end()
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def close(self) -> None:
        self.end()  # the end that is read stays open: its thread may still be about to read


class MemoryAdapter(SourceAdapter):
    """The source of the test kit."""

    grows = True
    holds_bad = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.log = MemoryLog(pa.schema([("text", pa.string()), ("number", pa.int64())]))

    def add(self, entries: Sequence[Entry]) -> None:
        waiting: list[dict[str, Any]] = []
        for entry in [*entries, None]:
            if isinstance(entry, Row):
                waiting.append(entry._asdict())
                continue
            self.log.add(pa.Table.from_pylist(waiting, self.log.schema))
            waiting = []
            if entry is not None:
                self.log.add_bad(entry.mark.encode())

    def open(self, position: Position | None = None) -> Source:
        return MemorySource(self.log, position, batch_rows=3)

    def end(self) -> None:
        super().end()
        self.log.ended = True


class MessageAdapter(SourceAdapter):
    """A broker, with one entry per message."""

    ends = False
    grows = True
    holds_bad = True
    quiet_seconds = 0.2

    @abstractmethod
    def publish(self, messages: Sequence[bytes]) -> None:
        """Append messages."""

    def add(self, entries: Sequence[Entry]) -> None:
        self.publish(as_jsonl(entries).splitlines())


class NatsAdapter(MessageAdapter):
    """A stream of a private server."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.broker = NatsBroker(folder)
        self.broker.start()
        self.broker.make_stream("rows", "rows")

    def publish(self, messages: Sequence[bytes]) -> None:
        self.broker.publish("rows", messages)

    def open(self, position: Position | None = None) -> Source:
        options = nats.NatsSourceOptions(servers=self.broker.url, stream="rows", batch_messages=3, timeout=PATIENCE)
        return nats.open_source(options, COLUMNS, position)

    def close(self) -> None:
        self.broker.kill()


class KafkaAdapter(MessageAdapter):
    """A topic of a mock cluster, with rows in one partition."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cluster = MockCluster()

    def publish(self, messages: Sequence[bytes]) -> None:
        self.cluster.write("rows", messages, partition=1)

    def open(self, position: Position | None = None) -> Source:
        options = KafkaSourceOptions(brokers=self.cluster.address, topic="rows", batch_messages=3)
        return kafka.open_source(options, COLUMNS, position)


def as_csv(entries: Sequence[Entry], *, header: bool = True) -> bytes:
    """A CSV file with an undeclared column; a bad line has one value too many."""
    lines = ["number,other,text"] if header else []
    for entry in entries:
        lines.append(f"{entry.number},0.5,{entry.text}" if isinstance(entry, Row) else f"1,2,{entry.mark},3")
    return "".join(line + "\n" for line in lines).encode()


def as_jsonl(entries: Sequence[Entry], *, header: bool = True) -> bytes:
    """JSON lines; a bad line is not closed."""
    lines = [
        json.dumps({**entry._asdict(), "other": 0.5}) if isinstance(entry, Row) else f'{{"text": "{entry.mark}"'
        for entry in entries
    ]
    return "".join(line + "\n" for line in lines).encode()


def entries_in(reads: Sequence[Read]) -> int:
    """Number of rows and bad entries that were read."""
    return sum(read.rows.num_rows + len(read.bad) for read in reads)


def read_one(adapter: SourceAdapter, source: Source, left: int) -> Read | None:
    """The next read. Waits while `left` entries or the end are still expected."""
    comes = left > 0 or (adapter.ends and adapter.ended)
    return source.read(PATIENCE if comes else adapter.quiet_seconds)


def read_all(adapter: SourceAdapter, source: Source, entries: int) -> list[Read]:
    """This many entries, and any that follow: duplicates would arrive at once."""
    found: list[Read] = []
    while not source.finished:
        assert len(found) < MOST_READS, "it never ends"
        read = read_one(adapter, source, entries - entries_in(found))
        if read is not None:
            found.append(read)
        elif not source.finished:
            break
    return found


SOURCES: dict[str, "partial[Any]"] = {
    "csv": partial(FileAdapter, connector=files.CSV, ending=".csv"),
    "csv-other-ending": partial(FileAdapter, connector=files.CSV, ending=".txt"),
    "csv-gzip": partial(FileAdapter, connector=files.CSV, ending=".csv.gz"),
    "csv-folder": partial(FolderAdapter, connector=files.CSV, ending=".csv"),
    "csv-pattern": partial(PatternAdapter, connector=files.CSV, ending=".csv"),
    "csv-followed": partial(FollowedAdapter, connector=files.CSV, ending=".csv"),
    "jsonl": partial(FileAdapter, connector=files.JSONL, ending=".jsonl"),
    "jsonl-gzip": partial(FileAdapter, connector=files.JSONL, ending=".jsonl.gz"),
    "jsonl-followed": partial(FollowedAdapter, connector=files.JSONL, ending=".jsonl"),
    "parquet": partial(FileAdapter, connector=files.PARQUET, ending=".parquet"),
    "parquet-followed": partial(FollowedAdapter, connector=files.PARQUET, ending=".parquet"),
    "arrow": partial(FileAdapter, connector=files.ARROW, ending=".arrow"),
    "arrow-followed": partial(FollowedAdapter, connector=files.ARROW, ending=".arrow"),
    "stdin-csv": partial(StdinAdapter, render=as_csv),
    "stdin-jsonl": partial(StdinAdapter, render=as_jsonl),
    "nats": partial(NatsAdapter),
    "kafka": partial(KafkaAdapter),
    "memory": partial(MemoryAdapter),
}
"""Every source under test by name; each makes a SourceAdapter from an empty folder."""


def sources_that(trait: str) -> list[str]:
    """The names of the sources whose adapters have a trait."""
    return [name for name, make in SOURCES.items() if getattr(make.func, trait)]
