"""Arguments of the wrong kind: each is one line that says what is wrong, where and what to do."""

from collections.abc import Callable
from typing import Any, cast

import pytest

import castleguard as cg
from castleguard.errors import CastleguardError
from castleguard.shards.plan import Plan
from castleguard.spark.operator import anonymise as anonymise_frame

any_cg = cast(Any, cg)
NUMBER = cg.Numeric("age", lower=0, upper=100, step=5)
SCHEMA = cg.Schema(person="pid", quasi_identifiers=[NUMBER, cg.Numeric("size", lower=0, upper=9)])
POLICY = cg.Castle(k=2, delay=10)
ROWS = [{"pid": 1, "age": 2, "size": 3}]
BLOB = cg.Anonymiser(SCHEMA, POLICY).snapshot()
EDGE = cg.Randomiser(SCHEMA, epsilon=1.0).snapshot()

SWAPPED: dict[str, tuple[Callable[[], object], str]] = {
    "Anonymiser, swapped": (lambda: any_cg.Anonymiser(POLICY, SCHEMA), "schema must be a Schema, got Castle"),
    "Anonymiser, a class as policy": (
        lambda: any_cg.Anonymiser(SCHEMA, cg.Castle),
        r"got the class Castle \(make one: Castle\(\.\.\.\)\)",
    ),
    "Anonymiser, a class as schema": (lambda: any_cg.Anonymiser(cg.Schema, POLICY), "got the class Schema"),
    "Anonymiser, no policy": (lambda: any_cg.Anonymiser(SCHEMA, None), "policy must be one such as Citadel, Castle"),
    "Anonymiser, a name": (lambda: any_cg.Anonymiser(SCHEMA, "castle"), "policy must be one such as Citadel, Castle"),
    "Anonymiser, a criterion": (lambda: any_cg.Anonymiser(SCHEMA, cg.Closeness(t=0.2)), "got Closeness"),
    "Anonymiser, a dict": (lambda: any_cg.Anonymiser({"person": "pid"}, POLICY), "schema must be a Schema, got dict"),
    "Anonymiser, a seed that is text": (lambda: any_cg.Anonymiser(SCHEMA, POLICY, seed="x"), "seed must be a whole"),
    "Anonymiser, a key that is text": (lambda: any_cg.Anonymiser(SCHEMA, POLICY, key="x" * 32), "a key has 32 bytes"),
    "anonymise, swapped": (lambda: any_cg.anonymise(SCHEMA, ROWS, POLICY), "schema must be a Schema, got list"),
    "anonymise, swapped at the end": (lambda: any_cg.anonymise(ROWS, POLICY, SCHEMA), "got Castle"),
    "anonymise, a class": (lambda: any_cg.anonymise(ROWS, SCHEMA, cg.Sdgs), "got the class Sdgs"),
    "restore, swapped": (lambda: any_cg.Anonymiser.restore(POLICY, SCHEMA, BLOB), "schema must be a Schema"),
    "restore, the snapshot too early": (lambda: any_cg.Anonymiser.restore(SCHEMA, BLOB, POLICY), "got bytes"),
    "restore, no snapshot": (
        lambda: any_cg.Anonymiser.restore(SCHEMA, POLICY, None),
        "a snapshot must be bytes",
    ),
    "restore, a class": (lambda: any_cg.Anonymiser.restore(SCHEMA, cg.Castle, BLOB), "got the class Castle"),
    "push, time as text": (lambda: any_cg.Anonymiser(SCHEMA, POLICY).push(ROWS, now="x"), "now must be a number"),
    "tick, time as text": (lambda: any_cg.Anonymiser(SCHEMA, POLICY).tick("x"), "now must be a number"),
    "Randomiser, a policy": (lambda: any_cg.Randomiser(POLICY, epsilon=1.0), "schema must be a Schema, got Castle"),
    "Randomiser, a class": (lambda: any_cg.Randomiser(cg.Schema, epsilon=1.0), "got the class Schema"),
    "Randomiser, weights as a list": (
        lambda: any_cg.Randomiser(SCHEMA, epsilon=1.0, weights=[1]),
        "weights must be a dict",
    ),
    "Randomiser.restore, swapped": (lambda: any_cg.Randomiser.restore(EDGE, SCHEMA, epsilon=1.0), "bytes"),
    "Castleguard, weights as a list": (
        lambda: any_cg.Castleguard(k=2, delay=10, epsilon=1.0, weights=[1]),
        "weights must be a dict",
    ),
    "Doca, weights as a list": (lambda: any_cg.Doca(epsilon=1.0, k=2, delay=9, weights=[1]), "weights must be a dict"),
    "Castle, a reading as text": (lambda: any_cg.Castle(k=2, delay=10, reading="strict"), "reading must be a Reading"),
    "Hierarchy, a number": (lambda: any_cg.Hierarchy.flat(3), "needs a list of values"),
    "Plan, swapped": (lambda: cast(Any, Plan)(schema=POLICY, policy=SCHEMA, route=None), "schema must be a Schema"),
    "Spark, swapped": (lambda: cast(Any, anonymise_frame)(None, POLICY, SCHEMA), "schema must be a Schema"),
    "Spark, a class": (lambda: cast(Any, anonymise_frame)(None, SCHEMA, cg.Castle), "got the class Castle"),
}


@pytest.mark.parametrize("name", SWAPPED)
def test_a_mistaken_argument_is_one_line(name: str) -> None:
    """Before: KeyError 'algorithm', AttributeError, TypeError."""
    call, found = SWAPPED[name]
    with pytest.raises(CastleguardError, match=found) as raised:
        call()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("number", [1e308, 1e200, 10**400, float("inf"), float("nan"), -(10**400)])
@pytest.mark.parametrize("name", ["epsilon", "phi"])
def test_a_budget_beyond_all_reason_is_one_line(name: str, number: float) -> None:
    """Before: OverflowError, when the statement added up the columns."""
    for make in (
        lambda: any_cg.Randomiser(SCHEMA, **{name: number}),
        lambda: cg.Anonymiser(SCHEMA, any_cg.Castleguard(k=2, delay=10, rows_per_person=3, **{name: number})),
    ):
        with pytest.raises(CastleguardError, match=f"{name} must be") as raised:
            make()
        assert len(str(raised.value)) < 120


def test_the_largest_budget_can_be_stated() -> None:
    policy = cg.Castleguard(k=2, delay=10, epsilon=1e150, rows_per_person=1000)
    for guarantee in (cg.Randomiser(SCHEMA, phi=1e150).guarantee(), cg.Anonymiser(SCHEMA, policy).guarantee()):
        assert guarantee.privacy is not None
        assert guarantee.privacy.epsilon < float("inf")
