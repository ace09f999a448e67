"""The sites section: names of the sites, the relay between them, and their shared key.

    sites: {names: [berlin, paris, rome], relay: {servers: "nats://..."}, key: "${CASTLEGUARD_SITES_KEY}"}

All sites use the same file, in which `${SITE}` is the name of the site that reads it.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from castleguard.algorithms.lookup import find
from castleguard.config.job_model import Endpoint, parse_key
from castleguard.config.problems import Problem, explain, suggest
from castleguard.config.secrets import FromEnvironment, holds_secret
from castleguard.config.sections import Section, options_model, section_model
from castleguard.errors import ConfigError, PolicyError

RELAY = "nats"
SITE = "SITE"

_NAME = re.compile(r"[a-z0-9-]+\Z")
_RESERVED = "all"  # the address of broadcasts
_PLACE = ("sites",)


@dataclass(frozen=True, kw_only=True)
class Sites:
    """The sites that publish one stream together. Each runs `castleguard site` with the same file."""

    names: tuple[str, ...]
    """Names of all sites: lower-case letters, digits and hyphens."""
    relay: Any
    """The NATS server with JetStream between the sites: its address and credentials."""
    key: str = field(repr=False)
    """Key that the sites share and the relay does not know: 32 bytes in base64, from the environment."""
    patience: float = 0.05
    """Longest time that the next rows wait while sites agree on a release; 0: no wait."""

    def __post_init__(self) -> None:
        if len(self.names) < 2:
            raise ConfigError("names must list at least two sites: delete the sites section of a job with one site")
        for name in self.names:
            if not _NAME.match(name) or name == _RESERVED:
                raise ConfigError(
                    f"names must consist of lower-case letters, digits and hyphens, and must not be {_RESERVED!r}"
                )
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if twice:
            raise ConfigError(f"names must be different, but {twice[0]!r} occurs twice")
        if self.patience < 0:
            raise ConfigError(f"patience must not be negative, got {self.patience:g}")
        self.key_bytes()

    def key_bytes(self) -> bytes:
        """The decoded key."""
        return parse_key(self.key, "key")


def sites_model() -> type[Section]:
    """Model of the section."""
    return section_model(Sites, ("patience",))


def build_sites(data: Any, relay: Callable[[], type], problems: list[Problem], folder: Path) -> Sites | None:
    """The section; None if it has problems, which are appended. `relay` returns the options class of the relay."""
    if not isinstance(data, dict):
        problems.append(Problem(_PLACE, "must be a mapping: {names: [...], relay: {servers: ...}, key: ...}"))
        return None
    model = sites_model()
    try:
        entry = model.model_validate(data)
    except ValidationError as exc:
        problems += explain(exc, model.known_keys(), _PLACE)
        return None
    built: Sites | None = entry.build(_PLACE, problems, folder)
    given = data["relay"]
    place = (*_PLACE, "relay")
    if not isinstance(given, dict):
        problems.append(Problem(place, 'must be a mapping: {servers: "nats://host:4222"}'))
        return None
    relay_model = options_model(relay())
    try:
        options = relay_model.model_validate(given).build(place, problems, folder)
    except ValidationError as exc:
        problems += explain(exc, relay_model.known_keys(), place)
        return None
    if built is None or options is None:
        return None
    hidden = frozenset(name for name, value in given.items() if holds_secret(name, value))
    return replace(built, relay=Endpoint(type=RELAY, options=options, hidden=hidden))


def check_name(name: str, sites: Sites, problems: list[Problem]) -> None:
    """Refuse a site that is not in sites.names."""
    if name not in sites.names:
        problems.append(Problem((*_PLACE, "names"), f"does not have {name!r}; {suggest(name, sites.names)}"))


def _for_several_sites(algorithm: object) -> bool:
    try:
        return isinstance(algorithm, str) and find(algorithm).several_sites
    except PolicyError:  # the policy section reports it
        return False


def with_number(privacy: Any, names: object, problems: list[Problem]) -> Any:
    """The privacy section with the number of sites filled in. Refuses an algorithm that does not fit the sites."""
    if not isinstance(privacy, dict):
        return privacy
    algorithm = privacy.get("algorithm")
    together = _for_several_sites(algorithm)
    if names is None:
        if together:
            problems.append(
                Problem(_PLACE, f"is missing: {algorithm} is for several sites; use castle for a single one")
            )
            return {"sites": 1, **privacy}
        return privacy
    if not together:
        problems.append(Problem(("privacy", "algorithm"), "must be dcastle in a job with sites"))
        return privacy
    if privacy.get("mode") == "paper":
        problems.append(
            Problem(
                ("privacy", "mode"), "cannot be paper, which may publish fewer than k persons: use castleguard simulate"
            )
        )
    number = len(names) if isinstance(names, list) and names else 1
    given = privacy.get("sites", number)
    if given != number and not isinstance(given, FromEnvironment):
        problems.append(Problem(("privacy", "sites"), f"differs from the number of sites.names ({number}): delete it"))
    return {**privacy, "sites": number}
