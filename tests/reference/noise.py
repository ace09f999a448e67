"""Two slow samplers: the published one for discrete Laplace noise, and the digit sampler word for word.

`discrete_laplace` is Algorithm 2 of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy"
(2020), on fractions: it shares nothing with the kernel but the law. `Sampler` makes the kernel's own draws from the
same ChaCha20 words, with Python integers for cumulative probabilities of 2000 bits that it works out by Taylor's
series: it must agree with the kernel draw for draw.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from random import Random

from tests.reference.chacha import Draws

# --- Canonne, Kamath and Steinke -----------------------------------------------------------------------------------


def bernoulli(random: Random, p: Fraction) -> bool:
    return random.randrange(p.denominator) < p.numerator


def bernoulli_exp(random: Random, gamma: Fraction) -> bool:
    """Algorithm 1: Bernoulli(exp(-gamma))."""
    while gamma > 1:
        if not bernoulli_exp(random, Fraction(1)):
            return False
        gamma -= 1
    K = 1
    while bernoulli(random, gamma / K):
        K += 1
    return K % 2 == 1


def discrete_laplace(random: Random, scale: Fraction) -> int:
    """Algorithm 2: P(n) proportional to exp(-|n| / scale), with scale = t/s."""
    t, s = scale.numerator, scale.denominator
    while True:
        U = random.randrange(t)
        if not bernoulli_exp(random, Fraction(U, t)):
            continue
        V = 0
        while bernoulli_exp(random, Fraction(1)):
            V += 1
        Y = (U + t * V) // s
        B = bernoulli(random, Fraction(1, 2))
        if B and Y == 0:
            continue
        return -Y if B else Y


# --- The digit sampler, word for word ------------------------------------------------------------------------------

BITS = 2000  # of every number below; rounding touches the last hundred or so
SURE = 1500  # bits that are taken for certain, and checked to be
ONE = 1 << BITS


@lru_cache(maxsize=4096)
def exp_minus(x: Fraction) -> int:
    """exp(-x) in units of 2^-BITS: Taylor's series of a small part of x, squared up again."""
    halvings = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 8)
    small = (x.numerator << BITS) // (x.denominator << halvings)
    total, term, n = 0, ONE, 0
    while term:
        total += term if n % 2 == 0 else -term
        n += 1
        term = (term * small >> BITS) // n
    for _ in range(halvings):
        total = total * total >> BITS
    return total


def sure(number: int) -> int:
    """The leading bits of a number, if an error in its last bits cannot change them; below zero is zero."""
    error = 1 << (BITS - SURE) // 2
    low, high = (max(number + shift, 0) >> BITS - SURE for shift in (-error, error))
    assert low == high, "2000 bits are too few for this case"
    return low


@dataclass(frozen=True)
class Laplace:
    cells: int
    epsilon: Fraction

    @property
    def top(self) -> int:
        return self.cells


@dataclass(frozen=True)
class Response:
    values: int
    epsilon: Fraction

    @property
    def top(self) -> int:
        return self.values - 1


Mechanism = Laplace | Response


@lru_cache(maxsize=256)
def edges(mechanism: Mechanism) -> list[list[int]]:
    """Per draw: where one outcome ends and the next begins, in units of 2^-SURE, rounded down."""
    if mechanism.top == 0:
        return []
    if isinstance(mechanism, Response):
        e = exp_minus(mechanism.epsilon)
        return [[(1 << SURE) - 1 - sure(mechanism.top * e * ONE // (ONE + mechanism.top * e))]]
    x = mechanism.epsilon / mechanism.cells
    told_apart = mechanism.cells - 1  # of the geometric size, the first so many values matter
    tables = []
    weight = 1
    while True:
        q = exp_minus(x * weight)
        last = told_apart <= 256 * weight
        count = -(-told_apart // weight) if last else 256
        # One geometric digit: the probabilities of 0, 1, ..., count - 1, and of `count` or more if it is the last.
        powers = [exp_minus(x * weight * r) for r in range(count + 1)]
        at_least = [p if last else (p - powers[-1]) * ONE // (ONE - powers[-1]) for p in powers]
        if weight == 1:
            # One-sided sizes 1 + digit; P(a given sign) is q / (1 + q).
            tails = [sure(q * p // (ONE + q)) for p in (at_least if last else at_least[:-1])]
            tables.append([*reversed(tails), *((1 << SURE) - 1 - tail for tail in tails)])
        else:
            tables.append([(1 << SURE) - 1 - sure(p) for p in (at_least[1:] if last else at_least[1:-1])])
        if last:
            return tables
        weight *= 256


def content_of(levels: Sequence[int]) -> bytes:
    """Everything read from a row: its levels, as 64-bit integers."""
    return b"".join(level.to_bytes(8, "little", signed=True) for level in levels)


class Fractional:
    """A uniform binary fraction made of the words of one purpose at one position, as many as are asked for."""

    def __init__(self, draws: Draws, purpose: str, position: int, content: bytes | None = None) -> None:
        self._draws, self._address, self._content, self.taken = draws, (purpose, position), content, 0

    def word(self) -> int:
        self.taken += 1
        return self._draws.word(*self._address, self.taken - 1, self._content)

    def outcome(self, table: list[int]) -> int:
        """Between which edges the fraction falls: words are added until no edge begins with the same bits."""
        prefix, bits = 0, 0
        while True:
            prefix, bits = prefix << 32 | self.word(), bits + 32
            assert bits <= SURE
            cut = [edge >> SURE - bits for edge in table]
            # An edge equal to the prefix is irrational beyond it: undecided, unless all such edges are passed.
            if prefix not in cut:
                return bisect_right(cut, prefix)


class Sampler:
    """The draws of `castleguard.privacy.noise.Noise`, one row at a time."""

    def __init__(self, key: Sequence[int], mechanisms: Sequence[Mechanism], ratchet_every: int = 2**20) -> None:
        self._draws = Draws(key, ratchet_every)
        self._every, self._mechanisms, self._next = ratchet_every, list(mechanisms), 0

    def advance(self, position: int) -> None:
        """Rows come in order; the key changes at every multiple, also where rows are left out."""
        for multiple in range(-(-self._next // self._every) * self._every, position + 1, self._every):
            self._draws.ratchet(multiple)
        self._next = position + 1

    def randomise(self, position: int, levels: Sequence[int]) -> list[int]:
        self.advance(position)
        content = content_of(levels)
        noise = Fractional(self._draws, "noise", position, content)
        response = Fractional(self._draws, "response", position, content)
        return list(self._row(levels, noise, response))

    def _row(self, levels: Sequence[int], noise: Fractional, response: Fractional) -> Iterator[int]:
        for mechanism, level in zip(self._mechanisms, levels, strict=True):
            tables = edges(mechanism)
            if not tables:
                yield 0
            elif isinstance(mechanism, Response):
                yield level if response.outcome(tables[0]) == 0 else other(response, level, mechanism.top)
            else:
                signed = noise.outcome(tables[0]) - len(tables[0]) // 2
                size = abs(signed)
                if size > 0:
                    size += sum(256**digit * noise.outcome(table) for digit, table in enumerate(tables) if digit > 0)
                yield min(max(level + (size if signed > 0 else -size), 0), mechanism.top)

    def keep(self, position: int, rate: Fraction) -> bool:
        """Whether a row is sampled: whether the fraction, with enough digits, is below the rate."""
        self.advance(position)
        coin = Fractional(self._draws, "sample", position)
        prefix, bits = 0, 0
        while True:
            prefix, bits = prefix << 32 | coin.word(), bits + 32
            # All fractions that begin so are below the rate, or none is.
            if Fraction(prefix + 1, 1 << bits) <= rate:
                return True
            if Fraction(prefix, 1 << bits) >= rate:
                return False


def other(response: Fractional, level: int, others: int) -> int:
    """One of the others, in their order: the first word below the largest multiple of their number decides."""
    while True:
        word = response.word()
        if word < 2**32 // others * others:
            return word % others if word % others < level else word % others + 1
