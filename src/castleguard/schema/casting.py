"""A column in the type that it is published with.

A stream publishes a column with one type for ever. A later value that does not convert to it costs its own row only:
refusing the batch would let the cut into batches decide whether a stream lives.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.errors import SchemaError

Misfits = NDArray[np.bool_]  # (rows,)


def cast_values(column: pa.ChunkedArray, kind: pa.DataType) -> tuple[pa.ChunkedArray, Misfits | None]:
    """The column as `kind`, and which rows have a value that does not convert: null there. None: all convert.

    Raises SchemaError if values of the column's type never convert.
    """
    try:
        return column.cast(kind), None
    except pa.ArrowNotImplementedError:
        # Arrow's message may quote a value: it is not handed on.
        raise SchemaError(f"the type was {kind} in the batches before, and {column.type} does not convert") from None
    except pa.ArrowException:
        misfits = np.zeros(len(column), np.bool_)
        start = 0
        for chunk in column.chunks:
            _mark(chunk, kind, misfits[start : start + len(chunk)])
            start += len(chunk)
        return column.take(pa.array(np.arange(misfits.size), mask=misfits)).cast(kind), misfits


def _mark(array: pa.Array, kind: pa.DataType, misfits: Misfits) -> None:
    """Mark the values that do not convert, by halves: most batches have few of them."""
    try:
        array.cast(kind)
    except pa.ArrowException:
        if len(array) == 1:
            misfits[0] = True
            return
        half = len(array) // 2
        _mark(array.slice(0, half), kind, misfits[:half])
        _mark(array.slice(half), kind, misfits[half:])
