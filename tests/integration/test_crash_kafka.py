"""Kafka to Kafka, killed again and again: everything once, nothing twice, every group whole."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from tests.integration.broker_kafka import Broker
from tests.integration.crash import PRIVACY, SCHEMA, Victim, free_port, kills, make_rows

pytestmark = [pytest.mark.compiled, pytest.mark.integration]

KILLS = kills(3)
ROWS = max(40_000, 5_000 * KILLS)
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
    for at, row in enumerate(make_rows(ROWS)):
        producer.produce(raw, json.dumps(row).encode(), partition=at % 2)
        producer.poll(0)
    producer.produce(raw, b"no row", partition=0)
    producer.flush(30)
    text = JOB.format(
        brokers=broker.address, raw=raw, out=out, schema=SCHEMA, privacy=PRIVACY[mode], port=port, name=out
    )
    (folder / "job.yaml").write_text(text)

    def published() -> pa.Table:
        lines = [message.value() or b"" for message in broker.messages(out)]
        return pa.Table.from_pylist([json.loads(line) for line in lines])

    return Victim(folder, published, port)


@pytest.mark.parametrize("mode", PRIVACY)
def test_a_job_over_kafka_that_is_killed_publishes_every_row_once(
    tmp_path: Path, kafka_broker: Broker, mode: str
) -> None:
    job = victim(tmp_path, kafka_broker, mode)
    job.stop()
    assert job.run_and_kill(KILLS, seed=5, until=lambda: job.rows_taken() >= ROWS) == KILLS
    job.check(make_rows(ROWS), bad=1, rejects=mode == "castle")
