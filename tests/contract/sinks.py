"""Adapters through which the suite tests each sink."""

import csv
import gzip
import json
import os
from abc import ABC, abstractmethod
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from castleguard.connectors import files, kafka, nats, stdio
from castleguard.connectors.base import Sink
from castleguard.connectors.kafka.kafka_options import KafkaSinkOptions
from castleguard.connectors.nats.connection import Connection
from castleguard.connectors.registry import Connector
from castleguard.durable import AtomicFile
from castleguard.testing.in_memory import MemoryParts, MemorySink
from tests.integration.broker_kafka import shared_broker
from tests.integration.broker_nats import NatsBroker
from tests.integration.forwarding import ForwardingProducer
from tests.patience import PATIENCE


class Killed(BaseException):
    """Stands for the death of the process."""


class SinkAdapter(ABC):
    """One kind of sink, and a view of its visible rows."""

    exactly_once = True
    typed = False
    """Whether the types of columns are kept."""
    moments: ClassVar[tuple[str, ...]] = ()
    """Moments at which a delivery can die."""

    def __init__(self, folder: Path) -> None:
        """`folder` is empty and may be used for storage."""
        self.folder = folder

    @abstractmethod
    def open(self) -> Sink:
        """A new sink for the same output."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """The visible rows, in order. Values of a sink without types may be text."""

    def die_at(self, moment: str, patch: pytest.MonkeyPatch) -> None:
        """Make the next delivery raise Killed at one of the moments, without any cleanup."""
        raise NotImplementedError

    def close(self) -> None:
        """Release all resources."""
        return


class FileSinkAdapter(SinkAdapter):
    """A folder of parts."""

    moments = (
        "half written",
        "before the bytes are on the disk",
        "before it is renamed",
        "after it is renamed",
        "before the folder is on the disk",
        "when all is done",
    )

    def __init__(self, folder: Path, connector: Connector, **options: Any) -> None:
        super().__init__(folder)
        self.connector = connector
        self.options = options
        self.typed = connector in (files.PARQUET, files.ARROW)

    def open(self) -> Sink:
        assert self.connector.open_sink is not None
        assert self.connector.sink_options is not None
        return self.connector.open_sink(self.connector.sink_options(path=self.folder / "out", **self.options))

    def rows(self) -> list[dict[str, Any]]:
        return [row for path in sorted((self.folder / "out").glob("part-*")) for row in rows_of(path)]

    def die_at(self, moment: str, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(AtomicFile, "discard", _only_close)
        match self.moments.index(moment):
            case 0:
                patch.setattr(AtomicFile, "commit", _cut_and_die)
            case 1:
                _die_at_call(patch, "fsync", 1, before=True)
            case 2:
                _die_at_call(patch, "replace", 1, before=True)
            case 3:
                _die_at_call(patch, "replace", 1, before=False)
            case 4:
                _die_at_call(patch, "fsync", 2, before=True)
            case _:
                _die_at_call(patch, "fsync", 2, before=False)


class StdoutAdapter(SinkAdapter):
    """A file that stands for the other end of a pipe."""

    exactly_once = False

    def __init__(self, folder: Path, format: Literal["csv", "jsonl"]) -> None:
        super().__init__(folder)
        self.format = format
        self.path = folder / f"received.{format}"
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)

    def open(self) -> Sink:
        return stdio.StdoutSink(stdio.StdoutOptions(format=self.format), self.descriptor)

    def rows(self) -> list[dict[str, Any]]:
        # Every process writes its own header.
        return [row for row in rows_of(self.path) if list(row) != list(row.values())]

    def close(self) -> None:
        os.close(self.descriptor)


class NatsSinkAdapter(SinkAdapter):
    """A subject of a private server; a segment is a batch of messages."""

    moments: ClassVar[tuple[str, ...]] = (
        "before anything is sent",
        "half sent",
        "before the last is sent",
        "when all is done",
    )

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder)
        self.options = options
        self.typed = options.get("format") == "arrow"
        self.sinks: list[nats.NatsSink] = []
        self.broker = NatsBroker(folder)
        self.broker.start()
        self.broker.make_stream("out", "out", allow_atomic=True)

    def open(self) -> Sink:
        options = nats.NatsSinkOptions(
            servers=self.broker.url, stream="out", subject="out", timeout=PATIENCE, **self.options
        )
        self.sinks.append(nats.open_sink(options))
        return self.sinks[-1]

    def rows(self) -> list[dict[str, Any]]:
        payloads = [message.data for message in self.broker.messages("out")]
        if self.typed:
            return [row for payload in payloads for row in pa.ipc.open_stream(payload).read_all().to_pylist()]
        return [json.loads(line) for payload in payloads for line in payload.splitlines()]

    def die_at(self, moment: str, patch: pytest.MonkeyPatch) -> None:
        """A segment of three rows is three messages: two requests, and one message between them without an answer."""
        last = 1 + self.moments.index(moment)
        calls = 0

        def dying(real: Any) -> Any:
            async def sending(connection: Connection, subject: str, *arguments: Any, **more: Any) -> Any:
                nonlocal calls
                calls += not subject.startswith("$JS")
                if calls == last:
                    raise Killed
                answer = await real(connection, subject, *arguments, **more)
                if calls == 3:
                    raise Killed
                return answer

            return sending

        patch.setattr(Connection, "request", dying(Connection.request))
        patch.setattr(Connection, "publish", dying(Connection.publish))

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()
        self.broker.kill()


class KafkaSinkAdapter(SinkAdapter):
    """A topic of a broker that all tests share; a segment is a transaction."""

    moments: ClassVar[tuple[str, ...]] = (
        "before anything is sent",
        "before the number is sent",
        "before the commit",
        "when all is done",
    )

    def __init__(self, folder: Path, format: Literal["json", "arrow"] = "json") -> None:
        super().__init__(folder)
        self.format = format
        self.typed = format == "arrow"
        self.broker = shared_broker()
        self.topic = self.broker.topic()
        self.sinks: list[Sink] = []
        self.dead: list[Any] = []

    def open(self) -> Sink:
        options = KafkaSinkOptions(
            brokers=self.broker.address, topic=self.topic, format=self.format, transactional_id=self.topic
        )
        self.sinks.append(kafka.open_sink(options))
        return self.sinks[-1]

    def rows(self) -> list[dict[str, Any]]:
        payloads = [message.value() or b"" for message in self.broker.messages(self.topic)]
        if self.typed:
            return [row for payload in payloads for row in pa.ipc.open_stream(payload).read_all().to_pylist()]
        return [json.loads(payload) for payload in payloads]

    def die_at(self, moment: str, patch: pytest.MonkeyPatch) -> None:
        connect = kafka.KafkaSink._connect

        def connect_dying(sink: kafka.KafkaSink) -> None:
            connect(sink)
            sink._producer = cast(Any, _DyingProducer(sink._producer, self.moments.index(moment)))

        def leave(sink: kafka.KafkaSink) -> None:
            """A dying process aborts nothing: its producer stays as it is."""
            self.dead.append(sink._producer)
            sink._producer = None

        patch.setattr(kafka.KafkaSink, "_connect", connect_dying)
        patch.setattr(kafka.KafkaSink, "_drop_producer", leave)

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()


class _DyingProducer(ForwardingProducer):
    """A producer up to a moment of a delivery."""

    def __init__(self, producer: Any, moment: int) -> None:
        super().__init__(producer)
        self._moment = moment

    def begin_transaction(self) -> None:
        self._producer.begin_transaction()
        if self._moment == 0:
            raise Killed

    def send_offsets_to_transaction(self, *args: Any) -> None:
        assert self._producer.flush(20) == 0
        if self._moment == 1:
            raise Killed
        self._producer.send_offsets_to_transaction(*args)

    def commit_transaction(self, *args: Any) -> None:
        if self._moment == 2:
            raise Killed
        self._producer.commit_transaction(*args)
        raise Killed


class SingleNatsSinkAdapter(NatsSinkAdapter):
    """The same with segments of one message, which need no batch."""

    moments = ("before anything is sent", "when all is done")

    def die_at(self, moment: str, patch: pytest.MonkeyPatch) -> None:
        real = Connection.request

        async def sending(connection: Connection, subject: str, *arguments: Any) -> Any:
            publishing = not subject.startswith("$JS")
            if publishing and moment == self.moments[0]:
                raise Killed
            answer = await real(connection, subject, *arguments)
            if publishing:
                raise Killed
            return answer

        patch.setattr(Connection, "request", sending)


class MemorySinkAdapter(SinkAdapter):
    """The sink of the test kit."""

    typed = True
    moments = ("before", "after")

    def __init__(self, folder: Path, exactly_once: bool = True) -> None:
        super().__init__(folder)
        self.exactly_once = exactly_once
        self.parts = MemoryParts()
        self.dies_at: str | None = None

    def open(self) -> Sink:
        return MemorySink(self.parts, exactly_once=self.exactly_once, happens=self.happens)

    def rows(self) -> list[dict[str, Any]]:
        return [row for _, table in self.parts.delivered for row in table.to_pylist()]

    def happens(self, moment: str, number: int) -> None:
        if moment == self.dies_at:
            raise Killed

    def die_at(self, moment: str, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(self, "dies_at", moment)


def _die_at_call(patch: pytest.MonkeyPatch, function: str, call: int, *, before: bool) -> None:
    """Die before or after the nth call of a function of `os`."""
    real = getattr(os, function)
    calls = 0

    def dying(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == call and before:
            raise Killed
        real(*args)
        if calls == call:
            raise Killed

    patch.setattr(os, function, dying)


def _cut_and_die(part: AtomicFile) -> None:
    """Half of the bytes never reached the disk."""
    part.file.close()
    part._raw.close()
    os.truncate(part._hidden, os.stat(part._hidden).st_size // 2)
    raise Killed


def _only_close(part: AtomicFile) -> None:
    """A dying process closes its files and removes nothing."""
    part.file.close()
    part._raw.close()


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, read without the package."""
    if path.suffix == ".parquet":
        return cast(list[dict[str, Any]], pq.read_table(path).to_pylist())
    if path.suffix == ".arrow":
        return cast(list[dict[str, Any]], pa.ipc.open_file(path.read_bytes()).read_all().to_pylist())
    content = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
    if ".jsonl" in path.name:
        return [json.loads(line) for line in content.splitlines()]
    return list(csv.DictReader(content.splitlines()))


SINKS: dict[str, "partial[Any]"] = {
    "csv": partial(FileSinkAdapter, connector=files.CSV),
    "csv-gzip": partial(FileSinkAdapter, connector=files.CSV, gzip=True),
    "jsonl": partial(FileSinkAdapter, connector=files.JSONL),
    "jsonl-gzip": partial(FileSinkAdapter, connector=files.JSONL, gzip=True),
    "parquet": partial(FileSinkAdapter, connector=files.PARQUET),
    "arrow": partial(FileSinkAdapter, connector=files.ARROW),
    "stdout-csv": partial(StdoutAdapter, format="csv"),
    "stdout-jsonl": partial(StdoutAdapter, format="jsonl"),
    "nats": partial(NatsSinkAdapter),
    "nats-packed": partial(SingleNatsSinkAdapter, rows_per_message=100),
    "nats-arrow": partial(SingleNatsSinkAdapter, format="arrow"),
    "kafka": partial(KafkaSinkAdapter),
    "kafka-arrow": partial(KafkaSinkAdapter, format="arrow"),
    "memory": partial(MemorySinkAdapter),
    "memory-at-least-once": partial(MemorySinkAdapter, exactly_once=False),
}
"""Every sink under test by name; each makes a SinkAdapter from an empty folder."""


def moments_of(make: "partial[Any]") -> tuple[str, ...]:
    """Moments at which a delivery of this sink can die."""
    moments: tuple[str, ...] = getattr(make.func, "moments")  # noqa: B009 (to mypy, a function)
    return moments
