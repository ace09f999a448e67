"""A NATS server between the sites of a job: it carries their messages, and keeps the log of what they decided.

Messages are published on `castleguard.<job>.<site>` and `castleguard.<job>.all`, and whoever is away misses them. The
log is the key-value bucket `castleguard-<job>` of JetStream: a record is written if there is none of its name, which
the server itself decides, and is never changed.

The connection is kept by a background task, so that no caller waits for a server that is away: until it is back,
messages are lost and the log is unavailable at once. The task is supervised: whatever it fails with, it is restarted.
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
from castleguard.connectors.nats.options import Access
from castleguard.connectors.nats.stream import NO_MESSAGE, translated
from castleguard.errors import CastleguardError, OutputError, UnavailableError
from castleguard.telemetry.background import Task, supervise
from castleguard.telemetry.logs import LOG

T = TypeVar("T")

EVERYBODY = "all"
"""What no site may be named: the subject of messages to all."""

_ANSWER_SECONDS = 1.0  # that a caller waits for the log
_MOST_BYTES = 64 << 20  # of messages that nobody has fetched, and of those that the network has not taken
_HEADER_BYTES = 1024  # of a message, at most
_SENDER = "Castleguard-Site"
_THERE_IS_ONE = 10071  # JetStream: another last sequence than the one that was expected
_NANOSECONDS = 1_000_000_000


class NatsRelay:
    """One site's way to the others: see `sites.transport.Transport`. Used by one thread."""

    def __init__(self, access: Access, job: str, site: str) -> None:
        """Connects, or leaves that for later if the server is away. Raises OutputError, ConfigError for what will never
        work.
        """
        self._job = job
        self._site = site
        self._bucket = f"castleguard-{job}"
        self._received = _Box()
        self._on_the_way = 0  # bytes; touched on the loop only
        self._ready = False
        self._made = False
        self._too_large = False  # whether a message was, so far
        self._doubt = asyncio.Event()
        self._subscribed: asyncio.Future[None] | None = None
        self._connection = Connection(access, OutputError)
        try:
            self._connection.run(self._open())
        except UnavailableError as exc:
            LOG.warning("the relay is away, trying on: %s", exc)
        except BaseException:
            self._connection.close()
            raise
        self._keeper = self._connection.begin(supervise("relay", self._keep))

    def send(self, to: str | None, data: bytes) -> None:
        """Publish, without waiting for anything."""
        if self._ready:
            self._connection.begin(self._publish(f"castleguard.{self._job}.{to or EVERYBODY}", data))

    def receive(self) -> list[bytes]:
        """What has arrived."""
        return self._received.empty()

    def decide(self, release: str, record: bytes) -> bytes:
        """Write a record if there is none of that name, and read the one that stands."""
        return self._ask(self._decide(release, record))

    def decision(self, release: str) -> bytes | None:
        """Read a record."""
        return self._ask(self._decision(release))

    def close(self) -> None:
        """Leave. May be called twice."""
        self._keeper.cancel()
        self._connection.close()
        self._ready = False

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for the log, but not long."""
        if not self._ready:
            work.close()
            raise UnavailableError(f"{self._connection.where} is away")
        return self._connection.run(self._in_time(work))

    # On the loop

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await asyncio.wait_for(self._connection.translating(work), _ANSWER_SECONDS)
        except TimeoutError:
            why = f"it did not answer within {_ANSWER_SECONDS:g} s"
        except RefusedError as exc:
            why = f"it refuses: {exc}"
        except CastleguardError as exc:  # whatever it is, the site must go on without the log
            why = str(exc)
        self._ready = False
        self._doubt.set()
        raise UnavailableError(f"{self._connection.where} cannot be asked: {why}")

    async def _keep(self, task: Task) -> None:
        """Be connected for as long as the server answers. Always ends with an error: the supervisor tries again."""
        try:
            await self._connection.translating(self._open())
            task.well()
            assert self._subscribed is not None
            await self._ended(self._subscribed)
        except BaseException:
            # A fresh connection, and subscriptions of its own: how far this one got is unknown.
            await self._connection.drop()
            raise
        finally:
            self._ready = False
        raise UnavailableError(f"{self._connection.where} is away, or does not answer")

    async def _ended(self, lost: "asyncio.Future[None]") -> None:
        """Wait until the connection is lost, or a call was not answered."""
        doubting = asyncio.ensure_future(self._doubt.wait())
        try:
            await asyncio.wait((lost, doubting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            doubting.cancel()

    async def _open(self) -> None:
        """Connect, subscribe, and find the log or make it.

        Subscribe first: the server answers in order, so once it has answered for the log, it knows the subscriptions,
        and a site that is ready misses no message.
        """
        lost = await self._connection.lost()
        if lost is not self._subscribed:
            for subject in (self._site, EVERYBODY):
                await self._connection.subscribe(self._arrived, f"castleguard.{self._job}.{subject}")
            self._subscribed = lost
        await self._find_log()
        self._connection.check_permitted()
        self._doubt.clear()  # what was in doubt so far was an earlier connection
        self._ready = True

    async def _find_log(self) -> None:
        """Make the bucket if there is none; raises OutputError for one that forgets."""
        try:
            answer = await self._connection.ask(f"STREAM.INFO.KV_{self._bucket}")
        except RefusedError as exc:
            if exc.status != 404 or self._made:
                # A log that is gone while sites are at work has taken their decisions with it: nothing may be decided
                # in a new one before they have started anew.
                raise translated(exc, self._connection) from exc
            answer = await self._make_log()
        self._made = True
        config = answer["config"]
        limits = (int(config.get(name, -1)) for name in ("max_bytes", "max_msgs"))
        forgets = config.get("discard") != "new" and any(limit > 0 for limit in limits)
        forgets |= 0 < int(config.get("max_age", 0)) < LOG_KEPT_DAYS * 86_400 * _NANOSECONDS
        if forgets or config["storage"] != "file":
            raise OutputError(
                f"the bucket {self._bucket} forgets what the sites have decided: it must keep its values in a file, "
                f"for {LOG_KEPT_DAYS} days at least, and drop none for want of room"
            )

    async def _make_log(self) -> dict[str, Any]:
        config = {
            "name": f"KV_{self._bucket}",
            "subjects": [f"$KV.{self._bucket}.>"],
            "description": "What the sites of a castleguard job have decided. Never delete it while they run.",
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
            if exc.code != _THERE_IS_ONE:
                raise
            stands = await self._decision(release)
            if stands is None:
                raise UnavailableError(f"{self._connection.where} has a record, and does not show it") from exc
            return stands
        return record

    async def _decision(self, release: str) -> bytes | None:
        # Not a direct read: that may be answered by a server which has not heard of the record yet.
        asked = {"last_by_subj": f"$KV.{self._bucket}.{release}"}
        try:
            answer = await self._connection.ask(f"STREAM.MSG.GET.KV_{self._bucket}", asked)
        except RefusedError as exc:
            if exc.code == NO_MESSAGE:
                return None
            raise
        return base64.b64decode(answer["message"].get("data", ""))

    async def _publish(self, subject: str, data: bytes) -> None:
        """A message that the network does not take is lost, and so is one for which there is no room."""
        if self._on_the_way + len(data) > _MOST_BYTES:
            return
        self._on_the_way += len(data)
        try:
            with contextlib.suppress(CastleguardError):
                await self._connection.translating(self._send(subject, data))
        finally:
            self._on_the_way -= len(data)

    async def _send(self, subject: str, data: bytes) -> None:
        limit = await self._connection.max_payload() - _HEADER_BYTES
        if len(data) <= limit:
            await self._connection.publish(subject, data, {_SENDER: self._site})
        elif not self._too_large:  # the server would end the connection for it
            self._too_large = True
            LOG.warning(
                "a message to other sites has %d bytes, and %s takes %d: it is lost, raise max_payload of the server",
                len(data),
                self._connection.where,
                limit,
            )

    async def _arrived(self, message: Any) -> None:
        if (message.headers or {}).get(_SENDER) != self._site:
            self._received.put(message.data)


class _Box:
    """Messages that have arrived and wait to be fetched, by another thread. The oldest are dropped if it is full."""

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
    """Whether the server lets us in and has JetStream, and what is there. Changes nothing. Raises UnavailableError,
    OutputError.
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
            return f"the server can be reached; the bucket {bucket} will be made by the first site"
        raise translated(exc, connection) from exc
    return f"the server can be reached, and the bucket {bucket} is there"
