"""The part of `castleguard validate` that is about Spark: what is installed, how rows are spread, what was kept."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from castleguard.cli.checks import Check, check_private_folder, check_space, writable
from castleguard.errors import CastleguardError, UnavailableError
from castleguard.hosts.spark.reading import FileRead

if TYPE_CHECKING:
    from castleguard.config.job_model import JobFile
    from castleguard.hosts.spark.job import Prepared


def check_spark(job: "JobFile") -> Iterator[Check]:
    """All checks of a job for Spark that its schema, its policy and its source do not answer."""
    from castleguard.hosts.spark.job import prepare
    from castleguard.hosts.spark.session import check_installed

    try:
        found = check_installed()
    except CastleguardError as exc:
        yield Check(f"spark: {exc}", "bad")
    else:
        yield Check(f"spark: pyspark {found.spark} and Java {found.java or 'of spark-submit'} are there")
    try:
        prepared = prepare(job, allow_duplicates=True)
    except CastleguardError as exc:
        yield Check(str(exc), "bad", passing=isinstance(exc, UnavailableError))
        return
    yield from _check_names(prepared)
    yield from _check_shards(prepared)
    yield from _check_output(prepared)
    yield from _check_checkpoint(prepared)


def _check_names(prepared: "Prepared") -> Iterator[Check]:
    """Spark's own rule, of which it says nothing."""
    if not prepared.streaming or not isinstance(prepared.reading, FileRead) or not prepared.reading.folder.is_dir():
        return
    left_out = [path.name for path in prepared.reading.folder.glob("_*") if prepared.reading.accepts(path)]
    if left_out:
        yield Check(
            f"source: {min(left_out)} begins with _, and a stream of Spark does not read such files",
            "doubtful",
            "rename it, if it is to be read",
        )


def _check_shards(prepared: "Prepared") -> Iterator[Check]:
    assert prepared.job.spark is not None
    by = ", ".join(prepared.plan.route.columns)
    shards = prepared.plan.shards
    if shards == 1:
        yield Check("spark: one shard, so one core does the work", "doubtful", "more shards spread it, with more loss")
    else:
        yield Check(f"spark: {shards} shards, to which rows are sent by {by}")
    if not prepared.plan.position:
        yield Check("spark: without a position the place of a rejected row is not told", "doubtful")


def _check_output(prepared: "Prepared") -> Iterator[Check]:
    sink = prepared.job.sink
    if sink.type == "kafka":
        yield Check(
            "sink: Spark writes to Kafka without transactions, so rows may come twice",
            "doubtful",
            "use a folder, or run with --allow-duplicates",
        )
        return
    path: Path = sink.options.path
    yield writable(path, "sink")
    yield from check_space(path, "sink")


def _check_checkpoint(prepared: "Prepared") -> Iterator[Check]:
    from castleguard.hosts.spark.job import check_kept

    checkpoint = prepared.job.checkpoint
    if checkpoint is None:
        yield Check(
            "checkpoint: there is none, so a batch that is run again draws anew",
            "doubtful",
            "add checkpoint: {path: state/}",
        )
    else:
        yield writable(checkpoint.path, "checkpoint")
        yield from check_private_folder(checkpoint.path, "checkpoint")
        yield from check_space(checkpoint.path, "checkpoint")
        yield Check(
            "checkpoint: not encrypted, though it holds raw rows",
            "doubtful",
            "put it and spark.local.dir on an encrypted volume",
        )
    try:
        goes_on = check_kept(prepared)
    except CastleguardError as exc:
        yield Check(f"the job would not start: {exc}", "bad")
    else:
        if goes_on:
            yield Check("the job can go on from what it has kept")
