"""Measures of information loss, on tables whose loss is computed by hand."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.errors import PolicyError, UsageError
from castleguard.judge.measure.information_loss import average_group_size, discernibility, measure_loss
from castleguard.judge.verify.structure import information_loss
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema

JOBS = Hierarchy.from_mapping({"Any": {"Care": ["Nurse", "Carer", "Doctor"], "Other": ["Cook", {"Craft": ["Smith"]}]}})
SCHEMA = Schema(
    person=None,
    quasi_identifiers=[Numeric("age", lower=0, upper=100), Categorical("job", hierarchy=JOBS)],
)
PUBLISHED: dict[str, list[Any]] = {
    "age_min": [20, 20, 20, 0, 50],
    "age_max": [30, 30, 30, 100, 50],
    "job": ["Care", "Care", "Care", "Any", "Craft"],
}


def test_generalised_loss_is_the_mean_share_of_the_domain() -> None:
    # age: 0.1, 0.1, 0.1, 1, 0. job: 2/4, 2/4, 2/4, 4/4, 0. Rows: 0.3, 0.3, 0.3, 1, 0.
    loss = measure_loss(pa.table(PUBLISHED), SCHEMA)
    assert loss.generalised == pytest.approx(1.9 / 5)
    assert loss.generalised == pytest.approx(information_loss(pa.table(PUBLISHED), SCHEMA))
    assert [each.name for each in loss.attributes] == ["age", "job"]
    assert [each.generalised for each in loss.attributes] == pytest.approx([1.3 / 5, 2.5 / 5])
    assert (loss.rows, loss.groups, loss.unpublished) == (5, 3, 0)


def test_unpublished_row_counts_as_loss_1() -> None:
    loss = measure_loss(pa.table(PUBLISHED), SCHEMA, unpublished=5)
    assert loss.generalised == pytest.approx(1.9 / 5)
    assert loss.generalised_of_all == pytest.approx((1.9 + 5) / 10)


def test_certainty_penalty_counts_leaves_and_nothing_for_one_leaf() -> None:
    # age: 0.1, 0.1, 0.1, 1, 0. job: 3/5, 3/5, 3/5, 5/5, and 0 for Craft, which has Smith alone.
    loss = measure_loss(pa.table(PUBLISHED), SCHEMA)
    assert loss.penalty_total == pytest.approx(1.3 + 2.8)
    assert loss.penalty == pytest.approx(4.1 / (5 * 2))
    assert [each.penalty for each in loss.attributes] == pytest.approx([1.3 / 5, 2.8 / 5])


def test_certainty_penalty_weighs_attributes() -> None:
    loss = measure_loss(pa.table(PUBLISHED), SCHEMA, weights={"age": 3})
    assert loss.penalty_total == pytest.approx(3 * 1.3 + 2.8)
    assert loss.penalty == pytest.approx(6.7 / (5 * 4))
    assert measure_loss(pa.table(PUBLISHED), SCHEMA, weights={"job": 0}).penalty == pytest.approx(1.3 / 5)


def test_discernibility_is_the_sum_of_squares_and_a_whole_table_per_unpublished_row() -> None:
    # Groups of 3, 1 and 1 rows: 9 + 1 + 1. With 2 of 7 rows missing: 2 * 7 more.
    assert measure_loss(pa.table(PUBLISHED), SCHEMA).discernibility == 11
    assert measure_loss(pa.table(PUBLISHED), SCHEMA, unpublished=2).discernibility == 11 + 14


def test_average_group_size_is_a_multiple_of_k() -> None:
    assert average_group_size(np.array([0, 0, 0, 1, 2]), k=1) == pytest.approx(5 / 3)
    assert average_group_size(np.array([0, 0, 0, 0]), k=4) == 1.0


def test_empty_publication_has_no_loss_of_its_own() -> None:
    loss = measure_loss(pa.table(PUBLISHED).slice(0, 0), SCHEMA, unpublished=3)
    assert math.isnan(loss.generalised)
    assert math.isnan(loss.penalty)
    assert loss.generalised_of_all == 1.0
    assert loss.discernibility == 9
    assert math.isnan(average_group_size(np.zeros(0, dtype=np.int64), k=2))


@pytest.mark.parametrize(
    ("weights", "error", "words"),
    [
        ({"income": 1.0}, UsageError, "is not a quasi-identifier"),
        ({"age": -1.0}, PolicyError, "at least 0"),
        ({"age": math.inf}, PolicyError, "finite"),
        ({"age": 0.0, "job": 0.0}, PolicyError, "at least one must be positive"),
    ],
)
def test_invalid_weights_are_refused(weights: dict[str, float], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        measure_loss(pa.table(PUBLISHED), SCHEMA, weights=weights)


BOXES = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 100), st.sampled_from(JOBS.labels)), min_size=1, max_size=20
)


@given(BOXES)
def test_every_share_lies_between_0_and_1(rows: list[tuple[int, int, str]]) -> None:
    table = {
        "age_min": [min(a, b) for a, b, _ in rows],
        "age_max": [max(a, b) for a, b, _ in rows],
        "job": [job for _, _, job in rows],
    }
    loss = measure_loss(pa.table(table), SCHEMA, unpublished=2)
    shares = [loss.generalised, loss.generalised_of_all, loss.penalty]
    shares += [share for each in loss.attributes for share in (each.generalised, each.penalty)]
    assert all(0 <= share <= 1 for share in shares)
    assert len(rows) + 2 * (len(rows) + 2) <= loss.discernibility <= (len(rows) + 2) ** 2


@given(st.lists(st.integers(0, 5), max_size=30))
def test_discernibility_counts_indistinguishable_pairs(groups: list[int]) -> None:
    pairs = sum(a == b for a in groups for b in groups)
    assert discernibility(np.array(groups, dtype=np.int64)) == pairs
