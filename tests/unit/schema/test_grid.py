"""The public grid: exact edges, default steps, and the resolution of data."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.errors import SchemaError
from castleguard.schema.grid import MAX_EDGES, make_grid, resolution


def test_edges_are_printed_as_declared() -> None:
    assert make_grid(0.0, 1.0, 0.1).edges().tolist() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert make_grid(-0.3, 0.3, 0.1).edges().tolist() == [-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3]


def test_upper_is_the_last_edge_even_if_it_is_not_a_multiple_of_the_step() -> None:
    assert make_grid(0, 10, 4).edges().tolist() == [0, 4, 8, 10]
    assert make_grid(0, 10, 40).edges().tolist() == [0, 10]


def test_a_domain_of_one_point_has_one_edge() -> None:
    assert make_grid(5, 5, None).edges().tolist() == [5]
    assert make_grid(0.5, 0.5, None).edges().tolist() == [0.5]


@pytest.mark.parametrize(
    ("lower", "upper", "step"),
    [
        (0, 100, 1), (0, 150, 2), (0, 10, 1), (17, 1_490_400, 14904), (0.0, 150.0, "3/2"), (0, 1.0, "1/100"),
    ],
)  # fmt: skip
def test_the_default_step_is_a_hundredth_rounded_up_for_integers(lower: float, upper: float, step: object) -> None:
    assert str(make_grid(lower, upper, None).step) == str(step)


def test_dates_are_days_and_timestamps_are_microseconds() -> None:
    days = make_grid(dt.date(1970, 1, 2), dt.date(1970, 1, 5), None)
    assert days.kind == "date"
    assert days.edges().tolist() == [1, 2, 3, 4]
    seconds = make_grid(dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, 0, 0, 3), None)
    assert seconds.kind == "timestamp"
    assert seconds.edges().tolist() == [0, 1_000_000, 2_000_000, 3_000_000]


def test_a_step_of_time_is_a_timedelta_or_a_number_of_days_or_seconds() -> None:
    first, last = dt.date(2020, 1, 1), dt.date(2020, 12, 31)
    assert make_grid(first, last, 7) == make_grid(first, last, dt.timedelta(weeks=1))
    start, stop = dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2)
    assert make_grid(start, stop, 0.5) == make_grid(start, stop, dt.timedelta(milliseconds=500))


def test_bounds_with_a_zone_are_moved_to_utc() -> None:
    zone = dt.timezone(dt.timedelta(hours=2))
    with_zone = make_grid(dt.datetime(2020, 1, 1, 2, tzinfo=zone), dt.datetime(2020, 1, 2, 2, tzinfo=zone), None)
    assert with_zone == make_grid(dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2), None)


@pytest.mark.parametrize(
    ("lower", "upper", "step", "message"),
    [
        (1, 0, None, "lower must not be above upper, got 1 and 0"),
        (0, 1, 0, "step must be above 0, got 0"),
        (0, 1, -1, "step must be above 0, got -1"),
        (0, 1, float("nan"), "step must be finite"),
        (0, float("inf"), None, "must be finite, got inf"),
        (0, float("nan"), None, "must be finite, got nan"),
        (0, 2**53 + 2, None, "is beyond 2^53"),
        (-1e16, 0, 1e14, "is beyond 2^53"),
        (dt.datetime(2020, 1, 1), dt.datetime(9999, 12, 31), None, "too far from 1970"),
        (dt.datetime(1600, 1, 1), dt.datetime(2020, 1, 1), None, "too far from 1970"),
        (0, 1, 1e-9, "use a larger step"),
        (2**53 - 4, 2**53, 0.1, "too small for bounds of this size"),
        (0, dt.date(2020, 1, 1), None, "lower is a number and upper is a date"),
        (dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), None, "lower is a date and upper is a timestamp"),
        (True, 5, None, "must be a number, a date or a datetime, got bool"),
        ("0", "5", None, "must be a number, a date or a datetime, got str"),
        (0, 1, dt.timedelta(1), "step is a timedelta, but the bounds are numbers"),
        (0, 1, "a", "step must be a number or a timedelta, got str"),
        (0, 1, True, "step must be a number or a timedelta, got bool"),
        (dt.date(2020, 1, 1), dt.date(2021, 1, 1), 0.5, "whole number of days, got 0.5"),
        (dt.date(2020, 1, 1), dt.date(2021, 1, 1), dt.timedelta(hours=1), "whole number of days"),
        (dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1), 1e-7, "whole number of microseconds"),
    ],
)
def test_an_invalid_domain_is_refused_with_the_reason(lower: float, upper: float, step: float, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        make_grid(lower, upper, step).edges()
    assert message in str(caught.value)


def test_the_largest_grid_is_allowed_and_one_more_is_not() -> None:
    assert make_grid(0, MAX_EDGES - 1, 1).edges().size == MAX_EDGES
    with pytest.raises(SchemaError, match="more than 4194304"):
        make_grid(0, MAX_EDGES, 1)


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**4), st.integers(0, 6), st.integers(0, 500))
def test_every_edge_is_the_float_nearest_to_its_decimal(start: int, stride: int, digits: int, cells: int) -> None:
    unit = Decimal(1).scaleb(-digits)
    decimals = [(start + i * stride) * unit for i in range(cells + 1)]
    edges = make_grid(float(decimals[0]), float(decimals[-1]), float(stride * unit)).edges()
    assert edges.tolist() == [float(decimal) for decimal in decimals]


def test_edges_are_exact_for_integers_too_large_for_the_fast_path() -> None:
    edges = make_grid(1e-20, 5e-20, 1e-20).edges()
    assert edges.tolist() == [1e-20, 2e-20, 3e-20, 4e-20, 5e-20]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([17, 34, 60], 1.0),
        ([0, 5000, 20000], 5000.0),
        ([1.10, 1.15, 1.25], 0.05),
        ([0.1, 0.30000000000000004], 0.2),
        ([1, 1, 1], None),
        ([], None),
        ([1, np.nan, np.inf], None),
        ([1 / 3, 2 / 7, 0.5], 0.0),
        ([1.0, 2e17], 0.0),
    ],
)
def test_resolution_is_the_common_spacing_of_all_values(values: list[float], expected: float | None) -> None:
    assert resolution(np.array(values, dtype=np.float64)) == expected
