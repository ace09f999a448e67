"""Kernel arrays of a schema and its criteria.

Domains, grids and hierarchies of the quasi-identifiers, and the parameters of criteria on the distribution of
sensitive values.
"""

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels import loss
from castleguard.kernels import state as names
from castleguard.kernels.arrays import Floats
from castleguard.kernels.loss import Domain
from castleguard.kernels.state import Shape
from castleguard.privacy.closeness import tree_with_missing
from castleguard.privacy.criteria import ColumnFacts, Criteria
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema

_TABLE_LEAVES = 1024  # up to this size every pair of leaves has a table entry; larger hierarchies are climbed


def common_nodes(hierarchy: Hierarchy) -> NDArray[np.int32]:
    """Lowest common ancestor of every pair of leaves, in both orders."""
    count = len(hierarchy.leaves)
    table = np.zeros((count, count), dtype=np.int32)
    # Nodes are in depth-first preorder, so a descendant overwrites its ancestors.
    for node in range(len(hierarchy.labels)):
        first, last = hierarchy.first_leaf[node], hierarchy.last_leaf[node] + 1
        table[first:last, first:last] = node
    for leaf, node in enumerate(hierarchy.leaf_nodes):
        table[leaf, leaf] = node
    return table


def make_domain(schema: Schema, *, snap: bool) -> Domain:
    """Domain arrays of a schema; `snap` rounds published numbers outward to their grid."""
    columns = len(schema.quasi_identifiers)
    pool = _Pool()
    layout = np.zeros((columns, loss.LAYOUT), dtype=np.int64)
    bounds = np.zeros((2, columns))
    for column, role in enumerate(schema.quasi_identifiers):
        row = layout[column]
        if isinstance(role, Numeric):
            row[loss.NUMERIC] = 1
            row[loss.OBSERVED] = role.domain is None
            bounds[:, column] = role.domain or (np.inf, -np.inf)
            if snap:
                row[loss.EDGES], row[loss.EDGE_COUNT] = pool.add(role.edges), role.edges.size
        elif isinstance(role, Categorical):
            tree = role.hierarchy
            row[loss.LEAVES] = len(tree.leaves)
            row[loss.PARENTS] = pool.add(tree.parents)
            row[loss.FIRST_LEAVES] = pool.add(tree.first_leaf)
            row[loss.LAST_LEAVES] = pool.add(tree.last_leaf)
            row[loss.LOSSES] = pool.add(tree.losses)
            row[loss.LEAF_NODES] = pool.add(tree.leaf_nodes)
            row[loss.PAIR_NODES] = row[loss.PAIR_LOSSES] = -1
            if len(tree.leaves) <= _TABLE_LEAVES:
                nodes = common_nodes(tree).ravel()
                row[loss.PAIR_NODES] = pool.add(nodes)
                row[loss.PAIR_LOSSES] = pool.add(tree.losses[nodes])
    return Domain(layout=layout, bounds=bounds, pool=pool.join())


class _Pool:
    """Concatenation of arrays that are all exact as float64."""

    def __init__(self) -> None:
        self._arrays: list[NDArray[np.float64]] = []
        self._size = 0

    def add(self, array: NDArray[np.floating] | NDArray[np.integer]) -> int:
        """Append an array; return its offset."""
        offset = self._size
        self._arrays.append(array.astype(np.float64))
        self._size += array.size
        return offset

    def join(self) -> NDArray[np.float64]:
        """The whole pool."""
        return np.concatenate([np.empty(0), *self._arrays])


_DIVERSITY = {"distinct": names.DISTINCT, "entropy": names.ENTROPY, "recursive": names.RECURSIVE}
_DISTANCE = {"equal": names.EQUAL, "ordered": names.ORDERED, "hierarchical": names.HIERARCHICAL}
_REFERENCE = {
    "cumulative": names.CUMULATIVE,
    "window": names.WINDOW,
    "decay": names.DECAY,
    "public": names.PUBLIC,
}


def check_sensitive(schema: Schema, criteria: Criteria) -> None:
    """Refuse a schema whose sensitive columns cannot be judged by the criteria."""
    criteria.check_columns(
        {
            role.name: ColumnFacts(None if role.labels is None else len(role.labels), role.hierarchy is not None)
            for role in schema.sensitive
        }
    )
    closeness = criteria.closeness
    if closeness is not None and closeness.reference == "public":
        for role in schema.sensitive:
            closeness.public_shares(role.name, role.labels or ())


def make_shape(criteria: Criteria, *, room: int) -> Shape:
    """Criteria as numbers; `room` is the maximum number of remembered pairs."""
    closeness = criteria.closeness
    return Shape(
        on=criteria.judges_shape,
        diversity=_DIVERSITY[criteria.diversity],
        c=0.0 if criteria.c is None else float(criteria.c),
        distance=names.NO_DISTANCE if closeness is None else _DISTANCE[closeness.distance],
        t=1.0 if closeness is None else float(closeness.t),
        reference=names.CUMULATIVE if closeness is None else _REFERENCE[closeness.reference],
        decay=1.0 if closeness is None or closeness.decay is None else float(closeness.decay),
        alpha=1.0 if closeness is None else float(closeness.alpha),
        burn_in=0 if closeness is None else closeness.chosen_burn_in(),
        room=room,
    )


def make_weights(schema: Schema, criteria: Criteria, *, entries: int) -> Floats:
    """Initial weights: empty pairs for `entries` boxes and the root, the reference distribution, and the public trees.

    The reference starts empty unless it is public. Without criteria on distributions all arrays have size 0. `views.py`
    names the parts.
    """
    roles = schema.sensitive
    weights = np.zeros((entries + 6, len(roles), most_values(schema, criteria)))
    if not criteria.judges_shape:
        return weights
    reference, facts, *trees = weights[entries + 1 :]
    facts[:, names.NEWEST] = 1.0
    closeness = criteria.closeness
    for column, role in enumerate(roles):
        labels = role.labels or ()
        facts[column, names.SIZE] = len(labels) + 1
        if role.hierarchy is not None:
            tree = tree_with_missing(role.hierarchy.parents, role.hierarchy.leaf_nodes)
            facts[column, names.NODES] = tree.parents.size
            for numbers, part in zip(trees, tree, strict=True):
                numbers[column, : part.size] = part
        if closeness is not None and closeness.reference == "public":
            shares = closeness.public_shares(role.name, labels)
            reference[column, : shares.size] = shares
    return weights


def most_values(schema: Schema, criteria: Criteria) -> int:
    """Largest number of values, nodes or facts of any sensitive column; 0 without criteria on distributions."""
    if not criteria.judges_shape:
        return 0
    nodes = (role.hierarchy.parents.size for role in schema.sensitive if role.hierarchy is not None)
    return max(names.FACTS, *(1 + len(role.labels or ()) for role in schema.sensitive), *(1 + count for count in nodes))
