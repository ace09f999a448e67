"""Numbers, dates and timestamps read from any Arrow column."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.schema.coded import REASONS
from castleguard.schema.column import FINE, Column
from castleguard.schema.grid import Kind
from castleguard.schema.numbers import check_domain, read_numbers


def shown(column: Column) -> list[float | str]:
    """Value of a fine row, reason of any other."""
    return [
        value if problem == FINE else REASONS[problem]
        for value, problem in zip(column.values.tolist(), column.problem.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None, -3], pa.int8()), [1, "null", -3]),
        (pa.array([1, 2**63 - 1], pa.int64()), [1, 2.0**63]),
        (pa.array([2**64 - 1], pa.uint64()), [2.0**64]),
        (pa.array([1.5, None, float("nan"), float("inf"), float("-inf")]), [1.5, "null"] + ["invalid"] * 3),
        (pa.array([0.5, None], pa.float16()), [0.5, "null"]),
        (pa.array([0.5, None], pa.float32()), [0.5, "null"]),
        (pa.array([Decimal("1.25"), Decimal("0.47"), None]), [1.25, 0.47, "null"]),
        (pa.array([Decimal("1.25"), None], pa.decimal256(50, 2)), [1.25, "null"]),
        (pa.array([True, None, False]), ["invalid", "null", "invalid"]),
        (pa.array([None, None]), ["null", "null"]),
        (pa.array([dt.date(2020, 1, 1), None]), ["invalid", "null"]),
        (pa.array([dt.datetime(2020, 1, 1), None]), ["invalid", "null"]),
        (pa.array([dt.time(1), None]), ["invalid", "null"]),
        (pa.array([[1], None]), ["invalid", "null"]),
        (pa.array([{"a": 1}, None]), ["invalid", "null"]),
        (pa.array([1, 2, 3, 4])[1:3], [2, 3]),
        (pa.array(["9", "1", "x", "3"])[1:3], [1, "invalid"]),
        (pa.array([], pa.string()), []),
        (pa.array([], pa.int64()), []),
    ],
)  # fmt: skip
def test_every_arrow_type_is_read_or_marked_row_by_row(array: pa.Array, expected: list[object]) -> None:
    assert shown(read_numbers(array, "number")) == expected


TEXTS: dict[str | None, object] = {
    "12": 12, "-3": -3, "+4": 4, "1.5": 1.5, ".5": 0.5, "5.": 5, "1e3": 1000, "1E-3": 0.001, "007": 7,
    " 8 ": 8, "\t9\n": 9, "": "null", "   ": "null", None: "null",
    "x": "invalid", "1,5": "invalid", "1.2.3": "invalid", "1-2": "invalid", "0x10": "invalid", "1_000": "invalid",
    "nan": "invalid", "NaN": "invalid", "inf": "invalid", "-Infinity": "invalid", "1e999": "invalid", "e": "invalid",
    "--1": "invalid", "1 2": "invalid", "\u0661": "invalid", "true": "invalid", "2020-01-01": "invalid",
    "12é": "invalid",
}  # fmt: skip


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]
)
def test_text_is_parsed_value_by_value(kind: pa.DataType) -> None:
    texts = pa.array(list(TEXTS), pa.string()).cast(kind)
    assert shown(read_numbers(texts, "number")) == list(TEXTS.values())


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_read_the_same_alone_and_among_others(text: str | None) -> None:
    assert shown(read_numbers(pa.array([text], pa.string()), "number")) == [TEXTS[text]]


@given(st.lists(st.one_of(st.none(), st.text(max_size=6), st.floats().map(repr), st.integers().map(str))))
def test_no_text_raises_or_depends_on_its_neighbours(texts: list[str | None]) -> None:
    together = shown(read_numbers(pa.array(texts, pa.string()), "number"))
    alone = [shown(read_numbers(pa.array([text], pa.string()), "number"))[0] for text in texts]
    assert together == alone


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_printed_numbers_are_read_back_exactly(values: list[float]) -> None:
    texts = pa.array([repr(value) for value in values], pa.string())
    assert shown(read_numbers(texts, "number")) == values


MOMENT = dt.datetime(2020, 2, 29, 23, 30, 15, 250000)
MICROS = (MOMENT - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
DAYS = (MOMENT.date() - dt.date(1970, 1, 1)).days
MIDNIGHT = DAYS * 86_400_000_000


@pytest.mark.parametrize(
    ("array", "micros", "days"),
    [
        (pa.array([MOMENT, None], pa.timestamp("us")), MICROS, DAYS),
        (pa.array([MOMENT, None], pa.timestamp("ns")), MICROS, DAYS),
        (pa.array([MOMENT, None], pa.timestamp("ms")), MICROS, DAYS),
        (pa.array([MOMENT.replace(microsecond=0), None], pa.timestamp("s")), MICROS - 250000, DAYS),
        (pa.array([MOMENT.replace(tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")), MICROS, DAYS),
        # 23:30 in UTC is the next day in Berlin, but the column's own zone does not count.
        (pa.array([MOMENT.replace(tzinfo=dt.UTC), None], pa.timestamp("us", "Europe/Berlin")), MICROS, DAYS),
        (pa.array([MOMENT.date(), None], pa.date32()), MIDNIGHT, DAYS),
        (pa.array([MOMENT.date(), None], pa.date64()), MIDNIGHT, DAYS),
        (pa.array(["2020-02-29", None]), MIDNIGHT, DAYS),
        (pa.array([" 2020-02-29 ", ""]), MIDNIGHT, DAYS),
        (pa.array(["2020-02-29T23:30:15.25", None]), MICROS, DAYS),
        (pa.array(["2020-02-29 23:30:15.250000", None]), MICROS, DAYS),
        (pa.array(["2020-02-29 23:30:15.250000999", None]), MICROS, DAYS),
        (pa.array(["2020-02-29T23:30:15.25Z", None]), MICROS, DAYS),
        (pa.array(["2020-03-01T01:30:15.25+02:00", None]), MICROS, DAYS),
        (pa.array(["2020-02-29T18:00:15.250-0530", None]), MICROS, DAYS),
        (pa.array([-1, None], pa.timestamp("us")), -1, -1),
        (pa.array([dt.date(1969, 12, 31), None]), -86_400_000_000, -1),
    ],
)
def test_times_are_microseconds_or_days_in_utc(array: pa.Array, micros: int, days: int) -> None:
    assert shown(read_numbers(array, "timestamp")) == [micros, "null"]
    assert shown(read_numbers(array, "date")) == [days, "null"]


def test_a_column_may_mix_forms_of_times() -> None:
    texts = [
        "2020-02-29", "2020-02-29T23:30:15.25", "2020-02-29T23:30:15.25Z", "2020-03-01 01:30:15.25+02:00",
        "2020-03-01 01:30:15.25+02", "2020-02-29 23:30", "2020-02-29 23", "2020-02-30", "2019-02-29", "2020-13-01",
        "2020-00-10", "2020-01-00", "2020-02-29T24:00", "2020-02-29T10:60", "20200229", "yesterday", "1582934400", "",
        None, "0001-01-01", "9999-12-31", "2100-02-29",
    ]  # fmt: skip
    day = dt.timedelta(days=1)
    micro = dt.timedelta(microseconds=1)
    epoch = dt.datetime(1970, 1, 1)
    first, last = ((dt.datetime(*when) - epoch) // micro for when in ((1, 1, 1), (9999, 12, 31)))
    expected: list[Any] = [
        MIDNIGHT, MICROS, MICROS, MICROS, MICROS, MIDNIGHT + 23.5 * 3600e6, MIDNIGHT + 23 * 3600e6, "invalid",
        "invalid", "invalid", "invalid", "invalid", "invalid", "invalid", "invalid", "invalid", "invalid", "null",
        "null", float(first), float(last), "invalid",
    ]  # fmt: skip
    assert shown(read_numbers(pa.array(texts), "timestamp")) == expected
    in_days = [value if isinstance(value, str) else value // (day / micro) for value in expected]
    assert shown(read_numbers(pa.array(texts), "date")) == in_days


@pytest.mark.parametrize("kind", ["date", "timestamp"])
@pytest.mark.parametrize(
    "array",
    [
        pa.array([5, None]), pa.array([5.0, None]), pa.array([True, None]), pa.array([dt.time(1), None]),
        pa.array([dt.timedelta(1), None]), pa.array([[1], None]),
    ],
)  # fmt: skip
def test_values_that_are_not_times_are_invalid(kind: Kind, array: pa.Array) -> None:
    assert shown(read_numbers(array, kind)) == ["invalid", "null"]


@given(st.lists(st.one_of(st.none(), st.datetimes(), st.dates(), st.text(max_size=12)), max_size=8))
def test_every_time_that_python_prints_is_read_back(values: list[dt.datetime | dt.date | str | None]) -> None:
    texts = [None if value is None else str(value) for value in values]
    column = read_numbers(pa.array(texts, pa.string()), "timestamp")
    for value, got in zip(values, shown(column), strict=True):
        if isinstance(value, dt.date):
            moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
            assert got == float((moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1))
        elif value is None:
            assert got == "null"


def test_distant_timestamps_do_not_overflow() -> None:
    column = read_numbers(pa.array([2**62], pa.int64()).cast(pa.timestamp("s")), "timestamp")
    assert column.values[0] == 2.0**62 * 1e6


def test_values_outside_are_clamped_or_marked() -> None:
    column = read_numbers(pa.array(["-5", "0", "7", "10", "99", "x", None]), "number")
    assert shown(check_domain(column, (0.0, 10.0), clamp=True)) == [0, 0, 7, 10, 10, "invalid", "null"]
    marked = check_domain(column, (0.0, 10.0), clamp=False)
    assert shown(marked) == ["outside", 0, 7, 10, "outside", "invalid", "null"]
    assert marked.problem.dtype == np.int8


def test_a_missing_value_is_never_outside() -> None:
    column = read_numbers(pa.array(["x", None]), "number")
    assert shown(check_domain(column, (5.0, 10.0), clamp=False)) == ["invalid", "null"]


@pytest.mark.parametrize("micros", [1_767_225_600_000_000, 0, -1_767_225_600_000_000, -1])
def test_nanoseconds_are_rounded_down_to_microseconds(micros: int) -> None:
    """As a float, 999 ns before an edge of the grid would be rounded onto it, and into the next cell."""
    ticks = pa.array([micros * 1000, micros * 1000 + 999, micros * 1000 - 1], pa.timestamp("ns"))
    assert read_numbers(ticks, "timestamp").values.tolist() == [micros, micros, micros - 1]
