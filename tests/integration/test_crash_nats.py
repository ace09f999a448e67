"""JetStream to JetStream, killed repeatedly: every row exactly once, every group complete."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.broker_nats import NatsBroker, running_broker
from tests.integration.crash import PORTION, PRIVACY, SCHEMA, Victim, kills, make_rows
from tests.ports import free_port

pytestmark = [pytest.mark.compiled, pytest.mark.integration]

KILLS = kills(3)
JOB = """
source: {{type: nats, servers: "{url}", stream: raw, format: json, batch_messages: 20}}
{schema}
{privacy}
sink: {{type: nats, servers: "{url}", stream: out, subject: out.rows, format: json, rows_per_message: 50}}
checkpoint: {{path: state.db, every: 50ms}}
dead_letter: {{path: letters.jsonl}}
metrics: {{port: {port}}}
"""


def victim(folder: Path, broker: NatsBroker, mode: str) -> Victim:
    broker.make_stream("raw", "raw.>")
    broker.make_stream("out", "out.>", allow_atomic=True)
    port = free_port()
    (folder / "job.yaml").write_text(JOB.format(url=broker.url, schema=SCHEMA, privacy=PRIVACY[mode], port=port))

    def feed(rows: list[dict[str, Any]]) -> None:
        lines = [json.dumps(row).encode() for row in rows]
        messages = [b"\n".join(lines[at : at + 100]) for at in range(0, len(lines), 100)]
        broker.publish("raw.rows", [*messages, b"no row"])

    def published() -> pa.Table:
        lines = [line for message in broker.messages("out") for line in message.data.splitlines()]
        return pa.Table.from_pylist([json.loads(line) for line in lines])

    return Victim(folder, feed, published, port)


@pytest.mark.parametrize("mode", PRIVACY)
def test_killed_nats_job_publishes_every_row_once(tmp_path: Path, mode: str) -> None:
    (tmp_path / "broker").mkdir()
    rows = make_rows(PORTION * (KILLS + 1))
    with running_broker(tmp_path / "broker") as broker:
        job = victim(tmp_path, broker, mode)
        job.run_and_kill(KILLS, 5, rows)
        job.check(rows, bad=KILLS + 1, rejects=mode == "castle")
