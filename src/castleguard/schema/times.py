"""Read dates and timestamps as numbers: days or microseconds since 1970 in UTC. Text is parsed as ISO 8601.

A timestamp without a zone is UTC. A date is midnight; the date of a timestamp is its date in UTC.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.schema.column import FINE, INVALID, NULL, Column, is_text, null_mask, strip

DAY = 86_400_000_000  # microseconds
TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

ISO_8601 = (
    r"^(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[T ](?P<hour>[01]\d|2[0-3])(?::(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:\.(?P<fraction>\d+))?)?)?"
    r"(?:Z|(?P<sign>[+-])(?P<zone_hour>[01]\d|2[0-3]):?(?P<zone_minute>[0-5]\d)?)?)?$"
)


def read_times(array: pa.Array, *, days: bool) -> Column:
    """A column as microseconds (or whole days) since 1970; values that do not read as times are invalid."""
    if is_text(array.type):
        text = strip(array)
        return _column(_parse(text), null_mask(text), DAY if days else 1)
    if pa.types.is_date(array.type):
        # date64 counts milliseconds and may contain a time of day.
        milliseconds = pa.types.is_date64(array.type)
        ticks = array.cast(pa.int64()) if milliseconds else array.cast(pa.int32()).cast(pa.int64())
        per_day = 86_400_000 if milliseconds else 1
    elif pa.types.is_timestamp(array.type):
        ticks, per_day = array.cast(pa.int64()), 86_400 * TICKS_PER_SECOND[array.type.unit]
    else:
        ticks, per_day = pa.nulls(len(array), pa.int64()), 1
    missing = null_mask(array)
    if days:
        return _column(ticks, missing, per_day)
    # Finer ticks are rounded down as integers: as floats, a nanosecond before an edge could be rounded onto it.
    finer = max(per_day // DAY, 1)
    column = _column(ticks, missing, finer)
    # Coarser ticks are scaled as floats: distant seconds would overflow as integer microseconds.
    return Column(column.values * (DAY * finer / per_day), column.problem)


def _column(ticks: pa.Array, missing: NDArray[np.bool_], unit: int) -> Column:
    """Whole units, rounded down; ticks that are null without being missing are invalid."""
    problem = np.where(null_mask(ticks), INVALID, FINE).astype(np.int8)
    problem[missing] = NULL
    whole = ticks.fill_null(0).to_numpy(zero_copy_only=False)
    return Column((whole if unit == 1 else whole // unit).astype(np.float64), problem)


def _parse(text: pa.Array) -> pa.Array:
    """Microseconds since 1970 as int64; null where the text is not a time."""
    # Arrow's parser is fast, but needs a whole column with zones or a whole column without.
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return text.cast(kind).cast(pa.int64())
        except pa.ArrowInvalid:
            continue
    return _parse_one_by_one(text)


def _parse_one_by_one(text: pa.Array) -> pa.Array:
    """`_parse` for columns whose values differ in form or are not all times."""
    parts = pc.extract_regex(text, ISO_8601)
    matched = ~null_mask(parts)

    def number(name: str) -> NDArray[np.int64]:
        digits = pc.struct_field(parts, name)
        found: NDArray[np.int64]
        found = pc.if_else(pc.equal(digits, ""), "0", digits).fill_null("0").cast(pa.int64()).to_numpy()
        return found

    months = (number("year") - 1970) * 12 + number("month") - 1
    month_start, next_month = _month_start(months), _month_start(months + 1)
    day = number("day")
    real = matched & (number("month") >= 1) & (number("month") <= 12) & (day >= 1) & (day <= next_month - month_start)
    seconds = (number("hour") * 60 + number("minute")) * 60 + number("second")
    fraction = pc.utf8_slice_codeunits(pc.struct_field(parts, "fraction"), 0, 6)
    micros = pc.utf8_rpad(fraction.fill_null(""), 6, "0").cast(pa.int64()).to_numpy()
    east = (number("zone_hour") * 60 + number("zone_minute")) * 60
    west_of_utc = pc.equal(pc.struct_field(parts, "sign"), "-").fill_null(False).to_numpy(zero_copy_only=False)
    seconds -= np.where(west_of_utc, -east, east)
    ticks = (month_start + day - 1) * DAY + seconds * 1_000_000 + micros
    return pa.array(ticks, mask=~real)


def _month_start(months: NDArray[np.int64]) -> NDArray[np.int64]:
    """Days from 1970 to the first of a month that is given as months since January 1970."""
    days: NDArray[np.int64] = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return days
