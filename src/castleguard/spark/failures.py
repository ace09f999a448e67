"""Translation of Spark's errors. Their texts are pages of Java that may quote rows; only one line is passed on."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from castleguard import errors
from castleguard.errors import CastleguardError, OutputError, UnavailableError

_OURS = re.compile(r"castleguard\.errors\.(\w+): (.+)")
_WORKER = re.compile(r"castleguard failed in a worker with (\w+)")
_CONDITION = re.compile(r"[A-Z][A-Z0-9_.]+\Z")
_MORE = "CASTLEGUARD_DEBUG=1 shows more, possibly including values of rows"


@contextmanager
def translated() -> Iterator[None]:
    """Translate errors of Spark that the block raises. Only the kind of error is passed on."""
    try:
        yield
    except (CastleguardError, OSError) as exc:
        if isinstance(exc, ConnectionError):
            raise _java_gone() from exc
        raise
    except Exception as exc:
        raise translate(exc) from exc


def translate(exc: Exception) -> CastleguardError:
    """Translate an error of Spark, of py4j, or of a worker into one line."""
    text = str(exc)
    ours = _OURS.findall(text)
    if ours:  # raised in a worker; our messages never contain values
        name, message = ours[-1]
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, CastleguardError):
            return kind(message.strip())
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return UnavailableError("the disk is full: free some space and run the job again; it restores its checkpoint")
    if _is_java_gone(exc):
        return _java_gone()
    worker = _WORKER.search(text)
    if worker is not None:
        return OutputError(f"a worker failed with {worker.group(1)}; please report it ({_MORE})")
    if "java.lang.OutOfMemoryError" in text:
        return OutputError("Spark does not have enough memory: raise spark.driver.memory or spark.executor.memory")
    return OutputError(f"Spark stopped the query: {_condition(exc) or type(exc).__name__} ({_MORE})")


def _condition(exc: Exception) -> str | None:
    """Return Spark's error condition. Not taken from the text, where the part in brackets may be a value."""
    at: object = exc
    while at is not None:
        for name in ("getCondition", "getErrorClass"):  # the second is its name before Spark 4.0
            try:
                found = getattr(at, name)()
            except Exception:  # no such method, or Java does not answer
                continue
            if isinstance(found, str) and _CONDITION.match(found):
                return found
        at = getattr(at, "_cause", None)  # the error that ended a query is wrapped in one without a condition
    return None


def _is_java_gone(exc: Exception) -> bool:
    """Whether the Java process does not answer."""
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

    return isinstance(exc, Py4JNetworkError)


def _java_gone() -> UnavailableError:
    return UnavailableError("Spark's Java process has died, possibly out of memory: run the job again")
