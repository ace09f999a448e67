"""Errors of Spark as ours, at the border. Their texts are pages of Java that may quote rows: one line is told."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from castleguard import errors
from castleguard.errors import CastleguardError, OutputError, UnavailableError

_OURS = re.compile(r"castleguard\.errors\.(\w+): (.+)")
_WORKER = re.compile(r"castleguard failed in a worker with (\w+)")
_CONDITION = re.compile(r"[A-Z][A-Z0-9_.]+\Z")
_MORE = "CASTLEGUARD_DEBUG=1 shows more, and may show values of rows"


@contextmanager
def translated() -> Iterator[None]:
    """Errors of Spark as ours. Their texts are pages that may quote rows: the kind of error is told, and no more."""
    try:
        yield
    except (CastleguardError, OSError) as exc:
        if isinstance(exc, ConnectionError):
            raise _gone() from exc
        raise
    except Exception as exc:
        raise words_of(exc) from exc


def words_of(exc: Exception) -> CastleguardError:
    """One line for an error of Spark, of py4j, or of a worker."""
    text = str(exc)
    ours = _OURS.findall(text)
    if ours:  # of a worker: such a message never has a value
        name, message = ours[-1]
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, CastleguardError):
            return kind(message.strip())
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return UnavailableError("the disk is full: make room, and run the job again; it goes on from here")
    if _is_gone(exc):
        return _gone()
    worker = _WORKER.search(text)
    if worker is not None:
        return OutputError(f"a worker failed with {worker.group(1)}; please report it ({_MORE})")
    if "java.lang.OutOfMemoryError" in text:
        return OutputError("Spark has not enough memory: raise spark.driver.memory or spark.executor.memory")
    return OutputError(f"Spark stopped the query: {_condition(exc) or type(exc).__name__} ({_MORE})")


def _condition(exc: Exception) -> str | None:
    """Spark's own name for the error. Not out of its text: what stands in brackets there may be a value."""
    at: object = exc
    while at is not None:
        for name in ("getCondition", "getErrorClass"):  # before 4.0 it had the second name
            try:
                found = getattr(at, name)()
            except Exception:  # it has no such thing, or Java does not answer any more
                continue
            if isinstance(found, str) and _CONDITION.match(found):
                return found
        at = getattr(at, "_cause", None)  # what ended a query is wrapped into an error without a name
    return None


def _is_gone(exc: Exception) -> bool:
    """Whether nobody answers any more."""
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

    return isinstance(exc, Py4JNetworkError)


def _gone() -> UnavailableError:
    return UnavailableError("Spark's Java process is gone, perhaps for want of memory; run the job again")
