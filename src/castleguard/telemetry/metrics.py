"""Metrics of a job for Prometheus, and its health: numbers, and names of columns, reasons and tasks. Never a value.

They depend on rows that are not published, so they are for the operator: the port listens on loopback unless the job
file says otherwise.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from castleguard.books import Books
from castleguard.errors import ConfigError, OutputError
from castleguard.telemetry.background import Task, tasks
from castleguard.telemetry.server import OperatorServer

if TYPE_CHECKING:
    from prometheus_client.core import Metric

PREFIX = "castleguard_"
_PASSING = ("undecided",)  # outcomes that a row may leave again: no counters
JOB_LABEL = "castleguard_job"  # not "job": Prometheus sets a label of that name itself, and would rename ours


@dataclass(frozen=True, kw_only=True)
class Status:
    """A job at one moment."""

    job: str = ""
    state: str = "starting"
    """starting, running, waiting (something is not available), and at its end finished, stopped, drained, failed."""
    books: Books = field(default_factory=Books)
    """Of the whole job."""
    counted: bool = True
    """Whether the books are known; before that no row is shown, so that a counter does not jump from 0."""
    sent: tuple[int, int] = (0, 0)
    """Messages and bytes to other sites, since the process began."""
    commits: int = 0
    commit_seconds: float = 0.0
    """How long the latest commit took."""
    committed_at: float = 0.0
    """When it was, in seconds since 1970."""
    lag: int | None = None
    """Rows, messages or files that wait to be read, where that is known."""


class Metrics:
    """Serves the latest status on a port, until it is closed: `/metrics` for Prometheus, `/health` for probes."""

    def __init__(self, *, port: int, host: str = "127.0.0.1") -> None:
        try:
            from prometheus_client import CollectorRegistry, make_wsgi_app
        except ModuleNotFoundError as exc:
            raise ConfigError("metrics need the package prometheus-client: pip install 'castleguard[metrics]'") from exc
        self.status = Status(counted=False)
        registry = CollectorRegistry()
        registry.register(_Collector(self))
        self._metrics = make_wsgi_app(registry)
        try:
            self._server = OperatorServer(self._answer, host=host, port=port)
        except OSError as exc:
            raise OutputError(
                f"metrics cannot listen on {host}:{port}, {exc.strerror}: is the job running already?"
            ) from exc

    @property
    def port(self) -> int:
        """The port that is listened on: the one that was asked for, or a free one if that was 0."""
        return self._server.port

    def close(self) -> None:
        """Stop serving."""
        self._server.close()

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/health":
            answer: Iterable[bytes] = self._metrics(environ, start_response)
            return answer
        well, text = health(self.status, tasks())
        status = "200 OK" if well else "503 Service Unavailable"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [text.encode()]


def health(status: Status, background: Sequence[Task]) -> tuple[bool, str]:
    """Whether a job is healthy, and the lines that say so: its state, and the background tasks that are down."""
    down = sorted({task.name for task in background if not task.up})
    lines = [status.state, *(f"background task {name} is down" for name in down)]
    return not down and status.state != "failed", "".join(f"{line}\n" for line in lines)


class _Collector:
    """Makes metrics of the status when somebody asks."""

    def __init__(self, owner: Metrics) -> None:
        self._owner = owner

    def collect(self) -> "Iterator[Metric]":
        return metrics_of(self._owner.status, tasks())


def metrics_of(status: Status, background: Sequence[Task] = ()) -> "Iterator[Metric]":
    """The status, and that of background tasks, as metrics."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    books = status.books
    outcomes = {**books.outcomes, "bad": books.malformed} if status.counted else {}
    rows = CounterMetricFamily(f"{PREFIX}rows", "Rows by outcome.", labels=(JOB_LABEL, "outcome"))
    for outcome, count in outcomes.items():
        if outcome not in _PASSING:
            rows.add_metric((status.job, outcome), count)
    yield rows
    rejected = CounterMetricFamily(f"{PREFIX}rejected_rows", "Rejected rows by reason.", labels=(JOB_LABEL, "reason"))
    for reason, count in books.rejected.items():
        rejected.add_metric((status.job, reason), count)
    yield rejected
    clamped = CounterMetricFamily(
        f"{PREFIX}clamped_values", "Values moved to the nearest bound of their domain.", labels=(JOB_LABEL, "column")
    )
    for column, count in books.clamped.items():
        clamped.add_metric((status.job, column), count)
    yield clamped
    for name, text, count in (
        ("groups", "Groups published as new ones.", books.groups),
        ("received_rows", "Rows of other sites that were published here.", books.received),
        ("messages", "Messages to other sites.", status.sent[0]),
        ("message_bytes", "Bytes of messages to other sites.", status.sent[1]),
        ("commits", "Commits.", status.commits),
    ):
        counter = CounterMetricFamily(f"{PREFIX}{name}", text, labels=(JOB_LABEL,))
        counter.add_metric((status.job,), count)
        yield counter
    for name, text, value in _gauges(status, books):
        if value is not None:
            gauge = GaugeMetricFamily(f"{PREFIX}{name}", text, labels=(JOB_LABEL,))
            gauge.add_metric((status.job,), value)
            yield gauge
    state = GaugeMetricFamily(f"{PREFIX}state", "1 for what the job is doing.", labels=(JOB_LABEL, "state"))
    state.add_metric((status.job, status.state), 1)
    yield state
    up = GaugeMetricFamily(
        f"{PREFIX}background_task_up", "0 for a background task that is down.", labels=(JOB_LABEL, "task")
    )
    failures = CounterMetricFamily(
        f"{PREFIX}background_task_failures", "Failures of background tasks.", labels=(JOB_LABEL, "task")
    )
    for name in sorted({task.name for task in background}):  # several connections have a task of the same name
        own = [task for task in background if task.name == name]
        up.add_metric((status.job, name), min(task.up for task in own))
        failures.add_metric((status.job, name), sum(task.failures for task in own))
    yield up
    yield failures


def _gauges(status: Status, books: Books) -> list[tuple[str, str, Any]]:
    return [
        ("pending_rows", "Rows that have not been decided yet.", books.pending),
        ("undecided_rows", "Rows given up of which nobody knows yet what became.", books.undecided),
        ("information_loss", "Mean over the published rows, from 0 to 1.", books.information_loss),
        ("open_clusters", "Clusters that are growing.", books.open_clusters),
        ("oldest_wait_rows", "Arrivals that a row has waited for, at most.", books.oldest_wait),
        ("commit_seconds", "How long the latest commit took.", status.commit_seconds),
        ("committed_timestamp_seconds", "When the latest commit was.", status.committed_at),
        ("lag", "What waits to be read.", status.lag),
    ]
