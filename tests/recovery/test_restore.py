"""Snapshots: restored only by the same stream, and at the worst moments."""

import dataclasses
import hashlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.checkpoint.codec import Record, pack, unpack
from castleguard.errors import SnapshotError

AGE = cg.Numeric("age", lower=0, upper=100, step=5)
WEIGHT = cg.Numeric("weight", lower=0, upper=100, step=5)
TREE = cg.Hierarchy.from_mapping({"Any": {"Left": ["a", "b"], "Right": ["c", "d"]}})
SIDE = cg.Categorical("side", hierarchy=TREE)
SCHEMA = cg.Schema(
    person="pid",
    quasi_identifiers=[AGE, WEIGHT, SIDE],
    sensitive=["job", cg.Sensitive("pay", bins=[10, 20])],
    public=["row", "note"],
)
POLICY = cg.Castle(k=3, l=2, delay=30, max_wait=5)


def table(start: int, stop: int) -> pa.Table:
    numbers = np.arange(start, stop)
    return pa.table(
        {
            "pid": numbers % 23,
            "age": numbers * 7 % 101,
            "weight": numbers * 13 % 101,
            "side": [TREE.leaves[number % 4] for number in numbers],
            "job": [f"job {number % 5}" for number in numbers],
            "pay": numbers % 30,
            "row": numbers,
            "note": ["-" for _ in numbers],
        }
    )


def put_aside(schema: cg.Schema = SCHEMA, policy: cg.Castle = POLICY) -> bytes:
    stream = cg.Anonymiser(schema, policy, seed=1)
    stream.push(table(0, 50), now=0.0)
    return stream.snapshot()


def replaced(**changes: object) -> cg.Schema:
    fields = {name: getattr(SCHEMA, name) for name in ("person", "quasi_identifiers", "sensitive", "public")}
    return cg.Schema(**{**fields, **changes})


def other_schemas() -> Iterator[object]:
    """Pairs of a schema and what the refusal must name."""
    pay = cg.Sensitive("pay", bins=[10, 20])
    renamed = cg.Hierarchy.from_mapping({"Any": {"Left": ["a", "b"], "Other": ["c", "d"]}})
    for name, schema, place in (
        ("person", replaced(person="job2"), "person"),
        ("no person", replaced(person=None), "person"),
        ("step", replaced(quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=10), WEIGHT, SIDE]), "age"),
        ("upper", replaced(quasi_identifiers=[cg.Numeric("age", lower=0, upper=90, step=5), WEIGHT, SIDE]), "age"),
        ("null", replaced(quasi_identifiers=[dataclasses.replace(AGE, null="root"), WEIGHT, SIDE]), "age"),
        ("outside", replaced(quasi_identifiers=[dataclasses.replace(AGE, outside="root"), WEIGHT, SIDE]), "age"),
        ("label", replaced(quasi_identifiers=[AGE, WEIGHT, cg.Categorical("side", hierarchy=renamed)]), "side"),
        ("one less", replaced(quasi_identifiers=[AGE, SIDE]), "weight"),
        ("order of quasi-identifiers", replaced(quasi_identifiers=[WEIGHT, AGE, SIDE]), "quasi_identifiers"),
        ("bins", replaced(sensitive=["job", cg.Sensitive("pay", bins=[10, 21])]), "pay"),
        ("no bins", replaced(sensitive=["job", "pay"]), "pay"),
        ("order of sensitive columns", replaced(sensitive=[pay, "job"]), "sensitive"),
        ("public", replaced(public=["row"]), "public"),
        ("order of public columns", replaced(public=["note", "row"]), "public"),
    ):
        yield pytest.param(schema, place, id=name)


@pytest.mark.parametrize(("schema", "place"), list(other_schemas()))
def test_snapshot_of_another_schema_is_refused_and_the_difference_named(schema: cg.Schema, place: str) -> None:
    with pytest.raises(SnapshotError, match=place):
        cg.Anonymiser.restore(schema, POLICY, put_aside())


@pytest.mark.parametrize(
    "change",
    [
        {"k": 4},
        {"l": 3},
        {"l_per": "person"},
        {"delay": 31},
        {"max_wait": 6},
        {"max_wait": None},
        {"max_clusters": 49},
        {"loss_window": 99},
        {"max_reusable": 999},
        {"reusable_age": 10},
        {"reuse": "off"},
        {"suppression": "drop"},
        {"order": "input"},
        {"mode": "paper"},
    ],
    ids=str,
)
def test_snapshot_of_another_policy_is_refused_and_the_difference_named(change: dict[str, object]) -> None:
    with pytest.raises(SnapshotError, match=f"policy.{next(iter(change))}"):
        cg.Anonymiser.restore(SCHEMA, dataclasses.replace(POLICY, **change), put_aside())  # type: ignore[arg-type]


def test_explicit_default_is_not_a_difference() -> None:
    written_out = dataclasses.replace(POLICY, suppression="root", order="shuffled")
    assert cg.Anonymiser.restore(SCHEMA, written_out, put_aside()).report().rows_in == 50


def test_another_form_of_numbers_is_refused() -> None:
    with pytest.raises(SnapshotError, match="numbers"):
        cg.Anonymiser.restore(SCHEMA, POLICY, put_aside(), numbers="interval")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_damaged_snapshot_is_refused(share: float) -> None:
    blob = bytearray(put_aside())
    at = int(share * (len(blob) - 1))
    blob[at] ^= 0x40
    with pytest.raises(SnapshotError):
        cg.Anonymiser.restore(SCHEMA, POLICY, bytes(blob))
    with pytest.raises(SnapshotError):
        cg.Anonymiser.restore(SCHEMA, POLICY, bytes(blob[:at]))


def test_snapshot_whose_arrays_do_not_fit_is_refused() -> None:
    """Right checksum, right schema, wrong shapes: written by another version."""
    record = unpack(put_aside())
    arrays = {**record.arrays, "engine.counters": record.arrays["engine.counters"][:-1]}
    with pytest.raises(SnapshotError, match="counters"):
        cg.Anonymiser.restore(SCHEMA, POLICY, pack(Record(record.facts, arrays, record.blobs)))


def test_snapshot_is_not_a_pickle() -> None:
    blob = put_aside()
    assert blob.startswith(b"CGSNAP")
    assert hashlib.sha256(blob[:-32]).digest() == blob[-32:]


def test_hash_key_is_part_of_the_snapshot() -> None:
    """Otherwise one person would count as two across the restore, and k would be overcounted."""
    schema = cg.Schema(person="pid", quasi_identifiers=[AGE], public=["row"])
    policy = cg.Castle(k=2, delay=5)
    stream = cg.Anonymiser(schema, policy)
    for row in range(4):
        stream.push([{"pid": "one and the same", "age": 50, "row": row}])
        stream = cg.Anonymiser.restore(schema, policy, stream.snapshot())
    assert stream.flush().num_rows == 0
    assert stream.report().suppressed == 4


def test_rows_without_a_person_column_stay_distinct_persons() -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[AGE], public=["row"])
    policy = cg.Castle(k=4, delay=5)
    stream = cg.Anonymiser(schema, policy)
    for row in range(4):
        stream.push([{"age": 50, "row": row}])
        stream = cg.Anonymiser.restore(schema, policy, stream.snapshot())
    assert sorted(stream.flush()["row"].to_pylist()) == [0, 1, 2, 3]


def test_decided_rows_held_for_input_order_survive_a_restart() -> None:
    schema = cg.Schema(person="pid", quasi_identifiers=[AGE], public=["row"])
    policy = cg.Castle(k=2, delay=6, order="input", max_clusters=5)
    stream = cg.Anonymiser(schema, policy, seed=3)
    out: list[int] = []
    held = 0
    for row in range(200):
        age = 5 if row % 3 else row * 31 % 100
        out += stream.push([{"pid": row, "age": age, "row": row}])["row"].to_pylist()
        held += stream.report().pending > stream._engine.pending
        stream = cg.Anonymiser.restore(schema, policy, stream.snapshot())
    out += stream.flush()["row"].to_pylist()
    assert held > 20, "the case did not come up"
    assert out == sorted(out)
    assert len(out) + stream.report().suppressed == 200
    assert stream.report().pending == 0


def test_open_root_stays_open_and_a_closed_one_closed() -> None:
    schema = cg.Schema(
        person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=9, null="root")], public=["row"]
    )
    policy = cg.Castle(k=3, delay=4)
    stream = cg.Anonymiser(schema, policy)
    for row in range(2):
        stream.push([{"pid": row, "age": None, "row": row}])
    stream = cg.Anonymiser.restore(schema, policy, stream.snapshot())
    assert stream.flush().num_rows == 0
    for row in range(3):
        stream.push([{"pid": row, "age": None, "row": row}])
    assert stream.flush().num_rows == 3
    stream = cg.Anonymiser.restore(schema, policy, stream.snapshot())
    stream.push([{"pid": 9, "age": None, "row": 9}])
    assert stream.flush()["row"].to_pylist() == [9]
    assert stream.report().gate_refused == 0


def test_column_that_was_all_null_can_still_take_its_type() -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[AGE], public=["row"])
    policy = cg.Castle(k=2, delay=5)
    stream = cg.Anonymiser(schema, policy)
    stream.push([{"age": 50, "row": None}])
    stream = cg.Anonymiser.restore(schema, policy, stream.snapshot())
    stream.push([{"age": 50, "row": "text"}])
    stream = cg.Anonymiser.restore(schema, policy, stream.snapshot())
    assert sorted(stream.flush()["row"].to_pylist(), key=str) == [None, "text"]


def test_time_of_the_stream_is_restored() -> None:
    stream = cg.Anonymiser.restore(SCHEMA, POLICY, put_aside())
    stream.tick(0.0)
    with pytest.raises(cg.CastleguardError, match="must not go back"):
        stream.tick(-1.0)
    stream.tick(5.0)
    assert stream.report().pending == 0
