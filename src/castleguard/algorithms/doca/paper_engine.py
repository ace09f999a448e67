"""DOCA engine of paper mode: creates the state of the kernels and calls them.

Labels (categories, sensitive values) do not affect the clustering: they arrive randomised and stay with their rows.
"""

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.doca.policy import Doca
from castleguard.algorithms.engine import Flags
from castleguard.algorithms.ring_engine import Counters, KernelEngine
from castleguard.kernels import doca as kernels
from castleguard.kernels.chacha import PURPOSES, new_words
from castleguard.kernels.doca import Batch, Output, Settings, State
from castleguard.kernels.state import Arrays
from castleguard.schema.coded import NEW, CodedRows, Decisions
from castleguard.schema.roles import Numeric, Schema


class DocaEngine(KernelEngine):
    """DOCA as printed over one stream."""

    counters = Counters(kernels.ARRIVALS, kernels.PENDING, kernels.OPEN, kernels.LONGEST_WAIT)

    def __init__(self, schema: Schema, policy: Doca, *, key: NDArray[np.uint32]) -> None:
        policy.check(schema)
        roles = schema.quasi_identifiers
        self._numbers = [at for at, role in enumerate(roles) if isinstance(role, Numeric)]
        self._labels = [at for at, role in enumerate(roles) if not isinstance(role, Numeric)]
        self._settings = make_settings(schema, policy)
        self._state: State = make_state(len(self._numbers), policy, key)
        self._growth = np.zeros(policy.max_clusters)
        # Labels of pending rows, at the same ring slots as the kernels' values.
        self._ring = np.zeros((policy.delay + 1, len(self._labels)))

    def push(self, rows: CodedRows, now: float, present: Flags | None = None) -> Decisions:
        """Accept rows, and decide all rows that become due."""
        if present is None:
            present = np.ones(rows.person.size, dtype=np.bool_)
        values = np.ascontiguousarray(rows.quasi[:, self._numbers])
        first = self.arrivals
        decided = self._run(Batch(values, present), now, last=False)
        return self._with_labels(decided, first, rows.quasi[:, self._labels])

    def tick(self, now: float) -> Decisions:
        """Decide the rows that have waited `max_wait` seconds."""
        decided = self._run(self._nothing, now, last=False)
        return self._with_labels(decided, self.arrivals, self._ring[:0])

    def flush(self) -> Decisions:
        """Decide every pending row."""
        decided = self._run(self._nothing, -np.inf, last=True)
        return self._with_labels(decided, self.arrivals, self._ring[:0])

    @property
    def oldest(self) -> int:
        """Position of the oldest pending row."""
        return int(kernels.oldest_pending(self._state))

    @property
    def _nothing(self) -> Batch:
        return Batch(np.empty((0, len(self._numbers))), np.empty(0, dtype=np.bool_))

    def _changing(self) -> Arrays:
        """All mutable arrays, with the labels of pending rows."""
        return {**self._state._asdict(), "labels": self._ring}

    def _run(self, batch: Batch, now: float, *, last: bool) -> Output:
        rows = self.pending + batch.present.size
        output = Output(
            used=np.zeros(2, dtype=np.int64),
            rows=np.empty((2, rows), dtype=np.int64),
            centroid=np.empty((rows, len(self._numbers))),
            loss=np.empty(rows),
            marks=np.empty((2, rows), dtype=np.int64),
        )
        kernels.run(self._state, self._settings, self._growth, output, batch, float(now), last)
        return output

    def _with_labels(self, output: Output, first: int, labels: NDArray[np.float64]) -> Decisions:
        """Decisions with the labels of each row; `labels` are those of the rows from position `first` on."""
        rows, groups = (int(count) for count in output.used)
        position, group = output.rows[:, :rows]
        points = np.empty((rows, len(self._numbers) + len(self._labels)))
        points[:, self._numbers] = output.centroid[group]
        if self._labels:
            fresh = position >= first
            points[np.ix_(fresh, self._labels)] = labels[position[fresh] - first]
            points[np.ix_(~fresh, self._labels)] = self._ring[position[~fresh] % len(self._ring)]
            # Only after reading the labels of the rows that leave: newer rows overwrite their slots.
            kept = np.arange(max(first, first + len(labels) - len(self._ring)), first + len(labels))
            self._ring[kept % len(self._ring)] = labels[kept - first]
        nothing = np.empty((groups, 0))
        return Decisions(
            position=position,
            group=group,
            lower=nothing,
            upper=nothing,
            loss=output.loss[:groups],
            kind=np.full(groups, NEW, dtype=np.int64),
            kept=np.zeros(groups, dtype=np.bool_),
            event=output.marks[0, :groups],
            seen=output.marks[1, :groups],
            dropped=np.empty(0, dtype=np.int64),
            points=points,
        )


def make_settings(schema: Schema, policy: Doca) -> Settings:
    """Settings of the kernels, from the policy."""
    shares, sensitivities = policy.shares(schema), policy.sensitivities(schema)
    return Settings(
        delay=policy.delay,
        max_wait=np.inf if policy.max_wait is None else float(policy.max_wait),
        admit_equal=policy.admission == "le",
        sensitivity=np.array([policy.contributions * size for size in sensitivities.values()], dtype=np.float64),
        epsilon=np.array([float(shares[name]) for name in sensitivities]),
    )


def make_state(columns: int, policy: Doca, key: NDArray[np.uint32]) -> State:
    """Initial state."""
    capacity, slots = policy.delay + 1, policy.max_clusters
    return State(
        counters=np.zeros(kernels.COUNTERS, dtype=np.int64),
        levels=np.zeros(1 + policy.loss_window),
        seen=np.repeat(np.array([[np.inf], [-np.inf]]), columns, axis=1),
        values=np.zeros((capacity, columns)),
        arrived=np.zeros(capacity),
        link=np.full((2, capacity), kernels.GONE, dtype=np.int64),
        bounds=np.zeros((2, slots, columns)),
        sums=np.zeros((slots, columns)),
        book=np.zeros((3, slots), dtype=np.int64),
        order=np.arange(slots, dtype=np.int64),
        words=new_words(key),
        drawn=np.full((3, PURPOSES), -1, dtype=np.int64),
    )
