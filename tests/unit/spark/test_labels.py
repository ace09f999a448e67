"""Labels of shards fall into distinct partitions of Spark."""

import pytest

from castleguard.spark.labels import _hash, labels_of


def test_hash_equals_that_of_spark() -> None:
    """As `spark.range(4).select(hash(col("id").cast("int")))` says."""
    assert [_hash(number) for number in (0, 1, 2, 3)] == [933211791, -559580957, 1765031574, -1823081949]


@pytest.mark.parametrize("shards", [1, 2, 7, 16])
def test_no_two_shards_share_a_partition(shards: int) -> None:
    labels = labels_of(shards)
    assert sorted(_hash(label) % shards for label in labels) == list(range(shards))
