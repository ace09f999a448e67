"""perturb (CASTLEGUARD, Algorithm 2) as printed: Laplace noise scaled by the range seen so far.

The published algorithm, for research: it computes in floating point, and the range depends on the data, so it has no
privacy guarantee. The exact samplers are in `exact_noise.py`.
"""

from typing import NamedTuple

import numpy as np

from castleguard.kernels.arrays import Flags, Floats, Floats2
from castleguard.kernels.chacha import NOISE, Draws, begin_content, next_word, ratchet
from castleguard.kernels.compile import Int, entry_kernel, kernel
from castleguard.kernels.content import add_number, begin_digest, end_digest


class Ranges(NamedTuple):
    """Per attribute: the range seen so far (mutable), the limits of noisy values, and whether they are leaf numbers."""

    seen: Floats2  # (2, columns) A.min and A.max; inf and -inf before the first row
    limits: Floats2  # (2, columns) the declared bounds; NaN where none are declared
    leaves: Flags  # (columns,)


@kernel
def laplace(draws: Draws, position: Int, scale: float) -> float:
    """Draw from Laplace(0, scale), from two words."""
    first = next_word(draws, NOISE, position)
    second = next_word(draws, NOISE, position)
    whole = np.float64(first >> np.uint32(5)) * 67108864.0 + np.float64(second >> np.uint32(6)) + 0.5
    size = -scale * np.log(whole / 9007199254740992.0)
    return -size if first & np.uint32(1) else size


@kernel
def see_row(ranges: Ranges, quasi: Floats) -> None:
    """Widen the ranges to include one row."""
    seen = ranges.seen
    for column in range(quasi.size):
        seen[0, column] = min(seen[0, column], quasi[column])
        seen[1, column] = max(seen[1, column], quasi[column])


@kernel
def digest_row(draws: Draws, ranges: Ranges, quasi: Floats) -> np.int64:
    """Digest of everything the noise of a row depends on: its values, and the ranges that scale the noise.

    Without the ranges, the same row after two different histories would get the same draw at two scales, which reveals
    the draw.
    """
    values, seen = quasi.view(np.int64), ranges.seen.view(np.int64)
    digest = begin_digest(draws)
    for column in range(values.size):
        digest = add_number(digest, values[column])
    for column in range(values.size):
        digest = add_number(add_number(digest, seen[0, column]), seen[1, column])
    return end_digest(digest, 3 * values.size)


@kernel
def perturb_value(draws: Draws, ranges: Ranges, column: Int, value: float, noise: tuple[float, float, Int]) -> float:
    """Perturb one attribute of a row, after `see_row`; noise = (phi, minimum range, position)."""
    phi, floor, position = noise
    seen = ranges.seen
    width = max(seen[1, column] - seen[0, column], floor)
    noisy = value + laplace(draws, position, width / phi)
    low, high = ranges.limits[0, column], ranges.limits[1, column]
    if np.isnan(low):
        low, high = seen[0, column], seen[1, column]
    if ranges.leaves[column]:
        noisy = np.floor(noisy + 0.5)
    return min(max(noisy, low), high)


@entry_kernel
def perturb_rows(
    draws: Draws, ranges: Ranges, quasi: Floats2, skip: Flags, phi: float, floor: float, first: Int
) -> None:
    """Perturb the rows in place; row i has arrival number first + i. Skipped rows are left unchanged."""
    for row in range(quasi.shape[0]):
        position = first + row
        ratchet(draws, position)
        if skip[row]:
            continue
        see_row(ranges, quasi[row])
        begin_content(draws, digest_row(draws, ranges, quasi[row]))
        for column in range(quasi.shape[1]):
            quasi[row, column] = perturb_value(draws, ranges, column, quasi[row, column], (phi, floor, position))
