"""A Kafka broker for the tests: one node in KRaft mode on loopback, started once per process.

It listens twice: plainly, and with TLS and a password. Its jars come from `make kafka`. Where they, or Java, are
missing, the tests that need the broker are skipped.
"""

import atexit
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from functools import cache
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.patience import PATIENCE, eventually
from tests.ports import free_port

POM = Path(__file__).with_name("kafka") / "pom.xml"
USER, PASSWORD = "reader", "a password of the tests"

# One of everything: a cluster of one node cannot keep three copies.
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL_SSL://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
ssl.keystore.type=PKCS12
ssl.keystore.location={folder}/broker.p12
ssl.keystore.password={password}
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=\
 org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
controller.listener.names=CONTROLLER
log.dirs={folder}/data
auto.create.topics.enable=false
broker.heartbeat.interval.ms=200
broker.session.timeout.ms=3000
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


class Broker:
    """A running broker."""

    def __init__(self, jars: Path, folder: Path) -> None:
        self._folder = folder
        self._java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
        port, secure, controller = _different_ports(3)
        self.address = f"127.0.0.1:{port}"
        self.secure_address = f"127.0.0.1:{secure}"
        self.certificate = folder / "broker.pem"
        """Certificate that a client must trust to use TLS."""
        self._properties = folder / "server.properties"
        filled = {"port": port, "secure": secure, "controller": controller, "user": USER, "password": PASSWORD}
        self._properties.write_text(PROPERTIES.format(folder=folder, **filled))
        self._make_certificate()
        cluster = ["--cluster-id", "castleguard-tests-0000", "--config", str(self._properties)]
        formatting = [*self._java, "kafka.tools.StorageTool", "format", *cluster]
        subprocess.run(formatting, check=True, capture_output=True, timeout=PATIENCE)
        self._admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        self.start()

    def _make_certificate(self) -> None:
        keytool = ["keytool", "-keystore", str(self._folder / "broker.p12"), "-storepass", PASSWORD, "-alias", "broker"]
        key = ["-keyalg", "EC", "-dname", "CN=broker", "-ext", "san=ip:127.0.0.1", "-storetype", "PKCS12"]
        for command in (["-genkeypair", *key], ["-exportcert", "-rfc", "-file", str(self.certificate)]):
            subprocess.run([*keytool, *command], check=True, capture_output=True, timeout=PATIENCE)

    def start(self) -> None:
        """Start the process and wait until it answers."""
        with open(self._folder / "broker.log", "ab") as log:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._properties)], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self._admin.list_topics(timeout=1)
                return
            except KafkaException:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    log_end = (self._folder / "broker.log").read_text(errors="replace")[-2000:]
                    pytest.fail(f"the Kafka broker did not start: {log_end}")

    def stop(self) -> None:
        """Kill the process, as a power cut would."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Suspend the broker: connections stay open, and requests get no answer."""
        self._process.send_signal(signal.SIGSTOP)
        # On a busy machine some of its threads go on for a moment, long enough to answer.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        """Continue a suspended broker."""
        self._process.send_signal(signal.SIGCONT)

    def topic(self, partitions: int = 1, **settings: str) -> str:
        """A new topic with a unique name."""
        name = f"t-{uuid.uuid4().hex[:12]}"
        config = {key.replace("_", "."): value for key, value in settings.items()}
        self._admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(PATIENCE)
        # The topic exists, but the queried broker may not know it yet.
        eventually(lambda: self._knows(name, partitions), "the broker does not get to know its topic")
        return name

    def _knows(self, topic: str, partitions: int) -> bool:
        found = self._admin.list_topics(topic, timeout=PATIENCE).topics[topic]
        led = [partition for partition in found.partitions.values() if partition.leader >= 0]
        return found.error is None and len(led) == partitions

    def add_partitions(self, topic: str, total: int) -> None:
        """Give a topic more partitions."""
        self._admin.create_partitions([NewPartitions(topic, total)])[topic].result(PATIENCE)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete the messages before an offset, as retention does."""
        place = TopicPartition(topic, partition, offset)
        self._admin.delete_records([place])[place].result(PATIENCE)

    def committed(self, topic: str, partitions: int, group: str) -> list[int]:
        """The committed offset of a consumer group."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": group})
        try:
            places = [TopicPartition(topic, partition) for partition in range(partitions)]
            return [place.offset for place in consumer.committed(places, timeout=PATIENCE)]
        finally:
            consumer.close()

    def messages(self, topic: str, *, isolation: str = "read_committed") -> list[Message]:
        """All messages visible to a consumer of that isolation level, partition by partition."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "spectator",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            open_ends = set(self._admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, partition, 0) for partition in open_ends])
            found: list[Message] = []
            deadline = time.monotonic() + PATIENCE
            while open_ends:
                assert time.monotonic() < deadline, "the end of the topic was not reached"
                for message in consumer.consume(10_000, timeout=0.05):
                    deadline = time.monotonic() + PATIENCE  # it goes on
                    error = message.error()
                    if error is None:
                        found.append(message)
                    elif error.code() == error._PARTITION_EOF:
                        open_ends.discard(message.partition())
            return sorted(found, key=lambda message: (message.partition() or 0, message.offset() or 0))
        finally:
            consumer.close()


def _different_ports(count: int) -> list[int]:
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)


def jars_folder() -> Path:
    """The jars from `make kafka`; skips the test if they are missing."""
    if shutil.which("java") is None or shutil.which("keytool") is None:
        pytest.skip("needs a Kafka broker: there is no java, or no keytool, on the path")
    version = re.search(r"kafka_2\.13</artifactId>\s*<version>(.*?)<", POM.read_text())
    assert version is not None
    cache = os.environ.get("CASTLEGUARD_CACHE")
    base = Path(cache) if cache else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "castleguard"
    jars = base / "kafka" / version[1]
    if not (jars / ".complete").exists():
        pytest.skip("needs a Kafka broker: run `make kafka` first")
    return jars


@cache
def shared_broker() -> Broker:
    """The broker of this process, started at the first call and stopped when the process ends."""
    jars = jars_folder()
    folder = tempfile.TemporaryDirectory(prefix="castleguard-kafka-")
    atexit.register(folder.cleanup)
    broker = Broker(jars, Path(folder.name))
    atexit.register(broker.stop)  # before its folder is removed: handlers run in reverse order
    return broker


@pytest.fixture(scope="session")
def kafka_broker() -> Broker:
    """The broker that all tests of a run share."""
    return shared_broker()
