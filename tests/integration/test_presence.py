"""SDGS into real brokers, with and without one row that is never released: an observer sees no difference.

The observer sees every message with its partition, offset or sequence, its headers, key and bytes, and by the job's
clock when each segment was sent. The timestamps of the brokers come from this machine's clock and are left out.
"""

import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from castleguard.connectors import kafka, nats
from castleguard.connectors.base import Sink
from castleguard.connectors.kafka.kafka_options import KafkaSinkOptions
from tests.integration.broker_kafka import Broker
from tests.integration.broker_nats import running_broker
from tests.recovery.presence import EXTRA, Arrival, Seen, Stage, make_arrivals, with_one_more
from tests.soak import effort

pytestmark = pytest.mark.integration

_ATTEMPTS = 5

Opener = Callable[[str], tuple[Callable[[], Sink], Callable[[], object]]]
"""A new output for one run in a format: functions that open its sink and that observe it."""


def compare(opener: Opener, folder: Path, formats: tuple[str, ...], cases: int) -> int:
    """Run streams with and without one row; returns the number of compared segments."""
    draw, segments = random.Random(29), 0
    for case in range(cases):
        kind, form = list(EXTRA)[case % len(EXTRA)], formats[case % len(formats)]
        arrivals = make_arrivals(draw, 40)
        without, with_it = (
            observe(opener, form, rows, folder / f"{case}-{len(rows)}")
            for rows in (arrivals, with_one_more(arrivals, draw, kind))
        )
        assert without == with_it, f"case {case}: {kind}, {form}"
        segments += len(without[0])
    return segments


def observe(opener: Opener, form: str, arrivals: list[Arrival], folder: Path) -> tuple[list[Seen], object]:
    """The observation. A broker that does not take a segment at once delays it, which reveals the broker and no row:
    such a run is repeated.
    """
    for attempt in range(_ATTEMPTS):
        place = folder / str(attempt)
        place.mkdir(parents=True)
        open_sink, look = opener(form)
        stage = Stage(arrivals, open_sink, lambda: None, place, with_store=False)
        seen = stage.play()
        if not stage.outages:
            return seen, look()
    raise AssertionError(f"the broker was away in {_ATTEMPTS} runs of {_ATTEMPTS}")


@pytest.mark.soak
def test_unreleased_row_leaves_no_trace_in_nats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The name of a writer is random, and the same for all messages of a process.
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=4))
    (tmp_path / "broker").mkdir()
    with running_broker(tmp_path / "broker") as broker:

        def opener(form: str) -> tuple[Callable[[], Sink], Callable[[], object]]:
            if broker.ask("STREAM.NAMES")["total"]:
                broker.ask("STREAM.DELETE.out")
            broker.make_stream("out", "out", allow_atomic=True)
            given: Literal["json", "arrow"] = "arrow" if form == "arrow" else "json"
            options = nats.NatsSinkOptions(servers=broker.url, stream="out", subject="out", format=given)
            return lambda: nats.open_sink(options), lambda: broker.messages("out")

        assert compare(opener, tmp_path, ("json", "arrow"), effort(6, 200)) >= effort(10, 400)


@pytest.mark.soak
def test_unreleased_row_leaves_no_trace_in_kafka(tmp_path: Path, kafka_broker: Broker) -> None:
    def opener(form: str) -> tuple[Callable[[], Sink], Callable[[], object]]:
        topic = kafka_broker.topic()
        given: Literal["json", "arrow"] = "arrow" if form == "arrow" else "json"
        options = KafkaSinkOptions(
            brokers=kafka_broker.address,
            topic=topic,
            format=given,
            transactional_id=topic,
            key_column="ward" if form == "keyed" else None,
        )

        def look() -> list[object]:
            return [
                (message.partition(), message.offset(), message.headers(), message.key(), message.value())
                for message in kafka_broker.messages(topic)
            ]

        return lambda: kafka.open_sink(options), look

    assert compare(opener, tmp_path, ("json", "keyed", "arrow"), effort(4, 200)) >= effort(6, 400)
