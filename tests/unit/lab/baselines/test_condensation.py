"""Condensation: statistics by hand, and properties of every grouping."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import castleguard as cg
from castleguard.errors import PolicyError, UsageError
from castleguard.lab.baselines.coded_boxes import NOWHERE, published, read
from castleguard.lab.baselines.condensation import Condensed, condensation, condense, static_groups

PLANE = cg.Schema(
    person=None,
    quasi_identifiers=[cg.Numeric("x", lower=0, upper=10, step=5), cg.Numeric("y", lower=0, upper=100, step=50)],
    public=["row"],
)


def test_static_groups_are_a_row_with_its_nearest() -> None:
    # Whichever row is drawn, its two nearest are the other two of its three.
    points = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    for seed in range(5):
        groups = static_groups(points, 3, np.random.default_rng(seed))
        assert sorted(sorted(group.tolist()) for group in groups) == [[0, 1, 2], [3, 4, 5]]


def test_remaining_rows_join_the_nearest_group() -> None:
    # Groups of three: {0, 1, 2} and {10, 11, 12} with centroids 1 and 11, and the row at 7 that is left over.
    class FirstOne(np.random.Generator):
        def integers(self, *_: object, **__: object) -> int:  # type: ignore[override]
            return 0

    points = np.array([[0.0], [1.0], [2.0], [12.0], [11.0], [10.0], [7.0]])
    groups = static_groups(points, 3, FirstOne(np.random.PCG64(0)))
    assert [group.tolist() for group in groups] == [[0, 1, 2], [3, 4, 5, 6]]


def test_a_row_joins_the_group_with_the_nearest_centroid() -> None:
    # History 0, 0, 10, 10 gives the centroids 0 and 10 (k = 2). Row 4 at 4 goes to the first, whose centroid moves to
    # 4/3; row 5 at 5.6 is 4.27 away from that and 4.4 from the other.
    points = np.array([[0.0], [0.0], [10.0], [10.0], [4.0], [5.6]])
    for seed in range(3):
        groups = condense(points[:5], k=2, history=4, seed=seed)
        assert groups[0] == groups[1] == groups[4] != groups[2] == groups[3]
        groups = condense(np.array([[0.0], [0.0], [10.0], [10.0], [7.0]]), k=2, history=4, seed=seed)
        assert groups[2] == groups[3] == groups[4]
        groups = condense(points, k=2, history=4, seed=seed)
        # The first group has four rows then, and is split: 0, 0 and 4, 5.6.
        assert groups[0] == groups[1]
        assert groups[4] == groups[5]
        assert len({groups[0], groups[2], groups[4]}) == 3


def test_a_split_follows_the_first_principal_component() -> None:
    # (0,0), (1,1), (2,2), (3,3): mean (1.5, 1.5), all four covariances 1.25, so the direction is (1, 1)/sqrt 2 with
    # variance 2.5. An even spread of variance 2.5 is sqrt(30) long; a quarter of it is 1.3693, or 0.9682 in x and in y.
    points = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    groups = Condensed(2, k=2)
    groups.open(np.arange(4), points)
    shift = math.sqrt(30) / 4 / math.sqrt(2)
    assert shift == pytest.approx(0.9682, abs=1e-4)
    np.testing.assert_allclose(groups.centroids, [[1.5 - shift] * 2, [1.5 + shift] * 2])
    assert groups.members == [[0, 1], [2, 3]]
    for number in (0, 1):  # a quarter of the variance of the whole
        np.testing.assert_allclose(groups.covariance(number), [[1.25 / 4] * 2] * 2)


def test_a_split_leaves_the_other_directions_alone() -> None:
    # x = 0, 4, 0, 4 and y = 0, 0, 2, 2 have variances 4 and 1 and no covariance.
    points = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 2.0], [4.0, 2.0]])
    groups = Condensed(2, k=2)
    groups.open(np.arange(4), points)
    assert groups.members == [[0, 2], [1, 3]]
    shift = math.sqrt(12 * 4) / 4
    np.testing.assert_allclose(groups.centroids, [[2 - shift, 1], [2 + shift, 1]])
    np.testing.assert_allclose(groups.covariance(1), [[1, 0], [0, 1]], atol=1e-12)


def test_statistics_decide_and_not_the_rows() -> None:
    # After the split above the centroid of the first group is 2 - sqrt(3) = 0.27 in x, though its rows are at 0.
    groups = Condensed(1, k=2)
    groups.open(np.arange(4), np.array([[0.0], [0.0], [4.0], [4.0]]))
    np.testing.assert_allclose(groups.centroids[:, 0], [2 - math.sqrt(3), 2 + math.sqrt(3)])
    groups.add(4, np.array([1.0]))
    assert groups.members == [[0, 1, 4], [2, 3]]
    np.testing.assert_allclose(groups.centroids[0], [(2 * (2 - math.sqrt(3)) + 1) / 3])


def test_a_group_of_equal_rows_can_be_split() -> None:
    groups = Condensed(2, k=2)
    groups.open(np.arange(4), np.ones((4, 2)))
    assert groups.sizes == [2, 2]
    np.testing.assert_allclose(groups.centroids, np.ones((2, 2)))


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 40), st.integers(0, 60))
def test_every_row_is_in_one_group_of_k_to_2k_rows(seed: int, k: int, history: int, rows: int) -> None:
    points = np.random.default_rng(seed).integers(0, 9, (rows, 3)) / 8
    group = condense(points, k=k, history=history, seed=seed)
    if rows < k:
        assert (group == NOWHERE).all()
        return
    sizes = np.bincount(group)
    assert sizes.sum() == rows
    assert sizes.min() >= k
    assert sizes.max() <= max(2 * k - 1, 1)


def test_groups_are_published_as_bounding_boxes_at_the_end() -> None:
    table = pa.table({"x": [0, 1, 9, 10], "y": [0, 30, 100, 80], "row": [0, 1, 2, 3]})
    coded = read(table, PLANE)
    boxed = condensation(coded, k=2, history=4)
    assert boxed.released.tolist() == [4, 4, 4, 4]
    rows = published(coded, boxed).to_pylist()
    assert rows[0] == {"x_min": 0, "x_max": 1, "y_min": 0, "y_max": 30, "row": 0}
    assert rows[2] == {"x_min": 9, "x_max": 10, "y_min": 80, "y_max": 100, "row": 2}
    assert published(coded, boxed, on_grid=True).to_pylist()[0] == {
        "x_min": 0,
        "x_max": 5,
        "y_min": 0,
        "y_max": 50,
        "row": 0,
    }


def test_distances_are_shares_of_the_domain_or_unscaled() -> None:
    # 30 of 100 in y is nearer than 4 of 10 in x; as they are, 4 is nearer than 30.
    table = pa.table({"x": [0, 4, 0, 4], "y": [0, 0, 30, 30], "row": [0, 1, 2, 3]})
    box = condensation(read(table, PLANE), k=2, history=4).box
    assert box[0] == box[2] != box[1] == box[3]
    box = condensation(read(table, PLANE), k=2, history=4, scale="values").box
    assert box[0] == box[1] != box[2] == box[3]


def test_categories_are_refused() -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[cg.Categorical("sex", hierarchy=cg.Hierarchy.flat(["f", "m"]))])
    with pytest.raises(UsageError, match="column 'sex' holds categories"):
        condensation(read(pa.table({"sex": ["f", "m"]}), schema), k=2)


def test_a_k_that_makes_no_group_is_refused() -> None:
    with pytest.raises(PolicyError, match="k must be at least 1"):
        condense(np.zeros((3, 1)), k=0)
