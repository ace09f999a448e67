"""Parameters that the DOCA policy refuses, and its statement."""

from typing import Any

import numpy as np
import pytest

import castleguard as cg
from castleguard.errors import PolicyError, SchemaError

NUMBER = cg.Numeric("x", lower=0, upper=100, step=1)
LABEL = cg.Categorical("job", hierarchy=cg.Hierarchy.flat(["cook", "clerk"]))
ONE = cg.Schema(person=None, quasi_identifiers=[NUMBER])
TWO = cg.Schema(person="pid", quasi_identifiers=[NUMBER, cg.Numeric("y", lower=0, upper=2)])
MIXED = cg.Schema(person="pid", quasi_identifiers=[NUMBER, LABEL], sensitive=[cg.Sensitive("s", values=["a", "b"])])


def strict(**changed: Any) -> cg.Doca:
    return cg.Doca(**{"epsilon": 1.0, "k": 10, "delay": 1000, **changed})


def paper(**changed: Any) -> cg.Doca:
    return cg.Doca(**{"epsilon": 1.0, "delay": 1000, "mode": "paper", **changed})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"epsilon": 0}, "epsilon must be a number above 0, got 0"),
        ({"epsilon": -1.0}, "epsilon must be a number above 0"),
        ({"epsilon": float("inf")}, "epsilon must be a number above 0"),
        ({"epsilon": "1"}, "epsilon must be a number above 0"),
        ({"delay": 0}, "delay must be a whole number of at least 1"),
        ({"delay": 2**31}, "every pending row is kept in memory"),
        ({"delay": 9}, "delay must be at least k, got delay=9 and k=10"),
        ({"k": None}, "strict DOCA needs k"),
        ({"k": 0}, "k must be a whole number of at least 1"),
        ({"k": 2.5}, "k must be a whole number"),
        ({"max_wait": 0}, "max_wait must be a number of seconds above 0"),
        ({"rows_per_person": 0}, "rows_per_person must be a whole number of at least 1"),
        ({"weights": {"x": 0}}, "the weight of 'x' must be above 0"),
        ({"mode": "loose"}, "mode must be 'strict' or 'paper'"),
        ({"max_clusters": 10}, "max_clusters belongs to mode='paper'"),
        ({"loss_window": 10}, "loss_window belongs to mode='paper'"),
        ({"sensitivity": 10.0}, "sensitivity belongs to mode='paper'"),
        ({"admission": "le"}, "admission belongs to mode='paper'"),
    ],
)
def test_bad_strict_parameters_are_refused_in_one_sentence(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        strict(**changed)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("epsilon", 0, "epsilon must be a number above 0, got 0"),
        ("admission", "eq", "admission must be 'lt' or 'le'"),
        ("k", 5, "k belongs to strict mode"),
        ("max_clusters", 0, "max_clusters must be a whole number of at least 1"),
        ("loss_window", 0, "loss_window must be a whole number of at least 1"),
        ("sensitivity", 0, "with 0 the true means would be published"),
        ("sensitivity", -3.0, "sensitivity must be a number above 0, got -3.0"),
        ("sensitivity", float("nan"), "sensitivity must be a number above 0"),
        ("sensitivity", {"x": 0.0}, "the sensitivity of 'x' must be a finite number above 0"),
    ],
)
def test_bad_paper_parameters_are_refused_in_one_sentence(name: str, value: object, said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        paper(**{name: value})


def test_numpy_numbers_are_accepted() -> None:
    assert strict(epsilon=np.float64(0.5), k=np.int64(3)) == strict(epsilon=0.5, k=3)


@pytest.mark.parametrize(
    ("policy", "schema", "said"),
    [
        (strict(), cg.Schema(person=None, quasi_identifiers=[cg.Numeric("x")]), "'x' needs lower and upper"),
        (strict(), cg.Schema(person=None, quasi_identifiers=[NUMBER], sensitive=["s"]), "'s' needs declared values"),
        (
            strict(),
            cg.Schema(person=None, quasi_identifiers=[NUMBER], public=["t"]),
            "cannot publish t unchanged",
        ),
        (paper(), cg.Schema(person=None, quasi_identifiers=[LABEL]), "needs a numeric quasi-identifier"),
        (paper(), cg.Schema(person=None, quasi_identifiers=[cg.Numeric("x")]), "lower and upper, or the sensitivity"),
        (paper(sensitivity=3.0), TWO, "the schema has 2 numeric columns: give {'x': ..., 'y': ...}"),
        (paper(sensitivity={"z": 3.0}), ONE, "names 'z', which is not a numeric column"),
        (
            paper(),
            cg.Schema(person=None, quasi_identifiers=[cg.Numeric("x", lower=0, upper=1, null="root")]),
            "cannot publish a row at the root",
        ),
        (paper(), cg.Schema(person=None, quasi_identifiers=[NUMBER], sensitive=["s"]), "'s' needs declared values"),
    ],
)
def test_a_schema_that_cannot_be_published_is_refused(policy: cg.Doca, schema: cg.Schema, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        cg.Anonymiser(schema, policy)


@pytest.mark.parametrize("policy", [strict(rows_per_person=2), paper(rows_per_person=2)])
def test_a_bound_on_a_persons_rows_needs_persons(policy: cg.Doca) -> None:
    with pytest.raises(PolicyError, match="rows_per_person needs a person column"):
        cg.Anonymiser(ONE, policy)


def test_weights_must_name_columns() -> None:
    with pytest.raises(PolicyError, match="weights names an unknown column 'z'"):
        cg.Anonymiser(ONE, strict(weights={"z": 1}))
    shares = strict(epsilon=0.7, weights={"s": 5}).shares(MIXED)
    assert list(shares) == ["x", "job", "s"]
    assert sum(shares.values()) == strict(epsilon=0.7).shares(ONE)["x"]
    assert shares["s"] == 5 * shares["x"]


def test_the_sensitivity_is_given_or_one_and_a_half_ranges() -> None:
    assert paper().sensitivities(TWO) == {"x": 150.0, "y": 3.0}
    assert paper(sensitivity={"y": 7}).sensitivities(TWO) == {"x": 150.0, "y": 7.0}
    assert paper(sensitivity=2).sensitivities(MIXED) == {"x": 2.0}


def test_strict_states_its_complete_claim() -> None:
    claim = strict().guarantee(ONE, seeded=False).privacy
    assert claim is not None
    assert (claim.epsilon, claim.dp_delta, claim.unit, claim.void) == (1.0, 0.0, "one row", False)
    assert claim.neighbours == "its values replaced by any others"
    assert claim.covered == ("x",)
    assert "that a row is there" in claim.uncovered[0]
    by_person = strict(rows_per_person=3).guarantee(MIXED, seeded=True)
    assert by_person.privacy is not None
    assert by_person.privacy.unit == "all rows of one person in one window"
    assert by_person.privacy.void
    assert "SEEDED" in str(by_person)
    assert "w times epsilon" in str(by_person)
    assert "n times this epsilon" in str(strict().guarantee(TWO, seeded=False))
    assert "by chance" in str(by_person)


def test_paper_mode_claims_no_differential_privacy() -> None:
    stated = paper().guarantee(ONE, seeded=False)
    assert stated.privacy is None
    assert "NO differential privacy" in str(stated)
    assert "depends on all values, and is visible" in str(stated)
    assert stated.k is None


def test_policies_that_differ_have_different_fingerprints() -> None:
    policies = [strict(), strict(k=5), strict(epsilon=2.0), strict(weights={"x": 2}), paper(), paper(admission="le")]
    prints = [policy.fingerprint() for policy in policies]
    assert all(one != other for at, one in enumerate(prints) for other in prints[:at])
    assert all(facts["algorithm"] == "doca" for facts in prints)
