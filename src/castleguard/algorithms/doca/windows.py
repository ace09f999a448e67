"""The DOCA engine in strict mode: windows of rows, and what may be said about each (docs/proofs/doca.md).

Of a window every column is read by itself. Its numbers are sorted and cut into runs of k, whose sums change by no more
than one value's range, all of them together, when a value is replaced; its labels are counted. Noise is added to the
sums and counts, and from there on nothing is read but what is noisy: means and labels, each column in an order of its
own. The engine keeps a row as its levels, until the window is closed.
"""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.doca.noisy_columns import NoisyCounts, NoisyMeans, label_columns, number_columns
from castleguard.algorithms.doca.policy import Doca
from castleguard.algorithms.engine import Engine, Flags
from castleguard.errors import SnapshotError
from castleguard.kernels.chacha import PURPOSES, Draws, new_words
from castleguard.kernels.shuffle import shuffle_columns
from castleguard.kernels.state import Arrays
from castleguard.schema.coded import NEW, CodedRows, Decisions, join_decisions
from castleguard.schema.levels import Levels, levels_of
from castleguard.schema.roles import Schema

Ints = NDArray[np.int64]

_COUNTERS = ("arrivals", "releases", "longest_wait")


class WindowKeys(NamedTuple):
    """The secrets of the engine, each for one use."""

    sums: NDArray[np.uint32]
    counts: NDArray[np.uint32]
    order: NDArray[np.uint32]


class _Held(NamedTuple):
    """Rows of the open window that take part."""

    position: Ints
    levels: Levels

    def digest(self) -> bytes:
        """What tells this window from any other: which rows it has, and what is in them."""
        return hashlib.blake2b(b"".join(array.astype("<i8").tobytes() for array in self)).digest()


class WindowEngine(Engine):
    """Strict DOCA over one stream. Keeps the promises of `engine.base.Engine`.

    A window is the rows from one multiple of `delay` to the next. It is closed by the row that fills it, by a flush, or
    when its first row has waited `max_wait`; rows that still arrive in it are then a release of their own.
    """

    def __init__(self, schema: Schema, policy: Doca, *, keys: WindowKeys) -> None:
        policy.check(schema)
        self._schema = schema
        self._policy = policy
        self._max_wait = np.inf if policy.max_wait is None else policy.max_wait
        self._numbers = NoisyMeans(number_columns(schema, policy), k=policy.run, key=keys.sums)
        self._labels = NoisyCounts(label_columns(schema, policy), most=policy.delay, key=keys.counts)
        state = np.full((3, PURPOSES), -1, dtype=np.int64)
        state[0, 0] = 0
        self._draws = Draws(new_words(keys.order), *state)
        self._nothing = _Held(np.empty(0, dtype=np.int64), np.empty((0, len(schema.described)), dtype=np.int64))
        self._held: list[_Held] = []
        self._since = np.inf  # when the first pending row arrived
        self._count = dict.fromkeys(_COUNTERS, 0)

    def begin_at(self, arrivals: int) -> bool:
        """Give the first row this number, in place of 0: windows go on where an earlier stream left them."""
        self._count["arrivals"] = arrivals
        return True

    def push(self, rows: CodedRows, now: float, present: Flags | None = None) -> Decisions:
        """Take in rows, and close every window that is full."""
        if present is None:
            present = np.ones(rows.person.size, dtype=np.bool_)
        closed, at, size = self._overdue(now), 0, self._policy.delay
        levels = levels_of(self._schema, rows)
        while at < present.size:
            part = slice(at, at + size - self.arrivals % size)
            self._take_in(levels[part], present[part], now)
            if self.arrivals % size == 0:
                closed.append(self._close())
            at = part.stop
        return self._joined(closed)

    def tick(self, now: float) -> Decisions:
        """Close the window if its first row has waited `max_wait` seconds."""
        return self._joined(self._overdue(now))

    def flush(self) -> Decisions:
        """Close the window before it is full."""
        return self._joined([self._close()])

    @property
    def arrivals(self) -> int:
        """Rows taken in so far."""
        return self._count["arrivals"]

    @property
    def pending(self) -> int:
        """Rows of the open window that take part."""
        return sum(held.position.size for held in self._held)

    @property
    def oldest(self) -> int:
        """The position of the oldest pending row."""
        return int(self._held[0].position[0]) if self._held else self.arrivals

    @property
    def open_clusters(self) -> int:
        """Windows that are growing."""
        return int(bool(self._held))

    @property
    def threshold(self) -> float:
        """There is none."""
        return 0.0

    @property
    def longest_wait(self) -> int:
        """The most arrivals that a published row has waited."""
        return self._count["longest_wait"]

    def snapshot(self) -> Arrays:
        """The open window, the noise, the counters."""
        held = self._whole_window()
        arrays: Arrays = {
            "position": held.position.copy(),
            "levels": held.levels.copy(),
            "since": np.array([self._since]),
            "counters": np.array([self._count[name] for name in _COUNTERS], dtype=np.int64),
            "words": self._draws.words.copy(),
            "drawn": np.stack([self._draws.position, self._draws.number, self._draws.drawn]),
        }
        for name, noise in (("sums", self._numbers.noise), ("counts", self._labels.noise)):
            arrays |= {f"{name}_{field}": array for field, array in noise.snapshot().items()}
        return arrays

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """Continue from a snapshot. One that does not fit is refused as a whole."""
        held = arrays.get("position", self._nothing.position).size
        for name, mine in self.snapshot().items():
            theirs, rows = arrays.get(name), held if name in ("position", "levels") else mine.shape[0]
            if theirs is None or theirs.shape != (rows, *mine.shape[1:]) or theirs.dtype != mine.dtype:
                raise SnapshotError(f"the snapshot does not fit this engine: {name} is missing or of another shape")
        for name, noise in (("sums", self._numbers.noise), ("counts", self._labels.noise)):
            noise.restore({"key": arrays[f"{name}_key"]})
        self._held = [_Held(arrays["position"].copy(), arrays["levels"].copy())] if held else []
        self._since = float(arrays["since"][0])
        self._count = dict(zip(_COUNTERS, arrays["counters"].tolist(), strict=True))
        self._draws = Draws(arrays["words"].copy(), *(row.copy() for row in arrays["drawn"]))

    def _take_in(self, levels: Levels, present: Flags, now: float) -> None:
        """Put rows into the open window, in few pieces: many small pushes copy each row a few times only."""
        at = np.flatnonzero(present)
        more = _Held(self.arrivals + at, levels[at])
        self._count["arrivals"] += present.size
        if not at.size:
            return
        if not self._held:
            self._since = now
        while self._held and self._held[-1].position.size <= more.position.size:
            last = self._held.pop()
            more = _Held(*(np.concatenate(pair) for pair in zip(last, more, strict=True)))
        self._held.append(more)

    def _whole_window(self) -> _Held:
        return _Held(*(np.concatenate(pieces) for pieces in zip(self._nothing, *self._held, strict=True)))

    def _overdue(self, now: float) -> list[Decisions]:
        return [self._close()] if self._held and self._since + self._max_wait <= now else []

    def _close(self) -> Decisions:
        """Publish what the window says, or drop its rows if they are fewer than k."""
        held = self._whole_window()
        self._held, self._since = [], np.inf
        if held.position.size < self._policy.run:
            return self._decide(self._nothing.position, np.empty((0, len(self._schema.described))), held.position, 0.0)
        points = np.empty(held.levels.shape)
        contents = held.digest()
        sums, loss = self._numbers.release(held.levels, points, contents)
        counts = self._labels.release(held.levels, points, contents)
        # All that is read from here on is noisy; the order must only not be that of the values.
        noisy = np.concatenate([sums.ravel(), counts.ravel()])
        shuffle_columns(self._draws, int(held.position[0]), noisy, points)
        self._count["longest_wait"] = max(self.longest_wait, self.arrivals - 1 - int(held.position[0]))
        self._count["releases"] += 1
        return self._decide(held.position, points, self._nothing.position, loss)

    def _decide(self, position: Ints, points: NDArray[np.float64], dropped: Ints, loss: float) -> Decisions:
        """One group: what leaves together."""
        groups = min(position.size, 1)
        return Decisions(
            position=position,
            group=np.zeros(position.size, dtype=np.int64),
            lower=np.empty((groups, 0)),
            upper=np.empty((groups, 0)),
            loss=np.full(groups, loss),
            kind=np.full(groups, NEW, dtype=np.int64),
            kept=np.zeros(groups, dtype=np.bool_),
            event=np.full(groups, self._count["releases"], dtype=np.int64),
            seen=np.full(groups, self.arrivals, dtype=np.int64),
            dropped=dropped,
            points=points,
        )

    def _joined(self, closed: list[Decisions]) -> Decisions:
        if not closed:
            held = self._nothing
            return self._decide(held.position, held.levels.astype(np.float64), held.position, 0.0)
        return join_decisions(closed)
