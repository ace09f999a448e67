"""Checks of the NATS connector before it contacts a server."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from castleguard.connectors.nats import NatsSinkOptions, NatsSourceOptions, open_sink, open_source
from castleguard.connectors.nats.connection import Connection
from castleguard.connectors.nats.consumer import Message, _delivery
from castleguard.connectors.nats.nats_options import Access
from castleguard.connectors.registry import find
from castleguard.errors import ConfigError, InputError


def test_registry_finds_both_directions() -> None:
    connector = find("nats")
    assert (connector.source_options, connector.sink_options) == (NatsSourceOptions, NatsSinkOptions)
    assert (connector.open_source, connector.open_sink) == (open_source, open_sink)


def test_secrets_and_payloads_are_not_printed() -> None:
    options = NatsSinkOptions(stream="out", subject="out.a", user="ann", password="s3cret", token="t0ken")
    assert "ann" in repr(options)
    assert "s3cret" not in repr(options)
    assert "t0ken" not in repr(options)
    assert "diagnosis" not in repr(Message(1, b"diagnosis"))


@pytest.mark.parametrize("subject", ["a.*", ">", "a..b", ""])
def test_sink_needs_one_subject(subject: str) -> None:
    with pytest.raises(ConfigError, match="one subject, without wildcards"):
        open_sink(NatsSinkOptions(stream="out", subject=subject))


def test_sizes_must_be_at_least_one() -> None:
    with pytest.raises(ConfigError, match="rows_per_message must be at least 1, got 0"):
        open_sink(NatsSinkOptions(stream="out", subject="out.a", rows_per_message=0))
    with pytest.raises(ConfigError, match="batch_messages must be at least 1, got 0"):
        open_source(NatsSourceOptions(stream="in", batch_messages=0), ["n"], None)


@pytest.mark.parametrize("columns", [(), ("a",), ("a", "b", "b")])
def test_csv_needs_column_names(columns: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="columns must name every value of a CSV line once: 'b'"):
        open_source(NatsSourceOptions(stream="in", format="csv", columns=columns), ["b"], None)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"servers": "nats://ann:s3cret@127.0.0.1"}, "set user and password instead"),
        ({"certificate_file": Path("a.pem")}, "need each other"),
        ({"ca_file": Path("missing.pem")}, "missing.pem cannot be read"),
        ({"ca_file": Path(__file__)}, "PEM files"),
        ({"credentials_file": Path("missing.creds")}, "missing.creds cannot be read"),
    ],
)
def test_access_that_cannot_work_is_refused_before_connecting(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        Connection(Access(**wrong), InputError)
    assert "s3cret" not in str(refused.value)


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nkeys", None)
    with pytest.raises(ConfigError, match=r"castleguard\[nats\]"):
        Connection(Access(credentials_file=Path(__file__)), InputError)
    monkeypatch.setitem(sys.modules, "nats", None)
    with pytest.raises(ConfigError, match=r"pip install 'castleguard\[nats\]'"):
        Connection(Access(), InputError)


USER, SEED = "-----BEGIN NATS USER JWT-----", "-----BEGIN USER NKEY SEED-----"


@pytest.mark.parametrize(
    "content",
    ["", "no creds", f"{USER}\nuser\n", f"{SEED}\ns3cret\n", f"{USER}\nuser\n{SEED}", f"{USER}\n{SEED}\ns3cret"],
)
def test_invalid_credentials_file_is_refused_before_connecting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    """The client library would search the file for the user without end."""

    def refuse(seed: bytearray) -> None:
        raise KeyError(seed)

    monkeypatch.setitem(sys.modules, "nkeys", SimpleNamespace(from_seed=refuse, NkeysError=KeyError))
    (tmp_path / "job.creds").write_text(content)
    with pytest.raises(ConfigError, match=r"job\.creds is damaged or not a \.creds file") as refused:
        Connection(Access(credentials_file=tmp_path / "job.creds"), InputError)
    assert refused.value.__cause__ is None


def test_options_are_passed_to_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nkeys", SimpleNamespace(from_seed=bytes, NkeysError=KeyError))
    creds = tmp_path / "job.creds"
    creds.write_text(f"{USER}\nuser\n{SEED}\nseed\n")
    connection = Connection(
        Access(servers=("a:1", "b:2"), user="u", password="p", token="t", credentials_file=creds, timeout=3.0),
        InputError,
    )
    connection.close()
    given = connection._connect_options()
    assert given["servers"] == ["a:1", "b:2"]
    assert [given[name] for name in ("user", "password", "token", "user_credentials")] == ["u", "p", "t", str(creds)]
    assert (given["tls"], given["connect_timeout"], given["allow_reconnect"]) == (None, 3.0, False)


def test_delivery_is_parsed_from_both_reply_forms() -> None:
    assert _delivery("$JS.ACK.trips.abc.1.17.5.1700000000.42") == (17, 5, 42)
    assert _delivery("$JS.ACK._.hash.trips.abc.1.17.5.1700000000.42.token") == (17, 5, 42)


def test_example_job_names_options_that_exist() -> None:
    job = yaml.safe_load((Path(__file__).parents[3] / "examples/jobs/nats-to-nats/job.yaml").read_text())
    for direction, options in (("source", NatsSourceOptions), ("sink", NatsSinkOptions)):
        assert job[direction].pop("type") == "nats"
        assert options(**job[direction])
