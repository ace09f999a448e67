"""Strict DOCA as definitions, on exact numbers: what a window of rows publishes for a given noise.

A window holds a public number of rows. A numeric column is a list of levels (0, ..., cells): they are sorted and cut
into runs whose sizes depend on nothing but how many rows there are, and the sum of each run is published with noise. A
column of labels (0, ..., labels - 1) is counted, and the counts are published with noise. Replacing one row moves the
sums by at most `cells` and the counts by at most 2, added up over all of them: that is what the noise has to hide. All
that follows the noise (clipping, dividing, making whole) reads the noisy numbers and public ones only.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import exp, floor, tanh


def run_sizes(rows: int, k: int) -> list[int]:
    """As many runs as there can be of k rows; the last one takes what is left (k to 2k - 1). None for fewer than k."""
    runs = rows // k
    if runs == 0:
        return []
    return [k] * (runs - 1) + [rows - k * (runs - 1)]


def sums(levels: Sequence[int], k: int) -> list[int]:
    """Sum of each run of the sorted levels, without noise."""
    left = sorted(levels)
    totals = []
    for size in run_sizes(len(levels), k):
        totals.append(sum(left[:size]))
        left = left[size:]
    return totals


def noisy_means(levels: Sequence[int], *, k: int, cells: int, noise: Callable[[int], int]) -> list[Fraction]:
    """The mean level that is published for each run, from the lowest run to the highest."""
    means = []
    for run, (size, total) in enumerate(zip(run_sizes(len(levels), k), sums(levels, k), strict=True)):
        means.append(Fraction(clip(total + noise(run), size * cells), size))
    return means


def counts(codes: Sequence[int], labels: int) -> list[int]:
    """Number of rows per label, without noise."""
    return [list(codes).count(label) for label in range(labels)]


def noisy_labels(codes: Sequence[int], *, labels: int, most: int, noise: Callable[[int], int]) -> list[int]:
    """Number of rows published per label; they add up to the number of rows."""
    noisy = [clip(count + noise(label), most) for label, count in enumerate(counts(codes, labels))]
    return whole(shifted(noisy, len(codes)))


def shifted(numbers: Sequence[int], total: int) -> list[Fraction]:
    """All lowered by the same amount (or raised, if it is negative) so that they add up to the total; never below 0.

    The amount is the only one there is, or at a total of 0 all that fit give the same. If j numbers stay above 0, they
    are the j largest, and what these have too much is shared by j: one of these amounts must fit.
    """
    largest_first = sorted(numbers, reverse=True)
    for j in range(1, len(numbers) + 1):
        amount = Fraction(sum(largest_first[:j]) - total, j)
        lowered = [max(number - amount, Fraction(0)) for number in numbers]
        if sum(lowered) == total:
            return lowered
    raise AssertionError("there is always an amount that fits")


def whole(numbers: Sequence[Fraction]) -> list[int]:
    """Largest remainders: all are rounded down, and the units this loses go to those that lost most, one each.

    If two lost the same, the first is served first. The numbers add up to a whole number, and so does the result.
    """
    rounded = [floor(number) for number in numbers]
    units = sum(numbers) - sum(rounded)
    served = sorted(range(len(numbers)), key=lambda i: (rounded[i] - numbers[i], i))
    for i in served[: int(units)]:
        rounded[i] += 1
    return rounded


def clip(number: int, upper: int) -> int:
    return min(max(number, 0), upper)


def laplace_probability(j: int, ratio_exponent: Fraction) -> float:
    """P(N = j), proportional to exp(-ratio_exponent * |j|): the law of the noise, which nothing clips.

    With q = exp(-ratio_exponent) the factor is (1 - q) / (1 + q), the hyperbolic tangent of half the exponent.
    """
    return tanh(ratio_exponent / 2) * exp(-ratio_exponent * abs(j))
