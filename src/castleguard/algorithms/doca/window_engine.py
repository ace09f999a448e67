"""DOCA engine of strict mode: windows of rows, published as noisy columns (docs/proofs/doca.md).

Every column of a window is processed independently. Numbers are sorted and cut into runs of k; when a value is
replaced, the sums of all runs together change by at most the range of the column. Labels are counted. Noise is added to
the sums and counts, and everything after that reads noisy numbers only: means and labels, each column shuffled by
itself. The engine keeps a row as its levels until the window is closed.
"""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from castleguard.algorithms.doca.noisy_columns import NoisyCounts, NoisyMeans, label_columns, number_columns
from castleguard.algorithms.doca.policy import Doca
from castleguard.algorithms.engine import Flags, check_fit
from castleguard.algorithms.windowed import Ints, WindowedEngine
from castleguard.kernels.chacha import PURPOSES, Draws, new_words
from castleguard.kernels.shuffle import shuffle_columns
from castleguard.kernels.state import Arrays
from castleguard.schema.coded import NEW, CodedRows, Decisions
from castleguard.schema.levels import Levels, levels_of
from castleguard.schema.roles import Schema


class WindowKeys(NamedTuple):
    """Secret keys of the engine, one per purpose."""

    sums: NDArray[np.uint32]
    counts: NDArray[np.uint32]
    order: NDArray[np.uint32]


class _Held(NamedTuple):
    """Rows of the open window that take part."""

    position: Ints
    levels: Levels

    def digest(self) -> bytes:
        """Digest of the positions and contents of the rows."""
        return hashlib.blake2b(b"".join(array.astype("<i8").tobytes() for array in self)).digest()


class WindowEngine(WindowedEngine[_Held]):
    """Strict DOCA over one stream.

    A window is the rows from one multiple of `delay` to the next. It is closed by the row that fills it, by a flush, or
    when its first row has waited `max_wait`; later rows of that window form a separate release.
    """

    def __init__(self, schema: Schema, policy: Doca, *, keys: WindowKeys) -> None:
        policy.check(schema)
        super().__init__(
            _Held(np.empty(0, dtype=np.int64), np.empty((0, len(schema.described)), dtype=np.int64)),
        )
        self._schema = schema
        self._policy = policy
        self._max_wait = np.inf if policy.max_wait is None else policy.max_wait
        self._numbers = NoisyMeans(number_columns(schema, policy), k=policy.run, key=keys.sums)
        self._labels = NoisyCounts(label_columns(schema, policy), most=policy.delay, key=keys.counts)
        state = np.full((3, PURPOSES), -1, dtype=np.int64)
        state[0, 0] = 0
        self._draws = Draws(new_words(keys.order), *state)
        self._since = np.inf  # arrival time of the first pending row

    def _push(self, rows: CodedRows, now: float, present: Flags) -> list[Decisions]:
        closed, size = self._overdue(now), self._policy.delay
        levels = levels_of(self._schema, rows)
        for part in self._cut(present.size, size):
            self._take_in(levels[part], present[part], now)
            if self.arrivals % size == 0:
                closed.append(self._close())
        return closed

    def tick(self, now: float) -> Decisions:
        """Close the window if its first row has waited `max_wait` seconds."""
        return self._joined(self._overdue(now))

    def flush(self) -> Decisions:
        """Close the window before it is full."""
        return self._joined([self._close()])

    @property
    def open_clusters(self) -> int:
        """1 if the open window has rows."""
        return int(bool(self._held))

    @property
    def threshold(self) -> float:
        """Always 0: windows have no threshold."""
        return 0.0

    def snapshot(self) -> Arrays:
        """Open window, keys of the noise, counters."""
        held = self._whole_window()
        arrays: Arrays = {
            "position": held.position.copy(),
            "levels": held.levels.copy(),
            "since": np.array([self._since]),
            "counters": self._counters(),
            "words": self._draws.words.copy(),
            "drawn": np.stack([self._draws.position, self._draws.number, self._draws.drawn]),
        }
        for name, noise in (("sums", self._numbers.noise), ("counts", self._labels.noise)):
            arrays |= {f"{name}_{field}": array for field, array in noise.snapshot().items()}
        return arrays

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """Restore a snapshot; refuse it as a whole if it does not fit."""
        rows = arrays.get("position", self._nothing.position).size
        check_fit(self.snapshot(), arrays, {"position": rows, "levels": rows})
        for name, noise in (("sums", self._numbers.noise), ("counts", self._labels.noise)):
            noise.restore({"key": arrays[f"{name}_key"]})
        self._restore_window(arrays, _Held(arrays["position"].copy(), arrays["levels"].copy()))
        self._since = float(arrays["since"][0])
        self._draws = Draws(arrays["words"].copy(), *(row.copy() for row in arrays["drawn"]))

    def _take_in(self, levels: Levels, present: Flags, now: float) -> None:
        """Add rows to the open window."""
        at = np.flatnonzero(present)
        if at.size and not self._held:
            self._since = now
        self._hold(_Held(self.arrivals + at, levels[at]))
        self._count["arrivals"] += present.size

    def _overdue(self, now: float) -> list[Decisions]:
        return [self._close()] if self._held and self._since + self._max_wait <= now else []

    def _close(self) -> Decisions:
        """Publish the window, or drop its rows if there are fewer than k."""
        held = self._whole_window()
        self._held, self._since = [], np.inf
        if held.position.size < self._policy.run:
            return self._no_decisions(held.position)
        points = np.empty(held.levels.shape)
        contents = held.digest()
        sums, loss = self._numbers.release(held.levels, points, contents)
        counts = self._labels.release(held.levels, points, contents)
        # Everything read from here on is noisy; any order will do except that of the values.
        noisy = np.concatenate([sums.ravel(), counts.ravel()])
        shuffle_columns(self._draws, int(held.position[0]), noisy, points)
        self._count_release(int(held.position[0]))
        return self._decide(held.position, points, self._nothing.position, loss)

    def _decide(self, position: Ints, points: NDArray[np.float64], dropped: Ints, loss: float) -> Decisions:
        """One group of rows that leave together."""
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

    def _no_decisions(self, dropped: Ints | None = None) -> Decisions:
        nothing = self._nothing
        dropped = nothing.position if dropped is None else dropped
        return self._decide(nothing.position, nothing.levels.astype(np.float64), dropped, 0.0)
