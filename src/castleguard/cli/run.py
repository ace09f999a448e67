"""`castleguard run job.yaml`: a job, from where it stopped, for as long as it takes."""

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from castleguard.stopping import Stop

if TYPE_CHECKING:
    from castleguard.pipeline import Job


@click.command(short_help="Run a job.")
@click.argument("job_file", type=click.Path(path_type=Path), metavar="JOB")
@click.option("--dry-run", is_flag=True, help="Read and anonymise, write nothing, remember nothing.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--allow-duplicates", is_flag=True, help="Let a sink get noisy rows twice after a crash.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
def run(job_file: Path, dry_run: bool, log_format: str, allow_duplicates: bool, quiet: bool) -> None:
    """Run the job in the file JOB until its source ends or it is told to stop.

    SIGTERM, or Ctrl-C once, commits and stops: the next run goes on from there, with what was pending. Ctrl-C twice
    aborts: the next run goes on from the last commit.
    """
    stop = Stop()
    with stopping_on_signals(stop):
        from castleguard.assemble import load, make_job
        from castleguard.cli.job_view import job_view

        use_log_format(log_format)
        job = load(job_file)
        with job_view(job, quiet=quiet) as watch:
            made = make_job(job, stop=stop, watch=watch, dry_run=dry_run, allow_duplicates=allow_duplicates)
            outcome = made.run()
    if not quiet:
        click.echo(closing_words(made, outcome, dry_run=dry_run))


def use_log_format(log_format: str) -> None:
    """Write log lines as JSON, if that is asked for."""
    from castleguard.telemetry.logs import JsonLines

    if log_format == "json":
        handler = logging.StreamHandler()
        handler.setFormatter(JsonLines())
        logging.getLogger("castleguard").handlers = [handler]
        logging.getLogger("castleguard").setLevel(logging.INFO)


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
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def closing_words(job: "Job", outcome: str, *, dry_run: bool) -> str:
    """The books, the statement, and what comes next."""
    from castleguard.cli.summary import summary
    from castleguard.release.report import Report

    words = {
        "finished": "The source has ended, and everything that can be published is.",
        "stopped": "Stopped; `castleguard run` goes on from here.",
        "drained": "Drained: nothing is pending. The next run begins a new stream where this one ended.",
    }
    if dry_run:
        words = dict.fromkeys(words, "A dry run: nothing was written, and nothing is remembered.")
    # The books of the whole job, not only of the stream that runs now.
    books = job.books()
    report = Report(**{field.name: books[field.name] for field in fields(Report)})
    return f"{summary(report, job.stream.guarantee(), malformed=job.bad)}\n\n{words[outcome]}"
