"""The sites section: which sites a job has, what carries their messages, and the key that they share.

    sites: {names: [berlin, paris, rome], relay: {servers: "nats://..."}, key: "${CASTLEGUARD_SITES_KEY}"}

The same file stands at every site. `${SITE}` in it is the name of the one that reads it.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from castleguard.algorithms.registry import find
from castleguard.config.job_model import Endpoint, parse_key
from castleguard.config.problems import Problem, explain, suggest
from castleguard.config.secrets import FromEnvironment, holds_secret
from castleguard.config.sections import Section, options_model, section_model
from castleguard.errors import ConfigError, PolicyError

RELAY = "nats"
SITE = "SITE"

_NAME = re.compile(r"[a-z0-9-]+\Z")
_RESERVED = "all"  # messages to everybody go there
_PLACE = ("sites",)


@dataclass(frozen=True, kw_only=True)
class Sites:
    """The sites that publish one stream together. Each runs `castleguard site` with the same file."""

    names: tuple[str, ...]
    """All of them: small letters, digits and hyphens."""
    relay: Any
    """The NATS server with JetStream between them: its address and how to be let in."""
    key: str = field(repr=False)
    """What the sites share and the relay does not have: 32 bytes in base64, from the environment."""
    patience: float = 0.05
    """How long the next rows wait, at most, while something is being agreed on with other sites; 0: not at all."""

    def __post_init__(self) -> None:
        if len(self.names) < 2:
            raise ConfigError("names must list two sites at least: a job of one needs no sites section")
        for name in self.names:
            if not _NAME.match(name) or name == _RESERVED:
                raise ConfigError(
                    f"names must be made of small letters, digits and hyphens, and none may be {_RESERVED!r}"
                )
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if twice:
            raise ConfigError(f"names must differ, and {twice[0]!r} is there twice")
        if self.patience < 0:
            raise ConfigError(f"patience must not be negative, got {self.patience:g}")
        self.key_bytes()

    def key_bytes(self) -> bytes:
        """The key itself."""
        return parse_key(self.key, "key")


def sites_model() -> type[Section]:
    """What the section may hold."""
    return section_model(Sites, ("patience",))


def build_sites(data: Any, relay: Callable[[], type], problems: list[Problem], folder: Path) -> Sites | None:
    """The section, or None and its problems. `relay` gives the options of the relay."""
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
    """Whether the site that reads the file is one of them."""
    if name not in sites.names:
        problems.append(Problem((*_PLACE, "names"), f"does not have {name!r}; {suggest(name, sites.names)}"))


def _for_several_sites(algorithm: object) -> bool:
    try:
        return isinstance(algorithm, str) and find(algorithm).several_sites
    except PolicyError:  # the policy section says what is wrong with it
        return False


def with_number(privacy: Any, names: object, problems: list[Problem]) -> Any:
    """The privacy section with the number of sites in it, which a file need not tell twice; and as it must be where
    there are sites, and where there are none.
    """
    if not isinstance(privacy, dict):
        return privacy
    algorithm = privacy.get("algorithm")
    together = _for_several_sites(algorithm)
    if names is None:
        if together:
            problems.append(Problem(_PLACE, f"is missing: {algorithm} is for several sites; one by itself has castle"))
            return {"sites": 1, **privacy}
        return privacy
    if not together:
        problems.append(Problem(("privacy", "algorithm"), "must be dcastle in a job that has sites"))
        return privacy
    if privacy.get("mode") == "paper":
        problems.append(
            Problem(
                ("privacy", "mode"), "cannot be paper: that publishes fewer than k persons; use castleguard simulate"
            )
        )
    number = len(names) if isinstance(names, list) and names else 1
    given = privacy.get("sites", number)
    if given != number and not isinstance(given, FromEnvironment):
        problems.append(Problem(("privacy", "sites"), f"is not the number of sites.names, {number}: delete it"))
    return {**privacy, "sites": number}
