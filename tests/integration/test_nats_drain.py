"""A job that reads from NATS, drained and run with another subject: no row is published twice."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from castleguard.errors import SnapshotError
from castleguard.jobs.assemble import make_job
from castleguard.jobs.load import load
from castleguard.runtime.stopping import Stop
from castleguard.telemetry.metrics import Status
from tests.integration.broker_nats import NatsBroker, running_broker

pytestmark = pytest.mark.integration

JOB = """\
name: trips
source: {{type: nats, servers: "{url}", stream: {stream}, subject: "{subject}"}}
schema:
  person: who
  quasi_identifiers:
    - {{name: age, lower: 0, upper: 100, step: 5}}
  public: [row]
privacy: {{algorithm: castle, k: 2, delay: 20}}
sink: {{type: jsonl, path: out}}
checkpoint: {{path: state.db, every: 1s}}
"""


class Place:
    """A server with messages, and a folder with a job that reads them."""

    def __init__(self, folder: Path, broker: NatsBroker) -> None:
        self.folder, self.broker = folder, broker
        self.rows = 0

    def add(self, subject: str, count: int) -> None:
        """Publish more messages, numbered consecutively."""
        numbers = range(self.rows, self.rows + count)
        rows = [{"who": number, "age": number * 7 % 100, "row": number} for number in numbers]
        self.broker.publish(subject, [json.dumps(row).encode() for row in rows])
        self.rows += count

    def write(self, *, subject: str, stream: str = "trips") -> Path:
        """The job file."""
        path = self.folder / "job.yaml"
        path.write_text(JOB.format(url=self.broker.url, subject=subject, stream=stream))
        return path

    def run(self, *, rows_in: int, **source: str) -> None:
        """Run the job until it has read this many rows, over all its runs."""
        stop = Stop()

        def watch(status: Status) -> None:
            if status.books.rows_in >= rows_in:
                stop.ask()

        assert make_job(load(self.write(**source)), stop=stop, watch=watch).run() == "stopped"

    def run_and_drain(self, *, rows_in: int, **source: str) -> None:
        """Run the job until it has read this many rows, then drain it."""
        self.run(rows_in=rows_in, **source)
        assert make_job(load(self.folder / "job.yaml")).drain() == "drained"

    def published(self) -> list[int]:
        """All published rows, in order."""
        parts = sorted((self.folder / "out").glob("*.jsonl"))
        return sorted(int(json.loads(line)["row"]) for part in parts for line in part.read_text().splitlines())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "nats").mkdir()
    with running_broker(tmp_path / "nats") as broker:
        broker.make_stream("trips", "trips.>")
        yield Place(tmp_path, broker)


def test_drained_job_with_another_subject_keeps_its_position(place: Place) -> None:
    place.add("trips.a", 40)
    place.run_and_drain(subject="trips.a", rows_in=40)
    place.add("trips.b", 40)
    place.run_and_drain(subject="trips.>", rows_in=80)
    place.add("trips.b", 40)
    place.run_and_drain(subject="trips.b", rows_in=120)
    assert place.published() == list(range(120))


def test_earlier_messages_of_a_new_subject_are_not_read(place: Place) -> None:
    place.add("trips.b", 10)
    place.add("trips.a", 40)
    place.run_and_drain(subject="trips.a", rows_in=40)
    place.add("trips.b", 40)
    place.run_and_drain(subject="trips.b", rows_in=80)
    assert place.published() == list(range(10, 90))


def test_another_subject_needs_a_drain(place: Place) -> None:
    place.add("trips.a", 40)
    place.run(subject="trips.a", rows_in=40)
    with pytest.raises(SnapshotError, match=r"another reads\.subject"):
        make_job(load(place.write(subject="trips.b")))


def test_another_stream_is_read_from_its_beginning(place: Place) -> None:
    place.broker.make_stream("other", "other.>")
    place.add("trips.a", 40)
    place.add("other.a", 40)
    place.run_and_drain(subject="trips.a", rows_in=40)
    place.run_and_drain(stream="other", subject="other.a", rows_in=80)
    assert place.published() == list(range(80))
