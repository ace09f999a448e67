"""Kafka to Kafka: CPU time per row of the connector and of a whole job, beside loops of the bare client.

    python -m benchmarks.kafka

Needs the broker of the integration tests (`make kafka`), which is a process of its own and not counted. Figures are
process CPU time in nanoseconds per row, so they include the client's own threads: on a busy machine these do not
depend on other work as the clock on the wall does. All works take turns, and the medians are printed:

    client reads, writes, loop    the bare client: consume 10,000 messages at a time, produce, and both in one loop
    client loop by 500            the same loop with 500 at a time, too few to wake the garbage collector
    source, sink                  `Source.read` with decoding; `Sink.deliver` with encoding and its transaction
    source thread, sink thread    the part of them in the job's own thread
    job                           a whole job, with CASTLE and a checkpoint
    ratio                         client loop / job: the part of the speed of the bare loop that a job reaches
    ratio by 500                  the same for the second loop
"""

import argparse
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

import castleguard as cg
from benchmarks import adult
from castleguard.checkpoint.store import Store
from castleguard.connectors.kafka import open_sink, open_source
from castleguard.connectors.kafka.kafka_options import KafkaSinkOptions, KafkaSourceOptions
from castleguard.connectors.payloads import Format, write_payloads
from castleguard.job import Job, Pace, Parts
from castleguard.runtime.stopping import Stop
from tests.integration.broker_kafka import Broker, jars_folder

POLICY = cg.Castle(k=100, delay=10_000)
FORMATS: tuple[Format, ...] = ("json", "arrow")
SEGMENT = 100_000
"""Rows that a sink delivers at a time."""
BATCH = 10_000
"""Messages that the bare client takes at a time, as many as a source."""
FIGURES = (
    "client reads",
    "source",
    "source thread",
    "client writes",
    "sink",
    "sink thread",
    "client loop",
    "client loop by 500",
    "job",
)


class Meter:
    """CPU time of some works, by name, over several rounds."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._times: dict[str, list[float]] = defaultdict(list)

    def measure(self, name: str, work: Callable[..., object], *given: object) -> None:
        """Run a work, and note its CPU time; of this thread alone under "... thread"."""
        process, thread = time.process_time_ns(), time.thread_time_ns()
        work(*given)
        self._times[name + " thread"].append((time.thread_time_ns() - thread) / self._rows)
        self._times[name].append((time.process_time_ns() - process) / self._rows)

    def median(self, name: str) -> float:
        """Nanoseconds per row."""
        return statistics.median(self._times[name])


class Client:
    """The bare client, without castleguard."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def read(self, topic: str, messages: int) -> None:
        """Take the value of every message."""
        with closing(self._consumer(topic)) as consumer:
            taken = 0
            while taken < messages:
                taken += len([message.value() for message in consumer.consume(BATCH, 0.1)])

    def write(self, topic: str, messages: list[bytes]) -> None:
        """Send messages."""
        producer = self._producer()
        for message in messages:
            _send(producer, topic, message)
        assert producer.flush(60) == 0

    def loop(self, topic: str, out: str, messages: int, batch: int = BATCH) -> None:
        """Take every message and send it to another topic."""
        producer = self._producer()
        with closing(self._consumer(topic)) as consumer:
            taken = 0
            while taken < messages:
                arrived = consumer.consume(batch, 0.1)
                for message in arrived:
                    _send(producer, out, message.value() or b"")
                taken += len(arrived)
                producer.poll(0)
        assert producer.flush(60) == 0

    def _consumer(self, topic: str) -> Consumer:
        # Without a pause of a second whenever enough messages are queued.
        settings = {"enable.auto.commit": False, "group.id": "benchmark", "fetch.queue.backoff.ms": 10}
        consumer = Consumer({"bootstrap.servers": self._broker.address, **settings})
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer

    def _producer(self) -> Producer:
        return Producer({"bootstrap.servers": self._broker.address})


def _send(producer: Producer, topic: str, message: bytes) -> None:
    while True:
        try:
            producer.produce(topic, message)
            return
        except BufferError:
            producer.poll(0.1)


@dataclass(frozen=True)
class Bench:
    """A topic of raw rows, and what can be done with it."""

    broker: Broker
    folder: Path
    format: Format
    raw: str
    rows: int
    schema: cg.Schema

    def read(self) -> None:
        """Read all rows from a source."""
        options = KafkaSourceOptions(brokers=self.broker.address, topic=self.raw, format=self.format)
        with closing(open_source(options, self.schema.columns, None)) as source:
            taken = 0
            while taken < self.rows:
                read = source.read(0.1)
                taken += 0 if read is None else read.rows.num_rows

    def deliver(self, published: pa.Table, out: str) -> None:
        """Write all published rows to a sink."""
        with closing(open_sink(self._sink_options(out))) as sink:
            sink.last()
            for number, start in enumerate(range(0, published.num_rows, SEGMENT), 1):
                sink.deliver(number, published.slice(start, SEGMENT))

    def run(self, out: str) -> None:
        """Run a whole job."""
        reading = KafkaSourceOptions(brokers=self.broker.address, topic=self.raw, format=self.format)
        stop = Stop()
        parts = Parts(
            open_source=lambda position: open_source(reading, self.schema.columns, position),
            make_stream=lambda snapshot: cg.Anonymiser(self.schema, POLICY),
            sink=open_sink(self._sink_options(out)),
            store=Store(self.folder / f"{out}.db"),
        )
        job = Job(parts, pace=Pace(), stop=stop)
        push = job.stream.push

        def counted(*given: Any) -> pa.Table:
            released = push(*given)
            if job.stream.report().rows_in >= self.rows:
                stop.ask()
            return released

        job.stream.push = counted  # type: ignore[method-assign, assignment]
        job.run()

    def _sink_options(self, out: str) -> KafkaSinkOptions:
        return KafkaSinkOptions(brokers=self.broker.address, topic=out, format=self.format, transactional_id=out)


def compare(broker: Broker, folder: Path, format: Format, rows: int, rounds: int) -> dict[str, float]:
    """All figures of a format."""
    table = adult.load(rows).select(["pid", *adult.NUMERIC])
    bench = Bench(broker, folder, format, broker.topic(1), rows, adult.schema(table))
    stream = cg.Anonymiser(bench.schema, POLICY)  # compiles the kernels, too
    published = pa.concat_tables([stream.push(table), stream.flush()])
    sent, returned = write_payloads(format, table), write_payloads(format, published)
    client, meter = Client(broker), Meter(rows)
    client.write(bench.raw, sent)
    for _ in range(rounds):
        meter.measure("client reads", client.read, bench.raw, len(sent))
        meter.measure("source", bench.read)
        meter.measure("client writes", client.write, broker.topic(1), returned)
        meter.measure("sink", bench.deliver, published, broker.topic(1))
        meter.measure("client loop", client.loop, bench.raw, broker.topic(1), len(sent))
        meter.measure("client loop by 500", client.loop, bench.raw, broker.topic(1), len(sent), 500)
        meter.measure("job", bench.run, broker.topic(1))
    figures = {name: float(round(meter.median(name))) for name in FIGURES}
    ratios = {"ratio": "client loop", "ratio by 500": "client loop by 500"}
    return figures | {name: round(meter.median(loop) / meter.median("job"), 2) for name, loop in ratios.items()}


def measure(rows: int, rounds: int) -> dict[Format, dict[str, float]]:
    """All figures, by format."""
    with tempfile.TemporaryDirectory() as name:
        broker = Broker(jars_folder(), Path(name))
        try:
            return {format: compare(broker, Path(name), format, rows, rounds) for format in FORMATS}
        finally:
            broker.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    for format, figures in measure(asked.rows, asked.rounds).items():
        print(format, json.dumps(figures))


if __name__ == "__main__":
    main()
