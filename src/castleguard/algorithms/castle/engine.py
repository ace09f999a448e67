"""CASTLE engine: creates the state of the kernels and calls them."""

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.domain import check_sensitive, make_domain, make_shape, make_weights, most_values
from castleguard.algorithms.ring_engine import RingEngine, check_domains
from castleguard.kernels import castle as kernels
from castleguard.kernels import state as names
from castleguard.kernels.chacha import PURPOSES, new_words
from castleguard.kernels.counts import new_table
from castleguard.kernels.state import Settings, State, Work
from castleguard.kernels.views import SCRATCH
from castleguard.schema.roles import Schema

_SUPPRESSION = {"generalise": names.GENERALISE, "drop": names.DROP, "root": names.ROOT_GROUP}


class CastleEngine(RingEngine):
    """CASTLE over one stream."""

    def __init__(self, schema: Schema, policy: Castle, *, key: NDArray[np.uint32]) -> None:
        check_sensitive(schema, policy.criteria)
        if policy.strict:
            check_domains(schema)
        state = make_state(schema, policy, key)
        settings, work = make_settings(schema, policy), make_work(schema, policy, values=state.weights.shape[2])
        super().__init__(schema, state, run=kernels.run, settings=settings, work=work)


def make_settings(schema: Schema, policy: Castle) -> Settings:
    """Policy as numbers."""
    reading = policy.chosen_reading
    return Settings(
        k=policy.k,
        l=policy.l,
        delay=policy.delay,
        reuse=policy.reuse != "off",
        by_interval=reading.containment == "interval",
        admit_equal=reading.admission == "le",
        random_ties=reading.tie_break == "random",
        random_buckets=reading.representatives == "random",
        diversity_aware=reading.merge == "diversity_aware",
        per_person=policy.l_per == "person",
        suppression=_SUPPRESSION[policy.chosen_suppression],
        order=names.SHUFFLED if policy.chosen_order == "shuffled" else names.ARRIVAL,
        reusable_age=-1 if policy.reusable_age is None else policy.reusable_age,
        max_wait=np.inf if policy.max_wait is None else float(policy.max_wait),
        shape=make_shape(policy.criteria, room=policy.remembered_pairs * len(schema.sensitive)),
    )


def make_state(schema: Schema, policy: Castle, key: NDArray[np.uint32]) -> State:
    """Initial state."""
    columns, sensitive = len(schema.quasi_identifiers), len(schema.sensitive)
    capacity, slots, entries = policy.delay + 1, policy.max_clusters, policy.max_reusable
    criteria = policy.criteria
    closeness = criteria.closeness
    window = 0 if closeness is None or closeness.window is None else closeness.window
    room = policy.remembered_pairs * sensitive
    levels = np.zeros(1 + policy.loss_window)
    levels[0] = policy.chosen_reading.first_threshold
    link = np.full((4, capacity), -1, dtype=np.int64)
    link[1] = names.GONE
    book = np.zeros((5 + sensitive, slots + 1), dtype=np.int64)
    book[0] = -1
    return State(
        counters=np.zeros(names.COUNTERS, dtype=np.int64),
        levels=levels,
        domain=make_domain(schema, snap=policy.strict),
        quasi=np.zeros((capacity, columns)),
        person=np.zeros(capacity, dtype=np.uint64),
        sensitive=np.zeros((capacity, sensitive), dtype=np.int64),
        arrived=np.zeros(capacity),
        link=link,
        bounds=np.zeros((2, columns, slots)),
        book=book,
        # Every pending row counts twice: for its cluster, and for all clusters together.
        person_table=new_table(2 * capacity),
        value_table=new_table(2 * capacity * sensitive),
        kept_bounds=np.zeros((4, columns, entries)),
        kept_stamp=np.zeros((4, entries + 1), dtype=np.int64),
        weights=make_weights(schema, criteria, entries=entries),
        pair_table=new_table(room) if criteria.judges_shape else np.zeros((0, 2), dtype=np.uint64),
        recent=np.zeros((sensitive, window), dtype=np.int32),
        words=new_words(key),
        drawn=np.full((3, PURPOSES), -1, dtype=np.int64),
    )


def make_work(schema: Schema, policy: Castle, *, values: int) -> Work:
    """Scratch space for the kernels, large enough for a cluster of all pending rows; `values` per sensitive column."""
    columns, sensitive, capacity = len(schema.quasi_identifiers), len(schema.sensitive), policy.delay + 1
    parts = capacity // policy.k + 2
    width = max(most_values(schema, policy.criteria), policy.max_clusters, policy.l)
    return Work(
        gain=np.zeros(policy.max_clusters),
        inside=np.zeros(policy.max_reusable, dtype=np.bool_),
        box=np.zeros((4, columns)),
        point=np.zeros((capacity, columns)),
        lines=np.zeros((columns, capacity), dtype=np.float32),
        near=np.zeros((6, max(capacity * 3 // 2, columns)), dtype=np.float32),
        keys=np.zeros((3, capacity + 1), dtype=np.uint64),
        ints=np.zeros((SCRATCH, capacity + 1), dtype=np.int64),
        far=np.zeros(capacity),
        parts=np.zeros((2, parts, columns)),
        part_loss=np.zeros(parts),
        tally=np.zeros((8, width)),
        table=new_table(capacity),
        root_marks=np.zeros((2 * sensitive + 1, max(capacity, sensitive)), dtype=np.int64),
        root_counts=np.zeros((4, sensitive, values)),
        root_pairs=new_table(capacity * sensitive if policy.criteria.judges_shape else 0),
    )
