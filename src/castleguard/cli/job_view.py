"""What a running job shows: a line on a terminal, and metrics on a port, from the same status."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from castleguard.config.job_model import JobFile
    from castleguard.telemetry.metrics import Status


@contextmanager
def job_view(job: "JobFile", *, quiet: bool, serve: bool = True) -> "Iterator[Callable[[Status], None]]":
    """Yields what the job tells its status to. Without `serve` no port is taken: another process may have it."""
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
            told = Rate()
            watchers.append(lambda status: line.update(words(status, told.of(status))))

        def tell(status: "Status") -> None:
            for watch in watchers:
                watch(status)

        yield tell


class Rate:
    """Rows per second between two statuses."""

    def __init__(self) -> None:
        self._at, self._rows = time.monotonic(), 0

    def of(self, status: "Status") -> float:
        """Since the last time."""
        now, rows = time.monotonic(), status.books.rows_in + status.books.malformed
        rate = (rows - self._rows) / max(now - self._at, 1e-9)
        self._at, self._rows = now, rows
        return rate


def words(status: "Status", rate: float) -> str:
    """A status in one line."""
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
