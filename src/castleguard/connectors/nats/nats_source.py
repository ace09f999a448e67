"""Rows from the messages of a stream.

The position is the stream sequence of the next message. Messages are fetched by a consumer that is created at that
sequence, acknowledges nothing, and is deleted by the server soon after the job is gone: no state of the server can
disagree with the checkpoint.
"""

import asyncio
from collections.abc import Sequence

from castleguard.connectors.base import BadRow, Position, Read
from castleguard.connectors.nats.connection import Connection, RefusedError
from castleguard.connectors.nats.consumer import Consumer, Message
from castleguard.connectors.nats.nats_options import NatsSourceOptions
from castleguard.connectors.nats.stream_state import NO_MESSAGE, Stream, look_up, translated
from castleguard.connectors.payloads import read_payloads
from castleguard.errors import InputError

SKIP_SECONDS = 10.0


class NatsSource:
    """The messages of a stream in their order, without end."""

    finished = False

    def __init__(self, options: NatsSourceOptions, columns: Sequence[str], connection: Connection) -> None:
        self._options = options
        self._columns = list(columns)
        self._connection = connection
        self._created = ""
        self._next = 1
        self._consumer: Consumer | None = None
        self._skipped_at = 0.0

    def read(self, timeout: float) -> Read | None:
        """The rows of the messages that have arrived."""
        try:
            messages = self._connection.run(self._fetch(timeout))
            if not messages:
                return None
            read = self._rows_of(messages)
        except BaseException:
            # A new consumer redelivers the messages that this one delivered without effect.
            if self._consumer is not None:
                self._consumer.broken = True
                self._consumer.take()
            raise
        self._next = messages[-1].sequence + 1
        return read

    def position(self) -> Position:
        """Sequence of the next message, and identity of the stream: another one may get the same name."""
        return {"stream": self._options.stream, "created": self._created, "sequence": self._next}

    def acknowledge(self, position: Position) -> None:
        """Do nothing: the stream keeps messages by its own limits."""

    def lag(self) -> int | None:
        """Number of messages, not rows, that were waiting when the last one arrived."""
        return None if self._consumer is None else self._consumer.waiting + len(self._consumer.arrived)

    def close(self) -> None:
        """Disconnect. The server deletes the consumer by itself."""
        self._connection.close()

    async def begin(self, position: Position | None) -> None:
        """Find the stream and the first message to read."""
        stream = await self._look_up()
        retention = stream.config.get("retention", "limits")
        if retention != "limits":
            raise InputError(
                f"stream {self._options.stream!r} keeps messages only until they are acknowledged (retention "
                f"{retention}), so nothing could be read again after a crash; let a stream with retention limits "
                "source or mirror it, and read that"
            )
        self._created = stream.created
        if not position:
            self._next = stream.last + 1 if self._options.start == "now" else stream.first
            return
        name, created, self._next = _checked(position)
        if (name, created) != (self._options.stream, stream.created):
            raise InputError(
                f"the position is one of stream {name!r}, created at {created}, but {self._options.stream!r} was "
                f"created at {stream.created}: it is another stream"
            )
        if self._next > stream.last + 1:
            raise InputError(
                f"stream {name!r} ends at {stream.last}, before the position {self._next}: it has lost messages that "
                "were read already"
            )
        self._refuse_deleted(stream.first)

    def _rows_of(self, messages: Sequence[Message]) -> Read:
        name = self._options.stream
        payloads = [message.payload for message in messages]
        found = read_payloads(
            self._options.format, payloads, self._columns, self._options.columns, self._options.fields
        )

        def place(row: int) -> str:
            return f"{name} {messages[int(found.message[row])].sequence}"

        bad = tuple(BadRow(f"{name} {messages[one.place].sequence}", one.reason, one.raw) for one in found.bad)
        return Read(found.rows, place, bad)

    async def _look_up(self) -> Stream:
        return await look_up(self._connection, self._options.stream)

    def _refuse_deleted(self, first: int) -> None:
        if self._next < first and not self._options.skip_deleted:
            raise InputError(
                f"stream {self._options.stream!r} begins at {first}, after the position {self._next}: its limits "
                "deleted messages before they were read; raise the limits, and set skip_deleted to skip them"
            )

    async def _fetch(self, timeout: float) -> list[Message]:
        """The messages that have arrived. Requests more at once, which arrive while these are processed."""
        consumer = self._consumer
        if consumer is None or (consumer.ended and not consumer.arrived):
            if consumer is not None:
                await consumer.leave()
            consumer = self._consumer = await self._consume()
        if not consumer.arrived:
            await consumer.ask()
        await consumer.wait(timeout)
        messages = consumer.take()
        if messages:
            await self._refuse_gap(messages)
            await consumer.ask()
        elif timeout and not consumer.ended:
            await self._skip_other_subjects()
        return messages

    async def _consume(self) -> Consumer:
        stream = await self._look_up()
        if stream.created != self._created:
            raise InputError(f"stream {self._options.stream!r} was deleted and created again while it was read")
        self._refuse_deleted(stream.first)
        try:
            return await Consumer.make(self._connection, self._options, self._next)
        except RefusedError as exc:
            raise translated(exc, self._connection) from exc

    async def _refuse_gap(self, messages: Sequence[Message]) -> None:
        """Refuse a gap in the sequences if the limits of the stream have overtaken the job.

        Any other gap is a deleted message, or one of another subject.
        """
        if messages[-1].sequence - self._next + 1 != len(messages) and not self._options.skip_deleted:
            present = {message.sequence for message in messages}
            missing = next(number for number in range(self._next, messages[-1].sequence) if number not in present)
            first = (await self._look_up()).first
            if missing < first:
                raise InputError(
                    f"stream {self._options.stream!r} now begins at {first}, and {missing} was not read: its limits "
                    "deleted messages before they were read; raise the limits, and set skip_deleted to skip them"
                )

    async def _skip_other_subjects(self) -> None:
        """Skip messages of other subjects while none of ours arrive: once deleted, they would look like lost ones."""
        now = asyncio.get_running_loop().time()
        if self._options.subject is None or now < self._skipped_at + SKIP_SECONDS:
            return
        self._skipped_at = now
        last = (await self._look_up()).last
        request = {"seq": self._next, "next_by_subj": self._options.subject}
        try:
            await self._connection.ask(f"STREAM.MSG.GET.{self._options.stream}", request)
        except RefusedError as exc:
            if exc.code == NO_MESSAGE:
                self._next = max(self._next, last + 1)


def _checked(position: Position) -> tuple[str, str, int]:
    name, created, sequence = (position.get(key) for key in ("stream", "created", "sequence"))
    if not (isinstance(name, str) and isinstance(created, str) and isinstance(sequence, int) and sequence > 0):
        raise InputError("the position is not one of a NATS stream")
    return name, created, sequence
