"""From criteria and schema to the numbers and arrays by which kernels judge the distribution of sensitive values."""

import numpy as np

from castleguard.kernels import state as names
from castleguard.kernels.state import Floats, Shape, Values
from castleguard.privacy.closeness import tree_with_missing
from castleguard.privacy.criteria import ColumnFacts, Criteria
from castleguard.schema.roles import Schema
from castleguard.schema.sensitive import Sensitive

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


def make_values(schema: Schema, criteria: Criteria) -> Values:
    """What is public about the sensitive columns; nothing where nobody asks."""
    roles = schema.sensitive
    sizes = np.zeros((len(roles), 2), dtype=np.int64)
    if not criteria.judges_shape:
        return Values(sizes, np.zeros((len(roles), 3, 0)))
    for column, role in enumerate(roles):
        sizes[column] = _size(role), 1
        if role.hierarchy is not None:
            sizes[column, 1] = role.hierarchy.parents.size + 1
    trees = np.zeros((len(roles), 3, int(sizes.max())))
    for column, role in enumerate(roles):
        if role.hierarchy is not None:
            tree = tree_with_missing(role.hierarchy.parents, role.hierarchy.leaf_nodes)
            for row, numbers in enumerate(tree):
                trees[column, row, : numbers.size] = numbers
    return Values(sizes, trees)


def make_reference(schema: Schema, criteria: Criteria) -> Floats:
    """A reference that has counted nothing, or the public one."""
    width = most_values(schema, criteria)
    reference = np.zeros((len(schema.sensitive) + 1, width))
    if width:
        reference[-1, 0] = 1.0  # the weight of the newest row
    closeness = criteria.closeness
    if closeness is not None and closeness.reference == "public":
        for column, role in enumerate(schema.sensitive):
            shares = closeness.public_shares(role.name, role.labels or ())
            reference[column, : shares.size] = shares
    return reference


def most_values(schema: Schema, criteria: Criteria) -> int:
    """Room for the values of any sensitive column, the missing one included; 0 where nobody asks."""
    return max(map(_size, schema.sensitive), default=0) if criteria.judges_shape else 0


def _size(role: Sensitive) -> int:
    return len(role.labels or ()) + 1
