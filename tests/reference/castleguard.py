"""CASTLEGUARD (Robinson, Brown, Hall, Jackson, Kemp, Leeke), Algorithms 1 and 2, to be read beside the paper.

Rows are sampled and perturbed, and a CASTLE clusters and releases them: best_selection and delay_constraint "remain
unchanged", so they are those of `Castle`, with its l-diversity (a cluster is ready with at least l values). The
numbers at the ends of lines are those of the paper's pseudo-code.

Readings taken where the paper is silent or wrong:

* Line 3 prints "suppress if random(0, 1) > beta"; here a row is kept iff U < beta, with U uniform in [0, 1). The two
  differ in an event of probability 0, and this one keeps no row at beta = 0 and every row at beta = 1.
* Line 14 asks for t'.p, which a row that was sampled away does not have. With the clock "arrivals" every row has a
  position, sampled away or not, so rows leave in time for every sample. With "sampled" and "time" only rows that were
  kept have one, so that a row that was sampled away leaves no trace.
* Line 15: t_delta may have been sampled away, or be out already. Then nothing happens.
* "Suppress" drops the row, in line 4 and in delay_constraint.
* The range of an attribute is 0 at its first row, which therefore gets no noise. `range_floor` is an option against it.
* Perturbed values could lie outside the domain, and their information loss exceed 1. They are clamped to the declared
  bounds, or to the range encountered so far, this row included.
* A category (section V) is the number of its leaf, in the fixed order of the hierarchy; the noisy number is rounded
  to the nearest leaf.
* A row that is for the root only has no quasi-identifiers: it is sampled, but not perturbed, and enters no range.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor, inf, log
from typing import Any, Literal

from .castle import Castle, Decision, Settings
from .chacha import Ratcheting, WordSource
from .measure import Attribute, Categorical, Row

__all__ = ["CastleGuard", "Clock", "Guard", "Range", "castle_settings", "laplace", "random_is_below"]


Clock = Literal["arrivals", "sampled", "time"]  # which rows have a position: all, or with the last two the kept ones


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Parameters that CASTLEGUARD adds to CASTLE's, and the choices it leaves open."""

    sample_rate: float  # beta
    phi: float
    range_floor: float = 0.0  # the least range that noise is scaled by
    clock: Clock = "arrivals"


@dataclass
class Range:
    """Range of a quasi-identifier so far, before perturbation."""

    min: float = inf
    max: float = -inf


def castle_settings(**given: Any) -> Settings:
    """CASTLE inside CASTLEGUARD: as printed, except that suppressed rows are dropped."""
    return Settings.paper(suppression="drop", **given)


class CastleGuard:
    """One stream. Rows come in order of arrival; their own `position` is ignored, because not every row gets one."""

    def __init__(self, castle: Castle, guard: Guard, words: WordSource) -> None:
        self.castle = castle
        self.guard = guard
        self.words = words
        self._ratchet = words.ratchet if isinstance(words, Ratcheting) else None
        self.attributes: Sequence[Attribute] = castle.domain.attributes
        self.ranges = [Range() for _ in self.attributes]
        self.arrivals = 0
        self.sampled_out: list[int] = []  # arrival numbers
        self.arrival_of: dict[int, int] = {}  # of every row that was kept, by position
        self.perturbed: dict[int, tuple[float, ...]] = {}  # t' of every row that was perturbed, by position

    def push(self, t: Row) -> list[Decision]:
        """Algorithm 1, one turn of its loop."""
        arrival = self.arrivals  # 2
        self.arrivals += 1
        if self._ratchet is not None:
            self._ratchet(arrival)

        if not random_is_below(self.guard.sample_rate, self.words, arrival):  # 3
            self.sampled_out.append(arrival)  # 4
            if self.guard.clock != "arrivals":
                return []
            p = self.castle.next_position()
        else:
            p = self.castle.next_position()
            self.arrival_of[p] = arrival
            t_ = replace(t, position=p)
            if not t.to_root:
                t_ = self.perturb(t_, arrival)  # 6
                self.perturbed[p] = t_.quasi
            self.castle.assign(t_)  # 7 to 12

        t_delta = p - self.castle.settings.delay  # 14
        return self.castle.expire(t_delta)  # 15

    def flush(self) -> list[Decision]:
        """The stream is empty: CASTLE's end of the stream."""
        return self.castle.flush()

    def perturb(self, t: Row, arrival: int) -> Row:
        """Algorithm 2. The draws also depend on everything that determines the noise: values and ranges."""
        for a, A in enumerate(self.ranges):  # 1
            A.min = min(A.min, t.quasi[a])  # 2
            A.max = max(A.max, t.quasi[a])  # 3
        read = [*t.quasi, *(bound for A in self.ranges for bound in (A.min, A.max))]
        content = struct.pack(f"<{len(read)}d", *read)
        perturbed = []
        for a, A in enumerate(self.ranges):  # 1
            b = max(A.max - A.min, self.guard.range_floor) / self.guard.phi
            w0, w1 = (self.words.word("noise", arrival, index, content) for index in (2 * a, 2 * a + 1))
            perturbed.append(self._in_domain(a, t.quasi[a] + laplace(b, w0, w1)))  # 4
        return replace(t, quasi=tuple(perturbed))  # 6

    def _in_domain(self, a: int, value: float) -> float:
        """The nearest value of the domain."""
        attribute = self.attributes[a]
        if isinstance(attribute, Categorical):
            leaves = len(attribute.tree.leaf_nodes)
            return float(min(max(floor(value + 0.5), 0), leaves - 1))
        lower, upper = self.ranges[a].min, self.ranges[a].max
        if attribute.lower is not None and attribute.upper is not None:
            lower, upper = attribute.lower, attribute.upper
        return min(max(value, lower), upper)


def random_is_below(beta: float, words: WordSource, arrival: int) -> bool:
    """Whether U < beta. U is uniform in [0, 1): a binary fraction of 32 digits per word, most significant word first.

    The words seen so far say that U lies in [low, low + width); the next one is drawn only while beta lies inside.
    """
    exact = Fraction(beta)
    low, width, index = Fraction(0), Fraction(1), 0
    while low < exact < low + width:
        width /= 2**32
        low += words.word("sample", arrival, index) * width
        index += 1
    return low + width <= exact


def laplace(b: float, w0: int, w1: int) -> float:
    """Laplace noise of mean 0 and scale b from two words of 32 bits, by inversion.

    The magnitude is exponential: -b ln(v), with v uniform in (0, 1) from 27 and 26 bits. A further bit is the sign.
    """
    v = ((w0 >> 5) * 2**26 + (w1 >> 6) + 0.5) / 2**53
    magnitude = -b * log(v)
    return -magnitude if w0 & 1 else magnitude
