"""Metrics and health of a job on its operator port."""

import json
import logging
import socket
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from castleguard.books import Books
from castleguard.errors import OutputError
from castleguard.telemetry.background import DOWN_AFTER, Task
from castleguard.telemetry.logs import JsonLines
from castleguard.telemetry.metrics import Metrics, Status, health, metrics_of
from tests.patience import PATIENCE, eventually

STATUS = Status(
    job="trips",
    state="running",
    books=Books(
        rows_in=101,
        published=90,
        suppressed=1,
        pending=7,
        rejected={"age: null": 3},
        clamped={"age": 8},
        groups=9,
        information_loss=0.25,
        open_clusters=4,
        oldest_wait=11,
        malformed=2,
    ),
    commits=5,
    commit_seconds=0.01,
    committed_at=1.7e9,
    lag=12,
)


def scraped(metrics: Metrics) -> list[str]:
    with urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=PATIENCE) as answer:
        text: str = answer.read().decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_latest_status_is_served() -> None:
    metrics = Metrics(port=0)
    try:
        metrics.status = STATUS
        lines = scraped(metrics)
    finally:
        metrics.close()
    for line in (
        'castleguard_rows_total{castleguard_job="trips",outcome="published"} 90.0',
        'castleguard_rows_total{castleguard_job="trips",outcome="bad"} 2.0',
        'castleguard_rejected_rows_total{castleguard_job="trips",reason="age: null"} 3.0',
        'castleguard_clamped_values_total{castleguard_job="trips",column="age"} 8.0',
        'castleguard_pending_rows{castleguard_job="trips"} 7.0',
        'castleguard_information_loss{castleguard_job="trips"} 0.25',
        'castleguard_lag{castleguard_job="trips"} 12.0',
        'castleguard_state{castleguard_job="trips",state="running"} 1.0',
    ):
        assert line in lines


def test_no_label_collides_with_those_of_prometheus() -> None:
    """It would rename ours to exported_job and exported_instance."""
    metrics = metrics_of(STATUS, [Task("relay")])
    names = {name for metric in metrics for sample in metric.samples for name in sample.labels}
    assert names == {"castleguard_job", "outcome", "column", "reason", "state", "task"}


def test_loss_is_absent_before_the_first_published_row() -> None:
    metrics = Metrics(port=0)
    try:
        lines = scraped(metrics)
    finally:
        metrics.close()
    assert not any(line.startswith("castleguard_information_loss") for line in lines)
    assert not any(line.startswith("castleguard_lag") for line in lines)


def test_port_in_use_is_reported() -> None:
    metrics = Metrics(port=0)
    try:
        with pytest.raises(OutputError, match="metrics cannot listen on"):
            Metrics(port=metrics.port)
    finally:
        metrics.close()


def failing(name: str) -> Task:
    task = Task(name)
    for _ in range(DOWN_AFTER):
        task.failed(KeyError())
    return task


def test_metrics_show_each_task_name_once() -> None:
    background = [Task("nats"), failing("nats"), Task("relay")]
    found = {
        (sample.name, sample.labels["task"]): sample.value
        for metric in metrics_of(STATUS, background)
        for sample in metric.samples
        if "task" in sample.labels
    }
    assert found == {
        ("castleguard_background_task_up", "nats"): 0,
        ("castleguard_background_task_up", "relay"): 1,
        ("castleguard_background_task_failures_total", "nats"): DOWN_AFTER,
        ("castleguard_background_task_failures_total", "relay"): 0,
    }


def test_health_names_tasks_that_are_down() -> None:
    assert health(STATUS, [Task("relay")]) == (True, "running\n")
    assert health(STATUS, [failing("relay"), failing("relay")]) == (False, "running\nbackground task relay is down\n")
    assert health(Status(state="failed"), []) == (False, "failed\n")


def test_health_is_served() -> None:
    metrics = Metrics(port=0)
    try:
        metrics.status = STATUS
        with urlopen(f"http://127.0.0.1:{metrics.port}/health", timeout=PATIENCE) as answer:
            assert (answer.status, answer.read()) == (200, b"running\n")
        metrics.status = Status(state="failed")
        with pytest.raises(HTTPError) as failure:
            urlopen(f"http://127.0.0.1:{metrics.port}/health", timeout=PATIENCE)
        assert failure.value.code == 503
        failure.value.close()
    finally:
        metrics.close()


def test_failed_server_is_restarted_on_the_same_port() -> None:
    metrics = Metrics(port=0)
    try:
        server = metrics._server._server
        assert server is not None
        server.socket.shutdown(socket.SHUT_RDWR)
        server.socket.close()

        def dies() -> None:
            raise OSError

        server.service_actions = dies  # type: ignore[method-assign]
        eventually(lambda: metrics._server._thread.task.failures and metrics._server._server not in (None, server))
        assert any(line.startswith("castleguard_state") for line in scraped(metrics))
    finally:
        metrics.close()


def test_log_line_is_one_json_object_without_a_traceback() -> None:
    record = logging.LogRecord("castleguard", logging.WARNING, "f.py", 1, "%d rows\nrefused", (3,), None)
    record.created = 0.25
    record.msecs = 250
    facts = json.loads(JsonLines().format(record))
    assert facts == {"time": "1970-01-01T00:00:00.250Z", "level": "warning", "message": "3 rows\nrefused"}
