"""Jobs in Python: load a job file, then run, check or explain it in your own process."""

import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from castleguard.books import Books
from castleguard.config.job_model import JobFile
from castleguard.errors import UsageError
from castleguard.jobs.check.checklist import Checklist
from castleguard.jobs.load import load
from castleguard.runtime.stopping import Stop
from castleguard.telemetry.metrics import Status

if TYPE_CHECKING:
    from castleguard.algorithms.policy import Policy
    from castleguard.job import Outcome
    from castleguard.jobs.explain.explanation import Explanation
    from castleguard.schema.roles import Schema


class Job:
    """A job file that runs in this process.

    `run` blocks until the source ends or `stop` is called; other threads and signal handlers may call `stop` and
    `status`. Nothing is opened before `run`, and everything is closed when it returns.
    """

    def __init__(self, file: JobFile) -> None:
        self.file = file
        """The content of the job file."""
        self._stop = Stop()
        self._running = Lock()
        self._status = Status(job=file.name)
        self._books: Books | None = None

    @property
    def name(self) -> str:
        """Its name in metrics, logs and the checkpoint."""
        return self.file.name

    @property
    def schema(self) -> "Schema":
        """The roles of its columns."""
        return self.file.schema

    @property
    def policy(self) -> "Policy":
        """Its privacy policy."""
        return self.file.policy

    def run(
        self,
        *,
        dry_run: bool = False,
        allow_duplicates: bool = False,
        watch: Callable[[Status], None] = lambda _: None,
    ) -> "Outcome":
        """Run the job from its last commit; returns "finished" or "stopped".

        A dry run starts from the beginning, delivers nothing and stores nothing. `allow_duplicates` permits a sink
        that is not exactly-once to get noisy rows twice after a crash. `watch` is called with the status about once a
        second. Raises CastleguardError; UsageError if the job is already running.
        """
        from castleguard.jobs.assemble import make_job

        if not self._running.acquire(blocking=False):
            raise UsageError(f"the job {self.name} is already running: stop it first")
        try:

            def tell(status: Status) -> None:
                self._status = status
                watch(status)

            made = make_job(self.file, stop=self._stop, watch=tell, dry_run=dry_run, allow_duplicates=allow_duplicates)
            try:
                return made.run()
            finally:
                self._status, self._books = made.status(), made.books()
        finally:
            self._stop = Stop()
            self._running.release()

    def stop(self) -> None:
        """Ask the job to commit and return. If called before `run`, the next run stops at once."""
        self._stop.ask()

    def status(self) -> Status:
        """The latest status: about a second old while the job runs, final afterwards."""
        return self._status

    def books(self) -> Books:
        """The books at the end of the latest run. Raises UsageError before the first."""
        if self._books is None:
            raise UsageError(f"the job {self.name} has not run in this process: call run() first")
        return self._books

    def __repr__(self) -> str:
        """Name, source type and sink type."""
        return f"Job({self.name}: {self.file.source.type} to {self.file.sink.type})"


def load_job(path: str | Path, *, site: str | None = None) -> Job:
    """Read a job file, for one site if it has several. Raises ConfigError with all mistakes."""
    return Job(load(path, site=site))


def explain(job: Job | str | Path, *, site: str | None = None) -> "Explanation":
    """Explain a job or a job file: columns, promise, delay and memory, restart, bad rows, end.

    Reads no data. Raises ConfigError.
    """
    from castleguard.jobs.explain.explanation import explain_job

    return explain_job(job.file if isinstance(job, Job) else load(job, site=site))


def check(job: Job | str | Path, *, site: str | None = None) -> Checklist:
    """Check a job or a job file and its environment. Mistakes in a file become entries of the list, not errors."""
    from castleguard.jobs.check.job_checks import check_file

    if isinstance(job, Job):
        return check_file(job.file.path, site=job.file.site)
    return check_file(os.fspath(job), site=site)
