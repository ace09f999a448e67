"""Power-on hours of hard drives, as in DOCA's paper but from another year.

The paper has 1,989,462 values of January 2017 with a maximum of 66,413. These are 868,484 values of April and May 2013.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from castleguard.lab.datasets import BACKBLAZE, read
from castleguard.schema.roles import Numeric, Schema

Values = NDArray[np.float64]  # (values,)

COLUMN, ROW = "smart_9_raw", "row"
HIGHEST_CREDIBLE = 66_413  # the paper's maximum; one drive reports 29 years
DOMAIN = LOWER, UPPER = 6, 38_450


def hours() -> Values:
    """The credible values of the paper's column: 868,484 in file order."""
    return credible(read(BACKBLAZE.files[0]))


def credible(content: bytes) -> Values:
    """The credible values of a file."""
    options = csv.ConvertOptions(include_columns=[COLUMN], column_types={COLUMN: pa.float64()})
    values: Values = csv.read_csv(pa.BufferReader(content), convert_options=options).column(COLUMN).to_numpy()
    return values[values <= HIGHEST_CREDIBLE]


def shuffled(values: Values, seed: int, count: int | None = None) -> Values:
    """The stream of one run: the values in random order, or the first `count` of them."""
    # Not the seed alone: it also seeds the naive noise of the run.
    return np.random.default_rng([2018, seed]).permutation(values)[:count]


def schema(*, numbered: bool) -> Schema:
    """One number per row and one row per person, as in the paper; `numbered` also publishes the row number."""
    return Schema(
        person=None,
        quasi_identifiers=[Numeric(COLUMN, lower=LOWER, upper=UPPER, step=1)],
        public=[ROW] if numbered else [],
    )
