"""Taxi rides: the authors' rows, those of January, and samples like the authors'."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from castleguard.lab import datasets, taxi
from castleguard.schema.roles import Numeric

JANUARY = b"""\
vendor_id,pickup_datetime,trip_distance,pickup_location_id,fare_amount
1,2019-01-25 18:20:32,0.8,112,6.0
1,2019-01-15 03:36:12,1.0,230,6.5
"""


def test_rides_of_january_are_in_order_of_time_with_the_authors_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taxi, "read", {datasets.TAXI.files[1]: JANUARY}.__getitem__)
    rides = taxi.january()
    assert rides.to_pylist() == [
        {"PickupLocationID": 230, "TripDistance": 1.0, "FareAmount": 6.5, "pid": 0},
        {"PickupLocationID": 112, "TripDistance": 0.8, "FareAmount": 6.0, "pid": 1},
    ]


def test_a_sample_has_a_thousand_rides_of_a_hundred_persons_in_order() -> None:
    rides = pa.table({"PickupLocationID": np.arange(3000), "pid": np.arange(3000)})
    first, again, other = (taxi.sample(rides, seed) for seed in (0, 0, 1))
    assert first.equals(again)
    assert not first.equals(other)
    places = first["PickupLocationID"].to_numpy()
    assert places.size == 1000
    assert np.all(np.diff(places) > 0)  # no ride twice
    assert set(first["pid"].to_pylist()) == set(range(100))


def test_strict_mode_leaves_the_fare_out() -> None:
    rides = pa.table({"PickupLocationID": [5, 9], "TripDistance": [0.5, 2.5], "FareAmount": [1.0, 2.0], "pid": [0, 1]})
    paper, strict = taxi.schema(rides), taxi.schema(rides, strict=True)
    assert [role.name for role in paper.sensitive] == ["FareAmount"]
    assert strict.sensitive == ()
    where, far = paper.quasi_identifiers
    assert isinstance(where, Numeric)
    assert where.domain == (5, 9)
    assert isinstance(far, Numeric)
    assert far.domain == (0.5, 2.5)


def test_the_real_files_have_their_rows(data_folder: Path) -> None:
    authors, january = taxi.authors(), taxi.january()
    assert authors.num_rows == 1_000
    assert len(authors["pid"].unique()) == taxi.PERSONS
    assert january.num_rows == 10_000
    assert taxi.sample(january, 0).num_rows == taxi.SAMPLE
