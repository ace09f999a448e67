"""Features of published points, computed by hand."""

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.judge.attack.features import PointObserver

SCHEMA = cg.Schema(
    person=None,
    quasi_identifiers=[
        cg.Numeric("age", lower=0, upper=100),
        cg.Categorical("job", hierarchy=cg.Hierarchy.flat(["cook", "nurse"])),
    ],
    sensitive=[cg.Sensitive("illness", values=["flu", "rare"])],
)
LOOK = PointObserver(
    SCHEMA, [{"age": 90, "job": "cook", "illness": "rare"}, {"age": 10, "job": "nurse", "illness": "flu"}]
)


def published(ages: list[float], job: str = "nurse", illness: str = "flu") -> pa.Table:
    return pa.table(
        {
            "age": pa.array(ages, pa.float64()),
            "job": pa.array([job] * len(ages), pa.string()),
            "illness": pa.array([illness] * len(ages), pa.string()),
        }
    )


def test_features_describe_all_points() -> None:
    found = LOOK([published([20, 20, 50]), published([70])])
    assert (found["rows"], found["rows of release 0"], found["rows of release 1"]) == (4, 3, 1)
    assert found["mean age"] == pytest.approx(40)
    assert (found["lowest age"], found["highest age"], found["different age"]) == (20, 70, 3)
    assert (found["rows of the rarest age"], found["rows of the most frequent age"]) == (1, 2)


def test_features_describe_points_near_known_rows() -> None:
    found = LOOK([published([20, 20, 50]), published([85], "cook", "rare")])
    assert (found["distance of the nearest age (0)"], found["distance of the nearest age (1)"]) == (5, 10)
    assert (found["age near its own (0)"], found["age near its own (1)"]) == (1, 2)  # a tenth of the domain is near
    assert (found["rows with its job (0)"], found["rows with its job (1)"]) == (1, 3)
    assert (found["rows with its illness (0)"], found["rows with its illness (1)"]) == (1, 3)


def test_output_without_points_has_the_same_features() -> None:
    nothing = LOOK([published([]), published([])])
    assert nothing.keys() == LOOK([published([5]), published([])]).keys()
    assert all(np.isfinite(value) for value in nothing.values())
    assert nothing["distance of the nearest age (0)"] == 100
