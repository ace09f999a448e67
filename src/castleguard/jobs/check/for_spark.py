"""The part of `castleguard validate` that is about Spark: what is installed, how rows are spread, what was kept."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from castleguard.errors import CastleguardError
from castleguard.jobs.check.checklist import Check, refused
from castleguard.jobs.check.folders import check_private_folder, check_space, writable
from castleguard.spark.reading import FileRead

if TYPE_CHECKING:
    from castleguard.config.job_model import JobFile
    from castleguard.spark.spark_job import Prepared


def check_spark(job: "JobFile") -> Iterator[Check]:
    """All checks of a job for Spark that its schema, its policy and its source do not answer."""
    from castleguard.spark.session import check_installed
    from castleguard.spark.spark_job import prepare

    try:
        found = check_installed()
    except CastleguardError as exc:
        yield Check("spark", f"{exc}", "bad")
    else:
        yield Check("spark", f"pyspark {found.spark} and Java {found.java or 'of spark-submit'} are there")
    try:
        prepared = prepare(job, allow_duplicates=True)
    except CastleguardError as exc:
        yield from refused(exc)
        return
    yield from _check_names(prepared)
    yield from _check_shards(prepared)
    yield from _check_output(prepared)
    yield from _check_checkpoint(prepared)


def _check_names(prepared: "Prepared") -> Iterator[Check]:
    words = left_out_words(prepared)
    if words is not None:
        yield Check("source", f"{words}", "doubtful", "rename what is to be read")


def left_out_words(prepared: "Prepared") -> str | None:
    """Of files that Spark's streams leave out: a rule of theirs, of which they say nothing."""
    if not prepared.streaming or not isinstance(prepared.reading, FileRead):
        return None
    left_out = prepared.reading.left_out()
    if not left_out:
        return None
    one = f"1 file is not read, {left_out[0]}"
    several = f"{len(left_out):,} files are not read, {left_out[0]} for one"
    rule = "a stream of Spark leaves out names that begin with _ or . or end with ._COPYING_"
    return f"{one if len(left_out) == 1 else several}: {rule}"


def _check_shards(prepared: "Prepared") -> Iterator[Check]:
    assert prepared.job.spark is not None
    by = ", ".join(prepared.plan.route.columns)
    shards = prepared.plan.shards
    if shards == 1:
        yield Check(
            "spark", "one shard, so one core does the work", "doubtful", "more shards spread it, with more loss"
        )
    else:
        yield Check("spark", f"{shards} shards, to which rows are sent by {by}")
    if not prepared.plan.position:
        yield Check("spark", "without a position the place of a rejected row is not told", "doubtful")


def _check_output(prepared: "Prepared") -> Iterator[Check]:
    sink = prepared.job.sink
    if sink.type == "kafka":
        yield Check(
            "sink",
            "Spark writes to Kafka without transactions, so rows may come twice",
            "doubtful",
            "use a folder, or run with --allow-duplicates",
        )
        return
    path: Path = sink.options.path
    yield writable(path, "sink")
    yield from check_space(path, "sink")


def _check_checkpoint(prepared: "Prepared") -> Iterator[Check]:
    from castleguard.spark.spark_job import check_kept

    checkpoint = prepared.job.checkpoint
    if checkpoint is None:
        yield Check(
            "checkpoint",
            "there is none, so a batch that is run again draws anew",
            "doubtful",
            "add checkpoint: {path: state/}",
        )
    else:
        yield writable(checkpoint.path, "checkpoint")
        yield from check_private_folder(checkpoint.path, "checkpoint")
        yield from check_space(checkpoint.path, "checkpoint")
        yield Check(
            "checkpoint",
            "not encrypted, though it holds raw rows",
            "doubtful",
            "put it and spark.local.dir on an encrypted volume",
        )
    try:
        goes_on = check_kept(prepared)
    except CastleguardError as exc:
        yield Check("", f"the job would not start: {exc}", "bad")
    else:
        if goes_on:
            yield Check("", "the job can go on from what it has kept")
