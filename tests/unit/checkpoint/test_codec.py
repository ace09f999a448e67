"""Snapshots as bytes: they round-trip, damage is refused, and reading one runs no code."""

import ast
import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import castleguard
from castleguard.checkpoint.codec import Record, differences, pack, unpack
from castleguard.errors import SnapshotError

RECORD = Record(
    facts={"name": "x", "now": None, "loss": 0.1, "counts": {"in": 3}},
    arrays={
        "table": np.arange(6, dtype=np.float64).reshape(2, 3),
        "none": np.empty((0, 4), dtype=np.int64),
        "flags": np.array([True, False]),
        "endless": np.array([-np.inf, np.nan, -0.0]),
    },
    blobs={"payload": b"\0\xff", "empty": b""},
)


def test_record_round_trips() -> None:
    record = unpack(pack(RECORD))
    assert record.facts == RECORD.facts
    assert record.blobs == RECORD.blobs
    assert record.arrays.keys() == RECORD.arrays.keys()
    for name, array in RECORD.arrays.items():
        assert record.arrays[name].dtype == array.dtype
        assert record.arrays[name].shape == array.shape
        assert record.arrays[name].tobytes() == array.tobytes()


def test_arrays_come_back_writable_and_independent() -> None:
    blob = pack(RECORD)
    unpack(blob).arrays["table"][...] = 9.0
    assert unpack(blob).arrays["table"][0, 1] == 1.0


def test_views_are_packed_by_value() -> None:
    turned = np.arange(6).reshape(2, 3).T[::-1]
    assert unpack(pack(Record(arrays={"turned": turned}))).arrays["turned"].tolist() == turned.tolist()


@given(st.data())
def test_any_changed_byte_is_detected(data: st.DataObject) -> None:
    blob = pack(RECORD)
    at = data.draw(st.integers(0, len(blob) - 1))
    flip = data.draw(st.integers(1, 255))
    with pytest.raises(SnapshotError):
        unpack(blob[:at] + bytes([blob[at] ^ flip]) + blob[at + 1 :])


@given(st.integers(0, len(pack(RECORD)) - 1))
def test_any_truncation_is_detected(length: int) -> None:
    with pytest.raises(SnapshotError):
        unpack(pack(RECORD)[:length])


@pytest.mark.parametrize("blob", [b"", b"CGSNAP", b"\0" * 200, pickle.dumps({"a": 1}) * 20, b"PAR1" * 50])
def test_other_bytes_are_not_a_snapshot(blob: bytes) -> None:
    with pytest.raises(SnapshotError, match="not a castleguard snapshot"):
        unpack(blob)


def test_appended_bytes_are_detected() -> None:
    with pytest.raises(SnapshotError, match="damaged"):
        unpack(pack(RECORD) + b"x")


def test_other_format_version_is_named() -> None:
    body = bytearray(pack(RECORD)[:-32])
    body[6:8] = (99).to_bytes(2, "big")
    with pytest.raises(SnapshotError, match="format 99"):
        unpack(bytes(body) + hashlib.sha256(body).digest())


def test_object_arrays_are_refused() -> None:
    """An array of Python objects would be a pickle."""
    body = pack(Record(arrays={"object": np.zeros(2, dtype=np.uint64)}))[:-32].replace(b'"<u8"', b'"|O8"')
    with pytest.raises((SnapshotError, ValueError), match=r"OBJECT|damaged"):
        unpack(body + hashlib.sha256(body).digest())


def test_no_module_of_the_package_imports_pickle() -> None:
    forbidden = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
    for source in Path(castleguard.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not forbidden & {name.partition(".")[0] for name in names}, source.name


def test_differences_are_named_by_path() -> None:
    mine = {"policy": {"k": 3, "l": 1}, "columns": [{"name": "age", "step": 5}, {"name": "zip"}], "person": "pid"}
    assert differences(mine, mine) == []
    assert differences(mine, {**mine, "person": None}) == ["person"]
    assert differences(mine, {**mine, "policy": {"k": 4, "l": 1}}) == ["policy.k"]
    assert differences(mine, {**mine, "columns": [{"name": "age", "step": 6}, {"name": "zip"}]}) == ["columns.age.step"]
    assert differences(mine, {**mine, "columns": [{"name": "age", "step": 5}]}) == ["columns.zip"]


def test_same_items_in_another_order_are_a_difference() -> None:
    mine = {"columns": [{"name": "age"}, {"name": "zip"}]}
    assert differences(mine, {"columns": mine["columns"][::-1]}) != []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(("name", "a", "b")), below, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("xyz"), json_values), st.dictionaries(st.sampled_from("xyz"), json_values))
def test_only_equal_descriptions_have_no_difference(one: dict[str, object], other: dict[str, object]) -> None:
    assert (differences(one, other) == []) == (one == other)
