"""Exit codes, for scripts and supervisors.

    0   done
    1   failed, and needs an operator: a refused checkpoint, too many rejected rows, a missing file
    2   wrong usage: an unknown option, a mistake in a job file or schema
    3   an audit found a broken promise
    70  internal error
    75  failed for now, a retry may succeed: an unavailable broker, a full disk, a checkpoint in use
    130, 143  interrupted, terminated

70 and 75 are EX_SOFTWARE and EX_TEMPFAIL of sysexits.h.
"""

import errno
from collections.abc import Iterator

from castleguard.errors import CastleguardError, ConfigError, UnavailableError

FAILED = 1
WRONG_USAGE = 2
BROKEN = 3
INTERNAL_ERROR = 70
TRY_AGAIN = 75

_TRANSIENT = {
    getattr(errno, name)
    for name in (
        *("ENOSPC", "EDQUOT", "EIO", "ESTALE", "EAGAIN", "EBUSY", "EMFILE", "ENFILE", "ENOMEM", "ENOBUFS"),
        *("EADDRINUSE", "ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "ENETUNREACH", "ETIMEDOUT"),
    )
    if hasattr(errno, name)  # not every system has them all
}
_TRANSIENT_IN_SQLITE = {5, 10, 13}  # SQLITE_BUSY, SQLITE_IOERR, SQLITE_FULL


def exit_code(exc: Exception) -> int:
    """The exit code for an error."""
    if not isinstance(exc, CastleguardError):
        return INTERNAL_ERROR
    if any(map(_is_transient, _causes(exc))):
        return TRY_AGAIN
    return WRONG_USAGE if isinstance(exc, ConfigError) else FAILED


def _causes(exc: BaseException | None) -> Iterator[BaseException]:
    """The error and the chain of its causes."""
    while exc is not None:
        yield exc
        exc = exc.__cause__


def _is_transient(exc: BaseException) -> bool:
    """Whether a retry may succeed."""
    if isinstance(exc, UnavailableError):
        return True
    if isinstance(exc, OSError):
        return exc.errno in _TRANSIENT
    code = getattr(exc, "sqlite_errorcode", None)  # the low byte is the kind of error
    return code is not None and code & 0xFF in _TRANSIENT_IN_SQLITE
