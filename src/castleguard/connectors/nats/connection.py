"""A connection to NATS JetStream behind blocking calls. The only module that loads the client library, on first use.

The library runs on an event loop in a separate thread, so that pings are answered and messages arrive while the job
computes; callers hand over a coroutine and wait for the result.

The library's own reconnecting is switched off: it would resend its buffer without the knowledge of a sink that must
know what arrived. The next call replaces a lost connection.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from castleguard.connectors.nats.nats_options import Access
from castleguard.errors import CastleguardError, ConfigError, UnavailableError
from castleguard.telemetry.background import SupervisedThread, Task
from castleguard.telemetry.logs import LOG

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

T = TypeVar("T")

_CLOSE_SECONDS = 1.0
_TURNED_AWAY = ("authorization", "authentication expired", "authentication revoked")
_CONNECT_STEPS = 4  # steps of connecting to one server, each with its own timeout
_PING_SECONDS = 20.0  # a server that is silent for two of these is gone


class RefusedError(Exception):
    """The server refused a request. Never leaves the connectors."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__(str(answer.get("description", "no reason given")))
        self.status = int(answer.get("code", 0))
        self.code = int(answer.get("err_code", 0))


class Inbox(NamedTuple):
    """A subscription."""

    subject: str
    leave: Callable[[], Awaitable[None]]
    """Unsubscribe."""


class Connection:
    """One connection. One thread calls `run`; the coroutines that it runs may call everything else."""

    def __init__(self, access: Access, error: type[CastleguardError]) -> None:
        """Connects at the first call. `error` is raised for failures that a retry cannot fix."""
        self._nats = _library()
        self._access = access
        self.error = error
        self._tls = _tls_context(access)
        self._check()
        self.where = f"the NATS server at {', '.join(access.addresses())}"
        self._client: Client | None = None
        self._lost: asyncio.Future[None] | None = None
        self._denied: str | None = None
        self._unanswered: dict[asyncio.Future[Any], str] = {}  # requests, with their subjects
        self._connecting = asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        self._closing = False
        self._thread = SupervisedThread("nats", self._serve)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and wait. Raises UnavailableError if the server does not answer, and `error`."""
        future = asyncio.run_coroutine_threadsafe(self.translating(work), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def begin(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Start `work` on the loop without waiting. It ends with the connection at the latest; a failure is logged."""
        return asyncio.run_coroutine_threadsafe(_logged(work), self._loop)

    def close(self) -> None:
        """Close the connection and end the thread. May be called twice."""
        if self._thread.alive:
            asyncio.run_coroutine_threadsafe(self.drop(), self._loop).result()
            self._closing = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    # On the loop

    async def ask(self, request: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The answer of JetStream's API. Raises RefusedError."""
        return await self.request(f"$JS.API.{request}", b"" if body is None else json.dumps(body).encode()) or {}

    async def request(
        self, subject: str, payload: bytes, headers: dict[str, str] | None = None
    ) -> dict[str, Any] | None:
        """Publish and wait for the answer; None if it is empty. Raises RefusedError."""
        client = await self._connected()
        assert self._lost is not None
        waiting = asyncio.ensure_future(client.request(subject, payload, timeout=self._access.timeout, headers=headers))
        self._unanswered[waiting] = subject
        try:
            # The library would wait for the whole timeout even if the server is gone.
            both: set[asyncio.Future[Any]] = {waiting, self._lost}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise self._nats.errors.ConnectionClosedError
            if waiting.cancelled() and self._denied is not None:
                raise self._nats.errors.Error(self._denied)
        except BaseException:
            waiting.cancel()
            raise
        finally:
            del self._unanswered[waiting]
        reply = waiting.result().data
        if not reply:
            return None
        answer: dict[str, Any] = json.loads(reply)
        if "error" in answer:
            raise RefusedError(answer["error"])
        return answer

    async def publish(
        self, subject: str, payload: bytes, headers: dict[str, str] | None = None, reply: str = ""
    ) -> None:
        """Publish without waiting for an answer; may wait until the network takes it."""
        await (await self._connected()).publish(subject, payload, reply=reply, headers=headers)

    async def subscribe(self, arrived: Callable[["Msg"], Awaitable[None]], subject: str | None = None) -> Inbox:
        """Call `arrived` with every message of a subject; None: of a new inbox."""
        client = await self._connected()
        # No limit: the requests say how much may arrive.
        inbox = await client.subscribe(
            subject or client.new_inbox(), cb=arrived, pending_msgs_limit=0, pending_bytes_limit=0
        )
        return Inbox(inbox.subject, inbox.unsubscribe)

    async def max_payload(self) -> int:
        """Largest size of a message in bytes, headers included."""
        return (await self._connected()).max_payload

    async def lost(self) -> asyncio.Future[None]:
        """A future that is done when the current connection and its subscriptions are gone."""
        await self._connected()
        assert self._lost is not None
        return self._lost

    async def _connected(self) -> "Client":
        async with self._connecting:
            lost = self._lost is not None and self._lost.done()
            if self._client is not None and self._client.is_connected and not lost:
                return self._client
            return await self._reconnect()

    async def _reconnect(self) -> "Client":
        await self.drop()
        client = _client_class(secure=self._tls is not None)()
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._denied = None

        def ended(_: object) -> None:
            if not lost.done():
                lost.set_result(None)

        async def gone() -> None:
            ended(client)

        try:
            # The library limits most steps of connecting, but not all.
            limit = self._access.timeout * _CONNECT_STEPS * len(self._access.addresses())
            connecting = client.connect(**self._connect_options(), closed_cb=gone, error_cb=self._on_error)
            await asyncio.wait_for(connecting, limit)
        except BaseException:
            await _closed(client)  # the library leaves its socket open when the server turns it away
            raise
        reading = client._reading_task
        assert reading is not None
        # Not left to `closed_cb` alone: if closing fails, the library does not call it and still reports a client as
        # connected that it no longer reads from.
        reading.add_done_callback(ended)
        self._client, self._lost = client, lost
        return client

    def _connect_options(self) -> dict[str, Any]:
        access = self._access
        credentials = None
        if access.credentials_file is not None:
            _check_credentials(access.credentials_file)  # every time: it may have been replaced
            credentials = str(access.credentials_file)
        return {
            "servers": access.addresses(),
            "name": "castleguard",
            "user": access.user,
            "password": access.password,
            "token": access.token,
            "user_credentials": credentials,
            "tls": self._tls,
            "connect_timeout": access.timeout,
            "allow_reconnect": False,
            "max_reconnect_attempts": 1,  # per server
            "reconnect_time_wait": 0,
            "ping_interval": _PING_SECONDS,
        }

    async def _on_error(self, error: Exception) -> None:
        """Handle an error outside a call. A missing permission is only reported here: its request gets no answer and
        is cancelled here.
        """
        text = str(error).lower()  # the library may have changed the case of the subject
        if "permissions violation" in text:
            self._denied = str(error).removeprefix("nats: ")
            for waiting, subject in self._unanswered.items():
                if f'"{subject.lower()}"' in text:
                    waiting.cancel()

    def check_permitted(self) -> None:
        """Raise `error` if the server has denied a permission on this connection: a subscription gets no answer."""
        if self._denied is not None:
            raise self._not_permitted()

    def _not_permitted(self) -> CastleguardError:
        return self.error(f"{self.where} does not permit it: {self._denied}")

    async def drop(self) -> None:
        """Drop the current connection; the next call makes a new one."""
        client, self._client = self._client, None
        if self._lost is not None and not self._lost.done():
            # Not left to the library: if closing fails, it never reports that the connection is gone.
            self._lost.set_result(None)
        if client is not None:
            await _closed(client)

    async def translating(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` and translate errors of the library: raises what `run` raises."""
        errors = self._nats.errors
        try:
            return await work
        except ssl.SSLError as exc:
            why = getattr(exc, "verify_message", None) or exc.reason or "the handshake failed"
            raise self.error(f"{self.where} cannot be reached securely: {why}") from exc
        except (errors.Error, OSError, TimeoutError) as exc:
            await self.drop()
            if any(words in str(exc).lower() for words in _TURNED_AWAY):
                raise self.error(f"{self.where} refuses these credentials") from exc
            if isinstance(exc, errors.SecureConnWantedError):
                raise self.error(f"{self.where} does not offer TLS, which the job requires") from exc
            if self._denied is not None:
                raise self._not_permitted() from exc
            why = str(exc).removeprefix("nats: ") or type(exc).__name__
            raise UnavailableError(f"{self.where} cannot be reached: {why}") from exc

    def _check(self) -> None:
        access = self._access
        if any("@" in address for address in access.addresses()):
            raise ConfigError("servers holds a user or a password: set user and password instead, which never print")
        if access.credentials_file is not None:
            _check_credentials(access.credentials_file)

    def _serve(self, task: Task) -> None:
        """Run the loop in its thread until it is stopped, then cancel everything that is left."""
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        if not self._closing:
            raise RuntimeError("the event loop stopped by itself")
        try:
            # More than once: the library suppresses some cancellations.
            while left := asyncio.all_tasks(self._loop):
                for pending in left:
                    pending.cancel()
                self._loop.run_until_complete(asyncio.wait(left, timeout=_CLOSE_SECONDS))
        finally:
            self._loop.close()


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    """Run `work`. An error is logged by its type only: its message may quote what was sent."""
    try:
        await work
    except Exception as exc:
        LOG.warning("work on the NATS connection failed: %s", type(exc).__name__)


def _library() -> ModuleType:
    try:
        import nats
        import nats.aio.client
        import nats.errors
    except ImportError as exc:
        raise ConfigError("NATS needs its client library: pip install 'castleguard[nats]'") from exc
    return nats


def _check_credentials(path: Path) -> None:
    """Raise ConfigError if a .creds file lacks a signed user and its key. The library would search for them
    forever.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError as exc:
        raise ConfigError(f"credentials_file {path} cannot be read: no such file") from exc
    except OSError as exc:
        raise ConfigError(f"credentials_file {path} cannot be read: {exc.strerror}") from exc
    try:
        import nkeys  # type: ignore[import-untyped]
    except ImportError as exc:
        raise ConfigError("a credentials_file needs one more library: pip install 'castleguard[nats]'") from exc
    behind = {
        title: following
        for title in (b"BEGIN NATS USER JWT", b"BEGIN USER NKEY SEED")
        for line, following in pairwise(lines)
        if title in line
    }
    try:
        if len(behind) < 2:
            raise ValueError
        nkeys.from_seed(bytearray(behind[b"BEGIN USER NKEY SEED"]))
    except (nkeys.NkeysError, ValueError):  # not passed on: it may quote the key
        raise ConfigError(f"credentials_file {path} is damaged or not a .creds file: create it again") from None


def _client_class(*, secure: bool) -> "type[Client]":
    """The library's client. With `secure` it never sends a password to a server without TLS: the library would, and an
    attacker in between could make it do so.
    """
    from nats.aio.client import Client
    from nats.errors import SecureConnWantedError

    class SecureClient(Client):
        def _connect_command(self) -> bytes:
            if not self._server_info.get("tls_required"):
                raise SecureConnWantedError
            return super()._connect_command()

    return SecureClient if secure else Client


async def _closed(client: "Client") -> None:
    """Close, ignoring errors. After a failed handshake the library would wait for a close that never comes."""
    with contextlib.suppress(Exception):
        await asyncio.wait_for(client.close(), _CLOSE_SECONDS)
    # If closing fails half-way, the library leaves its socket open and the tasks of subscriptions waiting.
    for subscription in client._subs.values():
        if subscription._wait_for_msgs_task is not None:
            subscription._wait_for_msgs_task.cancel()
    if client._transport:
        with contextlib.suppress(Exception):
            client._transport.close()  # type: ignore[no-untyped-call]


def _tls_context(access: Access) -> ssl.SSLContext | None:
    """None if the options do not ask for TLS; a server that requires it still gets it."""
    files = [access.ca_file, access.certificate_file, access.key_file]
    secure = any(address.startswith(("tls://", "wss://")) for address in access.addresses())
    if not secure and files == [None, None, None]:
        return None
    if (access.certificate_file is None) != (access.key_file is None):
        raise ConfigError("certificate_file and key_file need each other: set both or none")
    for file in files:
        if file is not None and not file.is_file():
            raise ConfigError(f"{file} cannot be read: no such file")
    try:
        context = ssl.create_default_context(cafile=access.ca_file)
        if access.certificate_file is not None:
            context.load_cert_chain(access.certificate_file, access.key_file)
    except (ssl.SSLError, OSError) as exc:
        raise ConfigError("ca_file, certificate_file and key_file must be PEM files, and one of them is not") from exc
    return context
