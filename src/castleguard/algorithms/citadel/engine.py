"""Citadel engine: the state of the kernels, and the calls that drive them."""

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.citadel.policy import Citadel
from castleguard.algorithms.domain import check_sensitive, make_domain, make_shape, make_weights, most_values
from castleguard.algorithms.ring_engine import RingEngine, check_domains
from castleguard.kernels import citadel as kernels
from castleguard.kernels import citadel_state as scratch
from castleguard.kernels import state as names
from castleguard.kernels.chacha import PURPOSES, new_words
from castleguard.kernels.citadel_state import Axes, Settings, Work
from castleguard.kernels.counts import new_table
from castleguard.kernels.state import State
from castleguard.schema.roles import Categorical, Numeric, Schema

_MOST_LEAVES = 1024  # of a category whose losses are computed per leaf, not per row
_WHOLE = 16  # groups per tree, if enough rows are pending; all of them together rarely fail a criterion
_SUPPRESSION = {"drop": names.DROP, "root": names.ROOT_GROUP}


class CitadelEngine(RingEngine):
    """Citadel over one stream."""

    def __init__(self, schema: Schema, policy: Citadel, *, key: NDArray[np.uint32]) -> None:
        check_sensitive(schema, policy.criteria)
        check_domains(schema)
        state = make_state(schema, policy, key)
        settings, work = make_settings(schema, policy), make_work(schema, policy)
        super().__init__(schema, state, run=kernels.run, settings=settings, work=work)


def make_settings(schema: Schema, policy: Citadel) -> Settings:
    """Settings of the kernels, from the policy."""
    return Settings(
        k=policy.k,
        l=policy.l,
        delay=policy.delay,
        every=policy.every,
        max_wait=np.inf if policy.max_wait is None else float(policy.max_wait),
        suppression=_SUPPRESSION[policy.suppression],
        narrow=policy.reuse == "narrow",
        whole=_WHOLE,
        slack=float(policy.slack),
        shape=make_shape(policy.criteria, room=0),
        axes=make_axes(schema),
    )


def make_axes(schema: Schema) -> Axes:
    """Quasi-identifiers as coordinates, numbers first."""
    roles = list(enumerate(schema.quasi_identifiers))
    ordered = sorted(roles, key=lambda one: not isinstance(one[1], Numeric))
    origin = np.zeros((2, len(ordered)))
    scale = np.ones(len(ordered), dtype=np.float32)
    for axis, (_, role) in enumerate(ordered):
        if isinstance(role, Categorical):
            origin[1, axis] = 1.0
            scale[axis] = 1.0 / max(len(role.hierarchy.leaves) - 1, 1)
        elif isinstance(role, Numeric) and role.domain is not None:
            lower, upper = role.domain
            origin[:, axis] = lower, 1.0 / (upper - lower) if upper > lower else 0.0
    return Axes(
        column=np.array([column for column, _ in ordered], dtype=np.int64),
        numbers=sum(isinstance(role, Numeric) for _, role in ordered),
        origin=origin,
        scale=scale,
        growth=_singles(_MOST_LEAVES),
    )


def make_state(schema: Schema, policy: Citadel, key: NDArray[np.uint32]) -> State:
    """State before the first row. Citadel has no clusters, so their arrays are empty."""
    columns, sensitive = len(schema.quasi_identifiers), len(schema.sensitive)
    capacity = policy.delay + 1
    entries = policy.max_reusable if policy.reuse == "narrow" else 0
    link = np.full((4, capacity), -1, dtype=np.int64)
    link[1] = names.GONE
    nothing = np.zeros((0, 2), dtype=np.uint64)
    return State(
        counters=np.zeros(names.COUNTERS, dtype=np.int64),
        levels=np.zeros(1),
        domain=make_domain(schema, snap=True),
        quasi=np.zeros((capacity, columns)),
        person=np.zeros(capacity, dtype=np.uint64),
        sensitive=np.zeros((capacity, sensitive), dtype=np.int64),
        arrived=np.zeros(capacity),
        link=link,
        bounds=np.zeros((2, columns, 0)),
        book=np.zeros((0, 0), dtype=np.int64),
        person_table=nothing,
        value_table=nothing,
        kept_bounds=np.zeros((4, columns, entries)),
        kept_stamp=np.zeros((4, entries + 1), dtype=np.int64),
        weights=make_weights(schema, policy.criteria, entries=entries),
        pair_table=nothing,
        recent=np.zeros((sensitive, 0), dtype=np.int32),
        words=new_words(key),
        drawn=np.full((3, PURPOSES), -1, dtype=np.int64),
    )


def make_work(schema: Schema, policy: Citadel) -> Work:
    """Scratch space for a release of all pending rows."""
    axes, capacity = len(schema.quasi_identifiers), policy.delay + 1
    parts = 1
    while parts * scratch.PART < capacity:
        parts *= 2
    blocks = parts if capacity >= scratch.MANY else -(-parts // scratch.BLOCK)
    stretches = -(-blocks // scratch.STRETCH)
    places = max(capacity + 2 * parts, stretches + scratch.STRETCH)
    groups = capacity // policy.k + 2
    entries = policy.max_reusable if policy.reuse == "narrow" else 0
    width = max(most_values(schema, policy.criteria), policy.l)
    return Work(
        coordinate=_singles(2, axes, places),
        bounds=_singles(2, axes, parts),
        outer=_singles(2, axes, blocks),
        outermost=_singles(2, axes, stretches),
        parts=np.zeros((2, parts), dtype=np.int64),
        spread=_singles(parts),
        near=_singles(scratch.NUMBERS, places),
        gone=_singles(places),
        live=np.zeros(blocks, dtype=np.int64),
        rank=np.zeros((scratch.RANKS, places), dtype=np.int32),
        keys=np.zeros((2, places), dtype=np.uint64),
        radius=_singles(1),
        sizes=np.zeros(scratch.SIZES, dtype=np.int64),
        slots=np.zeros((scratch.LISTS, places), dtype=np.int64),
        grown=_singles(2, axes),
        groups=np.zeros((scratch.GROUP_FACTS, groups), dtype=np.int64),
        centre=_singles(3, axes, groups),
        box=np.zeros((4, axes)),
        inside=np.zeros(entries, dtype=np.bool_),
        values=np.zeros(policy.l, dtype=np.int64),
        tally=np.zeros((8, width)),
        table=new_table(capacity),
    )


def _singles(*shape: int) -> NDArray[np.float32]:
    return np.zeros(shape, dtype=np.float32)
