"""Authentication of the NATS connector: passwords, tokens, certificates and permissions, against real servers."""

import datetime
import ipaddress
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from castleguard.connectors.nats import NatsSinkOptions, NatsSourceOptions, open_sink, open_source
from castleguard.errors import InputError, OutputError, UnavailableError
from tests.integration.broker_nats import NatsBroker, running_broker
from tests.patience import PATIENCE

pytestmark = pytest.mark.integration


def write_and_read(broker: NatsBroker, **access: Any) -> None:
    """Write and read once."""
    chosen: dict[str, Any] = {"servers": broker.url, "timeout": PATIENCE} | access
    writer = open_sink(NatsSinkOptions(**chosen, stream="trips", subject="trips.a"))
    try:
        number = writer.last() + 1
        writer.deliver(number, pa.table({"n": [number]}))
    finally:
        writer.close()
    reader = open_source(NatsSourceOptions(**chosen, stream="trips"), ["n"], None)
    try:
        read = reader.read(PATIENCE)
        assert read is not None
        assert read.rows.column(0).to_pylist()[-1] == str(number)
    finally:
        reader.close()


def refused(broker: NatsBroker, **access: Any) -> str:
    """The error of a connection that the server refuses."""
    # Longer than the test may take: nothing must wait for it.
    chosen: dict[str, Any] = {"servers": broker.url, "timeout": 2 * PATIENCE} | access
    with pytest.raises(OutputError) as writing:
        open_sink(NatsSinkOptions(**chosen, stream="trips", subject="trips.a"))
    with pytest.raises(InputError) as reading:
        open_source(NatsSourceOptions(**chosen, stream="trips"), ["n"], None)
    assert str(writing.value) == str(reading.value)
    assert not [thread for thread in threading.enumerate() if thread.name == "castleguard-nats"]
    return str(reading.value)


def test_user_and_password_are_accepted(tmp_path: Path) -> None:
    with running_broker(tmp_path, ["--user", "ann", "--pass", "s3cret"], user="ann", password="s3cret") as broker:
        broker.make_stream("trips", "trips.>")
        write_and_read(broker, user="ann", password="s3cret")
        for wrong in ({}, {"user": "ann"}, {"user": "ann", "password": "hunter2"}, {"token": "s3cret"}):
            message = refused(broker, **wrong)
            assert message == f"the NATS server at {broker.url} refuses these credentials"


def test_token_is_accepted(tmp_path: Path) -> None:
    with running_broker(tmp_path, ["--auth", "s3cret"], token="s3cret") as broker:
        broker.make_stream("trips", "trips.>")
        write_and_read(broker, token="s3cret")
        assert "refuses these credentials" in refused(broker, token="hunter2")


def test_missing_permission_is_reported_at_once(tmp_path: Path) -> None:
    """The server reports it but never answers the request: waiting for the answer would time out the test."""
    (tmp_path / "config").write_text(
        'authorization: {users: [{user: ann, password: a}, {user: bob, password: b, permissions: {publish: "x"}}]}'
    )
    with running_broker(tmp_path, ["--config", str(tmp_path / "config")], user="ann", password="a") as broker:
        broker.make_stream("trips", "trips.>")
        message = refused(broker, user="bob", password="b")
        assert "does not permit it" in message
        assert "$js.api.stream.info.trips" in message.lower()


def test_unreachable_server_is_unavailable(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        pass
    with pytest.raises(UnavailableError, match="no servers available"):
        open_sink(NatsSinkOptions(servers=("nats://127.0.0.1:1", broker.url), stream="trips", subject="trips.a"))


def test_one_of_several_servers_is_enough(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        broker.make_stream("trips", "trips.>")
        write_and_read(broker, servers=("nats://127.0.0.1:1", broker.url))


def test_password_is_never_sent_without_tls(tmp_path: Path) -> None:
    """An attacker in between might claim that the server has no TLS."""
    certificate(tmp_path, "ca", None)
    heard = b""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            nonlocal heard
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b'INFO {"server_id": "x", "version": "2.15.1", "max_payload": 1048576}\r\n')
                while more := connection.recv(1000):
                    heard += more

        answering = threading.Thread(target=answer)
        answering.start()
        url = f"tls://127.0.0.1:{listening.getsockname()[1]}"
        access: dict[str, Any] = {"user": "ann", "password": "s3cret", "ca_file": tmp_path / "ca.pem"}
        with pytest.raises(InputError, match="does not offer TLS"):
            open_source(NatsSourceOptions(servers=url, stream="trips", **access), ["n"], None)
        answering.join()
    assert heard == b""


def certificate(folder: Path, name: str, authority: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None) -> Any:
    """Write a key and a certificate to `name.key` and `name.pem`; without an authority it is self-signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority[0].subject if authority else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
    )
    made = builder.sign(authority[1] if authority else key, hashes.SHA256())
    (folder / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return made, key


def test_certificates_are_checked_on_both_sides(tmp_path: Path) -> None:
    authority = certificate(tmp_path, "ca", None)
    for name in ("server", "job"):
        certificate(tmp_path, name, authority)
    certificate(tmp_path, "other", None)
    files = {name: str(tmp_path / name) for name in ("ca.pem", "server.pem", "server.key", "job.pem", "job.key")}
    arguments = ["--tlsverify", "--tlscacert", files["ca.pem"]]
    arguments += ["--tlscert", files["server.pem"], "--tlskey", files["server.key"]]
    context = ssl.create_default_context(cafile=files["ca.pem"])
    context.load_cert_chain(files["job.pem"], files["job.key"])
    with running_broker(tmp_path, arguments, tls=context) as broker:
        broker.make_stream("trips", "trips.>")
        mine = {"certificate_file": tmp_path / "job.pem", "key_file": tmp_path / "job.key"}
        write_and_read(broker, ca_file=tmp_path / "ca.pem", **mine)
        write_and_read(broker, ca_file=tmp_path / "ca.pem", servers=broker.url.replace("nats:", "tls:"), **mine)
        assert "cannot be reached securely" in refused(broker, ca_file=tmp_path / "other.pem", **mine)
        with pytest.raises((OutputError, UnavailableError), match="cannot be reached"):
            open_sink(
                NatsSinkOptions(servers=broker.url, stream="trips", subject="trips.a", ca_file=tmp_path / "ca.pem")
            )
