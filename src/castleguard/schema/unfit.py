"""Values that the sink of a stream cannot take, as the sink tells them."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Unfit = Callable[[pa.ChunkedArray], NDArray[np.bool_] | None]
"""Which values of a column the sink cannot take; None: it takes all."""
