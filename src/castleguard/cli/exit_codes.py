"""What the end of a command says to whoever started it: to a script, or to a supervisor that may start it again.

    0   done
    1   failed, and a person has to mend it: a refused checkpoint, too many rejected rows, a missing file
    2   used wrongly: an unknown option, a mistake in a job file or schema
    3   an audit found a promise broken
    70  a mistake of ours
    75  failed for now: the same command may work later (a broker away, a full disk, a checkpoint in use)
    130, 143  interrupted, terminated

70 and 75 are EX_SOFTWARE and EX_TEMPFAIL of sysexits.h.
"""

import errno
from collections.abc import Iterator

from castleguard.errors import CastleguardError, ConfigError, UnavailableError

FAILED = 1
USED_WRONGLY = 2
BROKEN = 3
OUR_MISTAKE = 70
TRY_AGAIN = 75

_PASSING = {
    getattr(errno, name)
    for name in (
        *("ENOSPC", "EDQUOT", "EIO", "ESTALE", "EAGAIN", "EBUSY", "EMFILE", "ENFILE", "ENOMEM", "ENOBUFS"),
        *("EADDRINUSE", "ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "ENETUNREACH", "ETIMEDOUT"),
    )
    if hasattr(errno, name)  # some systems lack some
}
_PASSING_IN_SQLITE = {5, 10, 13}  # SQLITE_BUSY, SQLITE_IOERR, SQLITE_FULL


def exit_code(exc: Exception) -> int:
    """The code for what ended a command."""
    if not isinstance(exc, CastleguardError):
        return OUR_MISTAKE
    if any(map(_passes, _causes(exc))):
        return TRY_AGAIN
    return USED_WRONGLY if isinstance(exc, ConfigError) else FAILED


def _causes(exc: BaseException | None) -> Iterator[BaseException]:
    """The error, and what it was translated from."""
    while exc is not None:
        yield exc
        exc = exc.__cause__


def _passes(exc: BaseException) -> bool:
    """Whether it may be gone the next time."""
    if isinstance(exc, UnavailableError):
        return True
    if isinstance(exc, OSError):
        return exc.errno in _PASSING
    code = getattr(exc, "sqlite_errorcode", None)  # its low byte is the kind of error
    return code is not None and code & 0xFF in _PASSING_IN_SQLITE
