"""One column while it is being decoded: a number per row, and what is wrong with the row.

Arrow hands a column over in chunks, possibly dictionary-encoded. Everything after this module sees one plain array,
and a dictionary is read once per distinct value instead of once per row.
"""

from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.errors import SchemaError
from castleguard.schema.coded import REASONS

Problems = NDArray[np.int8]  # (rows,) FINE, or an index into REASONS

FINE = -1
NULL, INVALID, OUTSIDE, UNKNOWN = (REASONS.index(word) for word in ("null", "invalid", "outside", "unknown"))
UNPUBLISHABLE, TOO_LONG, OTHER_TYPE = (REASONS.index(word) for word in ("unpublishable", "too long", "other type"))

_Number = TypeVar("_Number", bound=np.generic)


class Column(NamedTuple):
    """A decoded column. A value means nothing where `problem` is not FINE."""

    values: NDArray[np.float64]
    problem: Problems
    clamped: NDArray[np.bool_] | None = None
    """Which values were moved to the nearest bound of the domain; None: none."""


class Distinct(NamedTuple):
    """The values of a column to be read, and which of them each row has."""

    values: pa.Array
    rows: NDArray[np.int64] | None
    """None: the values are the rows."""

    def spread(self, found: NDArray[_Number]) -> NDArray[_Number]:
        """What was found per value, per row."""
        return found if self.rows is None else found[self.rows]


def distinct(column: pa.ChunkedArray) -> Distinct:
    """A column as one array, without its dictionary if it has one."""
    array = _one_array(column)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if not pa.types.is_dictionary(array.type):
        return Distinct(array, None)
    dictionary = array.dictionary
    if len(dictionary) >= len(array):
        return Distinct(array.dictionary_decode(), None)
    # A null row points behind the dictionary, at one null that is read along with it.
    values = pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])
    rows = array.indices.cast(pa.int64()).fill_null(len(dictionary)).to_numpy(zero_copy_only=False)
    return Distinct(values, rows)


def null_mask(array: pa.Array) -> NDArray[np.bool_]:
    """Which values are missing."""
    if array.null_count == 0:
        return np.zeros(len(array), dtype=np.bool_)
    mask: NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks != 1:
            raise SchemaError("the batch is too large for one Arrow array: push smaller batches")
        array = array.chunk(0)
    return array
