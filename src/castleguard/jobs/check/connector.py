"""A source or sink as its connector sees it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from castleguard.errors import CastleguardError, UnavailableError
from castleguard.jobs.check.checklist import Check, words_of

if TYPE_CHECKING:
    from castleguard.config.job_model import Endpoint


def ask_connector(endpoint: "Endpoint", key: str) -> Iterator[Check]:
    """What the connector itself has to say."""
    from castleguard.jobs.load import connector_of

    ask = connector_of(endpoint).check
    if ask is None:
        return
    try:
        findings = list(ask(endpoint.options))
    except CastleguardError as exc:
        passing = isinstance(exc, UnavailableError)
        remedy = "look whether it is running and can be reached from here" if passing else ""  # else the error says it
        yield Check(key, words_of(exc), "bad", remedy, temporary=passing)
        return
    for what, fine, remedy in findings:
        yield Check(key, f"{what}", "good" if fine else "bad", "" if fine else remedy)


def path_of(endpoint: "Endpoint") -> str | None:
    """The path among the options, if there is one."""
    path = getattr(endpoint.options, "path", None)
    return str(path) if isinstance(path, str | Path) else None
