"""Parameters that the SDGS policy refuses, and its statement."""

import json
from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pytest

from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.errors import PolicyError, SchemaError
from castleguard.privacy import sdgs_delta
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.sensitive import Sensitive

POLICY = Sdgs(k=10, sample_rate=0.25, epsilon=1, window=60)
AGE = Numeric("age", lower=0, upper=100)
JOB = Sensitive("job", values=["cook", "clerk"])
SCHEMA = Schema(person="id", quasi_identifiers=[AGE], sensitive=[JOB])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 1}, "k must be a whole number of at least 2, got 1"),
        ({"l": 11}, "l must not be above k, got l=11 and k=10"),
        ({"sample_rate": 1}, "sample_rate must be a number above 0 and below 1, got 1 (sample_rate 1 keeps every row"),
        ({"sample_rate": 0}, "sample_rate must be a number above 0 and below 1, got 0"),
        ({"epsilon": 0.28}, "epsilon must be at least -ln(1 - sample_rate) = 0.287683 for sample_rate 0.25, got 0.28"),
        ({"epsilon": float("nan")}, "epsilon must be a number of at least 0, got nan"),
        ({"window": 0}, "window must be a number above 0, got 0"),
        ({"window": float("inf")}, "window must be a number above 0, got inf"),
        ({"window": 2.5, "window_unit": "rows"}, "window must be a whole number of at least 1"),
        ({"window": 9, "window_unit": "rows"}, "window must be at least k, got window=9 rows and k=10"),
        ({"window_unit": "minutes"}, "window_unit must be 'seconds' or 'rows', got 'minutes'"),
        ({"unit": "household"}, "unit must be 'person' or 'row', got 'household'"),
        ({"adapt": "often"}, "adapt must be True or False, got 'often'"),
        ({"max_cells": 0}, "max_cells must be a whole number of at least 1"),
        ({"start_cells": 0}, "start_cells must be a whole number of at least 1"),
        ({"start_cells": 9, "max_cells": 8}, "start_cells must not be above max_cells, got start_cells=9"),
        ({"survival": 0}, "survival must be a number above 0 and at most 1, got 0"),
    ],
)
def test_impossible_parameters_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError) as refused:
        replace(POLICY, **change)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"public": ["clinic"]}, "SDGS cannot publish clinic unchanged"),
        ({"sensitive": ["job"]}, "column 'job': SDGS needs its public values"),
        ({"quasi_identifiers": [Numeric("age")]}, "column 'age': SDGS needs lower and upper"),
    ],
)
def test_a_schema_that_would_break_the_claim_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError) as refused:
        POLICY.guarantee(Schema(**{"person": "id", "quasi_identifiers": [AGE], **schema}), seeded=False)
    assert str(refused.value).startswith(message)


def test_diversity_needs_a_sensitive_column() -> None:
    with pytest.raises(PolicyError, match="l=2 needs at least one sensitive column"):
        replace(POLICY, l=2).check(Schema(person="id", quasi_identifiers=[AGE]))


def test_the_least_epsilon_is_accepted() -> None:
    assert replace(POLICY, epsilon=-log(0.75)).epsilon == -log(0.75)


def test_a_window_of_time_claims_presence_of_a_person_and_theorem_2s_delta() -> None:
    guarantee = POLICY.guarantee(SCHEMA, seeded=False)
    claim = guarantee.privacy
    assert claim is not None
    assert (claim.epsilon, claim.dp_delta) == (1, sdgs_delta(k=10, sample_rate=0.25, epsilon=1))
    assert claim.unit == "all rows of one person in one window"
    assert claim.neighbours == "with and without them"
    assert claim.horizon == "the whole stream"
    assert claim.covered == ("age", "job")
    assert not claim.void
    assert (guarantee.k, guarantee.max_wait, guarantee.delay) == (10, 60, None)
    assert "at least 9 other rows of its window, each of another person" in guarantee.promise
    assert "castleguard budget --windows" in guarantee.sentence
    assert "must come from an external clock" in guarantee.sentence
    assert "A job delivers a window 6 s after its end, and never before" in guarantee.sentence
    assert "Reports, logs, metrics and dead letters" in guarantee.sentence


def test_a_window_of_rows_claims_values_only_at_twice_the_epsilon() -> None:
    policy = replace(POLICY, window=50, window_unit="rows")
    guarantee = policy.guarantee(SCHEMA, seeded=False)
    claim = guarantee.privacy
    assert claim is not None
    assert claim.epsilon == 2
    assert claim.dp_delta == pytest.approx((1 + np.e) * policy.dp_delta)
    assert claim.neighbours == "their values replaced by any others that the schema accepts"
    assert (policy.max_wait, guarantee.delay) == (None, 49)
    assert "That a row arrived, and when, is not hidden." in guarantee.limits
    assert "A job delivers a window" not in guarantee.sentence
    assert POLICY.presence is not None
    assert policy.presence is None


@pytest.mark.parametrize(("window", "lag"), [(60, 6), (1, 0.1), (7 * 86_400, 10)])
def test_the_lag_depends_on_the_window_alone(window: float, lag: float) -> None:
    presence = replace(POLICY, window=window).presence
    assert presence is not None
    assert presence.lag == lag


@pytest.mark.parametrize("window", [60, 0.1, 0.3, 7, 1 / 3, 86_400])
@pytest.mark.parametrize("now", [0.0, 0.25, 1e9, 1_763_424_000.7, -5.5])
def test_an_edge_is_the_first_moment_of_the_next_window(window: float, now: float) -> None:
    policy = replace(POLICY, window=window)
    assert policy.presence is not None
    edge = policy.presence.edge_after(now)
    assert edge > now
    assert policy.window_at(edge, 0) == policy.window_at(now, 0) + 1
    assert policy.window_at(max(now, edge - 1e-6), 0) == policy.window_at(now, 0)  # up to rounding


@pytest.mark.parametrize(("person", "unit", "told"), [("id", "row", False), (None, "person", True)])
def test_rows_are_the_unit_if_requested_or_if_persons_are_unknown(person: str | None, unit: Any, told: bool) -> None:
    schema = Schema(person=person, quasi_identifiers=[AGE])
    policy = replace(POLICY, unit=unit)
    guarantee = policy.guarantee(schema, seeded=False)
    assert policy.unit_for(schema) == "row"
    assert guarantee.privacy is not None
    assert (guarantee.privacy.unit, guarantee.privacy.neighbours) == ("one row", "with and without it")
    assert "another person" not in guarantee.promise
    assert any("k counts rows, not persons" in limit for limit in guarantee.limits)
    assert told == any("no person column" in limit for limit in guarantee.limits)


def test_a_seed_voids_the_claim() -> None:
    guarantee = POLICY.guarantee(SCHEMA, seeded=True)
    assert guarantee.privacy is not None
    assert guarantee.privacy.void
    assert "SEEDED" in guarantee.sentence


def test_diversity_is_promised_per_box() -> None:
    assert "at least 2 distinct values of job" in replace(POLICY, l=2).guarantee(SCHEMA, seeded=False).promise


def test_windows_are_aligned_to_multiples_of_their_length() -> None:
    assert [POLICY.window_at(now, 7) for now in (-0.5, 0.0, 59.9, 60.0)] == [-1, 0, 0, 1]
    policy = replace(POLICY, window=50, window_unit="rows")
    assert [policy.window_at(-np.inf, position) for position in (0, 49, 50)] == [0, 0, 1]


def test_a_fingerprint_is_json_and_distinguishes_policies() -> None:
    other = replace(POLICY, survival=0.5)
    assert json.loads(json.dumps(POLICY.fingerprint())) == POLICY.fingerprint() != other.fingerprint()
    assert POLICY.fingerprint()["algorithm"] == "sdgs"


def test_numpy_scalars_become_plain_numbers() -> None:
    given: dict[str, Any] = {"k": np.int64(10), "sample_rate": np.float64(0.25), "epsilon": 1, "window": np.int32(60)}
    assert json.dumps(Sdgs(**given).fingerprint()) == json.dumps(POLICY.fingerprint())
