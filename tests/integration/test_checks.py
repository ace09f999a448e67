"""`castleguard validate` checks brokers before a job runs."""

from pathlib import Path

import pytest

from castleguard.connectors.nats import NatsSinkOptions, NatsSourceOptions, check
from castleguard.errors import InputError, UnavailableError
from tests.integration.broker_nats import running_broker
from tests.ports import free_port

pytestmark = pytest.mark.integration


def test_validate_looks_up_the_nats_stream(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        broker.make_stream("trips", "trips.>")
        assert [fine for _, fine, _ in check(NatsSourceOptions(servers=broker.url, stream="trips"))] == [True]
        assert check(NatsSinkOptions(servers=broker.url, stream="trips", subject="trips.a"))
        with pytest.raises(InputError, match="missing"):
            check(NatsSourceOptions(servers=broker.url, stream="missing"))


def test_validate_reports_an_unreachable_server() -> None:
    with pytest.raises(UnavailableError):
        check(NatsSourceOptions(servers=f"nats://127.0.0.1:{free_port()}", stream="trips", timeout=2.0))
