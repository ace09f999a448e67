"""From the schema to the arrays that kernels read: domains, grids and hierarchies of all quasi-identifiers."""

import numpy as np

from castleguard.kernels.loss import Domain
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema

_TABLE_LEAVES = 1024  # up to here every pair of leaves has an entry of its own; above, hierarchies are climbed


def common_nodes(hierarchy: Hierarchy) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
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
    numeric = np.zeros(columns, dtype=np.bool_)
    observed = np.zeros(columns, dtype=np.bool_)
    lower, upper = np.zeros(columns), np.zeros(columns)
    leaves = np.zeros(columns, dtype=np.int64)
    node_start, leaf_start = np.zeros(columns, dtype=np.int64), np.zeros(columns, dtype=np.int64)
    table_start = np.full(columns, -1, dtype=np.int64)
    edge_start = np.zeros(columns + 1, dtype=np.int64)
    edges: list[np.ndarray] = []  # type: ignore[type-arg]
    trees: list[Hierarchy] = []
    tables: list[tuple[np.ndarray, np.ndarray]] = []  # type: ignore[type-arg]
    nodes_so_far = leaves_so_far = table_so_far = 0
    for column, role in enumerate(schema.quasi_identifiers):
        edge_start[column + 1] = edge_start[column]
        if isinstance(role, Numeric):
            numeric[column] = True
            observed[column] = role.domain is None
            lower[column], upper[column] = role.domain or (np.inf, -np.inf)
            if snap:
                edges.append(role.edges)
                edge_start[column + 1] += role.edges.size
        elif isinstance(role, Categorical):
            tree = role.hierarchy
            trees.append(tree)
            leaves[column] = len(tree.leaves)
            node_start[column], leaf_start[column] = nodes_so_far, leaves_so_far
            nodes_so_far += len(tree.labels)
            leaves_so_far += len(tree.leaves)
            if len(tree.leaves) <= _TABLE_LEAVES:
                table = common_nodes(tree).ravel()
                tables.append((table, tree.losses[table]))
                table_start[column] = table_so_far
                table_so_far += table.size
    return Domain(
        numeric=numeric,
        observed=observed,
        lower=lower,
        upper=upper,
        edge_start=edge_start,
        edges=np.concatenate([np.empty(0), *edges]),
        leaves=leaves,
        node_start=node_start,
        parent=_join([tree.parents for tree in trees]),
        first_leaf=_join([tree.first_leaf for tree in trees]),
        last_leaf=_join([tree.last_leaf for tree in trees]),
        node_loss=np.concatenate([np.empty(0), *(tree.losses for tree in trees)]),
        leaf_start=leaf_start,
        leaf_node=_join([tree.leaf_nodes for tree in trees]),
        table_start=table_start,
        table_node=_join([nodes for nodes, _ in tables]),
        table_loss=np.concatenate([np.empty(0), *(losses for _, losses in tables)]),
    )


def _join(arrays: list[np.ndarray]) -> np.ndarray:  # type: ignore[type-arg]
    return np.concatenate([np.empty(0, dtype=np.int32), *arrays])
