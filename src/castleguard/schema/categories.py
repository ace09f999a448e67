"""Categorical quasi-identifiers: read any column as leaf numbers of a hierarchy.

Only leaves are accepted: a row that is already generalised to an inner node ("University") has no leaf number.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from castleguard.schema.column import FINE, NULL, UNKNOWN, Column, as_text, null_mask


def read_leaves(array: pa.Array, leaves: pa.Array) -> Column:
    """Leaf number of every value; `leaves`: labels as large_string, in leaf order."""
    text = as_text(array)
    if text is None:
        text, missing = pa.nulls(len(array), pa.large_string()), null_mask(array)
    else:
        missing = null_mask(text)
    found = pc.index_in(text, value_set=leaves)
    values = found.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    problem = np.full(len(array), FINE, dtype=np.int8)
    if found.null_count:
        problem[null_mask(found)] = UNKNOWN
        problem[missing] = NULL
    return Column(values, problem)
