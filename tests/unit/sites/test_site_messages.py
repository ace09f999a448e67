"""Messages between sites: round trips, and messages that are refused."""

import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from castleguard.checkpoint.cipher import Cipher
from castleguard.checkpoint.codec import Record, pack
from castleguard.errors import SnapshotError
from castleguard.sites import site_messages as kinds
from castleguard.sites.site_messages import FORMAT, KINDS, Message, Rows, decode, encode

_ME: dict[str, Any] = {"sender": "a", "epoch": "0001", "agreed": "0123456789abcdef"}
_LOWER, _UPPER = np.array([0.0, 2.0]), np.array([3.0, 2.0])
_ROWS = Rows(
    tokens=np.array([1, 2**64 - 1], dtype=np.uint64),
    values=np.array([[-5], [7]]),
    payload=pa.table({"disease": ["flu", None], "day": pa.array([3, 4], pa.int16())}),
    levels=np.array([0, 1 << 30]),
)
MESSAGES: list[Message] = [
    kinds.Hello(**_ME),
    kinds.Share(**_ME, cluster=3, version=7, persons=5, lower=_LOWER, upper=_UPPER),
    kinds.Retract(**_ME, clusters=[1, 5]),
    kinds.Join(**_ME, cluster=3, version=7),
    kinds.Prepare(
        **_ME,
        release="a.0001.1",
        lower=np.array([_LOWER, _LOWER]),
        upper=np.array([_UPPER, _UPPER + 1]),
        losses=np.array([0.1, 0.2]),
        cluster=4,
    ),
    kinds.Prepared(**_ME, release="b.0001.1"),
    kinds.Prepared(**_ME, release="b.0001.1", offer="a.0001.2", rows=_ROWS, lower=_LOWER, upper=_UPPER, otherwise=0.25),
    kinds.Decided(**_ME, release="a.0001.1"),
    kinds.Published(**_ME, heard={"a": "1"}, lower=np.array([_LOWER]), upper=np.array([_UPPER])),
]
KEY = bytes(range(32))


def is_same(one: Message, other: Message) -> bool:
    return type(one) is type(other) and all(same(value, vars(other)[name]) for name, value in vars(one).items())


def same(one: object, other: object) -> bool:
    if isinstance(one, Rows) and isinstance(other, Rows):
        return all(same(getattr(one, name), getattr(other, name)) for name in vars(one))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, pa.Table):
        return bool(one.equals(other))
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
@pytest.mark.parametrize("seal", [None, Cipher(KEY)], ids=["plain", "sealed"])
def test_message_round_trips(message: Message, seal: Cipher | None) -> None:
    assert is_same(decode(encode(message, seal), seal), message)


def test_every_kind_of_message_is_tested() -> None:
    assert {type(message) for message in MESSAGES} == set(KINDS.values())


@pytest.mark.parametrize("seal", [None, Cipher(KEY)], ids=["plain", "sealed"])
def test_damaged_message_is_refused(seal: Cipher | None) -> None:
    data, refused = encode(MESSAGES[6], seal), 0
    for at in range(0, len(data), 7):
        damaged = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
        try:
            assert is_same(decode(damaged, seal), MESSAGES[6])  # some bits of the compressed data do not matter
        except SnapshotError:
            refused += 1
    assert refused > (0.9 if seal is None else 0.99) * len(range(0, len(data), 7))
    for length in (0, 1, len(data) // 2, len(data) - 1):
        with pytest.raises(SnapshotError):
            decode(data[:length], seal)


def test_message_under_another_key_is_refused() -> None:
    sealed = encode(MESSAGES[0], Cipher(KEY))
    for seal in (Cipher(bytes(32)), None):
        with pytest.raises(SnapshotError):
            decode(sealed, seal)
    with pytest.raises(SnapshotError):
        decode(encode(MESSAGES[0]), Cipher(KEY))


def test_sealed_message_reveals_nothing() -> None:
    sealed = encode(MESSAGES[6], Cipher(KEY))
    assert b"flu" not in sealed
    assert b"sender" not in sealed
    assert sealed != encode(MESSAGES[6], Cipher(KEY))


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"format": FORMAT - 1, "kind": "hello", **_ME}, "another version"),
        ({"format": FORMAT, "kind": "farewell", **_ME}, "another version"),
        ({"format": FORMAT, "kind": "hello", "sender": "a"}, "is incomplete"),
        ({"format": FORMAT, "kind": "hello", **_ME, "colour": "red"}, "is incomplete"),
    ],
)
def test_message_of_another_version_is_refused(facts: dict[str, Any], words: str) -> None:
    with pytest.raises(SnapshotError, match=words):
        decode(zlib.compress(pack(Record(facts))))


@pytest.mark.parametrize("blob", [b"", b"no table"])
def test_malformed_rows_are_refused(blob: bytes) -> None:
    facts = {"format": FORMAT, "kind": "prepared", **_ME, "release": "b.0001.1"}
    arrays = {"tokens": _ROWS.tokens, "values": _ROWS.values, "levels": _ROWS.levels}
    with pytest.raises(SnapshotError, match="is incomplete"):
        decode(zlib.compress(pack(Record(facts, arrays, {"payload": blob}))))
    with pytest.raises(SnapshotError, match="is incomplete"):
        decode(zlib.compress(pack(Record(facts, {}, {"payload": blob}))))


def test_repr_of_rows_shows_no_values() -> None:
    assert "flu" not in repr(MESSAGES[6])
    assert "Rows(2)" in repr(MESSAGES[6])
