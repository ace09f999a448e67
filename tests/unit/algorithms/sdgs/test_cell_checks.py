"""Criteria of SDGS on released values, in engine and gate."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.algorithms.sdgs.cell_checks import CloseCells, checks_of
from castleguard.errors import PolicyError
from castleguard.privacy.criteria import Criteria

SCHEMA = cg.Schema(
    person=None,
    quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=25)],
    sensitive=[cg.Sensitive("job", values=["a", "b", "c"])],
)
COUNTS = np.array([[10, 10, 0, 0], [18, 2, 0, 0], [20, 0, 0, 0]])


@pytest.mark.parametrize(
    ("criteria", "passed"),
    [
        (Criteria(k=2), [True, True, True]),
        (Criteria(k=2, l=2), [True, True, False]),
        (Criteria(k=2, l=2, diversity="entropy"), [True, False, False]),
        (Criteria(k=2, l=2, diversity="recursive", c=2.0), [True, False, False]),
        (Criteria(k=2, l=2, diversity="recursive", c=10.0), [True, True, False]),
    ],
)
def test_a_box_passes_by_its_own_counts(criteria: Criteria, passed: list[bool]) -> None:
    found = np.ones(3, dtype=np.bool_)
    for check in checks_of(criteria):
        found &= check(0, COUNTS)
    assert found.tolist() == passed


def test_closeness_is_judged_against_released_rows() -> None:
    close = CloseCells(SCHEMA, cg.Closeness(t=0.2, burn_in=0, alpha=1e-9))
    close.count(0, np.array([50, 50, 0, 0]))
    assert close(0, COUNTS).tolist() == [True, False, False]
    close.count(0, np.array([1000, 0, 0, 0]))
    assert close(0, COUNTS).tolist() == [False, True, True]


def test_no_box_is_close_before_the_burn_in() -> None:
    close = CloseCells(SCHEMA, cg.Closeness(t=1.0, burn_in=50))
    close.count(0, np.array([49, 0, 0, 0]))
    assert not close(0, COUNTS).any()
    close.count(0, np.array([1, 0, 0, 0]))
    assert close(0, COUNTS).all()


def test_a_public_reference_is_used_as_given() -> None:
    public = {"job": {"a": 0.9, "b": 0.1}}
    close = CloseCells(SCHEMA, cg.Closeness(t=0.05, reference="public", public=public))
    close.count(0, np.array([0, 1000, 0, 0]))
    assert close(0, COUNTS).tolist() == [False, True, False]


def test_a_reference_computed_from_unreleased_rows_is_refused() -> None:
    with pytest.raises(PolicyError, match="reference must be 'cumulative' or 'public', got 'window'"):
        cg.Sdgs(k=2, sample_rate=0.5, epsilon=1, window=10, closeness=cg.Closeness(t=0.1, reference="window", window=5))


@pytest.mark.compiled  # thousands of coins, sixteen at a time
@pytest.mark.parametrize(
    "asked",
    [
        {"l": 2, "diversity": "entropy"},
        {"l": 2, "diversity": "recursive", "c": 1.5},
        {"closeness": cg.Closeness(t=0.15, burn_in=100)},
        {"closeness": cg.Closeness(t=0.15, reference="public", public={"job": {"a": 0.4, "b": 0.3, "c": 0.3}})},
    ],
)
def test_boxes_whose_values_fail_the_criteria_are_not_published(asked: dict[str, Any]) -> None:
    """Old people have job a, young people any job; the snapshot in the middle has no effect."""
    draw = np.random.default_rng(1)
    ages = np.where(draw.random(6000) < 0.15, draw.integers(50, 101, 6000), draw.integers(0, 50, 6000))
    jobs = np.where(ages >= 50, "a", draw.choice(["a", "b", "c"], 6000))
    table = pa.table({"age": ages, "job": jobs})
    policy = cg.Sdgs(
        k=10, sample_rate=0.5, epsilon=1.0, window=1000, window_unit="rows", start_cells=4, adapt=False, **asked
    )
    stream, out = cg.Anonymiser(SCHEMA, policy, seed=1), []
    for at in range(0, 6000, 500):
        out.append(stream.push(table.slice(at, 500)))
        if at == 2500:
            stream = cg.Anonymiser.restore(SCHEMA, policy, stream.snapshot())
    published = pa.concat_tables(out)
    assert published.num_rows > 1000
    assert max(published["age_min"].to_pylist()) < 50
    assert stream.report().gate_refused == 0
    whole = cg.Anonymiser(SCHEMA, policy, seed=1).push(table)
    assert whole == published
