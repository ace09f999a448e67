"""What the server says about a stream, and what its refusals mean."""

from typing import Any, NamedTuple

from castleguard.connectors.nats.connection import Connection, RefusedError
from castleguard.errors import CastleguardError, UnavailableError

NO_MESSAGE = 10037
_NO_STREAM = 10059
_PASSING = (10176, 10210)  # a batch that was given up, too many batches at once


class Stream(NamedTuple):
    """A stream as it is now."""

    created: str
    """When; a stream of the same name that is made anew is another one."""
    config: dict[str, Any]
    first: int
    """The sequence of the first message, or of the next one if there is none."""
    last: int
    complete: bool
    """Whether every message that ever came is still there."""


async def look_up(connection: Connection, name: str) -> Stream:
    """Ask for a stream. Raises UnavailableError, and the connection's error if there is none."""
    try:
        answer = await connection.ask(f"STREAM.INFO.{name}")
    except RefusedError as exc:
        if exc.code == _NO_STREAM:
            raise connection.error(f"{connection.where} has no stream {name!r}; `nats stream add` makes one") from exc
        raise translated(exc, connection) from exc
    state, config = answer["state"], answer["config"]
    last = int(state["last_seq"])
    first = int(state["first_seq"]) if state["messages"] else last + 1
    came = last - max(int(config.get("first_seq", 1)), 1) + 1
    return Stream(answer["created"], config, max(first, 1), last, int(state["messages"]) >= came)


def translated(refused: RefusedError, connection: Connection) -> CastleguardError:
    """Too little memory or storage, a leader that is being elected and the like pass; a wrong request does not."""
    if refused.status >= 500 or refused.code in _PASSING:
        return UnavailableError(f"{connection.where} cannot do it now: {refused}")
    return connection.error(f"{connection.where} refuses: {refused}")
