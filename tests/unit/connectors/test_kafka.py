"""Kafka without a broker: options, and the source against the client's mock cluster."""

import json
import sys
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from castleguard.connectors import kafka
from castleguard.connectors.base import Read, Source
from castleguard.connectors.csv_options import CsvOutput
from castleguard.connectors.formulas import Formulas
from castleguard.connectors.kafka import kafka_sink, kafka_source
from castleguard.connectors.kafka.kafka_options import KafkaSinkOptions, KafkaSourceOptions, Sasl, Tls
from castleguard.connectors.kafka.kafka_sink import KafkaSink
from castleguard.connectors.payloads import write_payloads
from castleguard.connectors.registry import find
from castleguard.errors import ConfigError, InputError, OutputError, SchemaError, UnavailableError
from tests.integration.mock_kafka import MockCluster
from tests.patience import PATIENCE

NO_BROKER = "127.0.0.1:1"  # no broker listens here


def source_options(**options: Any) -> KafkaSourceOptions:
    return KafkaSourceOptions(**{"brokers": NO_BROKER, "topic": "trips", "timeout": 1.0, **options})


def sink_options(**options: Any) -> KafkaSinkOptions:
    return KafkaSinkOptions(
        **{"brokers": NO_BROKER, "topic": "trips", "transactional_id": "job", "timeout": 1.0, **options}
    )


# Options


def test_registry_finds_both_directions() -> None:
    connector = find("kafka")
    assert (connector.source_options, connector.sink_options) == (KafkaSourceOptions, KafkaSinkOptions)


@pytest.mark.parametrize(
    ("tls", "sasl", "expected"),
    [
        (None, None, {"security.protocol": "plaintext"}),
        (Tls(), None, {"security.protocol": "ssl"}),
        (
            Tls(ca_file=Path("ca.pem"), certificate_file=Path("me.pem"), key_file=Path("me.key"), key_password="pw"),
            None,
            {
                "security.protocol": "ssl",
                "ssl.ca.location": "ca.pem",
                "ssl.certificate.location": "me.pem",
                "ssl.key.location": "me.key",
                "ssl.key.password": "pw",
            },
        ),
        (
            None,
            Sasl(user="me", password="pw"),
            {
                "security.protocol": "sasl_plaintext",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "me",
                "sasl.password": "pw",
            },
        ),
        (
            Tls(),
            Sasl(mechanism="PLAIN", user="me", password="pw"),
            {
                "security.protocol": "sasl_ssl",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "me",
                "sasl.password": "pw",
            },
        ),
    ],
)
def test_security_options_become_client_settings(tls: Tls | None, sasl: Sasl | None, expected: dict[str, str]) -> None:
    own = {"bootstrap.servers": NO_BROKER, "socket.timeout.ms": 1000, "log_level": 2}
    assert source_options(tls=tls, sasl=sasl).settings() == own | expected


def test_settings_of_exactly_once_are_always_set() -> None:
    reader = source_options(group="g").reader_settings()
    assert reader["isolation.level"] == "read_committed"
    assert reader["enable.auto.commit"] is False
    assert reader["auto.offset.reset"] == "error"
    assert reader["group.id"] == "g"
    assert sink_options().writer_settings()["transactional.id"] == "job"
    numbers = sink_options().numbers_settings()
    assert (numbers["isolation.level"], numbers["group.id"]) == ("read_committed", "job-segments")


@pytest.mark.parametrize("name", ["isolation.level", "transactional.id", "auto.offset.reset", "bootstrap.servers"])
def test_client_section_cannot_override_exactly_once(name: str) -> None:
    for make in (source_options, sink_options):
        with pytest.raises(ValueError, match=f"client cannot have {name}"):
            make(client={name: "x"})


def test_other_client_settings_are_passed_on() -> None:
    assert source_options(client={"fetch.min.bytes": 5}).reader_settings()["fetch.min.bytes"] == 5
    assert sink_options(client={"linger.ms": 5}).writer_settings()["linger.ms"] == 5


def test_messages_have_no_segment_header_unless_asked_for() -> None:
    assert sink_options().segment_header is False


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (source_options, {"timeout": 0.0}, "timeout must be from 1 to 300 seconds, got 0"),
        (source_options, {"batch_messages": 0}, "batch_messages must be from 1 to 1000000, got 0"),
        (source_options, {"format": "csv"}, "columns must name the values of a CSV message"),
        (sink_options, {"format": "arrow", "key_column": "a"}, "key_column cannot be used with Arrow messages"),
        (sink_options, {"transaction_timeout": 0.0}, "transaction_timeout must be from 1 to 3600 seconds, got 0"),
    ],
)
def test_options_that_cannot_work_are_refused(make: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**options)


@pytest.mark.parametrize("order", [("b",), ("a", "a")])
def test_csv_source_needs_the_place_of_each_declared_column(order: tuple[str, ...]) -> None:
    with pytest.raises(SchemaError, match="the option columns must have the declared column 'a' once"):
        kafka.open_source(source_options(format="csv", columns=order), ["a"], None)


def test_key_column_must_be_declared() -> None:
    with pytest.raises(SchemaError, match="key_column 'b' is not a declared column"):
        kafka.open_source(source_options(key_column="b"), ["a"], None)


def test_sink_needs_a_transactional_id() -> None:
    with pytest.raises(ConfigError, match="a kafka sink needs a transactional_id"):
        kafka.open_sink(sink_options(transactional_id=None))


def test_secrets_never_print() -> None:
    options = source_options(
        tls=Tls(key_password="secret-1"),
        sasl=Sasl(user="me", password="secret-2"),
        client={"ssl.keystore.password": "secret-3"},
    )
    assert "secret" not in repr(options)
    opened = kafka.open_source(source_options(client={"security.protocol": "secret-4"}), ["a"], None)
    with (
        closing(opened),
        pytest.raises(ConfigError, match=r"the Kafka client refuses its settings: .*\*{4}") as caught,
    ):
        opened.read(0)
    assert "secret" not in str(caught.value)


def test_options_that_default_to_the_job_name_are_marked() -> None:
    marked = [
        (kind.__name__, field.name)
        for kind in (KafkaSourceOptions, KafkaSinkOptions)
        for field in fields(kind)
        if field.metadata.get("default") == "job name"
    ]
    assert marked == [("KafkaSourceOptions", "group"), ("KafkaSinkOptions", "transactional_id")]


def test_example_job_names_options_that_exist() -> None:
    job = yaml.safe_load((Path(__file__).parents[3] / "examples/jobs/kafka-to-kafka/job.yaml").read_text())
    for direction, options in (("source", KafkaSourceOptions), ("sink", KafkaSinkOptions)):
        assert job[direction].pop("type") == "kafka"
        assert options(**job[direction])


def test_without_the_client_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ConfigError, match=r"pip install 'castleguard\[kafka\]'"):
        kafka.open_source(source_options(), ["a"], None)
    with pytest.raises(ConfigError, match=r"pip install 'castleguard\[kafka\]'"):
        kafka.open_sink(sink_options())


def test_unreachable_brokers_are_unavailable_and_can_be_retried() -> None:
    with closing(kafka.open_source(source_options(), ["a"], {"0": 7})) as source:
        for _ in range(2):
            with pytest.raises(UnavailableError, match=r"topic trips cannot be reached: .*Connection refused"):
                source.read(0)
        assert source.position() == {"0": 7}
        assert source.lag() is None
    with closing(kafka.open_sink(sink_options())) as sink:
        for _ in range(2):
            with pytest.raises(UnavailableError, match=r"topic trips cannot be reached: .*Connection refused"):
                sink.last()


@pytest.mark.parametrize(("formulas", "written"), [("escape", b"1,'=x"), ("keep", b"1,=x")])
def test_csv_section_decides_about_formulas(
    monkeypatch: pytest.MonkeyPatch, formulas: Formulas, written: bytes
) -> None:
    found: list[bytes] = []

    def stop(sink: KafkaSink, table: pa.Table, messages: int) -> None:
        raise OutputError("that is enough")

    def write(*given: Any, **options: Any) -> list[bytes]:
        found.extend(write_payloads(*given, **options))
        return found

    monkeypatch.setattr(kafka_sink, "write_payloads", write)
    monkeypatch.setattr(KafkaSink, "_keys", stop)
    sink = kafka.open_sink(sink_options(format="csv", csv=CsvOutput(formulas=formulas)))
    with closing(sink), pytest.raises(OutputError, match="that is enough"):
        sink.deliver(1, pa.table({"n": [1], "name": ["=x"]}))
    assert found == [written]


def test_closing_twice_does_nothing() -> None:
    source, sink = kafka.open_source(source_options(), ["a"], None), kafka.open_sink(sink_options())
    for _ in range(2):
        source.close()
        sink.close()


# The source, against a mock cluster


@pytest.fixture(scope="module")
def cluster() -> MockCluster:
    return MockCluster()


def open_on(cluster: MockCluster, topic: str, **options: Any) -> Source:
    position = options.pop("position", None)
    declared = options.pop("declared", ["n"])
    return kafka.open_source(
        KafkaSourceOptions(brokers=cluster.address, topic=topic, timeout=PATIENCE, **options), declared, position
    )


def read_until(source: Source, rows: int) -> list[Read]:
    """Reads with this many rows and bad messages together."""
    reads: list[Read] = []
    while sum(read.rows.num_rows + len(read.bad) for read in reads) < rows:
        read = source.read(PATIENCE)
        assert read is not None
        reads.append(read)
    return reads


def values(reads: list[Read]) -> list[str | None]:
    return [value for read in reads for value in read.rows.column(0).to_pylist()]


def rows(*numbers: int) -> list[bytes]:
    return [json.dumps({"n": number}).encode() for number in numbers]


@pytest.mark.parametrize("taken", [500, 30, 7, 1])
def test_rows_arrive_in_order_and_a_position_restores(
    cluster: MockCluster, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    monkeypatch.setattr(kafka_source, "_TAKEN", taken)
    topic = f"order-{taken}"
    cluster.write(topic, rows(*range(100)), 2)
    with closing(open_on(cluster, topic, batch_messages=30)) as source:
        first = read_until(source, 1)
        assert first[0].rows.num_rows <= 30
        position = source.position()
    with closing(open_on(cluster, topic, position=position)) as source:
        second = read_until(source, 100 - first[0].rows.num_rows)
        assert second[0].place(0) == f"{topic}[2] offset {first[0].rows.num_rows}"
        assert source.position() == {"0": 0, "1": 0, "2": 100, "3": 0}
    assert values(first) + values(second) == [str(number) for number in range(100)]


def test_read_takes_whatever_has_arrived_up_to_a_batch(cluster: MockCluster) -> None:
    cluster.write("many", rows(*range(3000)), 1)
    with closing(open_on(cluster, "many", batch_messages=1201)) as source:
        reads = read_until(source, 3000)
    assert max(read.rows.num_rows for read in reads) > 1
    assert all(read.rows.num_rows <= 1201 for read in reads)
    assert values(reads) == [str(number) for number in range(3000)]
    assert [read.place(0) for read in reads] == [f"many[1] offset {read.rows.column(0)[0]}" for read in reads]


def test_interrupted_read_leaves_the_position(cluster: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    cluster.write("interrupted", rows(*range(5)))
    with closing(open_on(cluster, "interrupted")) as source:
        monkeypatch.setattr(kafka_source, "read_payloads", interrupt)
        with pytest.raises(KeyboardInterrupt):
            source.read(PATIENCE)
        assert source.position() == {"0": 0, "1": 0, "2": 0, "3": 0}


def test_bad_messages_and_tombstones_do_not_stop_the_others(cluster: MockCluster) -> None:
    cluster.write("bad", [b'{"n": 1}', b"oops", None, b'{"n": 2}'], 1)
    with closing(open_on(cluster, "bad")) as source:
        reads = read_until(source, 4)
    assert values(reads) == ["1", "2"]
    bad = {(one.place, one.reason, one.raw) for read in reads for one in read.bad}
    assert bad == {
        ("bad[1] offset 1", "it is not one JSON object", b"oops"),
        ("bad[1] offset 2", "it has no value (a tombstone)", b""),
    }


def test_message_key_can_be_a_column(cluster: MockCluster) -> None:
    cluster.write("keys", rows(1), 0, b"anna")
    cluster.write("keys", [b'{"n": 2}\n{"n": 3}'], 0, b"ben")
    cluster.write("keys", rows(4), 0, b"\xff")
    cluster.write("keys", rows(5), 0)
    with closing(open_on(cluster, "keys", declared=["who", "n"], key_column="who")) as source:
        reads = read_until(source, 5)
    found = [tuple(row.values()) for read in reads for row in read.rows.to_pylist()]
    assert found == [("anna", "1"), ("ben", "2"), ("ben", "3"), (None, "5")]
    bad = [(one.place, one.reason) for read in reads for one in read.bad]
    assert bad == [("keys[0] offset 2", "its key is not UTF-8")]
    assert reads[-1].place(reads[-1].rows.num_rows - 1) == "keys[0] offset 3"


def test_csv_values_are_read_by_their_order(cluster: MockCluster) -> None:
    cluster.write("csv", [b"x,1", b"y,2"])
    with closing(open_on(cluster, "csv", format="csv", columns=("other", "n"))) as source:
        assert values(read_until(source, 2)) == ["1", "2"]


def test_silent_topic_returns_nothing_within_the_timeout(cluster: MockCluster) -> None:
    cluster.write("silent", rows(1))
    with closing(open_on(cluster, "silent", start="end")) as source:
        assert source.read(0) is None
        assert source.read(0.1) is None
        assert source.lag() == 0
        cluster.write("silent", rows(2))
        assert values(read_until(source, 1)) == ["2"]


def test_check_finds_the_topic(cluster: MockCluster) -> None:
    cluster.write("there", rows(1))
    options = KafkaSourceOptions(brokers=cluster.address, topic="there")
    check = find("kafka").check
    assert check is not None
    assert check(options) == [("topic there exists, with 4 partitions", True, "")]
    with pytest.raises(UnavailableError, match="topic trips cannot be reached"):
        check(sink_options())


def test_position_after_the_end_is_an_error(cluster: MockCluster) -> None:
    cluster.write("short", rows(1))
    with (
        closing(open_on(cluster, "short", position={"0": 7})) as source,
        pytest.raises(InputError, match=r"topic short\[0\] has no offset 7: it ends before rows that were already"),
    ):
        source.read(PATIENCE)
