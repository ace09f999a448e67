"""State of a stream on the server, and the meaning of the server's refusals."""

from typing import Any, NamedTuple

from castleguard.connectors.nats.connection import Connection, RefusedError
from castleguard.errors import CastleguardError, UnavailableError

NO_MESSAGE = 10037
_NO_STREAM = 10059
_PASSING = (10176, 10210)  # a batch was abandoned, too many batches at once


class Stream(NamedTuple):
    """A stream as it is now."""

    created: str
    """Time of creation, which distinguishes streams of the same name."""
    config: dict[str, Any]
    first: int
    """Sequence of the first message, or of the next one if the stream is empty."""
    last: int
    complete: bool
    """Whether no message has been deleted."""


async def look_up(connection: Connection, name: str) -> Stream:
    """State of a stream. Raises UnavailableError, and the connection's error if it does not exist."""
    try:
        answer = await connection.ask(f"STREAM.INFO.{name}")
    except RefusedError as exc:
        if exc.code == _NO_STREAM:
            raise connection.error(f"{connection.where} has no stream {name!r}: add it with `nats stream add`") from exc
        raise translated(exc, connection) from exc
    state, config = answer["state"], answer["config"]
    last = int(state["last_seq"])
    first = int(state["first_seq"]) if state["messages"] else last + 1
    came = last - max(int(config.get("first_seq", 1)), 1) + 1
    return Stream(answer["created"], config, max(first, 1), last, int(state["messages"]) >= came)


def translated(refused: RefusedError, connection: Connection) -> CastleguardError:
    """The error to raise for a refusal: lack of memory or a leader election passes, a bad request does not."""
    if refused.status >= 500 or refused.code in _PASSING:
        return UnavailableError(f"{connection.where} cannot do it now: {refused}")
    return connection.error(f"{connection.where} refuses: {refused}")
