"""Relay between the sites of a job over a NATS server: carries their messages and keeps the log of their decisions.

Messages are published on `castleguard.<job>.<site>` and `castleguard.<job>.all`; a disconnected site misses them. The
log is the key-value bucket `castleguard-<job>` of JetStream: the server accepts a record only if none of its name
exists, and it never changes.

A background task keeps the connection, so that no caller waits for an unreachable server: until it is back, messages
are lost and the log is unavailable at once. The task is supervised and restarted after any failure.
"""

import asyncio
import base64
import contextlib
import threading
from collections import deque
from collections.abc import Coroutine
from typing import Any, TypeVar

from castleguard.connectors.base import LOG_KEPT_DAYS
from castleguard.connectors.nats.connection import Connection, RefusedError
from castleguard.connectors.nats.nats_options import Access
from castleguard.connectors.nats.stream_state import NO_MESSAGE, translated
from castleguard.errors import CastleguardError, OutputError, UnavailableError
from castleguard.telemetry.background import Task, supervise
from castleguard.telemetry.logs import LOG

T = TypeVar("T")

ALL_SITES = "all"
"""Subject of messages to all sites; reserved, so no site may have this name."""

_ANSWER_SECONDS = 1.0  # for which a caller waits for the log
_MOST_BYTES = 64 << 20  # each for messages that the site has not received, and for those that the network has not taken
_HEADER_BYTES = 1024  # maximum per message
_SENDER = "Castleguard-Site"
_RECORD_EXISTS = 10071  # JetStream: the last sequence is not the expected one
_NANOSECONDS = 1_000_000_000


class NatsRelay:
    """Transport of one site: see `sites.transport.Transport`. Used by one thread."""

    def __init__(self, access: Access, job: str, site: str) -> None:
        """Connects, or retries in the background if the server cannot be reached. Raises OutputError, ConfigError for
        failures that a retry cannot help.
        """
        self._job = job
        self._site = site
        self._bucket = f"castleguard-{job}"
        self._received = _Received()
        self._in_flight = 0  # bytes; touched on the loop only
        self._ready = False
        self._log_found = False
        self._too_large = False  # whether a message has been too large so far
        self._suspect = asyncio.Event()
        self._subscribed: asyncio.Future[None] | None = None
        self._connection = Connection(access, OutputError)
        try:
            self._connection.run(self._open())
        except UnavailableError as exc:
            LOG.warning("the relay cannot be reached, retrying: %s", exc)
        except BaseException:
            self._connection.close()
            raise
        self._keeper = self._connection.begin(supervise("relay", self._keep))

    def send(self, to: str | None, data: bytes) -> None:
        """Publish without waiting."""
        if self._ready:
            self._connection.begin(self._publish(f"castleguard.{self._job}.{to or ALL_SITES}", data))

    def receive(self) -> list[bytes]:
        """Messages that have arrived."""
        return self._received.empty()

    def decide(self, release: str, record: bytes) -> bytes:
        """Write a record unless one of that name exists; returns the record that stands."""
        return self._ask(self._decide(release, record))

    def decision(self, release: str) -> bytes | None:
        """Read a record."""
        return self._ask(self._decision(release))

    def close(self) -> None:
        """Disconnect. May be called twice."""
        self._keeper.cancel()
        self._connection.close()
        self._ready = False

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a request to the log, for _ANSWER_SECONDS at most."""
        if not self._ready:
            work.close()
            raise UnavailableError(f"{self._connection.where} cannot be reached")
        return self._connection.run(self._in_time(work))

    # On the loop

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await asyncio.wait_for(self._connection.translating(work), _ANSWER_SECONDS)
        except TimeoutError:
            why = f"it did not answer within {_ANSWER_SECONDS:g} s"
        except RefusedError as exc:
            why = f"it refuses: {exc}"
        except CastleguardError as exc:  # the site must go on without the log
            why = str(exc)
        self._ready = False
        self._suspect.set()
        raise UnavailableError(f"{self._connection.where} cannot be used as a log: {why}")

    async def _keep(self, task: Task) -> None:
        """Stay connected while the server answers. Always ends with an error, so that the supervisor tries again."""
        try:
            await self._connection.translating(self._open())
            task.well()
            assert self._subscribed is not None
            await self._ended(self._subscribed)
        except BaseException:
            # Start with a fresh connection and subscriptions: the state of this one is unknown.
            await self._connection.drop()
            raise
        finally:
            self._ready = False
        raise UnavailableError(f"{self._connection.where} cannot be reached, or does not answer")

    async def _ended(self, lost: "asyncio.Future[None]") -> None:
        """Wait until the connection is lost or a call fails."""
        suspecting = asyncio.ensure_future(self._suspect.wait())
        try:
            await asyncio.wait((lost, suspecting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            suspecting.cancel()

    async def _open(self) -> None:
        """Connect, subscribe, and find or create the log.

        Subscribe first: the server answers in order, so its answer about the log means that it knows the subscriptions,
        and a site that is ready misses no message.
        """
        lost = await self._connection.lost()
        if lost is not self._subscribed:
            for subject in (self._site, ALL_SITES):
                await self._connection.subscribe(self._on_message, f"castleguard.{self._job}.{subject}")
            self._subscribed = lost
        await self._find_log()
        self._connection.check_permitted()
        self._suspect.clear()  # the doubt was about an earlier connection
        self._ready = True

    async def _find_log(self) -> None:
        """Find or create the bucket; raises OutputError if it can lose records."""
        try:
            answer = await self._connection.ask(f"STREAM.INFO.KV_{self._bucket}")
        except RefusedError as exc:
            if exc.status != 404 or self._log_found:
                # A log that disappears while sites run has lost their decisions: no decision may go into a new one
                # before all sites have been restarted.
                raise translated(exc, self._connection) from exc
            answer = await self._make_log()
        self._log_found = True
        config = answer["config"]
        limits = (int(config.get(name, -1)) for name in ("max_bytes", "max_msgs"))
        forgets = config.get("discard") != "new" and any(limit > 0 for limit in limits)
        forgets |= 0 < int(config.get("max_age", 0)) < LOG_KEPT_DAYS * 86_400 * _NANOSECONDS
        if forgets or config["storage"] != "file":
            raise OutputError(
                f"the bucket {self._bucket} can lose the decisions of the sites: store it in a file, for at least "
                f"{LOG_KEPT_DAYS} days, and let it discard new values when it is full"
            )

    async def _make_log(self) -> dict[str, Any]:
        config = {
            "name": f"KV_{self._bucket}",
            "subjects": [f"$KV.{self._bucket}.>"],
            "description": "Decisions of the sites of a castleguard job. Never delete it while they run.",
            "max_msgs_per_subject": 1,
            "max_age": LOG_KEPT_DAYS * 86_400 * _NANOSECONDS,
            "storage": "file",
            "discard": "new",
            "allow_rollup_hdrs": True,
            "deny_delete": True,
            "allow_direct": True,
        }
        try:
            return await self._connection.ask(f"STREAM.CREATE.KV_{self._bucket}", config)
        except RefusedError as exc:
            raise translated(exc, self._connection) from exc

    async def _decide(self, release: str, record: bytes) -> bytes:
        subject = f"$KV.{self._bucket}.{release}"
        try:
            await self._connection.request(subject, record, {"Nats-Expected-Last-Subject-Sequence": "0"})
        except RefusedError as exc:
            if exc.code != _RECORD_EXISTS:
                raise
            stands = await self._decision(release)
            if stands is None:
                raise UnavailableError(f"{self._connection.where} has a record but does not return it") from exc
            return stands
        return record

    async def _decision(self, release: str) -> bytes | None:
        # Not a direct read: a replica that has not received the record yet may answer it.
        asked = {"last_by_subj": f"$KV.{self._bucket}.{release}"}
        try:
            answer = await self._connection.ask(f"STREAM.MSG.GET.KV_{self._bucket}", asked)
        except RefusedError as exc:
            if exc.code == NO_MESSAGE:
                return None
            raise
        return base64.b64decode(answer["message"].get("data", ""))

    async def _publish(self, subject: str, data: bytes) -> None:
        """Publish a message; it is lost if the network does not take it, or if too many bytes are queued."""
        if self._in_flight + len(data) > _MOST_BYTES:
            return
        self._in_flight += len(data)
        try:
            with contextlib.suppress(CastleguardError):
                await self._connection.translating(self._send(subject, data))
        finally:
            self._in_flight -= len(data)

    async def _send(self, subject: str, data: bytes) -> None:
        limit = await self._connection.max_payload() - _HEADER_BYTES
        if len(data) <= limit:
            await self._connection.publish(subject, data, {_SENDER: self._site})
        elif not self._too_large:  # the server would close the connection
            self._too_large = True
            LOG.warning(
                "a message to other sites has %d bytes, and %s takes %d: it is lost; raise max_payload of the server",
                len(data),
                self._connection.where,
                limit,
            )

    async def _on_message(self, message: Any) -> None:
        if (message.headers or {}).get(_SENDER) != self._site:
            self._received.put(message.data)


class _Received:
    """Queue of messages that have arrived, emptied by another thread. Drops the oldest when it is full."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: deque[bytes] = deque()
        self._bytes = 0

    def put(self, data: bytes) -> None:
        with self._lock:
            self._messages.append(data)
            self._bytes += len(data)
            while self._bytes > _MOST_BYTES:
                self._bytes -= len(self._messages.popleft())

    def empty(self) -> list[bytes]:
        with self._lock:
            found, self._messages, self._bytes = list(self._messages), deque(), 0
        return found


def check_relay(access: Access, job: str) -> str:
    """Check that the server accepts us and has JetStream; the state of the bucket in words. Changes nothing.

    Raises UnavailableError, OutputError.
    """
    connection = Connection(access, OutputError)
    try:
        return connection.run(_look(connection, f"castleguard-{job}"))
    finally:
        connection.close()


async def _look(connection: Connection, bucket: str) -> str:
    try:
        await connection.ask("INFO")
        await connection.ask(f"STREAM.INFO.KV_{bucket}")
    except RefusedError as exc:
        if exc.status == 404:
            return f"the server can be reached; the first site will create the bucket {bucket}"
        raise translated(exc, connection) from exc
    return f"the server can be reached and has the bucket {bucket}"
