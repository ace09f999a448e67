"""Randomness of a local policy: randomises the levels of rows and samples rows. See docs/proofs/noise.md.

The draws for a row depend only on the key, the row's position, its levels and the mechanisms, not on batches, other
rows or restarts. The same row at the same position gets the same noise again; a different row there gets independent
noise (kernels/content.py). The coin does not depend on levels. The key is replaced at every multiple of 2^20
positions, so a snapshot does not reveal the noise of rows before the latest multiple.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from castleguard.errors import SnapshotError, UsageError
from castleguard.kernels import exact_noise as kernels
from castleguard.kernels.chacha import LANES, PURPOSES, Draws, new_words
from castleguard.kernels.exact_noise import GUIDE_BITS, Tables, Work
from castleguard.kernels.state import Arrays
from castleguard.privacy.mechanisms import Bernoulli, DiscreteLaplace, Mechanism, Table

Levels = NDArray[np.int64]  # (rows, columns)
Flags = NDArray[np.bool_]  # (rows,)

WORDS = 8  # words per table entry: a draw is undecided with probability 2^-256
_WORD = 32


class Noise:
    """Mechanisms for the columns of a row, a coin for whole rows, and the key of both.

    Positions must not go back beyond the latest multiple of 2^20, because the key for them is gone.
    """

    def __init__(
        self,
        mechanisms: Sequence[Mechanism],
        *,
        key: NDArray[np.uint32],
        rate: Bernoulli | None = None,
        words: int = WORDS,
    ) -> None:
        """`key`: 8 words. `rate`: coin of `sample`; None keeps every row. `words`: initial words per table entry, which
        changes no outcome.
        """
        self._mechanisms = tuple(mechanisms)
        self._coin = rate or Bernoulli(rate=Fraction(1))
        self._words = self._coin_words = words
        self._tables = pack(self._mechanisms, words)
        # Two copies of one key, because sampling runs ahead of randomising and each replaces its own copy. A copy that
        # is never drawn from would never be replaced and would reveal past keys, so it is not kept.
        self._draws = _new_draws(key) if self._mechanisms else _no_draws()
        self._coin_draws = _new_draws(key) if self._coin.rate < 1 else _no_draws()
        self._work = Work(
            row=np.zeros(len(self._mechanisms), dtype=np.int64),
            lanes=np.zeros((2, 16 * LANES), dtype=np.uint32),
            nonces=np.zeros(3 * LANES, dtype=np.uint32),
            digests=np.zeros(LANES, dtype=np.int64),
            hashes=np.zeros((5, LANES), dtype=np.uint64),
        )

    def randomise(self, levels: Levels, first_position: int, present: Flags) -> None:
        """Randomise levels in place, one mechanism per column; rows that are not present stay unchanged."""
        rows, columns = levels.shape
        if columns != len(self._mechanisms) or present.shape != (rows,):
            raise UsageError(f"levels must have {len(self._mechanisms)} columns, and present one flag per row")
        if columns == 0:
            return
        _check_position(self._draws, first_position)
        done = 0
        while done < rows:
            done += int(
                kernels.randomise_rows(
                    self._draws, self._tables, first_position + done, present[done:], levels[done:], self._work
                )
            )
            if done < rows:
                self._words *= 2
                self._tables = pack(self._mechanisms, self._words)

    def sample(self, first_position: int, rows: int) -> Flags:
        """Flag the rows that are kept."""
        keep = np.ones(rows, dtype=np.bool_)
        if self._coin.rate == 1:
            return keep
        _check_position(self._coin_draws, first_position)
        done = 0
        while done < rows:
            digits, whole = self._coin.digits(self._coin_words)
            rate = _split([digits], self._coin_words)[0]
            done += int(
                kernels.sample_rows(self._coin_draws, first_position + done, rate, whole, keep[done:], self._work)
            )
            if done < rows:
                self._coin_words *= 2
        return keep

    @property
    def words(self) -> int:
        """Current number of words per table entry."""
        return self._words

    def snapshot(self) -> Arrays:
        """Keys of the mechanisms and of the coin, and the position from which each holds; -1 for no key."""
        both = (self._draws, self._coin_draws)
        return {
            "keys": np.stack([draws.words[0, :8] for draws in both]),
            "key_positions": np.array([draws.position[0] for draws in both], dtype=np.int64),
        }

    def restore(self, arrays: Mapping[str, NDArray]) -> None:  # type: ignore[type-arg]
        """Restore from a snapshot. One that does not fit is refused, without effect."""
        for name, mine in self.snapshot().items():
            theirs = arrays.get(name)
            if theirs is None or theirs.shape != mine.shape or theirs.dtype != mine.dtype:
                raise SnapshotError(f"the snapshot does not fit this noise: {name} is missing or has another shape")
            if name == "key_positions" and ((theirs < 0) != (mine < 0)).any():
                raise SnapshotError("the snapshot does not fit this noise: it has keys for other draws")
        self._draws, self._coin_draws = (
            _new_draws(key, int(begin)) for key, begin in zip(arrays["keys"], arrays["key_positions"], strict=True)
        )


def pack(mechanisms: Sequence[Mechanism], words: int) -> Tables:
    """Concatenate the tables of all columns."""
    columns = np.zeros((len(mechanisms), 4), dtype=np.int64)
    packed: list[Table] = []
    for column, mechanism in enumerate(mechanisms):
        tables = mechanism.tables(words)
        columns[column, kernels.KIND] = kernels.LAPLACE if isinstance(mechanism, DiscreteLaplace) else kernels.RESPONDS
        columns[column, kernels.TABLE] = len(packed)
        columns[column, kernels.DRAWS] = len(tables)
        columns[column, kernels.TOP] = mechanism.top
        packed += tables
    one = (1 << _WORD * words) - 1  # cumulative probability of the last outcome; no draw exceeds it
    entries = _split([entry for table in packed for entry in (*table, one)], words)
    start = np.cumsum([0] + [len(table) + 1 for table in packed], dtype=np.int64)
    heads = np.ascontiguousarray(entries[:, 0])
    beginnings = (np.arange(1 << GUIDE_BITS, dtype=np.uint64) << np.uint64(_WORD - GUIDE_BITS)).astype(np.uint32)
    guide = np.zeros((len(packed), 1 << GUIDE_BITS), dtype=np.int16)
    for table in range(len(packed)):
        guide[table] = np.searchsorted(heads[start[table] : start[table + 1]], beginnings)
    return Tables(columns=columns, start=start, guide=guide, heads=heads, words=entries)


def _split(numbers: list[int], words: int) -> NDArray[np.uint32]:
    """Numbers below 2^(32 * words) as rows of words, most significant first."""
    data = b"".join(number.to_bytes(4 * words, "big") for number in numbers)
    return np.frombuffer(data, dtype=">u4").reshape(-1, words).astype(np.uint32)


def _new_draws(key: NDArray[np.uint32], begin: int = 0) -> Draws:
    """Draws without cached blocks, under a key that holds from position `begin` on."""
    state = np.full((3, PURPOSES), -1, dtype=np.int64)
    state[0, 0] = begin
    return Draws(new_words(key), state[0], state[1], state[2])


def _no_draws() -> Draws:
    """Draws without a key; must not be drawn from."""
    return _new_draws(np.zeros(8, dtype=np.uint32), begin=-1)


def _check_position(draws: Draws, first_position: int) -> None:
    if first_position < draws.position[0]:
        raise UsageError("positions must not go back: the key of earlier rows is forgotten")
