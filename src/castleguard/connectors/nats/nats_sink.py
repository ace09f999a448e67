"""Segments as messages of one subject.

The headers of a message name its segment and the number of its rows that have arrived with this message, so the last
message of the subject alone shows what has arrived, even in the middle of a segment; the server's deduplication window
is not used. Every publication names the sequence of the last known message, and the server refuses it if that is no
longer the last one. So messages that were sent before a crash and arrive late, or come from a process that should be
dead, are refused. `docs/guides/nats.md` says what readers see meanwhile.
"""

import base64
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from castleguard.connectors.nats.connection import Connection, RefusedError
from castleguard.connectors.nats.nats_options import NatsSinkOptions
from castleguard.connectors.nats.stream_state import NO_MESSAGE, Stream, look_up, translated
from castleguard.connectors.payloads import ARROW_ROWS, check_payloads, write_payloads
from castleguard.errors import OutputError, UnavailableError

SEGMENT = "castleguard-segment"
ROWS = "castleguard-rows"  # "300/1000": 300 of the segment's 1000 rows are in this message and those before it
WRITER = "castleguard-writer"

BATCH_MESSAGES = 1000  # the most that a server takes at once by default
_BATCH_BYTES = 64 << 20
_HEADER_BYTES = 1024  # maximum per message
_ARROW_BYTES = 3072  # the schema of an Arrow message, and padding between its buffers

_WRONG_LAST_SEQUENCE = (10071, 10164)
_BATCH_TOO_LARGE = 10199
_MESSAGE_TOO_LARGE = 10054
_ATOMIC_DISABLED = 10174


class _Tail(NamedTuple):
    """The last message of the subject."""

    sequence: int = 0
    """In the stream; 0: no message."""
    segment: int = 0
    rows: int = 0
    """Number of the segment's rows that have arrived."""
    total: int = 0
    writer: str = ""


@dataclass(frozen=True)
class _Part:
    """A message to be sent."""

    payload: bytes = field(repr=False)
    rows: int
    """Number of the segment's rows that have arrived with it."""


class NatsSink:
    """Segments as messages of one subject, which belongs to this sink alone."""

    exactly_once = True

    @property
    def longest_row(self) -> int | None:
        """The limit of the server or of the stream, whichever is lower."""
        room = self._connection.run(self._connection.max_payload())
        return min(room, self._message_limit or room) - _HEADER_BYTES - _ARROW_BYTES

    def __init__(self, options: NatsSinkOptions, connection: Connection) -> None:
        self._options = options
        self._connection = connection
        self._writer = uuid.uuid4().hex
        self._tail: _Tail | None = None  # the last message that was read or confirmed
        self._stale = True  # whether a later one may exist
        self._expected: dict[str, str] = {}
        self._batch_messages = 1
        self._message_limit: int | None = None  # bytes per message; None: the server's limit
        self._batches = 0

    def last(self) -> int:
        """The last complete segment, from the last message of the subject."""
        tail = self._connection.run(self._refresh())
        return tail.segment if tail.rows == tail.total else tail.segment - 1

    def check(self, columns: pa.Schema) -> None:
        """Check that messages can hold these columns."""
        check_payloads(self._options.format, columns, f"subject {self._options.subject}")

    def deliver(self, number: int, table: pa.Table) -> None:
        """Send the rows that have not arrived yet."""
        try:
            self._connection.run(self._deliver(number, table))
        except BaseException:
            self._stale = True
            raise

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    async def begin(self) -> None:
        """Find the stream and its limits."""
        name, subject = self._options.stream, self._options.subject
        config = (await self._look_up()).config
        retention = config.get("retention", "limits")
        if retention != "limits":
            raise OutputError(
                f"stream {name!r} deletes messages that were read (retention {retention}), so deliveries could not be "
                "verified; write to a stream with retention limits, which others may source"
            )
        if config.get("no_ack"):
            raise OutputError(f"stream {name!r} confirms nothing (no_ack), so deliveries could not be verified")
        try:
            found = await self._connection.ask("STREAM.NAMES", {"subject": subject})
        except RefusedError as exc:
            raise translated(exc, self._connection) from exc
        if name not in (found.get("streams") or []):
            raise OutputError(f"stream {name!r} does not take the subject {subject!r}: add it to the stream's subjects")
        limit = int(config.get("max_msg_size") or -1)
        self._message_limit = limit if limit > 0 else None
        self._batch_messages = BATCH_MESSAGES if config.get("allow_atomic") else 1

    # What has arrived

    async def _look_up(self) -> Stream:
        return await look_up(self._connection, self._options.stream)

    async def _refresh(self) -> _Tail:
        """Read the last message; raise if another process wrote it since the last time."""
        known, tail = self._tail, await self._read_tail()
        self._expected = {"Nats-Expected-Last-Subject-Sequence": str(tail.sequence)}
        if known is None:
            await self._refuse_deleted_history(tail)
        elif known.sequence and not tail.sequence:
            tail = await self._deleted(known)
        elif tail.sequence < known.sequence:
            raise OutputError(
                f"the stream of subject {self._options.subject!r} has lost messages that it had confirmed: the last "
                f"one was {known.sequence} and is {tail.sequence} now"
            )
        elif tail.sequence > known.sequence and tail.writer != self._writer:
            raise OutputError(
                f"another process writes to subject {self._options.subject!r}: this one must stop; a subject "
                "belongs to one job"
            )
        self._tail, self._stale = tail, False
        return tail

    async def _refuse_deleted_history(self, tail: _Tail) -> None:
        """At the start, no message means that nothing was delivered, but only if none was deleted."""
        if not tail.sequence and not self._options.begins_empty and not (await self._look_up()).complete:
            raise OutputError(
                f"subject {self._options.subject!r} has no message, but its stream has deleted some, so earlier "
                "deliveries are unknown; create the stream again, or set begins_empty if the job never wrote to it"
            )

    async def _deleted(self, known: _Tail) -> _Tail:
        """The limits of the stream deleted the last message. It still counts if no message has arrived since."""
        if (await self._look_up()).last != known.sequence:
            raise OutputError(
                f"subject {self._options.subject!r} is empty, so another process may have written to it: its stream "
                "deletes messages too soon; raise its limits, or give the subject its own stream"
            )
        self._expected["Nats-Expected-Last-Sequence"] = str(known.sequence)
        return known

    async def _read_tail(self) -> _Tail:
        subject = self._options.subject
        try:
            answer = await self._connection.ask(f"STREAM.MSG.GET.{self._options.stream}", {"last_by_subj": subject})
        except RefusedError as exc:
            if exc.code == NO_MESSAGE:
                return _Tail()
            raise translated(exc, self._connection) from exc
        message = answer["message"]
        headers = _headers(message.get("hdrs", ""))
        try:
            rows, total = (int(text) for text in headers[ROWS].split("/"))
            return _Tail(int(message["seq"]), int(headers[SEGMENT]), rows, total, headers[WRITER])
        except (KeyError, ValueError) as exc:
            raise OutputError(
                f"the last message of subject {subject!r} is not from a job: a subject belongs to one job alone"
            ) from exc

    def _rows_there(self, tail: _Tail, number: int, total: int) -> int:
        """Number of rows of the segment that have arrived."""
        if tail.segment < number and tail.rows == tail.total:
            return 0
        if tail.segment > number:
            raise OutputError(
                f"subject {self._options.subject!r} already has segment {tail.segment}, and {number} comes too late: "
                "another job writes to it, or the checkpoint is an old copy"
            )
        if tail.segment < number or tail.total != total:
            raise OutputError(
                f"subject {self._options.subject!r} has {tail.rows} of {tail.total} rows of segment {tail.segment}, "
                "which do not belong to this checkpoint: another job writes to it, or the checkpoint is an old copy"
            )
        return tail.rows

    # What is sent

    async def _deliver(self, number: int, table: pa.Table) -> None:
        if self._tail is None or self._stale:
            await self._refresh()
        while (there := self._rows_there(self._tail or _Tail(), number, table.num_rows)) < table.num_rows:
            parts = self._cut(table.slice(there), there, await self._connection.max_payload())
            try:
                await self._send(number, table.num_rows, parts)
            except RefusedError as exc:
                await self._adapt(exc)

    async def _adapt(self, refused: RefusedError) -> None:
        """Adapt to a refused step, of which nothing has arrived. Raises unless a different step may work."""
        if refused.code == _ATOMIC_DISABLED:
            self._batch_messages = 1
        elif refused.code == _BATCH_TOO_LARGE and self._batch_messages > 1:
            self._batch_messages //= 2
        elif refused.code == _MESSAGE_TOO_LARGE:
            raise OutputError(
                f"stream {self._options.stream!r} does not take messages of this size: raise its max_msg_size, or "
                "lower rows_per_message"
            ) from refused
        elif refused.code in _WRONG_LAST_SEQUENCE:
            # A message sent before the connection was lost has arrived after all, or another process writes.
            expected = self._expected
            await self._refresh()
            if self._expected == expected:
                raise UnavailableError(f"{self._connection.where} cannot do it now: {refused}") from refused
        else:
            raise translated(refused, self._connection) from refused

    async def _send(self, number: int, total: int, parts: Iterator[_Part]) -> None:
        """Send all parts in as few steps as the stream allows; each step arrives completely or not at all.

        Raises RefusedError: earlier steps have arrived, this one has not.
        """
        for batch in self._batches_of(parts):
            self._batches += 1
            answer: dict[str, Any] | None = None
            for place, part in enumerate(batch, start=1):
                headers = {SEGMENT: str(number), ROWS: f"{part.rows}/{total}", WRITER: self._writer}
                if len(batch) > 1:
                    headers["Nats-Batch-Id"] = f"{self._writer}-{self._batches}"
                    headers["Nats-Batch-Sequence"] = str(place)
                if place == len(batch) > 1:
                    headers["Nats-Batch-Commit"] = "1"
                if place == 1:
                    headers |= self._expected | {"Nats-Expected-Stream": self._options.stream}
                if place in (1, len(batch)):
                    answer = await self._connection.request(self._options.subject, part.payload, headers)
                else:
                    await self._connection.publish(self._options.subject, part.payload, headers)
            if answer is None:
                raise UnavailableError(f"{self._connection.where} did not confirm a message")
            self._tail = _Tail(int(answer["seq"]), number, batch[-1].rows, total, self._writer)
            self._expected = {"Nats-Expected-Last-Subject-Sequence": str(self._tail.sequence)}

    def _batches_of(self, parts: Iterator[_Part]) -> Iterator[list[_Part]]:
        batch: list[_Part] = []
        size = 0
        for part in parts:
            if batch and (len(batch) == self._batch_messages or size + len(part.payload) > _BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(part)
            size += len(part.payload)
        if batch:
            yield batch

    def _cut(self, table: pa.Table, there: int, max_payload: int) -> Iterator[_Part]:
        """Messages of `rows_per_message` rows, or of fewer where the server would not take them.

        The cuts may differ after a restart: the headers count rows.
        """
        room = max_payload - _HEADER_BYTES
        if self._options.format == "arrow":
            yield from self._cut_arrow(table, there, room)
            return
        limit = self._options.rows_per_message or 1
        rows = write_payloads(self._options.format, table, csv=self._options.csv)
        self._refuse_large(max(map(len, rows)), room)  # before the first is sent
        lines: list[bytes] = []
        size = 0
        for line in rows:
            if lines and (len(lines) == limit or size + len(line) + 1 > room):
                there += len(lines)
                yield _Part(b"\n".join(lines), there)
                lines, size = [], 0
            lines.append(line)
            size += len(line) + 1
        yield _Part(b"\n".join(lines), there + len(lines))

    def _cut_arrow(self, table: pa.Table, there: int, room: int) -> Iterator[_Part]:
        limit = self._options.rows_per_message or ARROW_ROWS
        start = 0
        while start < table.num_rows:
            rows = table.slice(start, limit)
            payload = write_payloads("arrow", rows, arrow_rows=limit)[0]
            if len(payload) > room and rows.num_rows > 1:
                limit = (rows.num_rows + 1) // 2
                continue
            self._refuse_large(len(payload), room)
            start += rows.num_rows
            yield _Part(payload, there + start)

    def _refuse_large(self, size: int, room: int) -> None:
        if size > room:
            raise OutputError(
                f"a row takes {size} bytes, and {self._connection.where} takes messages of at most {room}: raise its "
                "max_payload"
            )


def _headers(encoded: str) -> dict[str, str]:
    """The headers of a stored message."""
    lines = base64.b64decode(encoded).decode(errors="replace").split("\r\n")[1:]
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines) if value}
