"""Comparison of ways to publish the same rows: every row has an outcome in each way."""

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.sites.ways import compare

SCHEMA = cg.Schema(person=None, quasi_identifiers=[cg.Numeric("x", lower=0, upper=100, step=5)])


@pytest.mark.compiled
def test_every_row_is_published_or_suppressed_in_every_way() -> None:
    table = pa.table({"x": np.random.default_rng(3).integers(0, 101, 240)})
    together, few, one, alone = compare(table, SCHEMA, Dcastle(k=6, delay=40, sites=3), seed=1)
    assert [way.published + way.suppressed for way in (together, few, one, alone)] == [240] * 4
    assert together.messages > 0
    assert one.messages == alone.messages == one.bytes == alone.bytes == 0
    assert few.name == "together, strict, boxes shared from 2 persons on"
    assert few.note == "the sites learn of boxes with fewer than k persons"
    assert together.output is not None
    assert together.output.num_rows == together.published
    assert few.output is one.output is alone.output is None


@pytest.mark.compiled
def test_suppressed_row_counts_as_a_loss_of_one() -> None:
    table = pa.table({"x": [1, 2, 3]})
    for way in compare(table, SCHEMA, Dcastle(k=6, delay=40, sites=3), seed=1):
        assert (way.information_loss, way.published, way.suppressed) == (1.0, 0, 3)
