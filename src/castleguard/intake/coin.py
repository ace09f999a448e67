"""The coin of a row: whether it takes part at all."""

import numpy as np
from numpy.typing import NDArray

from castleguard.privacy.budget import exact
from castleguard.privacy.mechanisms import Bernoulli
from castleguard.privacy.noise import Noise


def row_coin(sample_rate: float, key: NDArray[np.uint32]) -> Noise | None:
    """A coin for each row by itself; None: every row takes part."""
    return None if sample_rate == 1 else Noise((), key=key, rate=Bernoulli(rate=exact("sample_rate", sample_rate)))
