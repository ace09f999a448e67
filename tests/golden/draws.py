"""Draws for made-up cases: the same in every version of Python and numpy.

Only the raw words of one bit generator are used: numpy keeps those stable, but not its distributions.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Item = TypeVar("_Item")


class Draws:
    """A stream of draws that follows from its name."""

    def __init__(self, *name: object) -> None:
        digest = hashlib.sha256(" ".join(map(str, name)).encode()).digest()
        self._bits = np.random.PCG64(int.from_bytes(digest[:16], "little"))

    def units(self, count: int) -> NDArray[np.float64]:
        """Numbers from 0 to below 1, all multiples of 2^-53."""
        words = np.atleast_1d(self._bits.random_raw(count)).astype(np.uint64)
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def bells(self, count: int) -> NDArray[np.float64]:
        """Numbers from 0 to below 1, most of them near the middle."""
        return (self.units(count) + self.units(count) + self.units(count)) / 3.0

    def wholes(self, low: int, high: int, count: int) -> NDArray[np.int64]:
        """Whole numbers from `low` to `high`, both included."""
        return low + np.floor(self.units(count) * (high - low + 1)).astype(np.int64)

    def whole(self, low: int, high: int) -> int:
        """One of them."""
        return int(self.wholes(low, high, 1)[0])

    def chance(self, share: float) -> bool:
        """True for that share of all draws."""
        return bool(self.units(1)[0] < share)

    def pick(self, items: Sequence[_Item]) -> _Item:
        """One of the items."""
        return items[self.whole(0, len(items) - 1)]

    def sample(self, items: Sequence[_Item], count: int) -> list[_Item]:
        """Several different items, in the order of the list."""
        order = np.argsort(self.units(len(items)), kind="stable")
        return [items[at] for at in sorted(order[:count].tolist())]

    def cuts(self, rows: int, parts: int) -> list[tuple[int, int]]:
        """So many pieces of a table: first row and end of each. Some may be empty."""
        ends = sorted(self.wholes(0, rows, parts - 1).tolist())
        return list(zip([0, *ends], [*ends, rows], strict=True))
