"""Contract of a sink's check for values that it cannot take."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Unfit = Callable[[pa.ChunkedArray], NDArray[np.bool_] | None]
"""Flags the values of a column that the sink cannot take; None: it takes all."""
