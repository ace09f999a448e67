"""`castleguard run job.yaml`: run a job, from its last commit on."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from castleguard.cli import error_message, print_traceback_if_debugging
from castleguard.cli.exit_codes import exit_code
from castleguard.cli.job_options import duplicates_option, job_argument, log_format_option
from castleguard.cli.signals import stop_on_signals
from castleguard.errors import InputError
from castleguard.runtime.stopping import Stop

if TYPE_CHECKING:
    from castleguard.config.job_model import JobFile
    from castleguard.job import Job
    from castleguard.telemetry.metrics import Status

LOG = logging.getLogger("castleguard")


@click.command(short_help="Run a job.")
@job_argument
@click.option("--dry-run", is_flag=True, help="Read and anonymise from the beginning, but write and store nothing.")
@log_format_option
@duplicates_option
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no summary.")
def run(job_file: Path, dry_run: bool, log_format: str, allow_duplicates: bool, quiet: bool) -> None:
    """Run the job in the file JOB until its source ends or a signal stops it.

    SIGTERM, or Ctrl-C once, commits and stops: the next run restores this state, pending rows included. Ctrl-C twice
    aborts: the next run restores the last commit.
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
    """Run a job, or one of its sites."""
    stop = Stop()
    with (
        stop_on_signals(
            stop,
            notice="committing, then stopping; press Ctrl-C again to abort",
            aborted="aborted; the next run restores the last commit",
        ),
        logging_as(log_format) as facts,
    ):
        from castleguard.jobs.assemble import make_job
        from castleguard.jobs.load import load
        from castleguard.jobs.prediction import check_start

        job = load(job_file, site=site)
        facts["job"] = job.name
        log = CommitLog()
        with job_view(job, quiet=quiet, serve=not dry_run) as watch:

            def tell(status: "Status") -> None:
                facts["commit"] = status.commits
                log.update(status)
                watch(status)

            with reporting_failure(watch, job.name):
                restored = check_start(job, allow_duplicates=allow_duplicates) if dry_run else 0
                made = make_job(job, stop=stop, watch=tell, dry_run=dry_run, allow_duplicates=allow_duplicates)
            before = made.status().commits
            LOG.info("starting after commit %d", before, extra={"job": job.name, "commit": before})
            try:
                outcome = made.run()
            except InputError:
                # Too many rows were rejected, as found at the end: the books are complete nevertheless.
                if not quiet and made.ended == "finished" and made.status().commits > before:
                    print_closing(job, closing_text(made, "finished"))
                raise
        after = made.status().commits
        LOG.info("%s after commit %d", outcome, after, extra={"job": job.name, "commit": after})
    if not quiet:
        idle = outcome == "finished" and after == before
        ending = outcome if not idle else "delivered late" if made.recovered else "finished before"
        text = closing_text(made, ending, dry_run=dry_run, site=site is not None)
        if restored:
            text += f"\n`castleguard run` would restore commit {restored}; the dry run started from the beginning."
        print_closing(job, text, dry_run=dry_run)
    if dry_run and job.dead_letter is not None and rejected_share(made) > job.dead_letter.max_share:
        with logging_as(log_format):
            raise InputError(
                f"`castleguard run` would fail: {rejected_share(made):.3g} of the rows are rejected, and "
                f"dead_letter.max_share allows {job.dead_letter.max_share:g}. Correct the source or the schema"
            )


@contextmanager
def job_view(job: "JobFile", *, quiet: bool, serve: bool = True) -> "Iterator[Callable[[Status], None]]":
    """Yield a function that takes the status of the job. Without `serve` the metrics port stays closed."""
    watchers: list[Callable[[Status], None]] = []
    with ExitStack() as opened:
        if job.metrics is not None and serve:
            from castleguard.telemetry.metrics import Metrics

            metrics = Metrics(port=job.metrics.port, host=job.metrics.host)
            opened.callback(metrics.close)

            def keep(status: "Status") -> None:
                metrics.status = status

            watchers.append(keep)
        if not quiet and sys.stderr.isatty():
            from rich.console import Console

            line = opened.enter_context(Console(stderr=True).status("starting"))
            rate = Rate()
            watchers.append(lambda status: line.update(status_line(status, rate.of(status))))

        def tell(status: "Status") -> None:
            for watch in watchers:
                watch(status)

        yield tell


class Rate:
    """Rows per second between two statuses."""

    def __init__(self) -> None:
        self._at, self._rows = time.monotonic(), 0

    def of(self, status: "Status") -> float:
        """Rows per second since the last call."""
        now, rows = time.monotonic(), status.books.rows_in + status.books.malformed
        rate = (rows - self._rows) / max(now - self._at, 1e-9)
        self._at, self._rows = now, rows
        return rate


def status_line(status: "Status", rate: float) -> str:
    """A status as one line."""
    books = status.books
    rejected = books.rejected_rows + books.malformed
    parts = [
        f"{status.state}  {books.published:,} published",
        f"{books.pending:,} pending",
        f"{rejected:,} rejected" if rejected else "",
        f"{rate:,.0f} rows/s",
        f"{status.commits:,} commits",
        f"lag {status.lag:,}" if status.lag else "",
    ]
    return "  ".join(part for part in parts if part)


class CommitLog:
    """Logs a line for each status with a new commit."""

    def __init__(self) -> None:
        self._commits: int | None = None

    def update(self, status: "Status") -> None:
        """Log a line if the job has committed since the last status."""
        if self._commits is not None and status.commits > self._commits:
            facts = {"job": status.job, "commit": status.commits}
            LOG.info("committed in %.3f s, %d rows pending", status.commit_seconds, status.books.pending, extra=facts)
        self._commits = status.commits


@contextmanager
def reporting_failure(watch: "Callable[[Status], None]", job: str) -> Iterator[None]:
    """Report the failure of a job that could not be opened, and so cannot report it itself."""
    try:
        yield
    except Exception:
        from castleguard.telemetry.metrics import Status

        watch(Status(job=job, state="failed", counted=False))
        raise


@contextmanager
def logging_as(log_format: str) -> Iterator[dict[str, object]]:
    """Log as JSON if `log_format` is json, including the final error. Yields facts to add to every line."""
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
        print_traceback_if_debugging(exc)
        LOG.error("%s", error_message(exc))
        raise click.exceptions.Exit(exit_code(exc)) from exc
    finally:
        LOG.setLevel(level)


def print_closing(job: "JobFile", text: str, *, dry_run: bool = False) -> None:
    """Print the closing text, to standard error if standard output gets the published rows."""
    click.echo(text, err=job.sink.type == "stdio" and not dry_run)


def closing_text(job: "Job", outcome: str, *, dry_run: bool = False, site: bool = False) -> str:
    """The books, the promise, and what the next run will do."""
    from castleguard.cli.summary import summary

    endings = {
        "finished": "The source has ended; all rows that can be published are published.",
        "delivered late": "The job had already finished; its last, undelivered rows have now been delivered.",
        "finished before": "The job had already finished, and its source has no new rows: nothing to do.",
        "stopped": f"Stopped; the next `castleguard {'site' if site else 'run'}` restores this state.",
        "drained": "Drained: no rows are pending. The next run starts a new stream where this one ended.",
    }
    if dry_run:
        endings = dict.fromkeys(endings, "Dry run: nothing was written or stored.")
    # The books of the whole job, not only of its current stream.
    books = job.books()
    if job.had_streams:
        endings[outcome] = f"{BEFORE}\n\n{endings[outcome]}"
    return f"{summary(books, job.guarantee(), malformed=books.malformed)}\n\n{endings[outcome]}"


BEFORE = """\
The numbers cover the whole job. The promise covers rows since the job was last drained or finished; for earlier
rows, the promise of the job file at that time holds."""


def rejected_share(job: "Job") -> float:
    """Share of rejected rows, malformed lines included."""
    books = job.books()
    rows = books.rows_in + books.malformed
    return (books.rejected_rows + books.malformed) / rows if rows else 0.0
