"""The gate's running distribution compared with its definition, for any batches."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.privacy.closeness import Closeness
from castleguard.release.gate_reference import Reference

SIZES = [3, 5]
KINDS: list[dict[str, Any]] = [
    {"reference": "cumulative"},
    {"reference": "window", "window": 1},
    {"reference": "window", "window": 6},
    {"reference": "decay", "decay": 0.9},
    {"reference": "decay", "decay": 0.001},
]
rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=40)


def by_definition(values: list[int], size: int, closeness: Closeness) -> list[float]:
    """Weights by age, row by row, plus alpha for each value."""
    weights = [closeness.alpha] * size
    for age, value in enumerate(reversed(values)):
        if closeness.window is None or age < closeness.window:
            weights[value] += (closeness.decay or 1.0) ** age
    return [weight / sum(weights) for weight in weights]


@given(rows, st.sampled_from(KINDS), st.floats(0.01, 3), st.lists(st.integers(0, 9), max_size=20))
def test_shares_are_those_of_the_definition(
    arrived: list[tuple[int, int]], kind: dict[str, Any], alpha: float, chunks: list[int]
) -> None:
    closeness = Closeness(t=0.5, alpha=alpha, **kind)
    reference = Reference(closeness, SIZES, [])
    codes, at = np.array(arrived, dtype=np.int64).reshape(-1, 2), 0
    for chunk in [*chunks, len(arrived)]:
        reference.count(codes[at : at + chunk])
        at = min(at + chunk, len(arrived))
        for column, size in enumerate(SIZES):
            expected = by_definition([row[column] for row in arrived[:at]], size, closeness)
            assert reference.shares(column) == pytest.approx(expected, abs=1e-9)
    assert reference.rows == len(arrived)


def test_public_shares_never_change() -> None:
    closeness = Closeness(t=0.5, reference="public", public={"s": {"a": 1.0}}, burn_in=2)
    reference = Reference(closeness, [2], [np.array([1.0, 0.0])])
    assert not reference.is_burnt_in
    reference.count(np.array([[1], [1]]))
    assert reference.is_burnt_in
    assert reference.shares(0).tolist() == [1.0, 0.0]
