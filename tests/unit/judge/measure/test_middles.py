"""The middle of a range as a stand-in for the number: errors worked out by hand, and by scikit-learn."""

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest

from castleguard.errors import InputError
from castleguard.judge.measure.middles import middles, numeric_errors
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema

AGE = Numeric("age", lower=0, upper=100)
SCHEMA = Schema(person=None, quasi_identifiers=[AGE, Categorical("job", hierarchy=Hierarchy.flat(["a"]))])
ORIGINAL = pa.table({"age": [10, 20, None, 40], "job": ["a"] * 4})


def test_the_error_is_that_of_the_middles() -> None:
    # Middles: 15 for 10, 25 for 20, 50 for nobody knows what; row 3 was not published, and the last row is a stray.
    published = pa.table({"age_min": [10, 20, 0, 0], "age_max": [20, 30, 100, 0], "job": ["a"] * 4})
    (error,) = numeric_errors(published, ORIGINAL, SCHEMA, row=np.array([0, 1, 2, -1]))
    assert error.name == "age"
    assert error.mean_squared_error == 25
    assert error.root_share == pytest.approx(5 / 100)


def test_histograms_need_no_link() -> None:
    # Of 10, 20 and 40, the middles 10 and 20 are found again; 15 and 90 are not: 2 of 3 against 2 of 4.
    published = pa.table({"age_min": [10, 20, 10, 90], "age_max": [10, 20, 20, 90], "job": ["a"] * 4})
    (error,) = numeric_errors(published, ORIGINAL, SCHEMA)
    assert error.histogram == pytest.approx(0.5)
    assert math.isnan(error.mean_squared_error)
    assert math.isnan(error.root_share)


def test_the_bins_reach_over_the_domain() -> None:
    # 10 and the middle 10.5 are in one of 100 bins over 0 to 100; between the two they would be in different ones.
    published = pa.table({"age_min": [10], "age_max": [11], "job": ["a"]})
    original = pa.table({"age": [10], "job": ["a"]})
    assert numeric_errors(published, original, SCHEMA)[0].histogram == 1


def test_a_number_that_was_published_is_taken_as_it_is() -> None:
    assert middles(pa.table({"age": [12.5, 99.0]}), AGE).tolist() == [12.5, 99.0]
    assert middles(pa.table({"age": ["[10, 20]", "[0, 100]"]}), AGE).tolist() == [15, 50]
    with pytest.raises(InputError, match="neither ranges nor numbers"):
        middles(pa.table({"age": ["young"]}), AGE)


def test_a_date_is_counted_in_days() -> None:
    day = Numeric("day", lower=dt.date(2026, 1, 1), upper=dt.date(2026, 1, 11))
    schema = Schema(person=None, quasi_identifiers=[day])
    original = pa.table({"day": [dt.date(2026, 1, 2)]})
    published = pa.table({"day_min": [dt.date(2026, 1, 2)], "day_max": [dt.date(2026, 1, 6)]})
    (error,) = numeric_errors(published, original, schema, row=np.array([0]))
    assert error.mean_squared_error == 4
    assert error.root_share == pytest.approx(0.2)


def test_nothing_to_compare_is_no_figure() -> None:
    empty = pa.table({"age_min": [1], "age_max": [1], "job": ["a"]}).slice(0, 0)
    (error,) = numeric_errors(empty, ORIGINAL, SCHEMA, row=np.zeros(0, dtype=np.int64))
    assert math.isnan(error.mean_squared_error)
    assert math.isnan(error.histogram)


def test_the_error_is_that_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="compared with scikit-learn, the extra `learn`")
    random = np.random.default_rng(2)
    ages, low, width = random.random(50) * 100, random.random(50) * 50, random.random(50) * 50
    schema = Schema(person=None, quasi_identifiers=[AGE])
    published = pa.table({"age_min": low, "age_max": low + width})
    (error,) = numeric_errors(published, pa.table({"age": ages}), schema, row=np.arange(50))
    assert error.mean_squared_error == pytest.approx(metrics.mean_squared_error(ages, low + width / 2))
