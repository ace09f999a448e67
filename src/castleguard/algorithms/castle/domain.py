"""From the schema to the arrays that kernels read: domains, grids and hierarchies of all quasi-identifiers."""

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels import loss
from castleguard.kernels.loss import Domain
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema

_TABLE_LEAVES = 1024  # up to here every pair of leaves has an entry of its own; above, hierarchies are climbed


def common_nodes(hierarchy: Hierarchy) -> NDArray[np.int32]:
    """The lowest common ancestor of every pair (low, high) of leaves; (high, low) is filled as well."""
    count = len(hierarchy.leaves)
    table = np.zeros((count, count), dtype=np.int32)
    # Nodes come in depth-first preorder, so that a descendant overwrites its ancestors.
    for node in range(len(hierarchy.labels)):
        first, last = hierarchy.first_leaf[node], hierarchy.last_leaf[node] + 1
        table[first:last, first:last] = node
    for leaf, node in enumerate(hierarchy.leaf_nodes):
        table[leaf, leaf] = node
    return table


def make_domain(schema: Schema, *, snap: bool) -> Domain:
    """The kernels' view of the schema; `snap` rounds published numbers outward to their grid."""
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
    """Arrays laid end to end; all of them are exact as float64."""

    def __init__(self) -> None:
        self._arrays: list[NDArray[np.float64]] = []
        self._size = 0

    def add(self, array: NDArray[np.floating] | NDArray[np.integer]) -> int:
        """Append an array; its place."""
        place = self._size
        self._arrays.append(array.astype(np.float64))
        self._size += array.size
        return place

    def join(self) -> NDArray[np.float64]:
        """The whole pool."""
        return np.concatenate([np.empty(0), *self._arrays])
