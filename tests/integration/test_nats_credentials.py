"""A `.creds` file against a server that only knows an operator: accounts and users are signed, not configured."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from castleguard.connectors.nats import NatsSourceOptions, open_source
from castleguard.errors import ConfigError
from tests.integration.broker_nats import running_broker
from tests.integration.test_nats_access import refused, write_and_read

nkeys: Any = pytest.importorskip(
    "nkeys", reason="a .creds file needs one more library: pip install 'castleguard[nats]'"
)

pytestmark = pytest.mark.integration

MESSAGES: dict[str, Any] = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
STREAMS: dict[str, Any] = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1)
"""Unlimited limits of an account. The system account must have no streams."""


class Signer:
    """A key of an operator, an account or a user."""

    def __init__(self, prefix: int) -> None:
        self.seed: bytes = nkeys.encode_seed(os.urandom(32), prefix)
        pair = nkeys.from_seed(bytearray(self.seed))
        self.public = pair.public_key.decode()

    def sign(self, subject: "Signer", kind: str, **facts: Any) -> str:
        """A token in which this signer vouches for another one."""
        claims = {
            "jti": os.urandom(16).hex(),
            "iat": 1_700_000_000,
            "iss": self.public,
            "name": kind,
            "sub": subject.public,
            "nats": {"type": kind, "version": 2} | facts,
        }
        unsigned = b".".join(
            _encoded(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, claims)
        )
        signature = nkeys.from_seed(bytearray(self.seed)).sign(unsigned)
        return b".".join([unsigned, _encoded(signature)]).decode()


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def credentials(path: Path, account: Signer) -> Path:
    """A file for a new user of the account."""
    user = Signer(nkeys.PREFIX_BYTE_USER)
    token = account.sign(user, "user", pub={}, sub={}, subs=-1, data=-1, payload=-1)
    path.write_text(
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
    )
    return path


def test_only_a_signed_user_is_accepted(tmp_path: Path) -> None:
    operator = Signer(nkeys.PREFIX_BYTE_OPERATOR)
    system, account, stranger = (Signer(nkeys.PREFIX_BYTE_ACCOUNT) for _ in range(3))
    limits = {"wildcards": True} | MESSAGES
    signed = {
        system.public: operator.sign(system, "account", limits=limits),
        account.public: operator.sign(account, "account", limits=limits | STREAMS),
    }
    (tmp_path / "config").write_text(
        f"operator: {operator.sign(operator, 'operator', system_account=system.public)}\n"
        f"system_account: {system.public}\nresolver: MEMORY\nresolver_preload: {json.dumps(signed)}\n"
    )
    mine = credentials(tmp_path / "mine.creds", account)
    with running_broker(tmp_path, ["--config", str(tmp_path / "config")], user_credentials=str(mine)) as broker:
        broker.make_stream("trips", "trips.>")
        write_and_read(broker, credentials_file=mine)
        others = credentials(tmp_path / "others.creds", stranger)
        for wrong in ({}, {"user": "ann", "password": "s3cret"}, {"credentials_file": others}):
            assert refused(broker, **wrong) == f"the NATS server at {broker.url} refuses these credentials"
        broken = tmp_path / "broken.creds"
        broken.write_text(mine.read_text()[:-80])
        with pytest.raises(ConfigError, match=r"broken\.creds is damaged or not a \.creds file"):
            open_source(NatsSourceOptions(servers=broker.url, stream="trips", credentials_file=broken), ["n"], None)
