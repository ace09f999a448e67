"""Sampling of rows."""

import numpy as np
from numpy.typing import NDArray

from castleguard.privacy.budget import exact
from castleguard.privacy.mechanisms import Bernoulli
from castleguard.privacy.noise import Noise


def row_coin(sample_rate: float, key: NDArray[np.uint32]) -> Noise | None:
    """Independent coin for each row; None if every row is kept."""
    return None if sample_rate == 1 else Noise((), key=key, rate=Bernoulli(rate=exact("sample_rate", sample_rate)))
