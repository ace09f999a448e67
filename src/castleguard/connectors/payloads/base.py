"""What was found in some messages."""

from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Format = Literal["json", "csv", "arrow"]

EMPTY = "it is empty"


class BadPayload(NamedTuple):
    """A message, or a line of one, that is no row."""

    message: int
    """The number of the message among those that were read together."""
    reason: str
    """Why it is no row. Never a value."""
    raw: bytes

    def __repr__(self) -> str:
        """Never what is in it."""
        return f"BadPayload(message {self.message}: {self.reason})"


class Payloads(NamedTuple):
    """What was in some messages."""

    rows: pa.RecordBatch
    """The declared columns, in the declared order: text in JSON and CSV, typed in Arrow."""
    message: NDArray[np.int64]  # (rows,) the number of the message that each row came in, ascending
    bad: tuple[BadPayload, ...]
    """In the order of the messages."""

    def __repr__(self) -> str:
        """How many rows, never what is in them."""
        return f"Payloads({self.rows.num_rows} rows, {len(self.bad)} bad)"


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """All rows of a table together."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)
