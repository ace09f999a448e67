"""JetStream consumer of a source: delivers the messages of a stream from a sequence on, as many as requested.

It is used on the connection's loop, and replaced after any irregularity: it holds no state worth keeping.
"""

import asyncio
import contextlib
import json
from typing import Any, NamedTuple

from castleguard.connectors.nats.connection import Connection, Inbox
from castleguard.connectors.nats.nats_options import NatsSourceOptions

FETCH_BYTES = 8 << 20
_FETCH_SECONDS = 30.0
_LINGER_SECONDS = 0.05  # for which a read waits for more messages after the first
_FORGET_SECONDS = 60.0  # after which the server deletes an idle consumer


class Message(NamedTuple):
    """One message of a stream."""

    sequence: int
    payload: bytes

    def __repr__(self) -> str:
        """Never its content."""
        return f"Message({self.sequence})"


class Consumer:
    """Messages in their order, without gaps other than those of the stream."""

    def __init__(self, connection: Connection, lost: "asyncio.Future[None]", name: str, batch: int) -> None:
        self.arrived: list[Message] = []
        self.waiting = 0
        """Number of messages in the stream after the last one that arrived."""
        self.broken = False
        self._connection = connection
        self._lost = lost
        self._name = name  # stream.consumer
        self._batch = batch
        self._inbox: Inbox | None = None
        self._delivered = 0
        self._asked: float | None = None  # time of the request whose answer is not complete
        self._left = 0
        self._one = False
        self._news = asyncio.Event()
        lost.add_done_callback(lambda _: self._news.set())

    @classmethod
    async def make(cls, connection: Connection, options: NatsSourceOptions, sequence: int) -> "Consumer":
        """A consumer that begins at `sequence`. Raises RefusedError."""
        config: dict[str, Any] = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": sequence,
            "ack_policy": "none",
            "inactive_threshold": int(_FORGET_SECONDS * 1e9),
            "mem_storage": True,
            "num_replicas": 1,
        }
        if options.subject is not None:
            config["filter_subject"] = options.subject
        lost = await connection.lost()
        made = await connection.ask(
            f"CONSUMER.CREATE.{options.stream}", {"stream_name": options.stream, "config": config}
        )
        consumer = cls(connection, lost, f"{options.stream}.{made['name']}", options.batch_messages)
        consumer.waiting = int(made.get("num_pending", 0))
        consumer._inbox = await connection.subscribe(consumer._on_message)
        return consumer

    @property
    def ended(self) -> bool:
        """Whether no more messages will arrive, so that a new consumer must continue."""
        return self.broken or self._lost.done()

    async def ask(self) -> None:
        """Request more messages, unless a request is open."""
        now = asyncio.get_running_loop().time()
        if self._asked is not None and now > self._asked + _FETCH_SECONDS + 5.0:
            self.broken = True  # not even an empty answer arrived
        if self.ended or self._asked is not None or self._inbox is None:
            return
        self._asked, self._left = now, 1 if self._one else self._batch
        request = {"batch": self._left, "expires": int(_FETCH_SECONDS * 1e9)}
        if not self._one:
            request["max_bytes"] = FETCH_BYTES
        self._one = False
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._name}"
        await self._connection.publish(subject, json.dumps(request).encode(), reply=self._inbox.subject)

    async def wait(self, timeout: float) -> None:
        """Wait for the first message and a little longer for more, or until the consumer has ended."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while not self.arrived and not self.ended and loop.time() < deadline:
            await self._wait_for_news(deadline)
            if not self.arrived:
                await self.ask()
        deadline = min(deadline, loop.time() + _LINGER_SECONDS)
        while self.arrived and self._asked is not None and not self.ended and loop.time() < deadline:
            await self._wait_for_news(deadline)

    def take(self) -> list[Message]:
        """Everything that has arrived."""
        taken, self.arrived = self.arrived, []
        return taken

    async def leave(self) -> None:
        """Unsubscribe."""
        if self._inbox is not None and not self._lost.done():
            with contextlib.suppress(Exception):
                await self._inbox.leave()

    async def _wait_for_news(self, deadline: float) -> None:
        self._news.clear()
        waker = asyncio.get_running_loop().call_at(deadline, self._news.set)
        try:
            await self._news.wait()
        finally:
            waker.cancel()

    async def _on_message(self, message: Any) -> None:
        if not message.reply.startswith("$JS.ACK."):
            self._end_of_answer(message.headers or {})
            return
        sequence, number, waiting = _delivery(message.reply)
        if self.broken or number != self._delivered + 1:
            self.broken = True  # a message was lost on the way
            self._news.set()
            return
        self._delivered, self.waiting = number, waiting
        self.arrived.append(Message(sequence, message.data))
        self._left -= 1
        if not self._left:
            self._asked = None
        if not self._left or len(self.arrived) == 1:
            self._news.set()

    def _end_of_answer(self, headers: dict[str, str]) -> None:
        """Handle the server's reason to stop sending."""
        status, description = headers.get("Status"), headers.get("Description", "").lower()
        self._asked = None
        if "maxbytes" in description:
            self._one = True  # the next message alone exceeds the requested bytes
        elif status not in ("404", "408") and "batch completed" not in description:
            self.broken = True  # the consumer is gone, or moved to another server
        self._news.set()


def _delivery(reply: str) -> tuple[int, int, int]:
    """Sequence in the stream, number of the delivery, and number of waiting messages, from an acknowledgement subject.

    $JS.ACK.stream.consumer.tries.sequence.number.time.waiting; newer servers put domain and account before the stream.
    """
    tokens = reply.split(".")
    start = 5 if len(tokens) == 9 else 7
    return int(tokens[start]), int(tokens[start + 1]), int(tokens[start + 3])
