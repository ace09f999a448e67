"""Types of the arrays that kernels take.

A name without a number is an array with one axis, or, inside kernels, a view with any number of axes. The types of an
entry kernel's parameters and of the fields of its named tuples are binding: compiled code exists for exactly those
(`native/signature.py`).
"""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

READ_ONLY = "read-only"
"""Annotation of an array that a kernel does not write: it may be a view of Arrow's memory."""

Floats = NDArray[np.float64]
ConstFloats = Annotated[Floats, READ_ONLY]
Floats2 = Annotated[Floats, 2]
Floats3 = Annotated[Floats, 3]
Singles = NDArray[np.float32]
Singles2 = Annotated[Singles, 2]
Singles3 = Annotated[Singles, 3]
Ints = NDArray[np.int64]
Ints2 = Annotated[Ints, 2]
Slots = NDArray[np.int32]
Slots2 = Annotated[Slots, 2]
Shorts2 = Annotated[NDArray[np.int16], 2]
Hashes = NDArray[np.uint64]
Hashes2 = Annotated[Hashes, 2]
Words = NDArray[np.uint32]
Words2 = Annotated[Words, 2]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]

Table = Hashes2  # (capacity, 2) see `counts.py`
