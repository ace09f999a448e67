"""Numeric quasi-identifiers: read any column as float64, checked against its public domain.

Text is parsed, because CSV files contain nothing else. A bad value affects its own row only: if the parser fails on the
whole column, it is called again without the bad rows.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.kernels.number_scan import POWERS, WORD, find_cells, read_decimals
from castleguard.schema.column import (
    FINE,
    INVALID,
    NULL,
    OUTSIDE,
    Column,
    Strings,
    is_text,
    null_mask,
    strip,
    view_strings,
)
from castleguard.schema.grid import Kind
from castleguard.schema.times import read_times

Values = NDArray[np.float64]

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
FOREIGN = np.ones(256, dtype=np.bool_)  # bytes that occur in no number
FOREIGN[list(b"0123456789+-.eE")] = False


def read_numbers(array: pa.Array, kind: Kind) -> Column:
    """A column in coded units; NaN, infinities, booleans and anything that is not a number (or time) are invalid."""
    if kind != "number":
        return read_times(array, days=kind == "date")
    if is_text(array.type):
        return _read_texts(array)
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        floats = array.cast(pa.float64(), safe=False)
    elif pa.types.is_decimal(array.type):
        # Via text, which is rounded to the nearest float; Arrow's own conversion can be off in the last digit.
        floats = _parse(array.cast(pa.large_string()))
    else:
        floats = pa.nulls(len(array), pa.float64())
    return _finite(floats, array)


def _read_texts(array: pa.Array) -> Column:
    """Read plain decimal numbers from their bytes, all other text by Arrow's parser."""
    raw = (array.cast(pa.binary()) if pa.types.is_fixed_size_binary(array.type) else array).cast(pa.large_binary())
    strings = view_strings(raw)
    # A copy with a margin, because the kernel reads whole words.
    words = np.zeros(strings.data.size // WORD + 3, np.uint64)
    data = words.view(np.uint8)
    data[WORD : WORD + strings.data.size] = strings.data
    values, odd = np.empty(strings.valid.size), np.empty(strings.valid.size, np.bool_)
    read_decimals(words, data, strings.offsets + WORD, POWERS, values, odd)
    odd |= ~strings.valid
    problem = np.full(odd.size, FINE, dtype=np.int8)
    if odd.any():
        rows = np.flatnonzero(odd)
        text = strip(raw.take(pa.array(rows)))
        values[rows], problem[rows], _ = _finite(_parse(text), text)
    return Column(values, problem)


def _finite(floats: pa.Array, array: pa.Array) -> Column:
    """Numbers read from `array`: those that are not finite are missing or invalid."""
    values = (floats.fill_null(np.nan) if floats.null_count else floats).to_numpy(zero_copy_only=False)
    problem = np.full(len(array), FINE, dtype=np.int8)
    finite = np.isfinite(values)
    if not finite.all():
        problem[~finite] = INVALID
        problem[null_mask(array)] = NULL
        values = np.where(finite, values, 0.0)
    return Column(values, problem)


def cell_codes(edges: Values, values: Values) -> Values:
    """Lower edge of the cell of each value, as `cells.cell_starts`, in a quarter of the time."""
    if edges.size < 3:  # a single cell
        return np.full(values.size, edges[0])
    cells = np.empty(values.size, dtype=np.int64)
    find_cells(edges, values, cells)
    return edges.take(cells)


def check_domain(column: Column, domain: tuple[float, float], *, clamp: bool) -> Column:
    """Clamp values to the domain, or mark those outside."""
    lower, upper = domain
    values, problem, _ = column
    outside = (values < lower) | (values > upper)
    outside &= problem == FINE
    if not outside.any():
        return column
    if clamp:
        return Column(np.where(outside, np.clip(values, lower, upper), values), problem, outside)
    return Column(np.where(outside, 0.0, values), np.where(outside, np.int8(OUTSIDE), problem))


def _parse(text: pa.Array) -> pa.Array:
    """Stripped text as float64; null where it is missing or not a number."""
    try:
        return text.cast(pa.float64())
    except pa.ArrowInvalid:
        text = _without(text, _rows_with_foreign_bytes(view_strings(text)))
    try:
        return text.cast(pa.float64())
    except pa.ArrowInvalid:
        malformed = pc.invert(pc.match_substring_regex(text, NUMBER)).fill_null(True)
    return _without(text, malformed).cast(pa.float64())


def _rows_with_foreign_bytes(strings: Strings) -> pa.Array:
    """Flags of rows with a byte that occurs in no number: finds nearly all unreadable text without a regex."""
    positions = np.flatnonzero(FOREIGN[strings.data])
    found = np.zeros(strings.valid.size, dtype=np.bool_)
    found[np.searchsorted(strings.offsets, positions, side="right") - 1] = True
    return pa.array(found)


def _without(text: pa.Array, rows: pa.Array) -> pa.Array:
    return pc.if_else(rows, pa.scalar(None, text.type), text)
