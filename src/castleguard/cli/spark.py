"""`castleguard spark job.yaml`: run a job in Apache Spark, or list its published files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from castleguard.cli import print_traceback_if_debugging
from castleguard.cli.job_options import job_argument
from castleguard.cli.signals import current_handlers, interruption_message, restore_handlers, stop_on_signals
from castleguard.errors import CastleguardError
from castleguard.runtime.stopping import Stop

if TYPE_CHECKING:
    from castleguard.spark.query_progress import Batch
    from castleguard.spark.spark_job import Prepared

_ABORTED_STREAM = "aborted; the next run restores the last micro-batch"
_ABORTED_BATCH = "interrupted; nothing is published: delete the unfinished output folder and run the job again"


@click.command(short_help="Run a job in Apache Spark.")
@job_argument
@click.option("--master", metavar="URL", help="Spark master: local[2], spark://host:7077, yarn.  [default: local[*,4]]")
@click.option("--until-idle", is_flag=True, help="End a stream when no rows arrive and none are pending.")
@click.option("--allow-duplicates", is_flag=True, help="Accept that a Kafka topic may get rows twice after a crash.")
@click.option("--committed", is_flag=True, help="Only list the published files; JOB may also be the output folder.")
@click.option("-q", "--quiet", is_flag=True, help="Print no micro-batches and no summary.")
def spark(
    job_file: Path, master: str | None, until_idle: bool, allow_duplicates: bool, committed: bool, quiet: bool
) -> None:
    """Run the job in the file JOB in Apache Spark, with the number of shards from its spark section.

    A source that ends is one batch. A source that does not (follow: true, Kafka) is a stream, which runs until SIGTERM
    or Ctrl-C stops it; the next run restores its state, pending rows included.

    Hand out only files in outcome=published. After a crash that folder may contain extra files that repeat rows: Spark
    ignores them, and --committed lists the files that count.
    """
    if committed:
        _list_committed(job_file)
        return
    from castleguard.jobs.check.for_spark import skipped_files
    from castleguard.jobs.load import load
    from castleguard.spark.session import check_installed
    from castleguard.spark.spark_job import check_kept, opened, prepare
    from castleguard.spark.warming import warm_up

    job = load(job_file)
    prepared = prepare(job, allow_duplicates=allow_duplicates)
    if until_idle and not prepared.streaming:
        raise click.UsageError("--until-idle applies to streams only, and this source ends by itself: remove it")
    found = check_installed()
    check_kept(prepared)
    skipped = skipped_files(prepared)
    if skipped is not None:
        click.echo(job.mask(f"castleguard: {skipped}; rename files that should be read"), err=True)
    if not quiet:
        click.echo(job.mask(opening_text(prepared)) + "\n")
        click.echo(f"Starting Spark {found.spark}{f' with Java {found.java}' if found.java else ''}.")
    warm_up(job.schema, job.policy)
    handlers = current_handlers()
    aborted = _ABORTED_STREAM if prepared.streaming else _ABORTED_BATCH
    with interruption_message(aborted), _printing_causes(), opened(prepared, master=master) as (session, key):
        restore_handlers(handlers)  # Spark has replaced them
        outcome = _run(session, prepared, key, until_idle=until_idle, quiet=quiet)
    if not quiet:
        click.echo(job.mask(closing_text(prepared, outcome)))


def _run(session: Any, prepared: "Prepared", key: bytes | None, *, until_idle: bool, quiet: bool) -> str:
    from castleguard.spark.spark_job import follow_query, run_batch, start

    if not prepared.streaming:
        run_batch(session, prepared, key)
        return "finished"

    def tell(batch: "Batch") -> None:
        if not quiet and (batch.rows or batch.published or batch.rejected):
            click.echo(batch_line(batch))

    stop = Stop()
    with stop_on_signals(stop, notice="stopping; press Ctrl-C again to abort", aborted=_ABORTED_STREAM):
        return follow_query(start(session, prepared), prepared, tell, stop=stop, until_idle=until_idle)


def _list_committed(path: Path) -> None:
    from castleguard.spark.committed import committed

    if path.is_dir():
        folder = path
    else:
        from castleguard.errors import ConfigError
        from castleguard.jobs.load import load

        job = load(path)
        if not isinstance(getattr(job.sink.options, "path", None), Path):
            raise ConfigError(
                f"{job.where('sink')}  sink.type {job.sink.type} has no files to list: --committed needs a folder"
            )
        folder = job.sink.options.path
    for file in committed(folder):
        click.echo(str(file))


@contextmanager
def _printing_causes() -> Iterator[None]:
    """Print the traceback of Spark's error behind ours, if debugging."""
    try:
        yield
    except CastleguardError as exc:
        if isinstance(exc.__cause__, Exception):
            print_traceback_if_debugging(exc.__cause__)
        raise


def opening_text(prepared: "Prepared") -> str:
    """The shards, the output and the promise."""
    from castleguard.runtime.durations import spell_duration
    from castleguard.spark.output import OUTCOME, PUBLISHED

    job, shards = prepared.job, prepared.plan.shards
    path = getattr(job.sink.options, "path", None)
    place = f"{path}/{OUTCOME}={PUBLISHED}" if path is not None else f"topic {job.sink.options.topic}"
    pace = f"a micro-batch every {spell_duration(prepared.every)}" if prepared.streaming else "one batch"
    spread = f"{shards} shard{'' if shards == 1 else 's'}"
    return f"{job.name}: {spread}, {pace}; published rows go to {place}.\n\n{prepared.guarantee.paragraphs()}"


def batch_line(batch: "Batch") -> str:
    """A micro-batch as one line."""
    parts = [f"{batch.rows:,} rows in", f"{batch.published:,} published"]
    if batch.rejected:
        parts.append(f"{batch.rejected:,} rejected")
    if batch.pending is not None:
        parts.append(f"{batch.pending:,} pending")
    return f"batch {batch.number}: {', '.join(parts)} ({batch.seconds:.1f} s)"


def closing_text(prepared: "Prepared", outcome: str) -> str:
    """The books of all shards, and what the next run will do."""
    from castleguard.jobs.check.for_spark import skipped_files

    ending = {
        "finished": "The source has ended; all rows that can be published are published.",
        "stopped": "Stopped; the next `castleguard spark` restores this state.",
        "idle": "No rows arrive and none are pending. Run `castleguard spark` again to process later rows.",
    }[outcome]
    skipped = skipped_files(prepared) if outcome == "idle" else None
    if skipped is not None:
        ending = f"{ending}\nBut {skipped}."
    numbers = _numbers(prepared)
    where = getattr(prepared.job.sink.options, "path", None)
    listed = (
        "" if where is None else f"\n`castleguard spark {prepared.job.path} --committed` lists the published files."
    )
    return f"{numbers}{ending}{listed}"


def _numbers(prepared: "Prepared") -> str:
    """The table of the summary, if the output contains books."""
    from castleguard.cli.summary import books_table
    from castleguard.errors import InputError
    from castleguard.spark.books import books_of, malformed_in

    job = prepared.job
    folder = getattr(job.sink.options, "path", None)
    if folder is None:
        return ""
    try:
        books = books_of(folder, job.sink.type, prepared.plan.shards)  # type: ignore[arg-type]  # one of the formats
        if books is None:
            return "No rows arrived.\n\n"
        malformed = malformed_in(folder, job.sink.type)  # type: ignore[arg-type]
    except InputError:
        return ""  # nothing was committed
    table = books_table(books.report, malformed=malformed)
    missing = "" if books.whole else "\nThese numbers do not include shards that have received no rows for a long time."
    return f"\n{table}\n{missing}\n"
