"""Kafka to Kafka: rows per second of a whole job, and the share of the client in its time.

    python -m benchmarks.kafka

Needs the broker of the integration tests (`make kafka`). Broker and job share the machine.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from confluent_kafka import Producer

import castleguard as cg
from benchmarks import adult
from castleguard.checkpoint.store import Store
from castleguard.connectors.base import Position, Source
from castleguard.connectors.kafka import open_sink, open_source
from castleguard.connectors.kafka.kafka_options import KafkaSinkOptions, KafkaSourceOptions
from castleguard.connectors.payloads import Format, write_payloads
from castleguard.job import Job, Pace, Parts
from castleguard.runtime.stopping import Stop
from tests.integration.broker_kafka import Broker, jars_folder

POLICY = cg.Castle(k=100, delay=10_000)
FORMATS: tuple[Format, ...] = ("json", "arrow")

_Result = TypeVar("_Result")


class Stopwatch:
    """Total duration of calls."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, call: Callable[..., _Result]) -> Callable[..., _Result]:
        """The same call, timed."""

        def timed(*given: Any) -> _Result:
            start = time.perf_counter()
            try:
                return call(*given)
            finally:
                self.seconds += time.perf_counter() - start

        return timed


def fill(broker: Broker, table: pa.Table, format: Format) -> str:
    """Make a topic with these rows."""
    topic = broker.topic(1)
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 20})
    for payload in write_payloads(format, table):
        while True:
            try:
                producer.produce(topic, payload)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(60)
    return topic


def run_job(broker: Broker, folder: Path, table: pa.Table, schema: cg.Schema, format: Format) -> tuple[float, float]:
    """Rows per second, and the share of time spent in the client."""
    raw, out, watch, stop = fill(broker, table, format), broker.topic(1), Stopwatch(), Stop()
    reading = KafkaSourceOptions(brokers=broker.address, topic=raw, format=format)
    sink: Any = open_sink(KafkaSinkOptions(brokers=broker.address, topic=out, format=format, transactional_id=out))
    sink.deliver, sink.last = watch.around(sink.deliver), watch.around(sink.last)

    def timed_source(position: Position | None) -> Source:
        source: Any = open_source(reading, schema.columns, position)
        source.read, source.acknowledge = watch.around(source.read), watch.around(source.acknowledge)
        return source  # type: ignore[no-any-return]

    parts = Parts(
        open_source=timed_source,
        make_stream=lambda snapshot: cg.Anonymiser(schema, POLICY),
        sink=sink,
        store=Store(folder / f"{out}.db"),
    )

    job = Job(parts, pace=Pace(every=1.0), stop=stop)
    push = job.stream.push

    def counted(*given: Any) -> pa.Table:
        released = push(*given)
        if job.stream.report().rows_in >= table.num_rows:
            stop.ask()
        return released

    job.stream.push = counted  # type: ignore[method-assign, assignment]
    start = time.perf_counter()
    job.run()
    seconds = time.perf_counter() - start
    return table.num_rows / seconds, watch.seconds / seconds


def compare(rows: int) -> dict[Format, tuple[float, float]]:
    """Both figures for every format."""
    table = adult.load(rows).select(["pid", *adult.NUMERIC])
    schema = adult.schema(table)
    warm = cg.Anonymiser(schema, POLICY)
    warm.push(table.slice(0, 20_000))
    warm.flush()
    with tempfile.TemporaryDirectory() as name:
        broker = Broker(jars_folder(), Path(name))
        try:
            run = partial(run_job, broker, Path(name), table, schema)
            return {format: run(format) for format in FORMATS}
        finally:
            broker.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    asked = parser.parse_args()
    print(json.dumps({format: [round(rate), round(share, 3)] for format, (rate, share) in compare(asked.rows).items()}))


if __name__ == "__main__":
    main()
