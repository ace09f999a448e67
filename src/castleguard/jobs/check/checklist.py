"""Checks as values: what was looked at, whether it is as it must be, and what to do if it is not."""

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
    """One entry of the list."""

    place: str
    """The section or key that it is about, "source" or "privacy.k"; empty: the job as a whole."""
    what: str
    status: Status = "good"
    remedy: str = ""
    where: str = ""
    """File and line, where the file itself is wrong: "job.yaml:14"."""
    temporary: bool = False
    """Whether it may be better the next time, with nothing changed here."""

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
    """All checks of a job, in the order of the flow. `str()` is what `castleguard validate` prints."""

    checks: tuple[Check, ...]
    guarantee: Guarantee | None = None
    """What the job promises; None if it cannot run."""
    readable: bool = True
    """Whether the job file itself is without mistakes."""

    @property
    def bad(self) -> tuple[Check, ...]:
        """What would stop the job."""
        return tuple(check for check in self.checks if check.status == "bad")

    @property
    def ok(self) -> bool:
        """Whether nothing would stop the job."""
        return not self.bad

    @property
    def temporary(self) -> bool:
        """Whether all that would stop the job may be better the next time, with nothing changed here."""
        return all(check.temporary for check in self.bad)

    @property
    def summary(self) -> str:
        """How many problems and doubts there are."""
        doubts = sum(check.status == "doubtful" for check in self.checks)
        problems = f"{len(self.bad)} problem{'' if len(self.bad) == 1 else 's'}"
        return f"{problems}, {doubts} to look at" if doubts else problems

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __len__(self) -> int:
        return len(self.checks)

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
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
    """What an error refuses: a check for each mistake in the job file."""
    if isinstance(exc, ConfigError):
        for mistake in exc.mistakes:
            yield Check(mistake.key, mistake.what, "bad", remedy, where=mistake.where)
    else:
        yield Check("", str(exc), "bad", remedy, temporary=isinstance(exc, UnavailableError))


def words_of(exc: Exception) -> str:
    """An error as part of a line. Only messages of castleguard are known to be free of data."""
    return str(exc) if isinstance(exc, CastleguardError) else type(exc).__name__


def masked(check: Check, mask: Callable[[str], str]) -> Check:
    """The check without anything that came from the environment."""
    return replace(check, what=mask(check.what), remedy=mask(check.remedy))
