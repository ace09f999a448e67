"""`castleguard run job.yaml`: a job, from where it stopped, for as long as it takes."""

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from castleguard.cli import Interrupted, show_to_developers, words_for
from castleguard.cli.exit_codes import exit_code
from castleguard.errors import InputError
from castleguard.runtime.stopping import Stop

if TYPE_CHECKING:
    from castleguard.config.job_model import JobFile
    from castleguard.job import Job
    from castleguard.telemetry.metrics import Status

LOG = logging.getLogger("castleguard")


@click.command(short_help="Run a job.")
@click.argument("job_file", type=click.Path(path_type=Path), metavar="JOB")
@click.option("--dry-run", is_flag=True, help="Read and anonymise, write nothing, remember nothing.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: one object per line on standard error, for every start, commit, trouble and end.",
)
@click.option("--allow-duplicates", is_flag=True, help="Let a sink get noisy rows twice after a crash.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
def run(job_file: Path, dry_run: bool, log_format: str, allow_duplicates: bool, quiet: bool) -> None:
    """Run the job in the file JOB until its source ends or it is told to stop.

    SIGTERM, or Ctrl-C once, commits and stops: the next run goes on from there, with what was pending. Ctrl-C twice
    aborts: the next run goes on from the last commit.
    """
    run_job(job_file, dry_run=dry_run, log_format=log_format, allow_duplicates=allow_duplicates, quiet=quiet)


def run_job(
    job_file: Path,
    *,
    site: str | None = None,
    dry_run: bool = False,
    log_format: str = "text",
    allow_duplicates: bool = False,
    quiet: bool = False,
) -> None:
    """Run a job, or its part at one site."""
    stop = Stop()
    with stopping_on_signals(stop), logging_as(log_format) as facts:
        from castleguard.cli.job_view import job_view
        from castleguard.jobs.assemble import make_job
        from castleguard.jobs.load import load
        from castleguard.jobs.prediction import check_start

        job = load(job_file, site=site)
        facts["job"] = job.name
        log = CommitLog()
        with job_view(job, quiet=quiet, serve=not dry_run) as watch:

            def tell(status: "Status") -> None:
                facts["commit"] = status.commits
                log.tell(status)
                watch(status)

            with telling_failure(watch, job.name):
                goes_on_from = check_start(job, allow_duplicates=allow_duplicates) if dry_run else 0
                made = make_job(job, stop=stop, watch=tell, dry_run=dry_run, allow_duplicates=allow_duplicates)
            before = made.status().commits
            LOG.info("starting after commit %d", before, extra={"job": job.name, "commit": before})
            try:
                outcome = made.run()
            except InputError:
                # Too much was rejected, and that was found at the end: the books are complete all the same.
                if not quiet and made.ended == "finished" and made.status().commits > before:
                    say_at_end(job, closing_words(made, "finished"))
                raise
        after = made.status().commits
        LOG.info("%s after commit %d", outcome, after, extra={"job": job.name, "commit": after})
    if not quiet:
        idle = outcome == "finished" and after == before
        said = outcome if not idle else "delivered late" if made.recovered else "finished before"
        words = closing_words(made, said, dry_run=dry_run, site=site is not None)
        if goes_on_from:
            words += f"\n`run` would go on after commit {goes_on_from}; the dry run began at the beginning."
        say_at_end(job, words, dry_run=dry_run)
    if dry_run and job.dead_letter is not None and rejected_share(made) > job.dead_letter.max_share:
        with logging_as(log_format):
            raise InputError(
                f"`run` would fail: {rejected_share(made):.3g} of the rows are rejected, and dead_letter.max_share "
                f"allows {job.dead_letter.max_share:g}. Mend the source or the schema"
            )


class CommitLog:
    """A log line whenever the job has committed since it was last heard of."""

    def __init__(self) -> None:
        self._commits: int | None = None

    def tell(self, status: "Status") -> None:
        """Write a line if there is news."""
        if self._commits is not None and status.commits > self._commits:
            facts = {"job": status.job, "commit": status.commits}
            LOG.info("committed in %.3f s, %d rows pending", status.commit_seconds, status.books.pending, extra=facts)
        self._commits = status.commits


@contextmanager
def telling_failure(watch: "Callable[[Status], None]", job: str) -> Iterator[None]:
    """Let whoever watches know of a job that could not even be opened, and so cannot tell it."""
    try:
        yield
    except Exception:
        from castleguard.telemetry.metrics import Status

        watch(Status(job=job, state="failed", counted=False))
        raise


@contextmanager
def logging_as(log_format: str) -> Iterator[dict[str, object]]:
    """Write log lines as JSON, if that is asked for; then what ends the job is one of them, too, with the facts that
    were entered meanwhile.
    """
    facts: dict[str, object] = {}
    if log_format != "json":
        yield facts
        return
    from castleguard.telemetry.logs import JsonLines

    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(facts))
    LOG.handlers = [handler]
    level = LOG.level
    LOG.setLevel(logging.INFO)
    try:
        yield facts
    except (click.ClickException, click.exceptions.Exit):
        raise
    except Exception as exc:
        show_to_developers(exc)
        LOG.error("%s", words_for(exc))
        raise click.exceptions.Exit(exit_code(exc)) from exc
    finally:
        LOG.setLevel(level)


@contextmanager
def stopping_on_signals(stop: Stop) -> Iterator[None]:
    """SIGTERM and the first SIGINT ask the job to stop; a second SIGINT does what it did before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: FrameType | None) -> None:
        stop.ask()
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, before[signal.SIGINT])
            click.echo("castleguard: committing, then stopping; Ctrl-C again aborts", err=True)

    for number in before:
        signal.signal(number, ask)
    try:
        yield
    except Interrupted as exc:
        exc.words = "aborted; the next run goes on from the last commit"
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def say_at_end(job: "JobFile", words: str, *, dry_run: bool = False) -> None:
    """Say it where it cannot be taken for published rows."""
    click.echo(words, err=job.sink.type == "stdio" and not dry_run)


def closing_words(job: "Job", outcome: str, *, dry_run: bool = False, site: bool = False) -> str:
    """The books, the statement, and what comes next."""
    from castleguard.cli.summary import summary

    words = {
        "finished": "The source has ended, and everything that can be published is.",
        "delivered late": "The job had finished before; what was left to deliver then has been delivered now.",
        "finished before": "The job had finished before, and its source has nothing new: nothing was done.",
        "stopped": f"Stopped; `castleguard {'site' if site else 'run'}` goes on from here.",
        "drained": "Drained: nothing is pending. The next run begins a new stream where this one ended.",
    }
    if dry_run:
        words = dict.fromkeys(words, "A dry run: nothing was written, and nothing is remembered.")
    # The books of the whole job, not only of the stream that runs now.
    books = job.books()
    if job.had_streams:
        words[outcome] = f"{BEFORE}\n\n{words[outcome]}"
    return f"{summary(books, job.guarantee(), malformed=books.malformed)}\n\n{words[outcome]}"


BEFORE = """\
The numbers are those of the whole job. The promise is about rows that came after it was last drained or
finished; for rows before that, what the job file of that time promised holds."""


def rejected_share(job: "Job") -> float:
    """Of everything that came in."""
    books = job.books()
    rows = books.rows_in + books.malformed
    return (books.rejected_rows + books.malformed) / rows if rows else 0.0
