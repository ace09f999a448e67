"""Speed of the samplers: values per second on one core, medians in process CPU time, without tables and compiling.

`python -m benchmarks.noise` prints the figures. A value is the work for one column of one row: all words, all digits,
the comparison, and its share of the row's block of random words.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from castleguard.kernels.chacha import LANES, NOISE, address_positions, chacha_block, chacha_lanes
from castleguard.kernels.compile import entry_kernel
from castleguard.privacy.mechanisms import Bernoulli, DiscreteLaplace, Mechanism, RandomisedResponse
from castleguard.privacy.noise import Noise

ROWS = 500_000
REPEATS = 5
Words = NDArray[np.uint32]

AGE = DiscreteLaplace(cells=100, epsilon=Fraction(1))  # one digit
INCOME = DiscreteLaplace(cells=10_000, epsilon=Fraction(1))  # two
WEIGHT = DiscreteLaplace(cells=1_000_000, epsilon=Fraction(1))  # three
OCCUPATION = RandomisedResponse(values=14, epsilon=Fraction(1))

COLUMNS: dict[str, Sequence[Mechanism]] = {
    "discrete Laplace, 1 column, 100 cells": [AGE],
    "discrete Laplace, 1 column, 10,000 cells": [INCOME],
    "discrete Laplace, 1 column, 1,000,000 cells": [WEIGHT],
    "discrete Laplace, 7 columns, 100 cells": [AGE] * 7,
    "discrete Laplace, 7 columns, 10,000 cells": [INCOME] * 7,
    "discrete Laplace, 7 columns, 1,000,000 cells": [WEIGHT] * 7,
    "randomised response, 1 column, 14 values": [OCCUPATION],
    "both, 4 numbers and 3 categories": [AGE] * 4 + [OCCUPATION] * 3,
}


@entry_kernel
def make_lanes(key: Words, blocks: int, nonces: Words, lanes: Words) -> None:
    """Blocks of consecutive positions, LANES at a time."""
    for position in range(0, blocks, LANES):
        address_positions(NOISE, position, nonces)
        chacha_lanes(key, nonces, lanes)


@entry_kernel
def make_blocks(key: Words, blocks: int, block: Words) -> None:
    """The same one by one."""
    for position in range(blocks):
        chacha_block(key, 0, NOISE, position, position >> 32, block)


def rate(count: int, work: Callable[[], object], repeats: int) -> float:
    """`count` per second of process CPU time; the median, after one run that compiles."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return count / statistics.median(times)


def values_per_second(mechanisms: Sequence[Mechanism], rows: int = ROWS, repeats: int = REPEATS) -> float:
    """Randomised values per second, for rows with these columns."""
    noise = Noise(mechanisms, key=np.arange(8, dtype=np.uint32))
    levels = np.tile([mechanism.top // 2 for mechanism in mechanisms], (rows, 1))
    present = np.ones(rows, dtype=np.bool_)
    # In place, repeatedly: the duration of noise does not depend on the level.
    return rate(rows * len(mechanisms), lambda: noise.randomise(levels, 0, present), repeats)


def measure(rows: int = ROWS, repeats: int = REPEATS) -> dict[str, float]:
    """All figures, per second."""
    figures = {f"{name}, values": values_per_second(columns, rows, repeats) for name, columns in COLUMNS.items()}
    coin = Noise([], key=np.arange(8, dtype=np.uint32), rate=Bernoulli(rate=Fraction(1, 3)))
    figures["sampling, rows"] = rate(rows, lambda: coin.sample(0, rows), repeats)
    key = np.arange(8, dtype=np.uint32)
    nonces, lanes = np.zeros(3 * LANES, dtype=np.uint32), np.zeros(16 * LANES, dtype=np.uint32)
    block = np.zeros(16, dtype=np.uint32)
    blocks = rows // LANES * LANES
    figures[f"ChaCha20, {LANES} blocks together, words"] = rate(
        16 * blocks, lambda: make_lanes(key, blocks, nonces, lanes), repeats
    )
    figures["ChaCha20, block by block, words"] = rate(16 * blocks, lambda: make_blocks(key, blocks, block), repeats)
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for name, figure in measure(options.rows, options.repeats).items():
        print(f"{name:55} {figure / 1e6:8.1f} million/s")


if __name__ == "__main__":
    main()
