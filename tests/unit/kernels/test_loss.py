"""Losses, common nodes and published boxes agree with the hierarchy and with the transcription."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from castleguard.algorithms import domain as domains
from castleguard.kernels.arrays import Floats2, Ints2
from castleguard.kernels.compile import entry_kernel
from castleguard.kernels.loss import Domain, box_loss, common_node, publish_box, root_box, stretched_loss, value_loss
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Schema
from tests.properties.streams import categories, schemas, values_of
from tests.properties.transcription import attributes_of
from tests.reference import measure

Floats = NDArray[np.float64]


@entry_kernel
def look_up(domain: Domain, pairs: Ints2, nodes: NDArray[np.int64], losses: Floats) -> None:
    """Common node and its loss, for pairs of leaves of the first attribute."""
    for at in range(pairs.shape[0]):
        nodes[at] = common_node(domain, 0, pairs[at, 0], pairs[at, 1])
        losses[at] = value_loss(domain, 0, float(pairs[at, 0]), float(pairs[at, 1]))


@entry_kernel
def measure_box(domain: Domain, box: Floats2, point: Floats, losses: Floats, out: Floats2) -> None:
    """Loss of a box, and of the box with a point; the published box (out[:2]) and the root (out[2:])."""
    losses[0] = box_loss(domain, box[0], box[1])
    losses[1] = stretched_loss(domain, box[0], box[1], point)
    publish_box(domain, box[0], box[1], out[0], out[1])
    root_box(domain, out[2], out[3])


def one_category(tree: Hierarchy, largest_table: int) -> Domain:
    schema = Schema(person=None, quasi_identifiers=[Categorical("c", hierarchy=tree)])
    with patch.object(domains, "_TABLE_LEAVES", largest_table):
        return domains.make_domain(schema, snap=True)


def check_pairs(tree: Hierarchy, domain: Domain, pairs: list[tuple[int, int]]) -> None:
    nodes, losses = np.zeros(len(pairs), dtype=np.int64), np.zeros(len(pairs))
    look_up(domain, np.array(pairs, dtype=np.int64), nodes, losses)
    expected = [tree.node(low, high) for low, high in pairs]
    assert nodes.tolist() == expected
    assert losses.tolist() == [tree.losses[node] for node in expected]


@pytest.mark.parametrize("largest_table", [0, 1024], ids=["climbing", "table"])
@given(tree=categories())
def test_two_leaves_meet_in_their_lowest_common_node(largest_table: int, tree: Hierarchy) -> None:
    count = len(tree.leaves)
    pairs = [(low, high) for low in range(count) for high in range(low, count)]
    check_pairs(tree, one_category(tree, largest_table), pairs)


def test_a_hierarchy_too_large_for_a_table_is_climbed() -> None:
    tens = {f"{ten}*": [f"{ten}{one}" for one in range(10)] for ten in range(100, 250)}
    hundreds = {f"{hundred}***": {ten: tens[ten] for ten in tens if ten.startswith(hundred)} for hundred in ("1", "2")}
    tree = Hierarchy.from_mapping({"****": hundreds})
    schema = Schema(person=None, quasi_identifiers=[Categorical("code", hierarchy=tree)])
    domain = domains.make_domain(schema, snap=True)
    assert domain.pool.size < 10 * len(tree.labels)
    random = np.random.default_rng(1)
    pairs = [(low, high) for low, high in np.sort(random.integers(0, len(tree.leaves), (500, 2))).tolist()]
    check_pairs(tree, domain, pairs)


@st.composite
def boxes(draw: st.DrawFn) -> tuple[Schema, bool, list[tuple[float, float, float]]]:
    """A schema, whether its grid is used, and three values for every attribute: low, high, and any."""
    strict = draw(st.booleans())
    schema = draw(schemas(strict=strict))
    values = []
    for role in schema.quasi_identifiers:
        low, high = sorted(draw(st.sampled_from(values_of(role).tolist())) for _ in range(2))
        values.append((low, high, draw(st.sampled_from(values_of(role).tolist()))))
    return schema, strict, values


@given(boxes())
def test_loss_and_published_box_match_the_transcription(
    given_box: tuple[Schema, bool, list[tuple[float, float, float]]],
) -> None:
    schema, snap, values = given_box
    domain = domains.make_domain(schema, snap=snap)
    twin = measure.Domain(attributes_of(schema, snap=snap))
    for at in range(3):
        twin.observe(measure.Row(at, at, tuple(three[at] for three in values)))
    observed = domain.layout[:, 1] == 1
    domain.bounds[0, observed] = [min(three) for three, seen in zip(values, observed, strict=True) if seen]
    domain.bounds[1, observed] = [max(three) for three, seen in zip(values, observed, strict=True) if seen]
    low, high, point = (np.array(column) for column in zip(*values, strict=True))
    losses, out = np.zeros(2), np.zeros((4, len(values)))
    measure_box(domain, np.stack([low, high]), point, losses, out)
    box = tuple((low, high) for low, high, _ in values)
    assert losses[0] == twin.loss(box)
    assert losses[1] == twin.loss(measure.union(box, tuple((value, value) for _, _, value in values)))
    assert tuple(zip(out[0].tolist(), out[1].tolist(), strict=True)) == twin.published(box)
    assert tuple(zip(out[2].tolist(), out[3].tolist(), strict=True)) == twin.root()
