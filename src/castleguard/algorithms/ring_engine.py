"""Bases of engines that keep pending rows in a ring: kernel calls, counts, snapshots."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.engine import Engine, Flags, check_fit
from castleguard.errors import SchemaError
from castleguard.kernels import ring
from castleguard.kernels import state as names
from castleguard.kernels.compile import bind
from castleguard.kernels.state import Arrays, Batch, Output, State
from castleguard.schema.coded import CodedRows, Decisions
from castleguard.schema.roles import Numeric, Schema


class Counters(NamedTuple):
    """Indices of a kernel's counters."""

    arrivals: int
    pending: int
    open_clusters: int
    longest_wait: int


class Memory(NamedTuple):
    """Bytes of an engine's arrays."""

    all: int
    changing: int
    """Those that a snapshot holds."""


class KernelEngine(Engine):
    """Engine whose counts are those of the kernels: `_state.counters`, and the threshold in `_state.levels`."""

    counters: ClassVar[Counters]
    _state: Any

    @property
    def arrivals(self) -> int:
        """Rows accepted so far."""
        return int(self._state.counters[self.counters.arrivals])

    @property
    def pending(self) -> int:
        """Number of undecided rows."""
        return int(self._state.counters[self.counters.pending])

    @property
    def open_clusters(self) -> int:
        """Number of open clusters."""
        return int(self._state.counters[self.counters.open_clusters])

    @property
    def threshold(self) -> float:
        """Information loss up to which a cluster accepts a row, tau in the papers."""
        return float(self._state.levels[0])

    @property
    def longest_wait(self) -> int:
        """Longest wait of a published row, in arrivals."""
        return int(self._state.counters[self.counters.longest_wait])

    @property
    def memory(self) -> Memory:
        """Sizes of the arrays."""
        whole = sum(array.nbytes for part in vars(self).values() for array in _arrays_of(part))
        return Memory(whole, sum(array.nbytes for array in self._changing().values()))

    def snapshot(self) -> Arrays:
        """All mutable arrays, by name."""
        return {name: array.copy() for name, array in self._changing().items()}

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """Restore a snapshot; refuse it as a whole if it does not fit."""
        changing = self._changing()
        check_fit(changing, arrays)
        for name, mine in changing.items():
            mine[...] = arrays[name]

    @abstractmethod
    def _changing(self) -> Arrays:
        """All arrays that the kernels write, by name."""


class RingEngine(KernelEngine):
    """Engine whose state is a `kernels.state.State`."""

    counters = Counters(names.ARRIVALS, names.PENDING, names.OPEN, names.LONGEST_WAIT)

    def __init__(self, schema: Schema, state: State, *, run: Callable[..., None], settings: Any, work: Any) -> None:
        """`run`: the kernel that accepts rows and decides; `settings` and `work`: its parameters and scratch space."""
        self._state: State = state
        self._settings, self._work = settings, work
        self._run = bind(run, state, settings, work)
        self._oldest = bind(ring.oldest_pending, state)
        self._nothing = Batch(
            quasi=np.empty((0, len(schema.quasi_identifiers))),
            person=np.empty(0, dtype=np.uint64),
            sensitive=np.empty((0, len(schema.sensitive)), dtype=np.int64),
            to_root=np.empty(0, dtype=np.bool_),
            present=np.empty(0, dtype=np.bool_),
        )

    def push(self, rows: CodedRows, now: float, present: Flags | None = None) -> Decisions:
        """Accept rows, and decide all rows that become due."""
        if present is None:
            present = np.ones(rows.person.size, dtype=np.bool_)
        return self._decide(Batch(*rows, present), now, last=False)

    def tick(self, now: float) -> Decisions:
        """Decide the rows that have waited `max_wait` seconds."""
        return self._decide(self._nothing, now, last=False)

    def flush(self) -> Decisions:
        """Decide every pending row."""
        return self._decide(self._nothing, -np.inf, last=True)

    @property
    def oldest(self) -> int:
        """Position of the oldest pending row."""
        return int(self._oldest())

    def _changing(self) -> Arrays:
        """All arrays that the kernels write, by name. The domain changes only in its observed bounds."""
        arrays: Arrays = {name: array for name, array in self._state._asdict().items() if name != "domain"}
        arrays["domain_bounds"] = self._state.domain.bounds
        return arrays

    def _decide(self, batch: Batch, now: float, *, last: bool) -> Decisions:
        output = self._output(batch.person.size)
        self._run(output, batch, float(now), last)
        return _decisions(output)

    def _output(self, arriving: int) -> Output:
        """Create output arrays large enough for all decisions of one call."""
        rows = self.pending + arriving
        columns = self._state.quasi.shape[1]
        return Output(
            used=np.zeros(3, dtype=np.int64),
            rows=np.empty((2, rows), dtype=np.int64),
            bounds=np.empty((2, rows, columns)),
            loss=np.empty(rows),
            marks=np.empty((4, rows), dtype=np.int64),
            dropped=np.empty((2, rows), dtype=np.int64),
        )


def _arrays_of(value: object) -> Iterator[NDArray[Any]]:
    """All arrays in named tuples."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _arrays_of(part)


def check_domains(schema: Schema) -> None:
    """Refuse numbers without a declared domain, for a policy that publishes cells of a public grid."""
    for role in schema.quasi_identifiers:
        if isinstance(role, Numeric) and role.domain is None:
            raise SchemaError(
                f"column {role.name!r}: lower and upper are needed in strict mode "
                f"(a domain observed from the stream reveals values; mode='paper' accepts it)"
            )


def _decisions(output: Output) -> Decisions:
    """Decisions from the part of the output that was written."""
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
        dropped=output.dropped[0, :drops],
        dropped_seen=output.dropped[1, :drops],
    )
