"""Prometheus metrics and health of a job: counts, and names of columns, reasons and tasks. Never a row's value.

They depend on unpublished rows and are for the operator only: the port listens on loopback unless the job file says
otherwise.
"""

import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from castleguard.books import Books
from castleguard.errors import ConfigError, OutputError
from castleguard.telemetry.background import SupervisedThread, Task, tasks
from castleguard.telemetry.logs import LOG

if TYPE_CHECKING:
    from prometheus_client.core import Metric

App = Callable[[dict[str, Any], Any], Iterable[bytes]]

PREFIX = "castleguard_"
_TEMPORARY = ("undecided",)  # outcomes that can decrease, so not counters
JOB_LABEL = "castleguard_job"  # not "job": Prometheus sets that label itself and would rename ours


@dataclass(frozen=True, kw_only=True)
class Status:
    """Status of a job at one moment."""

    job: str = ""
    state: str = "starting"
    """starting, running, waiting (source or sink unavailable); at the end finished, stopped, drained or failed."""
    books: Books = field(default_factory=Books)
    """Books of the whole job."""
    counted: bool = True
    """Whether the books are known; until then row counters are omitted, because they must not start at 0 and jump."""
    sent: tuple[int, int] = (0, 0)
    """Messages and bytes sent to other sites since the process started."""
    commits: int = 0
    commit_seconds: float = 0.0
    """Duration of the latest commit."""
    committed_at: float = 0.0
    """Time of the latest commit, in seconds since 1970."""
    lag: int | None = None
    """Unread rows, messages or files in the source, if known."""


class Metrics:
    """Serves the latest status on a port: `/metrics` for Prometheus, `/health` for probes."""

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
                f"metrics cannot listen on {host}:{port}: {exc.strerror}; check that the job is not already running, "
                f"or set metrics.port"
            ) from exc

    @property
    def port(self) -> int:
        """The port in use: the requested one, or a free one if that was 0."""
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
    """Return whether a job is healthy, and a text with its state and the background tasks that are down."""
    down = sorted({task.name for task in background if not task.up})
    lines = [status.state, *(f"background task {name} is down" for name in down)]
    return not down and status.state != "failed", "".join(f"{line}\n" for line in lines)


class OperatorServer:
    """Serves a WSGI app. A failed server is restarted on the same port."""

    def __init__(self, app: App, *, host: str, port: int) -> None:
        """Start to listen. Raises OSError if the port is not available."""
        self._app = app
        self._server: _Server | None = _listen(app, host, port)
        self.host, self.port = host, int(self._server.server_port)
        """The port is the requested one, or a free one if that was 0."""
        self._thread = SupervisedThread("metrics", self._serve)

    def close(self) -> None:
        """Stop serving."""
        self._thread.stop()
        if self._server is not None:
            self._server.shutdown()
        self._thread.join()
        self._close_server()

    def _serve(self, task: Task) -> None:
        if self._server is None:
            self._server = _listen(self._app, self.host, self.port)
        try:
            self._server.serve_forever()
        except BaseException:
            self._close_server()
            raise

    def _close_server(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.server_close()


class _Server(ThreadingMixIn, WSGIServer):
    """One thread per request."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log that a request failed, without a traceback: it may contain values."""
        LOG.warning("a request to the metrics port failed")


class _Handler(WSGIRequestHandler):
    """Handles requests with a timeout, and does not log them."""

    timeout = 10.0

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def _listen(app: App, host: str, port: int) -> _Server:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]

    class Server(_Server):
        address_family = family

    server = Server((str(address[0]), port), _Handler)
    server.set_app(app)
    return server


class _Collector:
    """Builds the metrics at each scrape."""

    def __init__(self, owner: Metrics) -> None:
        self._owner = owner

    def collect(self) -> "Iterator[Metric]":
        return metrics_of(self._owner.status, tasks())


def metrics_of(status: Status, background: Sequence[Task] = ()) -> "Iterator[Metric]":
    """Yield the metrics of a job and of its background tasks."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    books = status.books
    outcomes = {**books.outcomes, "bad": books.malformed} if status.counted else {}
    rows = CounterMetricFamily(f"{PREFIX}rows", "Rows by outcome.", labels=(JOB_LABEL, "outcome"))
    for outcome, count in outcomes.items():
        if outcome not in _TEMPORARY:
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
        ("groups", "Published groups, without those that reuse a box.", books.groups),
        ("received_rows", "Rows of other sites published here.", books.received),
        ("messages", "Messages sent to other sites.", status.sent[0]),
        ("message_bytes", "Bytes sent to other sites.", status.sent[1]),
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
    state = GaugeMetricFamily(f"{PREFIX}state", "1 for the current state of the job.", labels=(JOB_LABEL, "state"))
    state.add_metric((status.job, status.state), 1)
    yield state
    up = GaugeMetricFamily(
        f"{PREFIX}background_task_up", "1 if a background task is up, 0 if it is down.", labels=(JOB_LABEL, "task")
    )
    failures = CounterMetricFamily(
        f"{PREFIX}background_task_failures", "Failures of background tasks.", labels=(JOB_LABEL, "task")
    )
    for name in sorted({task.name for task in background}):  # several connections share a task name
        own = [task for task in background if task.name == name]
        up.add_metric((status.job, name), min(task.up for task in own))
        failures.add_metric((status.job, name), sum(task.failures for task in own))
    yield up
    yield failures


def _gauges(status: Status, books: Books) -> list[tuple[str, str, Any]]:
    return [
        ("pending_rows", "Rows waiting for a decision.", books.pending),
        ("undecided_rows", "Abandoned rows whose outcome is not known yet.", books.undecided),
        ("information_loss", "Mean information loss of the published rows, from 0 to 1.", books.information_loss),
        ("open_clusters", "Clusters that still take in rows.", books.open_clusters),
        ("oldest_wait_rows", "Longest wait of a row for its decision, in arrivals.", books.oldest_wait),
        ("commit_seconds", "Duration of the latest commit.", status.commit_seconds),
        ("committed_timestamp_seconds", "Time of the latest commit.", status.committed_at),
        ("lag", "Unread rows, messages or files in the source.", status.lag),
    ]
