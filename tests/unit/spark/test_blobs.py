"""Blobs: every row reaches its shard unchanged, and labels fall into distinct partitions of Spark."""

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.checkpoint.codec import table_from_bytes
from castleguard.shards.routing import HashRoute
from castleguard.spark import blobs
from castleguard.spark.blobs import _hash, labels_of

SCHEMA = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("x", lower=0, upper=1)])


@pytest.mark.parametrize("shards", [1, 3])
def test_rows_reach_their_shards_unchanged(shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "GATHERED", 25)
    table = pa.table({"pid": pa.array([2**60 + at // 2 for at in range(99)] + [None]), "x": np.linspace(0, 1, 100)})
    route, labels = HashRoute(SCHEMA, shards), labels_of(shards)
    found = list(blobs.part(table.to_batches(max_chunksize=10), route, labels))
    assert len(found) == 4
    back = []
    for batch in found:
        for label, blob in zip(batch["label"].to_pylist(), batch["rows"].to_pylist(), strict=True):
            rows = table_from_bytes(blob)
            assert set(route.shard_of(rows).tolist()) == {labels.index(label)}
            back += rows.to_pylist()
    assert sorted(back, key=lambda row: row["x"]) == table.to_pylist()


def test_published_table_is_split_into_blobs_and_joined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "PIECE", 4)
    table = pa.table({"x": range(10)})
    found = list(blobs.pieces(table))
    assert len(found) == 3
    batch = pa.record_batch({"rows": pa.array(found, pa.binary())})
    assert pa.Table.from_batches(blobs.unpack([batch])).equals(table)


def test_invalid_utf_8_counts_as_one_value() -> None:
    texts = pa.array([b"caf\xe9", b"caf\xe8", b"cafe", None], pa.binary()).view(pa.string())
    assert blobs.readable(texts).to_pylist() == ["caf\ufffd", "caf\ufffd", "cafe", None]
    fine = pa.array(["ä"])
    assert blobs.readable(fine) is fine
    batch = pa.record_batch({"pid": pa.array([1, 2, 3, 4]), "x": pa.array([0.5] * 4), "s": texts})
    (found,) = blobs.part([batch], HashRoute(SCHEMA, 1), [0])
    assert table_from_bytes(found["rows"][0].as_py())["s"].to_pylist() == ["caf\ufffd", "caf\ufffd", "cafe", None]


def test_hash_equals_that_of_spark() -> None:
    """As `spark.range(4).select(hash(col("id").cast("int")))` says."""
    assert [_hash(number) for number in (0, 1, 2, 3)] == [933211791, -559580957, 1765031574, -1823081949]


@pytest.mark.parametrize("shards", [1, 2, 7, 16])
def test_no_two_shards_share_a_partition(shards: int) -> None:
    labels = labels_of(shards)
    assert sorted(_hash(label) % shards for label in labels) == list(range(shards))
