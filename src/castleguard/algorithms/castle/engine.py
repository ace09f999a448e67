"""The CASTLE engine: the kernels' state, and the calls that drive it."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.castle.domain import check_sensitive, make_domain, make_shape, make_weights, most_values
from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.engine import Engine, Flags
from castleguard.errors import SchemaError, SnapshotError
from castleguard.kernels import castle as kernels
from castleguard.kernels import state as names
from castleguard.kernels.chacha import PURPOSES, new_words
from castleguard.kernels.counts import new_table
from castleguard.kernels.state import Arrays, Batch, Output, Settings, State, Work
from castleguard.kernels.views import SCRATCH
from castleguard.schema.coded import CodedRows, Decisions
from castleguard.schema.roles import Numeric, Schema

_SUPPRESSION = {"generalise": names.GENERALISE, "drop": names.DROP, "root": names.ROOT_GROUP}


class CastleEngine(Engine):
    """CASTLE over one stream. Keeps the promises of `engine.base.Engine`."""

    def __init__(self, schema: Schema, policy: Castle, *, key: NDArray[np.uint32]) -> None:
        _check(schema, policy)
        self._settings = make_settings(schema, policy)
        self._state = make_state(schema, policy, key)
        self._work = make_work(schema, policy)
        self._nothing = Batch(
            quasi=np.empty((0, len(schema.quasi_identifiers))),
            person=np.empty(0, dtype=np.uint64),
            sensitive=np.empty((0, len(schema.sensitive)), dtype=np.int64),
            to_root=np.empty(0, dtype=np.bool_),
            present=np.empty(0, dtype=np.bool_),
        )

    def push(self, rows: CodedRows, now: float, present: Flags | None = None) -> Decisions:
        """Take in rows, and decide whatever that makes due."""
        if present is None:
            present = np.ones(rows.person.size, dtype=np.bool_)
        return self._run(Batch(*rows, present), now, last=False)

    def tick(self, now: float) -> Decisions:
        """Decide the rows that have waited `max_wait` seconds."""
        return self._run(self._nothing, now, last=False)

    def flush(self) -> Decisions:
        """Decide every pending row."""
        return self._run(self._nothing, -np.inf, last=True)

    @property
    def arrivals(self) -> int:
        """Rows taken in so far."""
        return int(self._state.counters[names.ARRIVALS])

    @property
    def pending(self) -> int:
        """Rows that have not been decided yet."""
        return int(self._state.counters[names.PENDING])

    @property
    def oldest(self) -> int:
        """The position of the oldest pending row."""
        return int(kernels.oldest_pending(self._state))

    @property
    def open_clusters(self) -> int:
        """Clusters that are growing."""
        return int(self._state.counters[names.OPEN])

    @property
    def threshold(self) -> float:
        """CASTLE's tau."""
        return float(self._state.levels[0])

    @property
    def longest_wait(self) -> int:
        """The most arrivals that a published row has waited."""
        return int(self._state.counters[names.LONGEST_WAIT])

    def snapshot(self) -> Arrays:
        """All arrays of the state that can change, by name."""
        return {name: array.copy() for name, array in _changing(self._state).items()}

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """Continue from a snapshot. One that does not fit is refused as a whole."""
        changing = _changing(self._state)
        for name, mine in changing.items():
            theirs = arrays.get(name)
            if theirs is None or theirs.shape != mine.shape or theirs.dtype != mine.dtype:
                raise SnapshotError(f"the snapshot does not fit this engine: {name} is missing or of another shape")
        for name, mine in changing.items():
            mine[...] = arrays[name]

    def _run(self, batch: Batch, now: float, *, last: bool) -> Decisions:
        output = self._output(batch.person.size)
        kernels.run(self._state, self._settings, self._work, output, batch, float(now), last)
        return _decisions(output)

    def _output(self, arriving: int) -> Output:
        """Room for every decision that one call can take."""
        rows = self.pending + arriving
        columns = self._state.quasi.shape[1]
        return Output(
            used=np.zeros(3, dtype=np.int64),
            rows=np.empty((2, rows), dtype=np.int64),
            bounds=np.empty((2, rows, columns)),
            loss=np.empty(rows),
            marks=np.empty((4, rows), dtype=np.int64),
            dropped=np.empty(rows, dtype=np.int64),
        )


def make_settings(schema: Schema, policy: Castle) -> Settings:
    """The policy as numbers."""
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
    """An engine that has seen nothing."""
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
        counters=_ints(names.COUNTERS),
        levels=levels,
        domain=make_domain(schema, snap=policy.strict),
        quasi=np.zeros((capacity, columns)),
        person=np.zeros(capacity, dtype=np.uint64),
        sensitive=np.zeros((capacity, sensitive), dtype=np.int64),
        arrived=np.zeros(capacity),
        link=link,
        bounds=np.zeros((2, columns, slots)),
        book=book,
        # Every pending row is counted twice: for its cluster, and for all clusters together.
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


def make_work(schema: Schema, policy: Castle) -> Work:
    """Scratch space for the kernels, large enough for a cluster of all pending rows."""
    columns, capacity = len(schema.quasi_identifiers), policy.delay + 1
    parts = capacity // policy.k + 2
    width = max(most_values(schema, policy.criteria), policy.max_clusters, policy.l)
    return Work(
        gain=np.zeros(policy.max_clusters),
        inside=np.zeros(policy.max_reusable, dtype=np.bool_),
        box=np.zeros((4, columns)),
        point=np.zeros((capacity, columns)),
        lines=np.zeros((columns, capacity)),
        keys=np.zeros((2, capacity), dtype=np.uint64),
        ints=np.zeros((SCRATCH, capacity + 1), dtype=np.int64),
        far=np.zeros(capacity),
        parts=np.zeros((2, parts, columns)),
        part_loss=np.zeros(parts),
        tally=np.zeros((8, width)),
        table=new_table(capacity),
    )


def _ints(size: int) -> NDArray[np.int64]:
    return np.zeros(size, dtype=np.int64)


def _check(schema: Schema, policy: Castle) -> None:
    """Refuse a policy that this schema cannot keep."""
    check_sensitive(schema, policy.criteria)
    for role in schema.quasi_identifiers:
        if policy.strict and isinstance(role, Numeric) and role.domain is None:
            raise SchemaError(
                f"column {role.name!r}: lower and upper are needed in strict mode "
                f"(a domain observed from the stream gives values away; mode='paper' accepts it)"
            )


def _changing(state: State) -> Arrays:
    """Every array that the kernels write, by name. Of the domain only what is observed changes."""
    arrays: Arrays = {name: array for name, array in state._asdict().items() if name != "domain"}
    arrays["domain_bounds"] = state.domain.bounds
    return arrays


def _decisions(output: Output) -> Decisions:
    """The part of the output that was written."""
    rows, groups, drops = (int(count) for count in output.used)
    return Decisions(
        position=output.rows[0, :rows],
        group=output.rows[1, :rows],
        lower=output.bounds[0, :groups],
        upper=output.bounds[1, :groups],
        loss=output.loss[:groups],
        kind=output.marks[0, :groups],
        kept=output.marks[1, :groups] == 1,
        event=output.marks[2, :groups],
        seen=output.marks[3, :groups],
        dropped=output.dropped[:drops],
    )
