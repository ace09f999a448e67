"""Criteria agree with hand-computed examples, with their definitions, and with pycanon."""

import math
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from castleguard.judge.verify.group_values import (
    Tally,
    coordinates,
    distances,
    distinct_values,
    entropies,
    judge_entropy,
    judge_recursive,
    persons_apart,
    recursive_margins,
    tally,
    value_codes,
)
from castleguard.privacy.closeness import distance_hierarchical, tree_with_missing
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.sensitive import Sensitive


def of_counts(*groups: list[int]) -> Tally:
    """Groups with the given counts of each value."""
    rows = [(group, value) for group, counts in enumerate(groups) for value, n in enumerate(counts) for _ in range(n)]
    found = np.array(rows, dtype=np.int64)
    return tally(found[:, 0], found[:, 1], None, count=len(groups))


def test_values_are_counted_by_their_published_label() -> None:
    cost = Sensitive("cost", bins=[10, 20])
    assert value_codes(pa.chunked_array([[5.0, 10.0, 19.9, 20.0, None]]), cost).tolist() == [0, 1, 1, 2, 3]
    assert value_codes(pa.chunked_array([["< 10", "[10, 20)", ">= 20"]]), cost).tolist() == [0, 1, 2]
    grade = Sensitive("grade", values=[1, 2])
    assert value_codes(pa.chunked_array([["2", " 1", "7", ""]]), grade).tolist() == [1, 0, 2, 2]
    assert len(set(value_codes(pa.chunked_array([["x", "y", "x"]]), Sensitive("any")).tolist())) == 2


def test_person_counts_once_for_a_value() -> None:
    # Group 0: person 1 has value 0 twice, person 2 has value 1. Group 1: persons 1 and 2 have value 0.
    groups, values, persons = np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 0, 0]), np.array([1, 1, 2, 1, 2])
    found = tally(groups, values, persons, count=2)
    assert found.times.tolist() == [1, 1, 2]
    assert found.repeated.tolist() == [True, False]
    assert tally(groups, values, None, count=2).times.tolist() == [2, 1, 2]
    assert distinct_values(found).tolist() == [2, 1]


def test_entropies_of_known_counts() -> None:
    # (2, 2): ln 2. (3, 1): -(0.75 ln 0.75 + 0.25 ln 0.25) = 0.5623. (4): 0.
    found = entropies(of_counts([2, 2], [3, 1], [4]))
    assert found == pytest.approx([math.log(2), 0.5623351446188083, 0.0])
    assert judge_entropy(of_counts([2, 2], [3, 1], [4]), 2).proved.tolist() == [False, True, True]


def test_recursive_diversity_compares_the_largest_count_with_the_tail() -> None:
    # (3, 2, 2) with l=2: 3 < c (2 + 2) holds for c=1. (4, 1, 1): 4 < c (1 + 1) holds for c > 2, and with l=3 for c > 4.
    counted = of_counts([3, 2, 2], [4, 1, 1])
    assert [each.tolist() for each in recursive_margins(counted, 2)] == [[3, 4], [4, 2]]
    assert judge_recursive(counted, c=1.0, l=2).failed.tolist() == [False, True]
    assert judge_recursive(counted, c=2.0, l=2).failed.tolist() == [False, True]
    assert judge_recursive(counted, c=2.1, l=2).failed.tolist() == [False, False]
    assert judge_recursive(counted, c=4.0, l=3).failed.tolist() == [False, True]


def test_failure_with_a_repeated_person_is_not_a_proof() -> None:
    # docs/proofs/criteria.md: {(p1, a), (p2, b)} and {(p1, a), (p3, b)} pass, their union has one a and two b.
    groups, values, persons = np.zeros(4, np.int64), np.array([0, 1, 0, 1]), np.array([1, 2, 1, 3])
    found = judge_entropy(tally(groups, values, persons, count=1), 2)
    assert found.failed.tolist() == [True]
    assert found.proved.tolist() == [False]


def test_different_persons_must_hold_the_values() -> None:
    # Group 0: person 1 holds values 0 and 1, person 2 holds 0: both can stand for one. Group 1: one person holds both.
    groups, values = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 0, 0, 1])
    assert persons_apart(groups, values, np.array([1, 1, 2, 3, 3]), most=5).tolist() == [2, 1]
    assert persons_apart(groups, values, np.array([1, 1, 2, 3, 3]), most=1).tolist() == [1, 1]


def test_salaries_of_the_paper_have_the_distances_that_it_prints() -> None:
    # Li et al. 2007, section 4.2: nine salaries 3k to 11k; {3, 4, 5} is 0.375 away, {6, 8, 11} 0.167.
    groups = np.zeros((2, 9))
    groups[0, [0, 1, 2]] = groups[1, [3, 5, 8]] = 1 / 3
    all_rows = np.full((1, 9), 1 / 9)
    found = distances(coordinates(groups, "ordered"), coordinates(all_rows, "ordered"))
    assert found == pytest.approx([0.375, 1 / 6])
    assert distances(coordinates(groups, "equal"), coordinates(all_rows, "equal")) == pytest.approx([2 / 3, 2 / 3])


def test_tree_distances_equal_those_of_moving_mass() -> None:
    tree = Hierarchy.from_mapping({"any": {"x": {"xx": ["a", "b"], "xy": ["c"]}, "y": ["d", "e", "f"], "z": ["g"]}})
    draw = np.random.default_rng(1)
    p, q = (draw.dirichlet(np.full(8, 0.5), 50) for _ in range(2))
    found = distances(coordinates(p, "hierarchical", tree), coordinates(q, "hierarchical", tree))
    nodes = tree_with_missing(tree.parents, tree.leaf_nodes)
    assert found == pytest.approx([distance_hierarchical(p[i], q[i], nodes) for i in range(50)])


@pytest.mark.parametrize("seed", range(8))
def test_criteria_agree_with_pycanon(seed: int) -> None:
    """pycanon counts rows, so every row is a person here. It sorts the counts of (c, l)-diversity in reverse, and takes
    the rarest value for the most frequent one; the test follows pycanon here, not the paper.
    """
    pycanon: Any = pytest.importorskip("pycanon.anonymity")
    pandas: Any = pytest.importorskip("pandas")
    draw = np.random.default_rng(seed)
    rows = int(draw.integers(20, 60))
    groups, values = draw.integers(0, 4, rows), draw.integers(0, 5, rows)
    _, groups = np.unique(groups, return_inverse=True)
    _, values = np.unique(values, return_inverse=True)
    counted = tally(groups, values, np.arange(rows), count=int(groups.max()) + 1)
    frame = pandas.DataFrame({"box": groups, "grade": values, "label": [f"v{value}" for value in values]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.bincount(groups).min() == pycanon.k_anonymity(frame, ["box"])
        least = int(distinct_values(counted).min())
        assert least == pycanon.l_diversity(frame, ["box"], ["label"])
        # pycanon rounds down, and float64 errors may put its result just below an integer.
        entropy = float(np.exp(entropies(counted).min()))
        assert pycanon.entropy_l_diversity(frame, ["box"], ["label"]) in (int(entropy), int(entropy - 1e-9))
        theirs, l = pycanon.recursive_c_l_diversity(frame, ["box"], ["label"])
        assert l == least
        if least > 1:
            assert theirs == max(_other_way_round(counted, group, least) for group in range(counted.groups))
        shares = counted.shares(int(values.max()) + 1)
        all_rows = np.bincount(values)[None, :] / rows
        equal = distances(coordinates(shares, "equal"), coordinates(all_rows, "equal"))
        assert pycanon.t_closeness(frame, ["box"], ["label"]) == pytest.approx(equal.max())
        ordered = distances(coordinates(shares, "ordered"), coordinates(all_rows, "ordered"))
        assert pycanon.t_closeness(frame, ["box"], ["grade"]) == pytest.approx(ordered.max())


def _other_way_round(counted: Tally, group: int, l: int) -> int:
    rising = np.sort(counted.times[counted.group == group])
    return int(rising[0] / rising[l - 1 :].sum() + 1)


def test_value_has_the_code_of_its_label_published_or_not() -> None:
    fare = Sensitive("fare", bins=[10, 20])
    assert value_codes(pa.chunked_array([pa.array([9.9, 10.0, 25.0, None])]), fare).tolist() == [0, 1, 2, 3]
    labels = pa.chunked_array([pa.array(["< 10", "[10, 20)", ">= 20", None])])
    assert value_codes(labels, fare).tolist() == [0, 1, 2, 3]
    ward = Sensitive("ward", values=["a", "b", "c"])
    assert value_codes(pa.chunked_array([pa.array(["c", "a", "elsewhere", None])]), ward).tolist() == [2, 0, 3, 3]
