"""From criteria and schema to the numbers and arrays by which kernels judge the distribution of sensitive values."""

import numpy as np

from castleguard.kernels import state as names
from castleguard.kernels.state import Floats, Shape
from castleguard.privacy.closeness import tree_with_missing
from castleguard.privacy.criteria import ColumnFacts, Criteria
from castleguard.schema.roles import Schema

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
    """The criteria as numbers; `room` is how many pairs are remembered."""
    closeness = criteria.closeness
    return Shape(
        on=criteria.judges_shape,
        diversity=_DIVERSITY[criteria.diversity],
        c=0.0 if criteria.c is None else float(criteria.c),
        distance=names.ANYHOW if closeness is None else _DISTANCE[closeness.distance],
        t=1.0 if closeness is None else float(closeness.t),
        reference=names.CUMULATIVE if closeness is None else _REFERENCE[closeness.reference],
        decay=1.0 if closeness is None or closeness.decay is None else float(closeness.decay),
        alpha=1.0 if closeness is None else float(closeness.alpha),
        burn_in=0 if closeness is None else closeness.chosen_burn_in(),
        room=room,
    )


def make_weights(schema: Schema, criteria: Criteria, *, entries: int) -> Floats:
    """Nothing remembered of `entries` boxes and the root, a reference that has counted nothing (or the public one),
    and what is public about the sensitive columns; all without size where nobody asks. `views.values_of` has the names.
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
    """Room for the values, or the nodes, of any sensitive column and what is to be known of it; 0 where nobody asks."""
    if not criteria.judges_shape:
        return 0
    nodes = (role.hierarchy.parents.size for role in schema.sensitive if role.hierarchy is not None)
    return max(names.FACTS, *(1 + len(role.labels or ()) for role in schema.sensitive), *(1 + count for count in nodes))
