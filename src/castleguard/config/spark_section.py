"""The spark section: how a job is spread over the shards of a stream in Apache Spark, and what a job there cannot have.

    spark: {shards: 4, route: hash, settings: {spark.executor.memory: 4g}}

With it a job is one for `castleguard spark`, and `checkpoint.path` is a folder. What Spark cannot honour is refused
here, with its line, before anything is started: nothing that a file says is left out in silence.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from castleguard.config.problems import Problem
from castleguard.errors import ConfigError

FILES = ("csv", "jsonl", "parquet")
STREAMS = ("kafka",)
SINGLE = (".csv", ".gz", ".jsonl", ".ndjson", ".parquet")

_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PREFIX = "spark.sql.streaming"
_LEGACY = "spark.sql.legacy"
_FIXED = {
    f"{_PREFIX}.stateStore.providerClass": (_ROCKS, "only that store keeps the state that shards need"),
    "spark.sql.session.timeZone": ("UTC", "a time means the same on every machine"),
    "spark.speculation": ("false", "two tasks at once would write the state of one shard"),
    f"{_PREFIX}.noDataMicroBatches.enabled": ("true", "rows leave after max_wait while no others come"),
    "spark.sql.files.ignoreCorruptFiles": ("false", "no row is left out in silence"),
    "spark.sql.files.ignoreMissingFiles": ("false", "no row is left out in silence"),
    "spark.sql.parquet.outputTimestampType": ("TIMESTAMP_MICROS", "a time is written as it is read"),
    f"{_LEGACY}.timeParserPolicy": ("CORRECTED", "times keep all their digits"),
    f"{_LEGACY}.nullValueWrittenAsQuotedEmptyStringCsv": ("false", "a null is no empty text"),
}
_OURS = {
    "spark.sql.shuffle.partitions": "it is the number of shards, spark.shards",
    f"{_PREFIX}.checkpointLocation": "that is checkpoint.path",
    f"{_PREFIX}.commitProtocolClass": "what was committed could not be told any more",
    "spark.sql.sources.commitProtocolClass": "what was committed could not be told any more",
}
_REFUSED_SECTIONS = {
    "dead_letter": "has no place in Spark: rejected rows are told in the output, as rows whose outcome is rejected",
    "metrics": "has no place in Spark, which has metrics of its own: set spark.ui.enabled in spark.settings",
    "sites": "and spark exclude one another: a job is spread over sites or over shards",
}
_KAFKA_SOURCE = {
    "group": "Spark keeps its positions in the checkpoint, and shows none in a consumer group",
    "batch_messages": "use spark.max_offsets, which says how many messages a micro-batch may hold",
    "timeout": "Spark has settings of its own for that",
    "client": "they are settings of another client library than Spark's",
}
_KAFKA_SINK = {
    "transactional_id": "Spark writes to Kafka without transactions",
    "transaction_timeout": "Spark writes to Kafka without transactions",
    "timeout": _KAFKA_SOURCE["timeout"],
    "client": _KAFKA_SOURCE["client"],
}
_TLS = {
    "certificate_file": "Java wants it in a key store: name that by kafka.ssl.keystore.location in a query of your own",
    "key_file": "Java wants it in a key store: name that by kafka.ssl.keystore.location in a query of your own",
    "key_password": "there is no key_file here",
}
_NO_KEY = (
    "cannot be used: Spark does not encrypt its state with it, and that state holds raw rows; delete the line, and put "
    "checkpoint.path and spark.local.dir on an encrypted volume"
)


@dataclass(frozen=True, kw_only=True)
class Spark:
    """How rows are spread over shards in Apache Spark. Such a job is run by `castleguard spark`."""

    shards: int
    """How many engines share the rows. It cannot be changed while rows are pending."""
    route: Literal["hash", "locality"] = "hash"
    """Which shard a row goes to: that of its person, or the one that has its part of the domain (less loss)."""
    cuts: Path | None = None
    """For locality: the file with the cut points that `castleguard cuts` wrote; without it the domain is halved."""
    position: tuple[str, ...] | None = None
    """Columns that say in which order rows came; default: file and row, or partition and offset. []: a secret order."""
    settings: Mapping[str, str | int | float | bool] = field(default_factory=dict, repr=False)
    """Settings of the Spark session, by their names there: spark.executor.memory."""
    max_files: int | None = None
    """How many new files a micro-batch may hold; default: no limit."""
    max_offsets: int | None = None
    """How many messages of Kafka a micro-batch may hold; default: no limit."""

    def __post_init__(self) -> None:
        for name in ("shards", "max_files", "max_offsets"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")
        if self.cuts is not None and self.route != "locality":
            raise ConfigError("cuts belongs to route: locality; with hash there is nothing to cut")
        if self.position is not None and len(set(self.position)) < len(self.position):
            raise ConfigError("position names a column twice")
        check_settings(self.settings, self.shards)

    def plain_settings(self) -> dict[str, str]:
        """The settings as Spark takes them."""
        return {name: _plain(value) for name, value in self.settings.items()}


def check_settings(settings: Mapping[str, object], shards: int) -> None:
    """Raise ConfigError if a setting of the Spark session would break a promise, or is not for the user to choose."""
    for name, value in settings.items():
        _check_setting(str(name), value, shards)


def _check_setting(name: str, value: object, shards: int) -> None:
    if not name.startswith("spark."):
        raise ConfigError(f"settings must have names that begin with spark., and {name!r} does not")
    if name in _FIXED:
        needed, reason = _FIXED[name]
        if _plain(value) != needed:
            raise ConfigError(f"settings cannot have another {name} than {needed}: {reason}")
    elif name.startswith(f"{_LEGACY}."):
        raise ConfigError(f"settings cannot have {name}: as Spark did it before, two values may be written as one")
    if name in _OURS and not (name == "spark.sql.shuffle.partitions" and _plain(value) == str(shards)):
        raise ConfigError(f"settings cannot have {name}: {_OURS[name]}")


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def fixed_settings() -> dict[str, str]:
    """What every session has, whatever the file says."""
    return {name: value for name, (value, _) in _FIXED.items()}


def refused(data: Mapping[str, Any], *, streaming: bool) -> Iterator[Problem]:
    """What else a job file says that Spark cannot honour. `streaming`: its source never ends."""
    for key, sentence in _REFUSED_SECTIONS.items():
        if key in data:
            yield Problem((key,), sentence)
    checkpoint, spark = data.get("checkpoint"), data.get("spark")
    if isinstance(checkpoint, dict) and "key" in checkpoint:
        yield Problem(("checkpoint", "key"), _NO_KEY)
    if streaming and "checkpoint" not in data:
        yield Problem(("checkpoint",), "is missing: a stream in Spark keeps its state in a folder, checkpoint.path")
    source = data.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    for key, other, kinds in (("max_files", "max_offsets", FILES), ("max_offsets", "max_files", STREAMS)):
        if not isinstance(spark, dict) or key not in spark:
            continue
        if not streaming:
            yield Problem(("spark", key), "is for streams: a source that ends is one batch")
        elif kind in (*FILES, *STREAMS) and kind not in kinds:
            yield Problem(("spark", key), f"bounds nothing here: for a source of type {kind} it is {other}")
    for key in ("source", "sink"):
        given = data.get(key)
        if isinstance(given, dict) and isinstance(given.get("type"), str):
            yield from _refused_end(key, given)


def _refused_end(key: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    kind = given["type"]
    if kind not in (*FILES, *STREAMS):
        yield Problem((key, "type"), f"cannot be {kind} in Spark: {', '.join(FILES)} and {' and '.join(STREAMS)} can")
        return
    csv = given.get("csv")
    if key == "sink" and isinstance(csv, dict) and csv.get("formulas") == "refuse":
        yield Problem((key, "csv", "formulas"), "cannot be refuse in Spark: use escape or keep")
    path = given.get("path")
    if key == "sink" and isinstance(path, str) and path.lower().endswith(SINGLE):
        yield Problem((key, "path"), "must be a folder, which Spark fills with files: out/")
    if kind in STREAMS:
        for name, reason in (_KAFKA_SOURCE if key == "source" else _KAFKA_SINK).items():
            if name in given:
                yield Problem((key, name), f"cannot be used in Spark: {reason}")
        if key == "sink" and given.get("format", "json") != "json":
            yield Problem((key, "format"), "must be json in Spark")
        tls = given.get("tls")
        if isinstance(tls, dict):
            for name, reason in _TLS.items():
                if name in tls:
                    yield Problem((key, "tls", name), f"cannot be used in Spark: {reason}")
