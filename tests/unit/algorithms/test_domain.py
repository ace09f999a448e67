"""Kernel arrays of a schema."""

import numpy as np
from hypothesis import given

from castleguard.algorithms.domain import common_nodes, make_domain
from castleguard.kernels import loss
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from tests.properties.streams import categories

EDUCATION = Hierarchy.from_mapping({"Any": {"School": ["Junior", "Senior"], "University": ["Bachelor"]}})
SCHEMA = Schema(
    person="id",
    quasi_identifiers=[
        Numeric("age", lower=0, upper=100, step=25),
        Categorical("education", hierarchy=EDUCATION),
        Numeric("seen"),
    ],
)


@given(categories())
def test_the_table_holds_the_common_node_of_every_pair(tree: Hierarchy) -> None:
    table = common_nodes(tree)
    for low in range(len(tree.leaves)):
        for high in range(low, len(tree.leaves)):
            assert table[low, high] == table[high, low] == tree.node(low, high)


def test_every_attribute_has_its_part_of_the_pool() -> None:
    domain = make_domain(SCHEMA, snap=True)
    age, education, _ = domain.layout
    assert domain.pool[age[loss.EDGES] :][: age[loss.EDGE_COUNT]].tolist() == [0, 25, 50, 75, 100]
    for place, array in (
        (loss.PARENTS, EDUCATION.parents),
        (loss.FIRST_LEAVES, EDUCATION.first_leaf),
        (loss.LAST_LEAVES, EDUCATION.last_leaf),
        (loss.LOSSES, EDUCATION.losses),
        (loss.LEAF_NODES, EDUCATION.leaf_nodes),
        (loss.PAIR_NODES, common_nodes(EDUCATION).ravel()),
        (loss.PAIR_LOSSES, EDUCATION.losses[common_nodes(EDUCATION).ravel()]),
    ):
        assert np.array_equal(domain.pool[education[place] :][: array.size], array)
    assert domain.layout[:, loss.NUMERIC].tolist() == [1, 0, 1]
    assert domain.layout[:, loss.OBSERVED].tolist() == [0, 0, 1]


def test_an_observed_domain_is_empty_at_first() -> None:
    domain = make_domain(SCHEMA, snap=False)
    assert domain.bounds[:, 0].tolist() == [0, 100]
    assert domain.bounds[:, 2].tolist() == [np.inf, -np.inf]


def test_without_snapping_no_grid_is_stored() -> None:
    assert not make_domain(SCHEMA, snap=False).layout[:, loss.EDGE_COUNT].any()
