"""The errors of published numbers, value by value, by histogram, and for two tables."""

import datetime as dt
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.errors import InputError, PolicyError
from castleguard.judge.measure.error import (
    finite_numbers,
    histogram_intersection,
    mean_squared_error,
    middles,
    numeric_errors,
    paired_by_rank,
)
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema

WHOLE = st.lists(st.integers(-1000, 1000), min_size=1, max_size=60)
FLOATS = st.lists(st.floats(-1e150, 1e150), min_size=1, max_size=60)


# Mean squared error


@pytest.mark.parametrize(
    ("original", "published", "error"),
    [
        ([1], [1], 0.0),
        ([0, 0], [3, -4], 12.5),
        ([1, 2, 3], [2, 3, 4], 1.0),
        ([10, 20, 30, 40], [25, 25, 25, 25], 125.0),
    ],
)
def test_mean_squared_error_is_that_computed_by_hand(original: list[int], published: list[int], error: float) -> None:
    assert mean_squared_error(original, published) == error


@given(pairs=st.lists(st.tuples(st.integers(-10_000, 10_000), st.integers(-10_000, 10_000)), min_size=1))
def test_mean_squared_error_of_whole_numbers_is_the_exact_fraction_rounded(pairs: list[tuple[int, int]]) -> None:
    exact = Fraction(sum((one - other) ** 2 for one, other in pairs), len(pairs))
    assert mean_squared_error([one for one, _ in pairs], [other for _, other in pairs]) == float(exact)


@given(values=WHOLE, constant=st.integers(-1000, 1000))
def test_error_of_a_constant_is_the_variance_plus_its_distance_from_the_mean(values: list[int], constant: int) -> None:
    known = np.var(values) + (constant - np.mean(values)) ** 2
    assert mean_squared_error(values, [constant] * len(values)) == pytest.approx(float(known), rel=1e-9)


def test_error_beyond_a_float64_is_infinite() -> None:
    assert mean_squared_error([-1e200], [1e200]) == math.inf
    assert mean_squared_error([-1.7e308], [1.7e308]) == math.inf


def test_pairs_must_be_complete() -> None:
    with pytest.raises(InputError, match="got 3 and 2"):
        mean_squared_error([1, 2, 3], [1, 2])
    with pytest.raises(InputError, match="got 3 and 1"):
        mean_squared_error([1, 2, 3], [1])  # no broadcasting


# Histogram intersection


@pytest.mark.parametrize(
    ("original", "published", "bins", "share"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3], 4, 1.0),
        ([0, 1, 2, 3], [3, 2, 1, 0], 4, 1.0),
        ([0, 0, 4, 4], [0, 0, 0, 4], 4, 0.75),
        ([0, 1], [3, 4], 4, 0.0),
        ([0, 1], [3, 4], 1, 1.0),
        ([0, 4], [0, 0, 0, 4], 2, 0.75),  # 1/2 and 1/2 against 3/4 and 1/4
        ([0, 0, 4], [0, 4], 2, 5 / 6),  # 2/3 and 1/3 against 1/2 and 1/2
    ],
)
def test_intersection_is_that_computed_by_hand(
    original: list[int], published: list[int], bins: int, share: float
) -> None:
    assert histogram_intersection(original, published, bins=bins) == share


def test_value_on_an_edge_is_in_the_upper_bin_and_the_highest_one_in_the_last() -> None:
    assert histogram_intersection([0, 1], [0, 2], bins=2, range=(0, 2)) == 1.0
    assert histogram_intersection([0, 0.99], [0, 1], bins=2, range=(0, 2)) == 0.5


@given(values=FLOATS, bins=st.integers(1, 200))
def test_equal_data_have_intersection_1(values: list[float], bins: int) -> None:
    assert histogram_intersection(values, values, bins=bins) == 1.0
    assert histogram_intersection(values, values[::-1] * 3, bins=bins) == 1.0


@given(value=st.floats(allow_nan=False, allow_infinity=False), bins=st.integers(1, 200))
def test_single_equal_value_has_intersection_1(value: float, bins: int) -> None:
    assert histogram_intersection([value], [value, value], bins=bins) == 1.0


@given(one=FLOATS, other=FLOATS, bins=st.integers(1, 100))
def test_intersection_is_symmetric_and_a_share(one: list[float], other: list[float], bins: int) -> None:
    share = histogram_intersection(one, other, bins=bins)
    assert 0 <= share <= 1
    assert share == histogram_intersection(other, one, bins=bins)


@given(one=WHOLE, other=WHOLE, halvings=st.integers(1, 6))
def test_wider_bins_never_lower_the_intersection(one: list[int], other: list[int], halvings: int) -> None:
    # Powers of two, so that the wide bins are unions of the narrow ones to the last digit.
    limits = (-1024.0, 1024.0)
    narrow = histogram_intersection(one, other, bins=8 * 2**halvings, range=limits)
    assert histogram_intersection(one, other, bins=8, range=limits) >= narrow


@given(one=WHOLE, other=WHOLE, bins=st.integers(1, 100))
def test_intersection_is_that_of_numpys_densities(one: list[int], other: list[int], bins: int) -> None:
    limits = (-1001.5, 1000.25)
    edges = np.histogram_bin_edges([], bins=bins, range=limits)
    densities = [np.histogram(values, bins=edges, density=True)[0] for values in (one, other)]
    known = float(np.sum(np.minimum(*densities) * np.diff(edges)))
    assert histogram_intersection(one, other, bins=bins, range=limits) == pytest.approx(known, abs=1e-12)


def test_one_value_far_outside_makes_the_bins_wide_unless_the_range_is_given() -> None:
    original = np.arange(100.0)
    published = np.append(np.full(99, 50.0), 1e6)
    assert histogram_intersection(original, published) == 0.99
    assert histogram_intersection(original, published, range=(0, 99)) == 0.01


def test_values_outside_the_range_count_as_different() -> None:
    assert histogram_intersection([0, 1, 9], [0, 1, 9], bins=2, range=(0, 2)) == 2 / 3
    assert histogram_intersection([5], [5], range=(0, 1)) == 0.0


def test_numbers_that_differ_in_the_last_digit_only_still_have_bins() -> None:
    above = math.nextafter(1.0, 2.0)
    assert histogram_intersection([1.0, above], [above, above]) == 0.5


def test_range_beyond_a_float64_is_refused() -> None:
    with pytest.raises(InputError, match="too far apart"):
        histogram_intersection([-1.7e308], [1.7e308])


@pytest.mark.parametrize("limits", [(1, 1), (2, 1), (0, math.inf), (math.nan, 1), (-1.7e308, 1.7e308), ("0", 1)])
def test_range_is_two_finite_numbers_in_order(limits: Any) -> None:
    with pytest.raises(PolicyError, match="range must be two finite numbers"):
        histogram_intersection([1], [1], range=limits)


@pytest.mark.parametrize("bins", [0, -1, 2.5, True])
def test_bins_are_a_whole_number_above_0(bins: Any) -> None:
    with pytest.raises(PolicyError, match="bins must be a whole number"):
        histogram_intersection([1], [1], bins=bins)


# Pairs by rank


def test_pairs_are_made_within_windows() -> None:
    original, published = paired_by_rank([9, 1, 5, 2, 8, 3, 4], [1.5, 9.5, 5.5, 2.5, 8.5, 3.5, 4.5], window=3)
    assert original.tolist() == [1, 5, 9, 2, 3, 8, 4]
    assert published.tolist() == [1.5, 5.5, 9.5, 2.5, 3.5, 8.5, 4.5]


def test_shorter_last_window_may_be_missing_and_only_that() -> None:
    original, published = paired_by_rank([9, 1, 5, 2, 8], [1.5, 9.5, 5.5, 2.5], window=2)
    assert original.tolist() == [1, 9, 2, 5]
    assert published.tolist() == [1.5, 9.5, 2.5, 5.5]
    with pytest.raises(InputError, match="must have 5 values, or 4 without a last window"):
        paired_by_rank([9, 1, 5, 2, 8], [1.5, 9.5], window=2)
    with pytest.raises(InputError, match="must have 4 values, or 4 without"):
        paired_by_rank([9, 1, 5, 2], [1.5, 9.5], window=2)
    with pytest.raises(InputError, match="got 3"):
        paired_by_rank([9, 1], [1, 2, 3], window=2)


def test_window_beyond_the_data_pairs_all_of_it_by_rank() -> None:
    original, published = paired_by_rank([3, 1, 2], [10, 30, 20], window=99)
    assert (original.tolist(), published.tolist()) == ([1, 2, 3], [10, 20, 30])


@given(values=WHOLE, window=st.integers(1, 70), draw=st.randoms(use_true_random=False))
def test_windows_shuffled_within_themselves_have_no_error(values: list[int], window: int, draw: Any) -> None:
    shuffled = []
    for start in range(0, len(values), window):
        part = values[start : start + window]
        draw.shuffle(part)
        shuffled += part
    assert mean_squared_error(*paired_by_rank(values, shuffled, window=window)) == 0.0


@given(pairs=st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), min_size=1, max_size=6))
def test_no_other_pairing_has_a_smaller_error(pairs: list[tuple[int, int]]) -> None:
    original, published = [one for one, _ in pairs], [other for _, other in pairs]
    least = min(mean_squared_error(original, order) for order in itertools.permutations(published))
    assert mean_squared_error(*paired_by_rank(original, published, window=len(pairs))) == least


@pytest.mark.parametrize("window", [0, -5, 1.0])
def test_window_is_a_whole_number_above_0(window: Any) -> None:
    with pytest.raises(PolicyError, match="window must be a whole number"):
        paired_by_rank([1], [1], window=window)


# Refused input

MEASURES: list[Callable[[Any, Any], object]] = [
    mean_squared_error,
    histogram_intersection,
    lambda original, published: paired_by_rank(original, published, window=2),
]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "must hold at least one value"),
        ([1.0, math.nan], "must hold finite numbers only, got 1 that"),
        ([1.0, math.inf], "must hold finite numbers only, got 1 that"),
        ([None, None], "must hold finite numbers only, got 2 that"),
        ([[1.0, 2.0]], "must have one dimension, got 2"),
        (7.0, "must have one dimension, got 0"),
        (["a secret", "b"], "must hold numbers only"),
        ([10**400, 1], "must hold numbers only"),
    ],
)
def test_input_other_than_finite_numbers_is_refused(
    measure: Callable[[Any, Any], object], values: Any, message: str
) -> None:
    for name, pair in (("original", (values, [1.0, 2.0])), ("published", ([1.0, 2.0], values))):
        with pytest.raises(InputError, match=f"^{name} {message}") as raised:
            measure(*pair)
        assert "secret" not in str(raised.value)
        assert raised.value.__cause__ is None
        assert raised.value.__suppress_context__ or raised.value.__context__ is None


@pytest.mark.parametrize("make", [list, np.array, pa.array, lambda values: pa.chunked_array([values[:1], values[1:]])])
def test_numbers_may_come_as_lists_and_arrays(make: Callable[[list[int]], Any]) -> None:
    assert finite_numbers("values", make([1, 2, 3])).tolist() == [1.0, 2.0, 3.0]


AGE = Numeric("age", lower=0, upper=100)
SCHEMA = Schema(person=None, quasi_identifiers=[AGE, Categorical("job", hierarchy=Hierarchy.flat(["a"]))])
ORIGINAL = pa.table({"age": [10, 20, None, 40], "job": ["a"] * 4})


def test_error_is_that_of_the_middles() -> None:
    # Middles: 15 for 10, 25 for 20, 50 for an unknown row; row 3 was not published, and the last row is a stray.
    published = pa.table({"age_min": [10, 20, 0, 0], "age_max": [20, 30, 100, 0], "job": ["a"] * 4})
    (error,) = numeric_errors(published, ORIGINAL, SCHEMA, row=np.array([0, 1, 2, -1]))
    assert error.name == "age"
    assert error.mean_squared_error == 25
    assert error.root_share == pytest.approx(5 / 100)


def test_histograms_need_no_link() -> None:
    # The middles 10 and 20 occur among 10, 20 and 40; 15 and 90 do not: 2 of 3 against 2 of 4.
    published = pa.table({"age_min": [10, 20, 10, 90], "age_max": [10, 20, 20, 90], "job": ["a"] * 4})
    (error,) = numeric_errors(published, ORIGINAL, SCHEMA)
    assert error.histogram == pytest.approx(0.5)
    assert math.isnan(error.mean_squared_error)
    assert math.isnan(error.root_share)


def test_bins_reach_over_the_domain() -> None:
    # 10 and the middle 10.5 are in one of 100 bins over 0 to 100; between the two they would be in different ones.
    published = pa.table({"age_min": [10], "age_max": [11], "job": ["a"]})
    original = pa.table({"age": [10], "job": ["a"]})
    assert numeric_errors(published, original, SCHEMA)[0].histogram == 1


def test_published_number_is_used_as_is() -> None:
    assert middles(pa.table({"age": [12.5, 99.0]}), AGE).tolist() == [12.5, 99.0]
    assert middles(pa.table({"age": ["[10, 20]", "[0, 100]"]}), AGE).tolist() == [15, 50]
    with pytest.raises(InputError, match="neither ranges nor numbers"):
        middles(pa.table({"age": ["young"]}), AGE)


def test_date_is_counted_in_days() -> None:
    day = Numeric("day", lower=dt.date(2026, 1, 1), upper=dt.date(2026, 1, 11))
    schema = Schema(person=None, quasi_identifiers=[day])
    original = pa.table({"day": [dt.date(2026, 1, 2)]})
    published = pa.table({"day_min": [dt.date(2026, 1, 2)], "day_max": [dt.date(2026, 1, 6)]})
    (error,) = numeric_errors(published, original, schema, row=np.array([0]))
    assert error.mean_squared_error == 4
    assert error.root_share == pytest.approx(0.2)


def test_figures_are_nan_without_values_to_compare() -> None:
    empty = pa.table({"age_min": [1], "age_max": [1], "job": ["a"]}).slice(0, 0)
    (error,) = numeric_errors(empty, ORIGINAL, SCHEMA, row=np.zeros(0, dtype=np.int64))
    assert math.isnan(error.mean_squared_error)
    assert math.isnan(error.histogram)


def test_error_is_that_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="compared with scikit-learn, the extra `learn`")
    random = np.random.default_rng(2)
    ages, low, width = random.random(50) * 100, random.random(50) * 50, random.random(50) * 50
    schema = Schema(person=None, quasi_identifiers=[AGE])
    published = pa.table({"age_min": low, "age_max": low + width})
    (error,) = numeric_errors(published, pa.table({"age": ages}), schema, row=np.arange(50))
    assert error.mean_squared_error == pytest.approx(metrics.mean_squared_error(ages, low + width / 2))
