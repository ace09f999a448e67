"""Every exception that castleguard raises on purpose.

    CastleguardError
    ├── SchemaError       a column declaration that cannot work, or data that does not fit it as a whole
    ├── PolicyError       privacy parameters that cannot be promised (k below 2, l above k, ...)
    ├── ConfigError       a configuration file that cannot be read, with file and line
    ├── InputError        an input that cannot be read at all (a missing file, an unknown format)
    │   └── NoRowsError   an input without rows
    ├── OutputError       an output that cannot be written
    ├── UnavailableError  a broker or a file that is unavailable now: the same call may work later
    ├── UsageError        a call out of order (a clock that goes back, a push without a clock)
    └── SnapshotError     a snapshot that is damaged, or that belongs to another schema or policy

One tree, so that callers can catch everything by one name. Errors of third-party libraries are translated into it at
the border, `from exc`. A message never contains a row's value: it names the column, the count and the remedy.

Details that a caller may need are attributes: no caller should have to parse a message.
"""

from typing import NamedTuple


class CastleguardError(Exception):
    """Root of the tree: everything that castleguard raises on purpose."""


class SchemaError(CastleguardError):
    """A column declaration that cannot work, or a table that does not fit the schema as a whole."""


class PolicyError(CastleguardError):
    """Privacy parameters that cannot be promised."""


class Mistake(NamedTuple):
    """One mistake in a configuration file. `str()` is its line: "job.yaml:14  privacy.k must be at least 2, got 1"."""

    what: str
    where: str = ""
    """File and line: "job.yaml:14"."""
    key: str = ""
    """The configuration key: "privacy.k"."""

    def __str__(self) -> str:
        sentence = f"{self.key} {self.what}" if self.key else self.what
        return f"{self.where}  {sentence}" if self.where else sentence


class ConfigError(CastleguardError):
    """A configuration file that cannot be read or has mistakes; the message has one line per mistake."""

    mistakes: tuple[Mistake, ...]
    """All mistakes, in the order of the file."""

    def __init__(self, *mistakes: Mistake | str) -> None:
        self.mistakes = tuple(each if isinstance(each, Mistake) else Mistake(each) for each in mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


class InputError(CastleguardError):
    """An input that cannot be read at all. A single bad row is rejected instead."""


class NoRowsError(InputError):
    """An input without rows; `unread`: the number of its malformed lines."""

    def __init__(self, message: str, *, unread: int = 0) -> None:
        super().__init__(message)
        self.unread = unread


class OutputError(CastleguardError):
    """An output that cannot be written."""


class UnavailableError(CastleguardError):
    """An external resource that cannot be reached or is in use. The same call may work later."""


class UsageError(CastleguardError):
    """A call out of order."""


class SnapshotError(CastleguardError):
    """A snapshot that is damaged, or that belongs to another schema or policy."""
