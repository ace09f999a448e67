"""A job from YAML: source, schema, promise and sink.

    name: trips                                  # optional; default: the file name
    source: {type: csv, path: trips.csv}         # the other keys are the connector's options
    schema: {person: pid, ...}                   # see schema_file, or {file: schema.yaml}
    privacy: {algorithm: castle, k: 10, delay: 1000, max_wait: 30s}
    sink: {type: parquet, path: out/}
    checkpoint: {path: state.db, every: 5s, key: "${CASTLEGUARD_KEY}"}      # optional, like all sections below
    dead_letter: {path: rejects.jsonl, max_share: 0.05}
    metrics: {port: 9464}
    numbers: bounds
    sites: {names: [berlin, paris], relay: {servers: ...}, key: "${CASTLEGUARD_SITES_KEY}"}   # see sites_section
    spark: {shards: 4}                           # see spark_section

Paths are relative to the file. All problems are reported at once, each with its line.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import ValidationError

from castleguard.algorithms.policy import Policy
from castleguard.config.document import Document, Place, read_document
from castleguard.config.environment import Variables
from castleguard.config.job_model import Checkpoint, DeadLetter, Endpoint, JobFile, Metrics, Numbers
from castleguard.config.policy_section import build_policy
from castleguard.config.problems import Problem, explain, located, suggest
from castleguard.config.schema_file import CONFIRM, build_schema, load_schema
from castleguard.config.secrets import FromEnvironment, holds_secret
from castleguard.config.sections import Section, options_model, section_model
from castleguard.config.sites_section import SITE, Sites, build_sites, check_name, with_number
from castleguard.config.spark_section import Spark, refused
from castleguard.errors import CastleguardError, ConfigError, Mistake
from castleguard.schema.roles import Schema

NEEDED = ("source", "schema", "privacy", "sink")
KEYS = ("name", "confirmed", *NEEDED, "checkpoint", "dead_letter", "metrics", "numbers", "sites", "spark")
NAME = r"^[a-z0-9-]+$"

_Built = TypeVar("_Built")


@dataclass(frozen=True)
class Options:
    """Options of a connector as source and as sink; None where it cannot be used."""

    source: type | None
    sink: type | None


Connectors = Mapping[str, Options]
"""The options of every connector, by type. A lookup raises ConfigError if the connector cannot be loaded."""


def _no_relay() -> type:
    raise ConfigError("no relay between sites is available")


def load_job(
    path: str | Path,
    connectors: Connectors,
    *,
    environ: Mapping[str, str] | None = None,
    site: str | None = None,
    relay: Callable[[], type] = _no_relay,
) -> JobFile:
    """Read a job file; raises ConfigError with one line per problem. `environ` defaults to that of the process.

    `site` is the site for which the file is read, `relay` returns the options class of the relay between sites.
    """
    document = read_document(path)
    variables = Variables(os.environ if environ is None else environ, {} if site is None else {SITE: site})
    loader = _Loader(document, connectors, variables, site, relay)
    job = loader.load()
    if job is None:
        raise ConfigError(*loader.mistakes())
    return job


def own_model(cls: type) -> type[Section]:
    """The model of one of the job's own sections."""
    return section_model(cls, ("every",))


class _Loader:
    """Reads one file and collects all of its problems."""

    def __init__(
        self,
        document: Document,
        connectors: Connectors,
        variables: Variables,
        site: str | None,
        relay: Callable[[], type],
    ) -> None:
        self._site = site
        self._relay = relay
        self._document = document
        self._folder = document.path.parent
        self._connectors = connectors
        self._variables = variables
        self._problems: list[Problem] = []
        self._elsewhere: list[Mistake] = []  # in other files

    def load(self) -> JobFile | None:
        """The job; None if the file has problems."""
        if not isinstance(self._document.data, dict):
            self._fail((), f"a job file must be a mapping with the keys {', '.join(NEEDED)}")
            return None
        if "sites" in self._document.data and self._site is None:
            # Stop here: paths and names may depend on the site.
            self._fail(("sites",), "needs the name of a site: run each site with `castleguard site JOB --name SITE`")
            return None
        data = self._variables.fill(self._document.data)
        for key in data:
            if key not in KEYS:
                self._fail((key,), f"is not a known key; {suggest(key, KEYS)}")
        for key in NEEDED:
            if key not in data:
                self._fail((key,), "is missing")
        if data.get("confirmed", True) is not True:
            self._fail(("confirmed",), CONFIRM)
        schema = self._schema(data["schema"]) if "schema" in data else None
        policy = self._policy(data)
        if schema is not None and policy is not None:
            self._check_policy(schema, policy)
        source, sink = self._endpoint("source", data), self._endpoint("sink", data)
        name, numbers = self._name(data), self._numbers(data)
        checkpoint = self._own(Checkpoint, "checkpoint", data)
        dead_letter = self._own(DeadLetter, "dead_letter", data)
        metrics = self._own(Metrics, "metrics", data)
        sites = self._sites(data)
        spark = self._own(Spark, "spark", data)
        if "spark" in data:
            self._problems += refused(data, streaming=source is not None and source.never_ends)
        if self._problems or self._elsewhere or self._variables.problems:
            return None
        assert source is not None
        assert schema is not None
        assert policy is not None
        assert sink is not None
        return JobFile(
            name=name,
            source=source,
            schema=schema,
            policy=policy,
            sink=sink,
            numbers=numbers,
            checkpoint=checkpoint,
            dead_letter=dead_letter,
            metrics=metrics,
            sites=sites,
            site=self._site,
            spark=spark,
            document=self._document,
            variables=self._variables,
        )

    def mistakes(self) -> list[Mistake]:
        """All problems: of this file in its order, then of the files it refers to."""
        mask = self._variables.mask
        own = [
            Problem(place, mask(sentence)) for place, sentence in self._problems if not self._variables.explains(place)
        ]
        found = located(self._document, [*own, *self._variables.problems])
        return [*found, *(Mistake(*map(mask, each)) for each in self._elsewhere)]

    def _fail(self, place: Place, sentence: str) -> None:
        self._problems.append(Problem(place, sentence))

    def _schema(self, data: Any) -> Schema | None:
        """The schema from the section itself, or from the file it names."""
        if not isinstance(data, dict) or "file" not in data:
            return build_schema(data, ("schema",), self._problems, self._folder)
        for key in data:
            if key != "file":
                self._fail(("schema", key), "cannot be combined with schema.file: move it into that file")
        if not isinstance(data["file"], str):
            self._fail(("schema", "file"), "must be a path")
            return None
        try:
            return load_schema(self._folder / data["file"])
        except ConfigError as exc:
            self._elsewhere += exc.mistakes
            return None

    def _policy(self, data: dict[str, Any]) -> Policy | None:
        if "privacy" not in data:
            return None
        sites = data.get("sites")
        names = sites.get("names", ()) if isinstance(sites, dict) else sites
        given = with_number(data["privacy"], names, self._problems)
        return build_policy(given, ("privacy",), self._problems)

    def _sites(self, data: dict[str, Any]) -> Sites | None:
        if "sites" not in data:
            if self._site is not None:
                self._fail(("sites",), "is missing: --name applies to jobs with sites only")
            return None
        if "checkpoint" not in data:
            self._fail(("checkpoint",), "is missing: without one a site could publish rows twice after a crash")
        sites = build_sites(data["sites"], self._relay, self._problems, self._folder)
        if sites is not None and self._site is not None:
            check_name(self._site, sites, self._problems)
        return sites

    def _check_policy(self, schema: Schema, policy: Policy) -> None:
        """Refuse a policy that does not support the schema."""
        try:
            policy.guarantee(schema, seeded=False)
        except CastleguardError as exc:
            self._fail(("privacy",), f"cannot work: {exc}")

    def _endpoint(self, key: Literal["source", "sink"], data: dict[str, Any]) -> Endpoint | None:
        if key not in data:
            return None
        if not isinstance(data[key], dict):
            self._fail((key,), "must be a mapping: {type: csv, path: ...}")
            return None
        given = dict(data[key])
        kind = given.pop("type", None)
        options = self._options(key, kind)
        if options is None:
            return None
        built = self._section(options_model(options), (key,), given)
        hidden = frozenset(name for name, value in given.items() if holds_secret(name, value))
        return None if built is None else Endpoint(type=str(kind), options=built, hidden=hidden)

    def _options(self, key: Literal["source", "sink"], kind: object) -> type | None:
        """Options class of the type of a source or sink."""
        place = (key, "type")
        if kind is None:
            self._fail(place, f"is missing: one of {', '.join(self._connectors)}")
            return None
        if not isinstance(kind, str) or kind not in self._connectors:
            shown = "" if not isinstance(kind, str) or isinstance(kind, FromEnvironment) else f" {kind!r}"
            hint = suggest(kind, self._connectors) if isinstance(kind, str) else "it must be text"
            self._fail(place, f"{shown} is not a known type; {hint}".strip())
            return None
        try:
            options = getattr(self._connectors[kind], key)
        except ConfigError as exc:
            self._fail(place, f"cannot be used: {exc}")
            return None
        if not isinstance(options, type):
            self._fail(place, f"cannot be {kind}, which is not a {key}")
            return None
        return options

    def _own(self, cls: type[_Built], key: str, data: dict[str, Any]) -> _Built | None:
        """One of the job's own sections; None without it."""
        if key not in data:
            return None
        if not isinstance(data[key], dict):
            self._fail((key,), "must be a mapping; delete the key if you do not need it")
            return None
        built: _Built | None = self._section(own_model(cls), (key,), data[key])
        return built

    def _section(self, model: type[Section], place: Place, given: dict[str, Any]) -> Any:
        try:
            entry = model.model_validate(given)
        except ValidationError as exc:
            self._problems += explain(exc, model.known_keys(), place)
            return None
        return entry.build(place, self._problems, self._folder)

    def _name(self, data: dict[str, Any]) -> str:
        if "name" not in data:
            stem = re.sub(r"[^a-z0-9]+", "-", self._document.path.stem.lower()).strip("-")
            return stem or "job"
        name = data["name"]
        if not isinstance(name, str) or re.match(NAME, name) is None or name.endswith("\n"):
            self._fail(("name",), "must consist of lower-case letters, digits and hyphens")
        return str(name)

    def _numbers(self, data: dict[str, Any]) -> Numbers | None:
        if "numbers" not in data:
            return None
        if data["numbers"] not in get_args(Numbers):
            self._fail(("numbers",), "must be bounds (two columns), interval (one text) or midpoint (one number)")
            return None
        numbers: Numbers = data["numbers"]
        return numbers
