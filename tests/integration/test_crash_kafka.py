"""Kafka to Kafka, killed repeatedly: every row exactly once, every group complete."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from tests.integration.broker_kafka import Broker
from tests.integration.crash import PORTION, PRIVACY, SCHEMA, Victim, kills, make_rows
from tests.ports import free_port

pytestmark = [pytest.mark.compiled, pytest.mark.integration]

KILLS = kills(3)
JOB = """
name: {name}
source: {{type: kafka, brokers: "{brokers}", topic: {raw}, format: json}}
{schema}
{privacy}
sink: {{type: kafka, brokers: "{brokers}", topic: {out}, format: json}}
checkpoint: {{path: state.db, every: 50ms}}
dead_letter: {{path: letters.jsonl}}
metrics: {{port: {port}}}
"""


def victim(folder: Path, broker: Broker, mode: str) -> Victim:
    raw, out, port = broker.topic(2), broker.topic(3), free_port()
    producer = Producer({"bootstrap.servers": broker.address})
    text = JOB.format(
        brokers=broker.address, raw=raw, out=out, schema=SCHEMA, privacy=PRIVACY[mode], port=port, name=out
    )
    (folder / "job.yaml").write_text(text)

    def feed(rows: list[dict[str, Any]]) -> None:
        for at, row in enumerate(rows):
            producer.produce(raw, json.dumps(row).encode(), partition=at % 2)
            producer.poll(0)
        producer.produce(raw, b"no row", partition=0)
        assert producer.flush(30) == 0

    def published() -> pa.Table:
        lines = [message.value() or b"" for message in broker.messages(out)]
        return pa.Table.from_pylist([json.loads(line) for line in lines])

    return Victim(folder, feed, published, port)


@pytest.mark.parametrize("mode", PRIVACY)
def test_killed_kafka_job_publishes_every_row_once(tmp_path: Path, kafka_broker: Broker, mode: str) -> None:
    rows = make_rows(PORTION * (KILLS + 1))
    job = victim(tmp_path, kafka_broker, mode)
    job.run_and_kill(KILLS, 5, rows)
    job.check(rows, bad=KILLS + 1, rejects=mode == "castle")
