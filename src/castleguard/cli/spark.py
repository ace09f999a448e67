"""`castleguard spark job.yaml`: a job in Apache Spark, and what it has published."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from castleguard.cli import Interrupted, show_to_developers
from castleguard.errors import CastleguardError
from castleguard.runtime.stopping import Stop

if TYPE_CHECKING:
    from castleguard.spark.query_progress import Batch
    from castleguard.spark.spark_job import Prepared

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@click.command(short_help="Run a job in Apache Spark.")
@click.argument("job_file", type=click.Path(path_type=Path), metavar="JOB")
@click.option(
    "--master", metavar="URL", help="Where Spark runs: local[2], spark://host:7077, yarn.  [default: local[*]]"
)
@click.option("--until-idle", is_flag=True, help="End a stream once nothing comes any more and nothing is pending.")
@click.option("--allow-duplicates", is_flag=True, help="Let a Kafka topic get rows twice after a crash.")
@click.option("--committed", is_flag=True, help="Only list the published files. JOB may be the output folder, too.")
@click.option("-q", "--quiet", is_flag=True, help="No lines about micro-batches and no summary.")
def spark(
    job_file: Path, master: str | None, until_idle: bool, allow_duplicates: bool, committed: bool, quiet: bool
) -> None:
    """Run the job in the file JOB in Apache Spark: its section `spark` says over how many shards.

    A source that ends is one batch. One that does not (follow: true, Kafka) is a stream, which runs until it is told to
    stop: SIGTERM, or Ctrl-C once, stops it, and the next run goes on from there, with what was pending.

    Of the output only the files in outcome=published are for others. After a crash there may be files beside them whose
    rows are also in others: Spark itself leaves those out, and for everybody else --committed lists what counts.
    """
    if committed:
        _list_committed(job_file)
        return
    from castleguard.jobs.check.for_spark import left_out_words
    from castleguard.jobs.load import load
    from castleguard.spark.session import check_installed
    from castleguard.spark.spark_job import check_kept, opened, prepare
    from castleguard.spark.warming import warm_up

    job = load(job_file)
    prepared = prepare(job, allow_duplicates=allow_duplicates)
    if until_idle and not prepared.streaming:
        raise click.UsageError("--until-idle is for streams: this source ends by itself")
    found = check_installed()
    check_kept(prepared)
    left_out = left_out_words(prepared)
    if left_out is not None:
        click.echo(job.mask(f"castleguard: {left_out}; rename what is to be read"), err=True)
    if not quiet:
        click.echo(job.mask(opening_words(prepared)) + "\n")
        click.echo(f"Spark {found.spark} is starting{f' with Java {found.java}' if found.java else ''}.")
    warm_up(job.schema, job.policy)
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    with _saying_what_is_left(prepared), opened(prepared, master=master) as (session, key):
        for number, handler in before.items():
            signal.signal(number, handler)  # Spark has put one of its own there
        outcome = _run(session, prepared, key, until_idle=until_idle, quiet=quiet)
    if not quiet:
        click.echo(job.mask(closing_words(prepared, outcome)))


def _run(session: Any, prepared: "Prepared", key: bytes | None, *, until_idle: bool, quiet: bool) -> str:
    from castleguard.spark.spark_job import follow_query, run_batch, start

    if not prepared.streaming:
        run_batch(session, prepared, key)
        return "finished"

    def tell(batch: "Batch") -> None:
        if not quiet and (batch.rows or batch.published or batch.rejected):
            click.echo(batch_words(batch))

    stop = Stop()
    with _stopping_on_signals(stop):
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
                f"{job.where('sink')}  sink.type {job.sink.type} is no folder: there are no files to list"
            )
        folder = job.sink.options.path
    for file in committed(folder):
        click.echo(str(file))


@contextmanager
def _stopping_on_signals(stop: Stop) -> Iterator[None]:
    """SIGTERM and the first SIGINT ask the stream to stop; a second SIGINT does what it did before."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def ask(number: int, frame: FrameType | None) -> None:
        stop.ask()
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, before[signal.SIGINT])
            click.echo("castleguard: stopping; Ctrl-C again aborts", err=True)

    for number in _SIGNALS:
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _saying_what_is_left(prepared: "Prepared") -> Iterator[None]:
    try:
        yield
    except Interrupted as exc:
        exc.words = "aborted; the next run goes on from the last micro-batch"
        if not prepared.streaming:
            exc.words = "interrupted; nothing is published: delete the unfinished output folder, and run again"
        raise
    except CastleguardError as exc:
        if isinstance(exc.__cause__, Exception):
            show_to_developers(exc.__cause__)
        raise


def opening_words(prepared: "Prepared") -> str:
    """What is promised, and where it goes."""
    from castleguard.runtime.durations import spell_duration
    from castleguard.spark.output import OUTCOME, PUBLISHED

    job, shards = prepared.job, prepared.plan.shards
    path = getattr(job.sink.options, "path", None)
    place = f"{path}/{OUTCOME}={PUBLISHED}" if path is not None else f"topic {job.sink.options.topic}"
    pace = f"a micro-batch every {spell_duration(prepared.every)}" if prepared.streaming else "one batch"
    spread = f"{shards} shard{'' if shards == 1 else 's'}"
    return f"{job.name}: {spread}, {pace}; published rows go to {place}.\n\n{prepared.guarantee.paragraphs()}"


def batch_words(batch: "Batch") -> str:
    """A micro-batch in one line."""
    parts = [f"{batch.rows:,} rows in", f"{batch.published:,} published"]
    if batch.rejected:
        parts.append(f"{batch.rejected:,} rejected")
    if batch.pending is not None:
        parts.append(f"{batch.pending:,} pending")
    return f"batch {batch.number}: {', '.join(parts)} ({batch.seconds:.1f} s)"


def closing_words(prepared: "Prepared", outcome: str) -> str:
    """The books of all shards, and what comes next."""
    from castleguard.jobs.check.for_spark import left_out_words

    words = {
        "finished": "The source has ended, and everything that can be published is.",
        "stopped": "Stopped; `castleguard spark` goes on from here.",
        "idle": "Nothing came any more, and nothing is pending. `castleguard spark` goes on with what comes later.",
    }[outcome]
    left_out = left_out_words(prepared) if outcome == "idle" else None
    if left_out is not None:
        words = f"{words}\nBut {left_out}."
    numbers = _numbers(prepared)
    where = getattr(prepared.job.sink.options, "path", None)
    listed = (
        "" if where is None else f"\n`castleguard spark {prepared.job.path} --committed` lists the published files."
    )
    return f"{numbers}{words}{listed}"


def _numbers(prepared: "Prepared") -> str:
    """The table of the summary, if the output has books."""
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
            return "No rows came.\n\n"
        malformed = malformed_in(folder, job.sink.type)  # type: ignore[arg-type]
    except InputError:
        return ""  # nothing was committed
    table = books_table(books.report, malformed=malformed)
    missing = "" if books.whole else "\nThe books of shards that have been silent for long are not in these numbers."
    return f"\n{table}\n{missing}\n"
