"""A job file in Spark: from the file to a plan, from the plan to a query, and what is told while it runs.

prepare    the file and the folders around it: no Spark is needed, and nothing is changed
opened     the job's folder is locked and its plan kept there, a session is started
run_batch  a source that ends: one batch
start      a source that does not: a query, which `follow_query` looks after
"""

import hashlib
import os
import time
import warnings
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
from castleguard.spark import kept
from castleguard.spark.committed import DONE
from castleguard.spark.description import describe
from castleguard.spark.failures import translated, words_of
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
from castleguard.spark.progress import Batch, Progress, counting_in, counting_out
from castleguard.spark.reading import RESERVED, FileRead, MessageRead
from castleguard.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVERY = 5.0
"""Seconds between two micro-batches, where a job has no checkpoint that says otherwise."""

_LOOK = 0.2  # seconds between two looks at a query
_IDLE_TRIGGERS = 2


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A job that Spark can run."""

    job: JobFile
    plan: Plan
    reading: Reading
    guarantee: Guarantee
    """Of all shards together."""
    inputs: Inputs = ()
    """The files of a source that ends."""

    @property
    def streaming(self) -> bool:
        """Whether its source never ends."""
        return self.job.source.never_ends

    @property
    def every(self) -> float:
        """Seconds between two micro-batches."""
        return EVERY if self.job.checkpoint is None else self.job.checkpoint.every

    def facts(self) -> dict[str, Any]:
        """What no other job has in common with this one, as it is kept beside the checkpoint."""
        job = self.job
        return {
            "schema": job.schema.fingerprint(),
            "privacy": job.policy.fingerprint(),
            "numbers": job.numbers,
            "streaming": self.streaming,
            **self.plan.fingerprint(),
            "source": {"type": job.source.type, "where": _where(job.source.options), **self._how_it_is_read()},
            "sink": {"type": job.sink.type, "where": _where(job.sink.options), "csv": _how_csv_is_written(job)},
        }

    def _how_it_is_read(self) -> dict[str, Any]:
        """What makes other rows of the same bytes: rows that are read again must be the same."""
        reading = self.reading
        found: dict[str, Any] = {
            "format": reading.format,
            "read": [{"name": field.name, "type": str(field.type)} for field in reading.columns],
        }
        if isinstance(reading, MessageRead):
            brokers = sorted(name.strip() for name in str(self.job.source.options.brokers).split(","))
            found |= {"columns": list(reading.order), "key_column": reading.key_column}
            found["brokers"] = _hashed(",".join(brokers))
        return found


def prepare(job: JobFile, *, allow_duplicates: bool = False) -> Prepared:
    """Look at everything that can be known before Spark is started. Raises CastleguardError, with file and line where
    the file is to be changed.
    """
    if job.spark is None:
        raise ConfigError(
            f"{job.path}  has no spark section: add spark: {{shards: 2}}, or run the job with `castleguard run`"
        )
    check_places(job)
    _check_names(job)
    if job.sink.type == "kafka" and not allow_duplicates:
        twice = (
            ", and a row that is published twice with noise says more than is promised"
            if job.policy.draws_noise
            else ""
        )
        raise ConfigError(
            f"{job.where('sink')}  sink.type kafka may get rows twice in Spark, which writes to it without "
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
    """The names of places are taken. Spark compares names without regard to capitals."""
    assert job.spark is not None
    for name in job.schema.columns:
        if name.casefold() in RESERVED:
            raise ConfigError(
                f"{job.where('schema')}  schema cannot have a column {name!r} in Spark: where a row stood has that "
                f"name there; rename it"
            )
    own = place_names(job.source.type)
    for name in job.spark.position or ():
        if name.casefold() in RESERVED and name not in own:
            raise ConfigError(f"{job.where('spark', 'position')}  spark.position cannot have {name!r}: it is taken")


def _check_limits(job: JobFile) -> None:
    """With a limit, one row more moves others into the next micro-batch."""
    assert job.spark is not None
    for key in ("max_files", "max_offsets"):
        if getattr(job.spark, key) is not None and hides_presence(job.schema, job.policy):
            raise ConfigError(
                f"{job.where('spark', key)}  spark.{key} cannot be used with this policy, which hides that a row is "
                f"there: one row more would move others into the next micro-batch; delete the line"
            )


def promised(job: JobFile, plan: Plan) -> Guarantee:
    """The statement for all shards together. Raises ConfigError if nothing can be promised."""
    try:
        return guarantee(plan, streaming=job.source.never_ends)
    except PolicyError as exc:
        raise ConfigError(f"{job.where('privacy')}  privacy cannot work in Spark: {exc}") from exc
    except SchemaError as exc:
        raise ConfigError(f"{job.where('schema')}  schema cannot work in Spark: {exc}") from exc


def plan_of(job: JobFile) -> Plan:
    """What the shards are to do."""
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
            f"{job.where('spark', 'shards')}  spark.shards is {shards}, and {job.spark.cuts} cuts the domain into "
            f"{cuts.shards}: the two must be the same"
        )
    return LocalityRoute(job.schema, cuts)


def _check_folders(job: JobFile, reading: Reading) -> None:
    """Spark looks at all that lies below the folder of a stream: what the job writes itself must lie elsewhere. And
    what is for others must not lie where raw rows and keys are.
    """
    paths = {"sink": getattr(job.sink.options, "path", None)}
    paths["checkpoint"] = None if job.checkpoint is None else job.checkpoint.path
    real = {key: Path(os.path.realpath(path)) for key, path in paths.items() if path is not None}
    for key, other in (("sink", "checkpoint"), ("checkpoint", "sink")):
        if key in real and other in real and real[key].is_relative_to(real[other]):
            raise ConfigError(f"{job.where(key)}  {key}.path is inside of {other}.path: name a folder beside it")
    if not (isinstance(reading, FileRead) and job.source.never_ends):
        return
    for key, path in real.items():
        if path.is_relative_to(os.path.realpath(reading.folder)):
            raise ConfigError(f"{job.where(key)}  {key}.path is inside of the folder that is read: name another folder")


@contextmanager
def opened(prepared: Prepared, *, master: str | None = None) -> "Iterator[tuple[SparkSession, bytes | None]]":
    """A session, with the job's folder locked and its plan kept; and the key of a batch, if it has a folder."""
    job = prepared.job
    assert job.spark is not None
    facts = prepared.facts()
    with ExitStack() as opened:
        opened.enter_context(warnings.catch_warnings())
        # Of pandas it is handed bytes and whole numbers only, whatever the version.
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        known, key = False, None
        if job.checkpoint is not None:
            folder = opened.enter_context(kept.folder_of(job.checkpoint.path))
            if prepared.streaming:
                known = kept.check_plan(folder, facts)
        _check_output(prepared, known=known)
        if job.checkpoint is not None and prepared.streaming:
            if not known:
                kept.keep_plan(job.checkpoint.path, facts)
            describe(job, prepared.guarantee, ended=None)  # the plan is kept: the folder is known to be this job's
        elif job.checkpoint is not None:
            key = kept.batch_key(job.checkpoint.path, facts, prepared.inputs)
        with translated():
            spark = session(job.spark.plain_settings(), job.spark.shards, master, name=f"castleguard {job.name}")
        opened.callback(_stop_session, spark)
        yield spark, key


def _check_output(prepared: Prepared, *, known: bool) -> None:
    job = prepared.job
    if job.sink.type == "kafka":
        return
    if not prepared.streaming:
        kept.check_batch_output(job.sink.options.path)
        return
    assert job.checkpoint is not None
    kept.check_stream_output(job.sink.options.path, job.checkpoint.path, known=known)


def check_kept(prepared: Prepared) -> bool:
    """Whether the job would go on from what it has kept; False: it would begin. Nothing is changed. Raises as a run."""
    known, checkpoint = False, prepared.job.checkpoint
    if checkpoint is not None:
        kept.check_folder(checkpoint.path)
        known = prepared.streaming and kept.check_plan(checkpoint.path, prepared.facts())
    if prepared.streaming or not _is_empty(prepared.job.sink.options):
        _check_output(prepared, known=known)
    return known


def _is_empty(options: Any) -> bool:
    path = getattr(options, "path", None)
    return path is None or (path.is_dir() and not any(path.iterdir()))


def frame_of(spark: "SparkSession", prepared: Prepared, key: bytes | None) -> "DataFrame":
    """All that comes out, with what is counted on the way."""
    from castleguard.spark.operator import run_plan

    read = source_frame(spark, prepared.job, prepared.reading, prepared.inputs)
    output = run_plan(counting_in(good(read)), prepared.plan, key=key)
    if prepared.job.source.type != "parquet":  # in which nothing can be malformed
        output = with_malformed(output, read)
    return counting_out(output, prepared.plan.shards)


def run_batch(spark: "SparkSession", prepared: Prepared, key: bytes | None) -> None:
    """Read everything, publish it, and return when it is there."""
    with translated():
        written(frame_of(spark, prepared, key), prepared.job).mode("errorifexists").save()
    check_inputs(prepared)
    describe(prepared.job, prepared.guarantee, ended="finished")


def check_inputs(prepared: Prepared) -> None:
    """Raise InputError if files have changed while they were read: Spark may have read them more than once, and the
    key was for what they were. The output then loses the sign that it is complete.
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
        f"{min(changed)} has changed while it was read: {what} must not be used; delete it, and run again when the "
        f"files stay as they are"
    )


def start(spark: "SparkSession", prepared: Prepared) -> Any:
    """The query of a stream, which runs from now on."""
    checkpoint = prepared.job.checkpoint
    assert checkpoint is not None
    with translated():
        writer = written(frame_of(spark, prepared, None), prepared.job).outputMode("append")
        writer = writer.option("checkpointLocation", "file://" + os.path.abspath(checkpoint.path))
        milliseconds = max(round(1000 * prepared.every), 1)
        return writer.trigger(processingTime=f"{milliseconds} milliseconds").queryName(prepared.job.name).start()


def follow_query(
    query: Any, prepared: Prepared, tell: Callable[[Batch], None], *, stop: Stop, until_idle: bool = False
) -> str:
    """Tell every micro-batch, until the query fails, is told to stop, or has nothing more to do. Returns "stopped" or
    "idle". Raises CastleguardError for what ended it.
    """
    books = Progress()
    patience = (prepared.job.policy.max_wait or 0.0) + _IDLE_TRIGGERS * prepared.every
    outcome = "stopped"
    with translated():
        try:
            while query.isActive and not stop.asked:
                for batch in books.news(query):
                    tell(batch)
                if until_idle and books.idle(patience):
                    outcome = "idle"
                    break
                time.sleep(_LOOK)
            failure = query.exception()
            if failure is not None:
                raise failure
            query.stop()
            for batch in books.news(query):
                tell(batch)
        except Exception:
            # Whoever stops a group of processes stops Java, too, which may be the first to go.
            if not stop.asked:
                raise
    return outcome


def _stop_session(spark: "SparkSession") -> None:
    try:
        spark.stop()
    except Exception as exc:  # it is over either way, and what ended it has been told
        if os.environ.get("CASTLEGUARD_DEBUG"):
            raise words_of(exc) from exc


def _where(options: Any) -> str:
    """What is read or written."""
    return _hashed(os.path.abspath(options.path) if hasattr(options, "path") else str(options.topic))


def _how_csv_is_written(job: JobFile) -> str | None:
    """Equal groups must look equal in all files of a folder."""
    return job.sink.options.csv.formulas if job.sink.type == "csv" else None


def _hashed(text: str) -> str:
    """A hash of it: a name that came from the environment must not be read anywhere."""
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()
