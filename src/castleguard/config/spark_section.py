"""The spark section: how a job is spread over shards in Apache Spark, and which keys such a job cannot have.

    spark: {shards: 4, route: hash, settings: {spark.executor.memory: 4g}}

The job then runs with `castleguard spark`, and `checkpoint.path` is a folder. Keys that Spark cannot honour are refused
here with their line, never ignored.
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
    f"{_PREFIX}.stateStore.providerClass": (_ROCKS, "only this store supports the state of shards"),
    "spark.sql.session.timeZone": ("UTC", "times must mean the same on every machine"),
    "spark.speculation": ("false", "two tasks would write the state of one shard at the same time"),
    f"{_PREFIX}.noDataMicroBatches.enabled": ("true", "max_wait must expire while no rows arrive"),
    "spark.sql.files.ignoreCorruptFiles": ("false", "rows would be skipped silently"),
    "spark.sql.files.ignoreMissingFiles": ("false", "rows would be skipped silently"),
    "spark.sql.parquet.outputTimestampType": ("TIMESTAMP_MICROS", "times must be written as they are read"),
    f"{_LEGACY}.timeParserPolicy": ("CORRECTED", "times must keep all their digits"),
    f"{_LEGACY}.nullValueWrittenAsQuotedEmptyStringCsv": ("false", "null must differ from an empty string"),
}
_OURS = {
    "spark.sql.shuffle.partitions": "set spark.shards instead",
    f"{_PREFIX}.checkpointLocation": "set checkpoint.path instead",
    f"{_PREFIX}.commitProtocolClass": "committed files could no longer be identified",
    "spark.sql.sources.commitProtocolClass": "committed files could no longer be identified",
}
_REFUSED_SECTIONS = {
    "dead_letter": "is not supported in Spark: rejected rows are in the output, with the outcome rejected",
    "metrics": "is not supported in Spark, which has its own metrics: set spark.ui.enabled in spark.settings",
    "sites": "cannot be combined with spark: a job is spread over sites or over shards",
}
_KAFKA_SOURCE = {
    "group": "Spark keeps its offsets in the checkpoint, not in a consumer group",
    "batch_messages": "use spark.max_offsets, the number of messages in a micro-batch",
    "timeout": "Spark has its own settings for it",
    "client": "its settings are for another client library than Spark's",
}
_KAFKA_SINK = {
    "transactional_id": "Spark writes to Kafka without transactions",
    "transaction_timeout": "Spark writes to Kafka without transactions",
    "segment_header": "Spark has no segments",
    "timeout": _KAFKA_SOURCE["timeout"],
    "client": _KAFKA_SOURCE["client"],
}
_TLS = {
    "certificate_file": "Java needs a key store: set kafka.ssl.keystore.location in a query of your own",
    "key_file": "Java needs a key store: set kafka.ssl.keystore.location in a query of your own",
    "key_password": "key_file is not supported either",
}
_NO_KEY = (
    "cannot be used: Spark does not encrypt its state, which holds raw rows; delete the line, and put checkpoint.path "
    "and spark.local.dir on an encrypted volume"
)


@dataclass(frozen=True, kw_only=True)
class Spark:
    """How rows are spread over shards in Apache Spark. Run such a job with `castleguard spark`."""

    shards: int
    """Number of engines that share the rows. It cannot change while rows are pending."""
    route: Literal["hash", "locality"] = "hash"
    """Shard of a row: by person (hash), or by region of the domain (locality, less loss)."""
    cuts: Path | None = None
    """For locality: the file of cut points written by `castleguard cuts`; without it the domain is halved."""
    position: tuple[str, ...] | None = None
    """Columns that order the rows; default: file and row, or partition and offset. []: a secret order."""
    settings: Mapping[str, str | int | float | bool] = field(default_factory=dict, repr=False)
    """Settings of the Spark session, such as spark.executor.memory."""
    max_files: int | None = None
    """Most new files in a micro-batch; default: no limit."""
    max_offsets: int | None = None
    """Most Kafka messages in a micro-batch; default: no limit."""

    def __post_init__(self) -> None:
        for name in ("shards", "max_files", "max_offsets"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")
        if self.cuts is not None and self.route != "locality":
            raise ConfigError("cuts needs route: locality; the route hash has no cut points")
        if self.position is not None and len(set(self.position)) < len(self.position):
            raise ConfigError("position names a column twice")
        check_settings(self.settings, self.shards)

    def plain_settings(self) -> dict[str, str]:
        """The settings as Spark takes them."""
        return {name: _plain(value) for name, value in self.settings.items()}


def check_settings(settings: Mapping[str, object], shards: int) -> None:
    """Raise ConfigError for a setting that would break a promise, or that castleguard sets itself."""
    for name, value in settings.items():
        _check_setting(str(name), value, shards)


def _check_setting(name: str, value: object, shards: int) -> None:
    if not name.startswith("spark."):
        raise ConfigError(f"settings must have names that begin with spark., got {name!r}")
    if name in _FIXED:
        needed, reason = _FIXED[name]
        if _plain(value) != needed:
            raise ConfigError(f"settings must have {name}: {needed} ({reason})")
    elif name.startswith(f"{_LEGACY}."):
        raise ConfigError(f"settings cannot have {name}: legacy behaviour may write two values as one")
    if name in _OURS and not (name == "spark.sql.shuffle.partitions" and _plain(value) == str(shards)):
        raise ConfigError(f"settings cannot have {name}: {_OURS[name]}")


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def fixed_settings() -> dict[str, str]:
    """Settings of every session, which a file cannot change."""
    return {name: value for name, (value, _) in _FIXED.items()}


def refused(data: Mapping[str, Any], *, streaming: bool) -> Iterator[Problem]:
    """Problems of a job file outside its spark section that Spark cannot honour. `streaming`: the source never ends."""
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
            yield Problem(("spark", key), "applies to streams only: a source that ends is one batch")
        elif kind in (*FILES, *STREAMS) and kind not in kinds:
            yield Problem(("spark", key), f"has no effect on a source of type {kind}: use {other}")
    for key in ("source", "sink"):
        given = data.get(key)
        if isinstance(given, dict) and isinstance(given.get("type"), str):
            yield from _refused_end(key, given)


def _refused_end(key: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    kind = given["type"]
    if kind not in (*FILES, *STREAMS):
        yield Problem((key, "type"), f"cannot be {kind} in Spark: use {', '.join(FILES)} or {' or '.join(STREAMS)}")
        return
    csv = given.get("csv")
    if key == "sink" and isinstance(csv, dict) and csv.get("formulas") == "refuse":
        yield Problem((key, "csv", "formulas"), "cannot be refuse in Spark: use escape or keep")
    path = given.get("path")
    if key == "sink" and isinstance(path, str) and path.lower().endswith(SINGLE):
        yield Problem((key, "path"), "must be a folder in Spark, such as out/")
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
