"""Which rows fail a check that is made on whole arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Flags = NDArray[np.bool_]  # (rows,)


def failing_rows(column: pa.ChunkedArray, passes: Callable[[Any], bool]) -> Flags | None:
    """The rows that do not pass; None if all do. A chunk is cut in halves until the rows are found: most have few."""
    if all(map(passes, column.chunks)):
        return None
    found = np.zeros(len(column), np.bool_)
    start = 0
    for chunk in column.chunks:
        _mark(chunk, passes, found[start : start + len(chunk)])
        start += len(chunk)
    return found


def _mark(array: pa.Array, passes: Callable[[Any], bool], found: Flags) -> None:
    if not len(array) or passes(array):
        return
    if len(array) == 1:
        found[0] = True
        return
    half = len(array) // 2
    _mark(array.slice(0, half), passes, found[:half])
    _mark(array.slice(half), passes, found[half:])
