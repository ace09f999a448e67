"""2^m factorial designs, and the contribution of each factor to the variation (Jain 1991, chapter 17: sign table).

Every factor is low or high, and every combination is run once. With the signs -1 and +1 of its factors, an effect is
the mean of the responses times their product of signs; the variation that it explains is its square, over the sum of
the squares of all effects but the mean.

>>> allocate([15, 45, 25, 75], ["memory", "cache"])[0]
Contribution(factors=('memory',), effect=20.0, share=0.7619047619047619)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import Any, NamedTuple

from castleguard.lab.dcastle.design import SIGNS, Setting, Varied


@dataclass(frozen=True)
class Factor:
    """A varied parameter and its two values."""

    varied: Varied
    low: int
    high: int

    @property
    def sign(self) -> str:
        """The paper's name."""
        return SIGNS[self.varied]


class Contribution(NamedTuple):
    """A factor, or an interaction of several."""

    factors: tuple[str, ...]
    effect: float
    """Half the change of the response from low to high; positive if the response grows."""
    share: float
    """Share of the variation."""


def corners(factors: Sequence[Factor], base: Setting) -> list[Setting]:
    """All combinations; the first factor changes fastest."""
    found = []
    for number in range(2 ** len(factors)):
        changes: dict[str, Any] = {
            factor.varied: factor.high if _is_high(number, place) else factor.low
            for place, factor in enumerate(factors)
        }
        found.append(replace(base, **changes))
    return found


def allocate(responses: Sequence[float], factors: Sequence[str]) -> list[Contribution]:
    """Contributions of all factors, then of all pairs, and so on; responses in the order of `corners`."""
    if len(responses) != 2 ** len(factors):
        raise ValueError(f"{len(factors)} factors need {2 ** len(factors)} responses, got {len(responses)}")
    effects: dict[tuple[int, ...], float] = {}
    for size in range(1, len(factors) + 1):
        for places in combinations(range(len(factors)), size):
            signed = [
                response * prod(1 if _is_high(number, place) else -1 for place in places)
                for number, response in enumerate(responses)
            ]
            effects[places] = sum(signed) / len(responses)
    total = sum(effect**2 for effect in effects.values())
    return [
        Contribution(tuple(factors[place] for place in places), effect, effect**2 / total if total else 0.0)
        for places, effect in effects.items()
    ]


def _is_high(number: int, place: int) -> bool:
    return bool(number >> place & 1)
