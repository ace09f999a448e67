"""A job file in Spark: from the file to a plan, from the plan to a query, and its progress.

prepare    checks the file and its folders, without Spark and without changing anything
opened     locks the job's folder, stores the plan there, and starts a session
run_batch  runs a finite source as one batch
start      starts the query of an endless source, which `follow_query` monitors
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castleguard.config.job_model import JobFile
from castleguard.config.places import check_places
from castleguard.errors import ConfigError, InputError, PolicyError, SchemaError
from castleguard.privacy.guarantee import Guarantee
from castleguard.runtime.stopping import Stop
from castleguard.shards.cuts import cut_domain
from castleguard.shards.cuts_file import read_cuts
from castleguard.shards.plan import Plan, Route
from castleguard.shards.promises import guarantee, hides_presence
from castleguard.shards.routing import HashRoute, LocalityRoute
from castleguard.spark import job_folder
from castleguard.spark.committed import DONE
from castleguard.spark.description import describe
from castleguard.spark.failures import translate, translated
from castleguard.spark.frames import (
    Inputs,
    Reading,
    changed_inputs,
    good,
    inputs_of,
    place_names,
    reading_of,
    source_frame,
    with_malformed,
    written,
)
from castleguard.spark.operator import any_pandas, run_plan
from castleguard.spark.query_progress import Batch, Progress, counting_in, counting_out
from castleguard.spark.reading import RESERVED, FileRead, MessageRead
from castleguard.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVERY = 5.0
"""Seconds between two micro-batches of a job without a checkpoint section."""

_POLL = 0.2  # seconds between two checks of a query
_IDLE_TRIGGERS = 2


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A job that Spark can run."""

    job: JobFile
    plan: Plan
    reading: Reading
    guarantee: Guarantee
    """Guarantee of all shards together."""
    inputs: Inputs = ()
    """The files of a finite source."""

    @property
    def streaming(self) -> bool:
        """Whether its source never ends."""
        return self.job.source.never_ends

    @property
    def every(self) -> float:
        """Seconds between two micro-batches."""
        return EVERY if self.job.checkpoint is None else self.job.checkpoint.every

    def facts(self) -> dict[str, Any]:
        """Return the identity of the job, which is stored beside the checkpoint."""
        job = self.job
        return {
            "schema": job.schema.fingerprint(),
            "privacy": job.policy.fingerprint(),
            "numbers": job.numbers,
            "streaming": self.streaming,
            **self.plan.fingerprint(),
            "source": {"type": job.source.type, "where": _location(job.source.options), **self._reading_facts()},
            "sink": {"type": job.sink.type, "where": _location(job.sink.options), "csv": _formula_option(job)},
        }

    def _reading_facts(self) -> dict[str, Any]:
        """Return the options that affect how bytes become rows: a replay must read the same rows."""
        reading = self.reading
        found: dict[str, Any] = {
            "format": reading.format,
            "read": [{"name": field.name, "type": str(field.type)} for field in reading.columns],
        }
        if isinstance(reading, MessageRead):
            brokers = sorted(name.strip() for name in str(self.job.source.options.brokers).split(","))
            found |= {"columns": list(reading.order), "key_column": reading.key_column}
            found["brokers"] = _hash(",".join(brokers))
        return found


def prepare(job: JobFile, *, allow_duplicates: bool = False) -> Prepared:
    """Check everything that can be checked before Spark starts. Raises CastleguardError, with file and line if the job
    file must change.
    """
    if job.spark is None:
        raise ConfigError(
            f"{job.path}  has no spark section: add spark: {{shards: 2}}, or run the job with `castleguard run`"
        )
    check_places(job)
    _check_names(job)
    if job.sink.type == "kafka" and not allow_duplicates:
        twice = ", and a row published twice with noise reveals more than promised" if job.policy.draws_noise else ""
        raise ConfigError(
            f"{job.where('sink')}  sink.type kafka may receive rows twice, because Spark writes to it without "
            f"transactions{twice}: use a folder (parquet, csv, jsonl), or --allow-duplicates"
        )
    plan = plan_of(job)
    stated = promised(job, plan)
    _check_limits(job)
    own = place_names(job.source.type)
    reading = reading_of(job, tuple(name for name in plan.columns if name not in own))
    _check_folders(job, reading)
    inputs = () if job.source.never_ends else inputs_of(job)
    return Prepared(job=job, plan=plan, reading=reading, guarantee=stated, inputs=inputs)


def _check_names(job: JobFile) -> None:
    """Refuse column names that are reserved for the position of a row. Spark ignores the case of names."""
    assert job.spark is not None
    for name in job.schema.columns:
        if name.casefold() in RESERVED:
            raise ConfigError(
                f"{job.where('schema')}  schema cannot have a column {name!r} in Spark: the name is reserved for the "
                f"place of a row; rename the column"
            )
    own = place_names(job.source.type)
    for name in job.spark.position or ():
        if name.casefold() in RESERVED and name not in own:
            raise ConfigError(f"{job.where('spark', 'position')}  spark.position cannot have {name!r}: it is reserved")


def _check_limits(job: JobFile) -> None:
    """Refuse limits of a micro-batch where presence is hidden: one more row would move others into the next one."""
    assert job.spark is not None
    for key in ("max_files", "max_offsets"):
        if getattr(job.spark, key) is not None and hides_presence(job.schema, job.policy):
            raise ConfigError(
                f"{job.where('spark', key)}  spark.{key} cannot be used with this policy, which hides the presence of "
                f"a row: one more row would move others into the next micro-batch; delete the line"
            )


def promised(job: JobFile, plan: Plan) -> Guarantee:
    """Return the guarantee of all shards together. Raises ConfigError if the plan has none."""
    try:
        return guarantee(plan, streaming=job.source.never_ends)
    except PolicyError as exc:
        raise ConfigError(f"{job.where('privacy')}  privacy cannot work in Spark: {exc}") from exc
    except SchemaError as exc:
        raise ConfigError(f"{job.where('schema')}  schema cannot work in Spark: {exc}") from exc


def plan_of(job: JobFile) -> Plan:
    """Return the plan of the shards."""
    assert job.spark is not None
    position = place_names(job.source.type) if job.spark.position is None else job.spark.position
    try:
        route = _route(job, position)
    except SchemaError as exc:
        raise ConfigError(f"{job.where('spark')}  spark.route cannot be {job.spark.route}: {exc}") from exc
    return Plan(schema=job.schema, policy=job.policy, route=route, numbers=job.numbers, position=position)


def _route(job: JobFile, position: tuple[str, ...]) -> Route:
    assert job.spark is not None
    shards = job.spark.shards
    if job.spark.route == "hash":
        return HashRoute(job.schema, shards, position)
    cuts = cut_domain(job.schema, shards) if job.spark.cuts is None else read_cuts(job.spark.cuts, job.schema)
    if cuts.shards != shards:
        raise ConfigError(
            f"{job.where('spark', 'shards')}  spark.shards is {shards}, but {job.spark.cuts} cuts the domain into "
            f"{cuts.shards}: make them equal"
        )
    return LocalityRoute(job.schema, cuts)


def _check_folders(job: JobFile, reading: Reading) -> None:
    """Refuse nested folders.

    Spark reads everything below the folder of a stream, so the job must write elsewhere; and the output must not be
    beside raw rows and keys.
    """
    paths = {"sink": getattr(job.sink.options, "path", None)}
    paths["checkpoint"] = None if job.checkpoint is None else job.checkpoint.path
    real = {key: Path(os.path.realpath(path)) for key, path in paths.items() if path is not None}
    for key, other in (("sink", "checkpoint"), ("checkpoint", "sink")):
        if key in real and other in real and real[key].is_relative_to(real[other]):
            raise ConfigError(f"{job.where(key)}  {key}.path is inside {other}.path: use a separate folder")
    if not (isinstance(reading, FileRead) and job.source.never_ends):
        return
    for key, path in real.items():
        if path.is_relative_to(os.path.realpath(reading.folder)):
            raise ConfigError(f"{job.where(key)}  {key}.path is inside the folder that is read: use another folder")


@contextmanager
def opened(prepared: Prepared, *, master: str | None = None) -> "Iterator[tuple[SparkSession, bytes | None]]":
    """Lock the job's folder, store its plan, and yield a session, and the key if it is a batch with a folder."""
    job = prepared.job
    assert job.spark is not None
    facts = prepared.facts()
    with ExitStack() as opened:
        opened.enter_context(any_pandas())
        known, key = False, None
        if job.checkpoint is not None:
            folder = opened.enter_context(job_folder.folder_of(job.checkpoint.path))
            if prepared.streaming:
                known = job_folder.check_plan(folder, facts)
        _check_output(prepared, known=known)
        if job.checkpoint is not None and prepared.streaming:
            if not known:
                job_folder.keep_plan(job.checkpoint.path, facts)
            # After the plan, which shows that the folder belongs to this job.
            describe(job, prepared.guarantee, ended=None)
        elif job.checkpoint is not None:
            key = job_folder.batch_key(job.checkpoint.path, facts, prepared.inputs)
        with translated():
            spark = session(job.spark.plain_settings(), job.spark.shards, master, name=f"castleguard {job.name}")
        opened.callback(_stop_session, spark)
        yield spark, key


def _check_output(prepared: Prepared, *, known: bool) -> None:
    job = prepared.job
    if job.sink.type == "kafka":
        return
    if not prepared.streaming:
        job_folder.check_batch_output(job.sink.options.path)
        return
    assert job.checkpoint is not None
    job_folder.check_stream_output(job.sink.options.path, job.checkpoint.path, known=known)


def check_kept(prepared: Prepared) -> bool:
    """Whether a run would restore the checkpoint; False: it would start a new stream. Raises like a run."""
    known, checkpoint = False, prepared.job.checkpoint
    if checkpoint is not None:
        job_folder.check_folder(checkpoint.path)
        known = prepared.streaming and job_folder.check_plan(checkpoint.path, prepared.facts())
    if prepared.streaming or not _is_empty(prepared.job.sink.options):
        _check_output(prepared, known=known)
    return known


def _is_empty(options: Any) -> bool:
    path = getattr(options, "path", None)
    return path is None or (path.is_dir() and not any(path.iterdir()))


def frame_of(spark: "SparkSession", prepared: Prepared, key: bytes | None) -> "DataFrame":
    """Return the frame of the output, with counters."""
    read = source_frame(spark, prepared.job, prepared.reading, prepared.inputs)
    output = run_plan(counting_in(good(read)), prepared.plan, key=key)
    if prepared.job.source.type != "parquet":  # Parquet cannot have malformed rows
        output = with_malformed(output, read)
    return counting_out(output, prepared.plan.shards)


def run_batch(spark: "SparkSession", prepared: Prepared, key: bytes | None) -> None:
    """Read and publish everything, and return when it is written."""
    with translated():
        written(frame_of(spark, prepared, key), prepared.job).mode("errorifexists").save()
    check_inputs(prepared)
    describe(prepared.job, prepared.guarantee, ended="finished")


def check_inputs(prepared: Prepared) -> None:
    """Raise InputError if files changed while they were read, and remove the output's success marker.

    Spark may have read a file more than once, and the batch key belongs to its former content.
    """
    assert isinstance(prepared.reading, FileRead)
    changed = changed_inputs(prepared.reading.folder, prepared.inputs)
    if not changed:
        return
    path = getattr(prepared.job.sink.options, "path", None)
    if path is not None:
        (path / DONE).unlink(missing_ok=True)
    what = "what was published" if path is None else str(path)
    raise InputError(
        f"{min(changed)} changed while it was read: {what} must not be used; delete it, and run again when the files "
        f"no longer change"
    )


def start(spark: "SparkSession", prepared: Prepared) -> Any:
    """Start the query of a stream."""
    checkpoint = prepared.job.checkpoint
    assert checkpoint is not None
    with translated():
        writer = written(frame_of(spark, prepared, None), prepared.job).outputMode("append")
        writer = writer.option("checkpointLocation", "file://" + os.path.abspath(checkpoint.path))
        milliseconds = max(round(1000 * prepared.every), 1)
        return writer.trigger(processingTime=f"{milliseconds} milliseconds").queryName(prepared.job.name).start()


def follow_query(
    query: Any, prepared: Prepared, report: Callable[[Batch], None], *, stop: Stop, until_idle: bool = False
) -> str:
    """Report every micro-batch until the query fails, is asked to stop, or is idle. Returns "stopped" or "idle".

    Raises CastleguardError if the query failed.
    """
    progress = Progress()
    patience = (prepared.job.policy.max_wait or 0.0) + _IDLE_TRIGGERS * prepared.every
    outcome = "stopped"
    with translated():
        try:
            while query.isActive and not stop.asked:
                for batch in progress.news(query):
                    report(batch)
                if until_idle and progress.idle(patience):
                    outcome = "idle"
                    break
                time.sleep(_POLL)
            failure = query.exception()
            if failure is not None:
                raise failure
            query.stop()
            for batch in progress.news(query):
                report(batch)
        except Exception:
            # A signal to the process group also stops Java, possibly first.
            if not stop.asked:
                raise
    return outcome


def _stop_session(spark: "SparkSession") -> None:
    try:
        spark.stop()
    except Exception as exc:  # the session has ended either way, and its error was reported
        if os.environ.get("CASTLEGUARD_DEBUG"):
            raise translate(exc) from exc


def _location(options: Any) -> str:
    """Return a hash of the path or topic."""
    return _hash(os.path.abspath(options.path) if hasattr(options, "path") else str(options.topic))


def _formula_option(job: JobFile) -> str | None:
    """Return how formulas are escaped in CSV: equal groups must look equal in all files of a folder."""
    return job.sink.options.csv.formulas if job.sink.type == "csv" else None


def _hash(text: str) -> str:
    """Hash a name: it may come from the environment and must not be stored in clear."""
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()
