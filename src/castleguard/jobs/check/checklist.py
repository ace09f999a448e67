"""Checks as values: finding, status, and remedy."""

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from castleguard.errors import CastleguardError, ConfigError, UnavailableError
from castleguard.privacy.guarantee import Guarantee

Status = Literal["good", "bad", "doubtful"]

WIDTH = 100
MARKS: dict[Status, str] = {"good": "✓", "bad": "✗", "doubtful": "!"}


@dataclass(frozen=True)
class Check:
    """One entry of the checklist."""

    place: str
    """Section or key, such as "source" or "privacy.k"; empty for the job as a whole."""
    what: str
    status: Status = "good"
    remedy: str = ""
    where: str = ""
    """File and line of a mistake in the file: "job.yaml:14"."""
    temporary: bool = False
    """Whether the check may pass later without a change here."""

    @property
    def line(self) -> str:
        """Place and finding in one line."""
        if self.where:
            return f"{self.where}  {self.place} {self.what}" if self.place else f"{self.where}  {self.what}"
        return f"{self.place}: {self.what}" if self.place else self.what

    def __str__(self) -> str:
        lines = textwrap.wrap(self.line, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        text = f"{MARKS[self.status]} " + "\n".join(lines)
        return f"{text}\n    -> {self.remedy}" if self.remedy else text


@dataclass(frozen=True)
class Checklist:
    """All checks of a job, in the order of the flow. `str()` is the output of `castleguard validate`."""

    checks: tuple[Check, ...]
    guarantee: Guarantee | None = None
    """The promise of the job; None if it cannot run."""
    readable: bool = True
    """Whether the job file has no mistakes."""

    @property
    def bad(self) -> tuple[Check, ...]:
        """Checks that would stop the job."""
        return tuple(check for check in self.checks if check.status == "bad")

    @property
    def ok(self) -> bool:
        """Whether the job can run."""
        return not self.bad

    @property
    def temporary(self) -> bool:
        """Whether all bad checks may pass later without a change here."""
        return all(check.temporary for check in self.bad)

    @property
    def summary(self) -> str:
        """Number of problems and warnings."""
        warnings = sum(check.status == "doubtful" for check in self.checks)
        problems = f"{len(self.bad)} problem{'' if len(self.bad) == 1 else 's'}"
        return f"{problems}, {warnings} warning{'' if warnings == 1 else 's'}" if warnings else problems

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __len__(self) -> int:
        return len(self.checks)

    def as_json(self) -> dict[str, Any]:
        """The checklist for JSON."""
        return {
            "ok": self.ok,
            "readable": self.readable,
            "checks": [asdict(check) for check in self.checks],
            "guarantee": None if self.guarantee is None else asdict(self.guarantee),
        }

    def __str__(self) -> str:
        promise = () if self.guarantee is None else ("", self.guarantee.paragraphs())
        return "\n".join([*map(str, self.checks), "", self.summary, *promise])


def refused(exc: CastleguardError, remedy: str = "") -> Iterator[Check]:
    """An error as checks, one for each mistake in the job file."""
    if isinstance(exc, ConfigError):
        for mistake in exc.mistakes:
            yield Check(mistake.key, mistake.what, "bad", remedy, where=mistake.where)
    else:
        yield Check("", str(exc), "bad", remedy, temporary=isinstance(exc, UnavailableError))


def failed(place: str, exc: Exception) -> Check:
    """A failed request to a broker or another service."""
    away = isinstance(exc, UnavailableError)
    remedy = "check that it is running and reachable from here" if away else ""  # other errors name their remedy
    return Check(place, message_of(exc), "bad", remedy, temporary=away)


def message_of(exc: Exception) -> str:
    """The message of an error, or only its type: other libraries' messages may contain data."""
    return str(exc) if isinstance(exc, CastleguardError) else type(exc).__name__


def masked(check: Check, mask: Callable[[str], str]) -> Check:
    """The check without values from the environment."""
    return replace(check, what=mask(check.what), remedy=mask(check.remedy))
