"""Earth mover's distances compared with scipy's and with their linear programme; parameters that Closeness refuses."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import wasserstein_distance

from castleguard.errors import PolicyError
from castleguard.privacy.closeness import (
    Closeness,
    Tree,
    distance_equal,
    distance_hierarchical,
    distance_ordered,
    tree_with_missing,
)
from castleguard.schema.hierarchy import Hierarchy
from tests.properties.streams import categories

Vector = NDArray[np.float64]


def normalised(weights: list[int]) -> Vector:
    shares: Vector = np.array(weights, dtype=np.float64) / sum(weights)
    return shares


def shares(size: int) -> st.SearchStrategy[Vector]:
    return st.lists(st.integers(0, 20), min_size=size, max_size=size).filter(any).map(normalised)


two_shares = st.integers(2, 9).flatmap(lambda size: st.tuples(shares(size), shares(size)))


@st.composite
def trees_with_shares(draw: st.DrawFn) -> tuple[Hierarchy, Vector, Vector]:
    tree = draw(categories())
    size = len(tree.leaves) + 1
    return tree, draw(shares(size)), draw(shares(size))


def grown(tree: Hierarchy) -> Tree:
    return tree_with_missing(tree.parents, tree.leaf_nodes)


def cheapest_flow(p: Vector, q: Vector, apart: NDArray[np.float64]) -> float:
    """Earth mover's distance as defined by Li et al.: the least work that moves p to q."""
    size = p.size
    leaving = np.kron(np.eye(size), np.ones(size))
    arriving = np.kron(np.ones(size), np.eye(size))
    solved = linprog(apart.ravel(), A_eq=np.vstack([leaving, arriving]), b_eq=np.concatenate([p, q]))
    assert solved.success
    return float(solved.fun)


def climbing(tree: Hierarchy) -> NDArray[np.float64]:
    """Distances between values: the height of their lowest common ancestor, found by walking up from each."""
    above: list[list[int]] = []
    for leaf in tree.leaf_nodes:
        path = [int(leaf)]
        while tree.parents[path[-1]] >= 0:
            path.append(int(tree.parents[path[-1]]))
        above.append(path)
    height = {node: max(path.index(node) for path in above if node in path) for path in above for node in path}
    size = len(above) + 1
    apart = 1.0 - np.eye(size)
    for one, path in enumerate(above):
        for other, others in enumerate(above):
            apart[one, other] = height[next(node for node in path if node in others)] / height[0]
    return apart


# -- distances ---------------------------------------------------------------------------------------------------------


def test_the_salaries_of_li_et_al_are_as_far_apart_as_they_print() -> None:
    """Nine salaries from 3k to 11k, of three persons each group: section 4.1 has 0.375 and 0.167."""
    everybody = np.full(9, 1 / 9)
    low, mixed = np.zeros(9), np.zeros(9)
    low[[0, 1, 2]] = mixed[[3, 5, 8]] = 1 / 3
    assert distance_ordered(low, everybody) == pytest.approx(0.375)
    assert distance_ordered(mixed, everybody) == pytest.approx(0.167, abs=5e-4)


@given(two_shares)
def test_equal_distance_is_the_cheapest_flow_between_values_one_apart(pair: tuple[Vector, Vector]) -> None:
    p, q = pair
    assert distance_equal(p, q) == pytest.approx(cheapest_flow(p, q, 1.0 - np.eye(p.size)), abs=1e-7)


@given(two_shares)
def test_ordered_distance_is_the_cheapest_flow_along_the_order(pair: tuple[Vector, Vector]) -> None:
    p, q = pair
    places = np.arange(p.size)
    apart = np.abs(places[:, None] - places[None, :]) / (p.size - 1)
    assert distance_ordered(p, q) == pytest.approx(cheapest_flow(p, q, apart), abs=1e-7)


@given(two_shares)
def test_ordered_distance_is_wassersteins_over_the_width(pair: tuple[Vector, Vector]) -> None:
    p, q = pair
    places = np.arange(p.size)
    assert distance_ordered(p, q) == pytest.approx(wasserstein_distance(places, places, p, q) / (p.size - 1), abs=1e-9)


@given(trees_with_shares())
def test_hierarchical_distance_is_the_cheapest_flow_through_the_tree(
    drawn: tuple[Hierarchy, Vector, Vector],
) -> None:
    tree, p, q = drawn
    assert distance_hierarchical(p, q, grown(tree)) == pytest.approx(cheapest_flow(p, q, climbing(tree)), abs=1e-7)


@given(two_shares)
def test_in_a_flat_tree_all_values_are_equally_far_apart(pair: tuple[Vector, Vector]) -> None:
    p, q = pair
    flat = Hierarchy.flat(range(p.size - 1))
    assert distance_hierarchical(p, q, grown(flat)) == pytest.approx(distance_equal(p, q), abs=1e-12)


@given(trees_with_shares())
def test_distances_are_symmetric_and_between_zero_and_one(
    drawn: tuple[Hierarchy, Vector, Vector],
) -> None:
    tree, p, q = drawn
    for far in (distance_equal, distance_ordered, lambda a, b: distance_hierarchical(a, b, grown(tree))):
        assert far(p, p) == pytest.approx(0, abs=1e-12)
        assert far(p, q) == pytest.approx(far(q, p), abs=1e-12)
        assert -1e-12 <= far(p, q) <= 1 + 1e-12


@given(st.integers(2, 9).flatmap(lambda size: st.tuples(shares(size), st.integers(0, size - 1))))
def test_a_group_of_one_value_is_as_far_as_that_value_is_rare(drawn: tuple[Vector, int]) -> None:
    q, value = drawn
    alone = np.zeros(q.size)
    alone[value] = 1.0
    assert distance_equal(alone, q) == pytest.approx(1 - q[value])


@given(two_shares, st.integers(1, 9), st.integers(1, 9))
def test_a_mixture_is_no_farther_than_its_parts(pair: tuple[Vector, Vector], one: int, other: int) -> None:
    """So a union of groups without a common person keeps t, for one reference."""
    p, r = pair
    q = np.roll(p, 1)
    mixed = (one * p + other * r) / (one + other)
    for far in (distance_equal, distance_ordered):
        assert far(mixed, q) <= max(far(p, q), far(r, q)) + 1e-12


def test_a_missing_value_is_as_far_from_every_other_as_values_can_be() -> None:
    tree = grown(Hierarchy.from_mapping({"*": {"a": ["1", "2"], "b": ["3", "4"]}}))
    near, far = np.array([0.0, 1, 0, 0, 0]), np.array([0.0, 0, 0, 0, 1])
    first = np.array([1.0, 0, 0, 0, 0])
    assert distance_hierarchical(first, near, tree) == pytest.approx(0.5)
    assert distance_hierarchical(first, far, tree) == pytest.approx(1.0)


# -- the criterion -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"t": 0}, "t must be a number above 0 and at most 1, got 0"),
        ({"t": 1.1}, "t must be a number above 0 and at most 1, got 1.1"),
        ({"t": float("nan")}, "t must be a number above 0 and at most 1, got nan"),
        ({"t": "small"}, "t must be a number above 0 and at most 1, got 'small'"),
        ({"distance": "far"}, "distance must be 'equal' or 'ordered' or 'hierarchical', got 'far'"),
        ({"reference": "all"}, "reference must be 'cumulative' or 'window' or 'decay' or 'public', got 'all'"),
        ({"reference": "window"}, "window and reference='window' go together: give both or neither"),
        ({"window": 5}, "window and reference='window' go together: give both or neither"),
        ({"decay": 0.5}, "decay and reference='decay' go together: give both or neither"),
        ({"reference": "public"}, "public and reference='public' go together: give both or neither"),
        ({"reference": "window", "window": 0}, "window must be a whole number of at least 1, got 0"),
        ({"reference": "window", "window": 2.5}, "window must be a whole number of at least 1, got 2.5"),
        ({"reference": "decay", "decay": 1.0}, "decay must be a number of at least 0.001 and below 1, got 1.0"),
        ({"reference": "decay", "decay": 0.0}, "decay must be a number of at least 0.001 and below 1, got 0.0"),
        ({"burn_in": -1}, "burn_in must be a whole number of at least 0, got -1"),
        ({"burn_in": True}, "burn_in must be a whole number of at least 0, got True"),
        ({"alpha": 0}, "alpha must be a number above 0, got 0"),
        ({"alpha": float("inf")}, "alpha must be a number above 0, got inf"),
        ({"reference": "public", "public": [1]}, "public must map each sensitive column"),
        ({"reference": "public", "public": {"s": {"a": 0.5}}}, "public: the shares of column 's' must add up to 1"),
        ({"reference": "public", "public": {"s": {"a": 1.5, "b": -0.5}}}, "public: the shares of column 's' must be"),
    ],
)
def test_invalid_closeness_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError) as refused:
        Closeness(**{"t": 0.2, **given})
    assert str(refused.value).startswith(message)


def test_the_burn_in_is_the_delay_up_to_a_thousand_rows() -> None:
    assert Closeness(t=0.2).chosen_burn_in(50) == 50
    assert Closeness(t=0.2).chosen_burn_in(5000) == 1000
    assert Closeness(t=0.2, burn_in=7).chosen_burn_in(5000) == 7
    assert Closeness(t=0.2, reference="public", public={"s": {"a": 1}}).chosen_burn_in(50) == 0


def test_public_shares_are_in_the_order_of_the_values_with_the_missing_one_last() -> None:
    closeness = Closeness(t=0.2, reference="public", public={"s": {"b": 0.5, None: 0.25, 3: 0.25}})
    assert closeness.public_shares("s", ["a", "b", 3]).tolist() == [0.0, 0.5, 0.25, 0.25]
    with pytest.raises(PolicyError, match="public: column 's' has no value 'b'"):
        closeness.public_shares("s", ["a", 3])
    with pytest.raises(PolicyError, match="public has no shares for the sensitive column 'u'"):
        closeness.public_shares("u", ["a"])


@pytest.mark.parametrize(
    ("field", "other"),
    [("t", 0.3), ("alpha", 2.0), ("burn_in", 4), ("distance", "ordered"), ("public", {"s": {"a": 1.0}})],
)
def test_criteria_that_differ_have_different_fingerprints(field: str, other: object) -> None:
    given: dict[str, Any] = {"t": 0.2, "burn_in": 3, "reference": "public", "public": {"s": {"a": 0.5, None: 0.5}}}
    mine = Closeness(**given)
    described = mine.fingerprint()
    assert json.loads(json.dumps(described)) == described
    assert Closeness(**given).fingerprint() == described
    assert Closeness(**{**given, field: other}).fingerprint() != described
    assert hash(mine) == hash(Closeness(**given))
