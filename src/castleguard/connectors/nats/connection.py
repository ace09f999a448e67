"""A connection to NATS JetStream, behind blocking calls. The only module that imports the client library, and late.

The library lives on an event loop. That loop has a thread of its own here, so that pings are answered and messages
come in while the job computes; whoever uses a connection hands it a coroutine and waits for the result.

The library's own reconnecting is switched off: it would send once more what it had kept, behind the back of a sink that
must know what arrived. A connection that was lost is made anew by the next call.
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

from castleguard.connectors.nats.options import Access
from castleguard.errors import CastleguardError, ConfigError, UnavailableError
from castleguard.telemetry.background import SupervisedThread, Task
from castleguard.telemetry.logs import LOG

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

T = TypeVar("T")

_CLOSE_SECONDS = 1.0
_TURNED_AWAY = ("authorization", "authentication expired", "authentication revoked")
_CONNECT_STEPS = 4  # of connecting to one server, each with the time-out of its own
_PING_SECONDS = 20.0  # a server that is silent for two of them is gone


class RefusedError(Exception):
    """The server answered, and the answer is no. Never leaves the connectors."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__(str(answer.get("description", "no reason given")))
        self.status = int(answer.get("code", 0))
        self.code = int(answer.get("err_code", 0))


class Inbox(NamedTuple):
    """An address of our own, to which the server sends."""

    subject: str
    leave: Callable[[], Awaitable[None]]
    """Hear no more of it."""


class Connection:
    """One connection. `run` is called by one thread; what it runs may call everything else here."""

    def __init__(self, access: Access, error: type[CastleguardError]) -> None:
        """Connects with the first call. `error` is what this side raises for what will never work."""
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
        """Wait for `work`, on the loop. Raises UnavailableError if the server does not answer, and `error`."""
        future = asyncio.run_coroutine_threadsafe(self.translating(work), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def begin(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Have `work` done on the loop, and do not wait for it. It ends with the connection at the latest; if it fails
        before, that is logged.
        """
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
        """The answer of JetStream's interface. Raises RefusedError."""
        return await self.request(f"$JS.API.{request}", b"" if body is None else json.dumps(body).encode()) or {}

    async def request(
        self, subject: str, payload: bytes, headers: dict[str, str] | None = None
    ) -> dict[str, Any] | None:
        """Publish and wait for the answer; None if it is an empty one. Raises RefusedError."""
        client = await self._connected()
        assert self._lost is not None
        waiting = asyncio.ensure_future(client.request(subject, payload, timeout=self._access.timeout, headers=headers))
        self._unanswered[waiting] = subject
        try:
            # The library would wait for the whole timeout although the server is gone.
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
        """Publish without waiting for anybody; may wait until the network takes it."""
        await (await self._connected()).publish(subject, payload, reply=reply, headers=headers)

    async def subscribe(self, arrived: Callable[["Msg"], Awaitable[None]], subject: str | None = None) -> Inbox:
        """Have `arrived` called with everything that comes to a subject; None: to a new address."""
        client = await self._connected()
        # No limit: how much may come is said by whoever asks for it.
        inbox = await client.subscribe(
            subject or client.new_inbox(), cb=arrived, pending_msgs_limit=0, pending_bytes_limit=0
        )
        return Inbox(inbox.subject, inbox.unsubscribe)

    async def max_payload(self) -> int:
        """How many bytes a message may have, headers included."""
        return (await self._connected()).max_payload

    async def lost(self) -> asyncio.Future[None]:
        """Done as soon as the present connection is gone, and with it whatever was subscribed to."""
        await self._connected()
        assert self._lost is not None
        return self._lost

    async def _connected(self) -> "Client":
        async with self._connecting:
            lost = self._lost is not None and self._lost.done()
            if self._client is not None and self._client.is_connected and not lost:
                return self._client
            return await self._connect_anew()

    async def _connect_anew(self) -> "Client":
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
            connecting = client.connect(**self._connect_options(), closed_cb=gone, error_cb=self._heard)
            await asyncio.wait_for(connecting, limit)
        except BaseException:
            await _closed(client)  # the library leaves its socket open when it is turned away
            raise
        reading = client._reading_task
        assert reading is not None
        # Not left to `closed_cb` alone: the library forgets it if closing fails, and keeps a client that it does not
        # read from any more for a connected one.
        reading.add_done_callback(ended)
        self._client, self._lost = client, lost
        return client

    def _connect_options(self) -> dict[str, Any]:
        access = self._access
        credentials = None
        if access.credentials_file is not None:
            _check_credentials(access.credentials_file)  # every time: it may have been replaced by a newer one
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
            "max_reconnect_attempts": 1,  # of every server, before it gives up
            "reconnect_time_wait": 0,
            "ping_interval": _PING_SECONDS,
        }

    async def _heard(self, error: Exception) -> None:
        """Errors outside of a call. A missing permission is reported here only: the request never gets an answer, and
        ends here.
        """
        text = str(error).lower()  # the library may have changed the case of the subject
        if "permissions violation" in text:
            self._denied = str(error).removeprefix("nats: ")
            for waiting, subject in self._unanswered.items():
                if f'"{subject.lower()}"' in text:
                    waiting.cancel()

    def check_permitted(self) -> None:
        """Raise `error` if the server has denied anything on this connection: a subscription gets no other answer."""
        if self._denied is not None:
            raise self._not_permitted()

    def _not_permitted(self) -> CastleguardError:
        return self.error(f"{self.where} does not permit it: {self._denied}")

    async def drop(self) -> None:
        """Give up the present connection; the next call makes another one."""
        client, self._client = self._client, None
        if self._lost is not None and not self._lost.done():
            # Not left to the library: if closing fails, it never says that the connection is gone.
            self._lost.set_result(None)
        if client is not None:
            await _closed(client)

    async def translating(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work`, and raise what `run` raises."""
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
                raise self.error(f"{self.where} offers no secure connection, and one is asked for") from exc
            if self._denied is not None:
                raise self._not_permitted() from exc
            why = str(exc).removeprefix("nats: ") or type(exc).__name__
            raise UnavailableError(f"{self.where} cannot be reached: {why}") from exc

    def _check(self) -> None:
        access = self._access
        if any("@" in address for address in access.addresses()):
            raise ConfigError("servers holds a user or a password: give them as user and password, which never print")
        if access.credentials_file is not None:
            _check_credentials(access.credentials_file)

    def _serve(self, task: Task) -> None:
        """The thread: run the loop until it is stopped, then leave nothing behind."""
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
    """Do `work`. Its error is logged by kind only: the message may quote what was sent."""
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
    """Raise ConfigError if a .creds file has no signed user and its key. The library takes that for granted, and would
    look for the user for ever.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError as exc:
        raise ConfigError(f"credentials_file {path} cannot be read: there is no such file") from exc
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
    except (nkeys.NkeysError, ValueError):  # not handed on: it may quote the key
        raise ConfigError(f"credentials_file {path} is damaged, or no .creds file: make it anew") from None


def _client_class(*, secure: bool) -> "type[Client]":
    """The library's client. If asked for a secure connection, it never tells a password to a server without one: by
    itself the library would, and whoever is between the two could ask it to.
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
    """Close without a word. A handshake that failed leaves the library waiting for a close that never comes."""
    with contextlib.suppress(Exception):
        await asyncio.wait_for(client.close(), _CLOSE_SECONDS)
    # If closing fails half-way, the library leaves its socket open, and the tasks of subscriptions waiting.
    for subscription in client._subs.values():
        if subscription._wait_for_msgs_task is not None:
            subscription._wait_for_msgs_task.cancel()
    if client._transport:
        with contextlib.suppress(Exception):
            client._transport.close()  # type: ignore[no-untyped-call]


def _tls_context(access: Access) -> ssl.SSLContext | None:
    """None if nothing asks for a secure connection; a server that insists on one gets it all the same."""
    files = [access.ca_file, access.certificate_file, access.key_file]
    secure = any(address.startswith(("tls://", "wss://")) for address in access.addresses())
    if not secure and files == [None, None, None]:
        return None
    if (access.certificate_file is None) != (access.key_file is None):
        raise ConfigError("certificate_file and key_file need each other: give both or none")
    for file in files:
        if file is not None and not file.is_file():
            raise ConfigError(f"{file} cannot be read: there is no such file")
    try:
        context = ssl.create_default_context(cafile=access.ca_file)
        if access.certificate_file is not None:
            context.load_cert_chain(access.certificate_file, access.key_file)
    except (ssl.SSLError, OSError) as exc:
        raise ConfigError("ca_file, certificate_file or key_file is not what it should be: PEM files are") from exc
    return context
