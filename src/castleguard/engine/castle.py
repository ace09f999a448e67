"""The CASTLE engine: the kernels' state, and the calls that drive it."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from castleguard.engine.base import Arrays
from castleguard.engine.domain import make_domain
from castleguard.engine.policy import Castle
from castleguard.errors import PolicyError, SchemaError, SnapshotError
from castleguard.kernels import castle as kernels
from castleguard.kernels import state as names
from castleguard.kernels.chacha import new_draws
from castleguard.kernels.counts import new_table
from castleguard.kernels.state import (
    Batch,
    Buckets,
    Cluster,
    Clusters,
    Nearest,
    Output,
    Parts,
    Reusables,
    Rows,
    Settings,
    Sieve,
    State,
    Tallies,
    Work,
)
from castleguard.schema.coded import CodedRows, Decisions
from castleguard.schema.roles import Numeric, Schema

_SUPPRESSION = {"generalise": names.GENERALISE, "drop": names.DROP, "root": names.ROOT_GROUP}


class CastleEngine:
    """CASTLE over one stream. Keeps the promises of `engine.base.Engine`."""

    def __init__(self, schema: Schema, policy: Castle, *, key: NDArray[np.uint32]) -> None:
        _check(schema, policy)
        self._settings = make_settings(policy)
        self._state = make_state(schema, policy, key)
        self._work = make_work(schema, policy)

    def push(self, rows: CodedRows, now: float) -> Decisions:
        """Take in rows, and decide whatever that makes due."""
        output = self._output(rows.person.size)
        kernels.walk(self._state, self._settings, self._work, output, Batch(*rows), float(now))
        return _decisions(output)

    def tick(self, now: float) -> Decisions:
        """Decide the rows that have waited `max_wait` seconds."""
        output = self._output(0)
        if self._settings.max_wait != np.inf:
            kernels.expire_waiting(self._state, self._settings, self._work, output, float(now))
        return _decisions(output)

    def flush(self) -> Decisions:
        """Decide every pending row."""
        output = self._output(0)
        kernels.flush(self._state, self._settings, self._work, output)
        return _decisions(output)

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
        kernels.skip_gone(self._state)
        return int(self._state.counters[names.OLDEST])

    @property
    def open_clusters(self) -> int:
        """Clusters that are growing."""
        return int(self._state.counters[names.OPEN])

    @property
    def threshold(self) -> float:
        """CASTLE's tau."""
        return float(self._state.threshold[0])

    @property
    def longest_wait(self) -> int:
        """The most arrivals that a published row has waited."""
        return int(self._state.counters[names.LONGEST_WAIT])

    def snapshot(self) -> Arrays:
        """All arrays of the state that can change, by name."""
        return {name: array.copy() for name, array in _changing(self._state).items()}

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """Continue from a snapshot."""
        for name, mine in _changing(self._state).items():
            theirs = arrays.get(name)
            if theirs is None or theirs.shape != mine.shape or theirs.dtype != mine.dtype:
                raise SnapshotError(f"the snapshot does not fit this engine: {name} is missing or of another shape")
            mine[...] = theirs

    def _output(self, arriving: int) -> Output:
        """Room for every decision that one call can take."""
        rows = self.pending + arriving
        columns = self._state.rows.quasi.shape[1]
        return Output(
            used=np.zeros(3, dtype=np.int64),
            position=np.empty(rows, dtype=np.int64),
            group=np.empty(rows, dtype=np.int32),
            lower=np.empty((rows, columns)),
            upper=np.empty((rows, columns)),
            loss=np.empty(rows),
            kind=np.empty(rows, dtype=np.int8),
            kept=np.empty(rows, dtype=np.bool_),
            event=np.empty(rows, dtype=np.int64),
            dropped=np.empty(rows, dtype=np.int64),
        )


def make_settings(policy: Castle) -> Settings:
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
    )


def make_state(schema: Schema, policy: Castle, key: NDArray[np.uint32]) -> State:
    """An engine that has seen nothing."""
    columns, sensitive = len(schema.quasi_identifiers), len(schema.sensitive)
    capacity, slots, entries = policy.delay + 1, policy.max_clusters, policy.max_reusable
    return State(
        counters=np.zeros(names.COUNTERS, dtype=np.int64),
        threshold=np.full(1, policy.chosen_reading.first_threshold),
        losses=np.zeros(policy.loss_window),
        domain=make_domain(schema, snap=policy.strict),
        rows=Rows(
            quasi=np.zeros((capacity, columns)),
            person=np.zeros(capacity, dtype=np.uint64),
            sensitive=np.zeros((capacity, sensitive), dtype=np.int64),
            position=np.full(capacity, -1, dtype=np.int64),
            arrived=np.zeros(capacity),
            cluster=np.full(capacity, names.GONE, dtype=np.int32),
            next=np.full(capacity, -1, dtype=np.int32),
            previous=np.full(capacity, -1, dtype=np.int32),
        ),
        clusters=Clusters(
            lower=np.zeros((columns, slots)),
            upper=np.zeros((columns, slots)),
            born=np.full(slots, -1, dtype=np.int64),
            rows=np.zeros(slots, dtype=np.int64),
            persons=np.zeros(slots, dtype=np.int64),
            values=np.zeros((sensitive, slots), dtype=np.int64),
            first=np.full(slots, -1, dtype=np.int32),
            last=np.full(slots, -1, dtype=np.int32),
        ),
        # Every pending row is counted twice: for its cluster, and for all clusters together.
        tallies=Tallies(
            persons=new_table(2 * capacity),
            values=new_table(2 * capacity * sensitive),
            distinct=np.zeros(sensitive, dtype=np.int64),
        ),
        reusables=Reusables(
            lower=np.zeros((columns, entries)),
            upper=np.zeros((columns, entries)),
            box_lower=np.zeros((columns, entries)),
            box_upper=np.zeros((columns, entries)),
            loss=np.zeros(entries),
            used=np.zeros(entries, dtype=np.int64),
            born=np.zeros(entries, dtype=np.int64),
        ),
        draws=new_draws(key),
    )


def make_work(schema: Schema, policy: Castle) -> Work:
    """Scratch space for the kernels, large enough for a cluster of all pending rows."""
    columns, capacity = len(schema.quasi_identifiers), policy.delay + 1
    parts = capacity // policy.k + 2
    table = new_table(capacity)
    return Work(
        gain=np.zeros(policy.max_clusters),
        inside=np.zeros(policy.max_reusable, dtype=np.bool_),
        low=np.zeros(columns),
        high=np.zeros(columns),
        box_low=np.zeros(columns),
        box_high=np.zeros(columns),
        cluster=Cluster(
            slot=_ints(capacity),
            point=np.zeros((capacity, columns)),
            person=np.zeros(capacity, dtype=np.uint64),
            value=np.zeros(capacity, dtype=np.uint64),
            part=_ints(capacity),
            sorted=_ints(capacity),
            start=_ints(parts + 1),
        ),
        parts=Parts(lower=np.zeros((parts, columns)), upper=np.zeros((parts, columns)), loss=np.zeros(parts)),
        persons=Buckets(*(_ints(capacity) for _ in Buckets._fields)),
        values=Buckets(*(_ints(capacity) for _ in Buckets._fields)),
        nearest=Nearest(far=np.zeros(capacity), row=_ints(capacity), heap=_ints(capacity)),
        sieve=Sieve(known=np.zeros(table.shape[0], dtype=np.uint64), number=_ints(table.shape[0])),
        table=table,
        person_number=_ints(capacity),
        value_number=_ints(capacity),
        chosen=_ints(capacity),
        count=_ints(capacity),
        share=_ints(capacity),
    )


def _ints(size: int) -> NDArray[np.int64]:
    return np.zeros(size, dtype=np.int64)


def _check(schema: Schema, policy: Castle) -> None:
    """Refuse a policy that this schema cannot keep."""
    if policy.l > 1 and not schema.sensitive:
        raise PolicyError(f"l={policy.l} needs at least one sensitive column in the schema")
    for role in schema.quasi_identifiers:
        if policy.strict and isinstance(role, Numeric) and role.domain is None:
            raise SchemaError(
                f"column {role.name!r}: lower and upper are needed in strict mode "
                f"(a domain observed from the stream gives values away; mode='paper' accepts it)"
            )


def _changing(state: State) -> Arrays:
    """Every array that the kernels write, by name. Of the domain only what is observed changes."""
    arrays: Arrays = {"counters": state.counters, "threshold": state.threshold, "losses": state.losses}
    arrays["domain.lower"] = state.domain.lower
    arrays["domain.upper"] = state.domain.upper
    for part in ("rows", "clusters", "tallies", "reusables", "draws"):
        for name, array in getattr(state, part)._asdict().items():
            arrays[f"{part}.{name}"] = array
    return arrays


def _decisions(output: Output) -> Decisions:
    """The part of the output that was written."""
    rows, groups, drops = (int(count) for count in output.used)
    return Decisions(
        position=output.position[:rows],
        group=output.group[:rows],
        lower=output.lower[:groups],
        upper=output.upper[:groups],
        loss=output.loss[:groups],
        kind=output.kind[:groups],
        kept=output.kept[:groups],
        event=output.event[:groups],
        dropped=output.dropped[:drops],
    )
