"""Claims about a policy, and their neighbours."""

import pytest

import castleguard as cg
from castleguard.algorithms.policy import Policy
from castleguard.judge.attack.evidence import Claim
from castleguard.judge.game.backgrounds import SCHEMA
from castleguard.judge.game.claims import claims_about, neighbours_of, own_claim, printed_claim
from castleguard.privacy.sdgs import sdgs_delta

PAPER = cg.Castleguard(k=20, delay=100, sample_rate=0.5, phi=100, mode="paper")
SAMPLED = cg.Castleguard(k=20, delay=100, sample_rate=0.5, phi=100, mode="paper", clock="sampled")
STRICT = cg.Castleguard(k=2, delay=10, epsilon=1)
PRINTED_DOCA = cg.Doca(epsilon=2, delay=10, mode="paper")


@pytest.mark.parametrize(
    ("policy", "replaced", "whole_person"),
    [
        (PAPER, False, False),
        (SAMPLED, False, False),
        (STRICT, True, False),
        (cg.Castleguard(k=2, delay=10, epsilon=1, rows_per_person=3), True, True),
        (cg.Sdgs(k=2, sample_rate=0.5, epsilon=1, window=60), False, True),
        (cg.Sdgs(k=2, sample_rate=0.5, epsilon=1, window=60, unit="row"), False, False),
        (cg.Sdgs(k=2, sample_rate=0.5, epsilon=1, window=60, window_unit="rows"), True, True),
        (cg.Doca(epsilon=1, delay=10, k=2), True, False),
        (cg.Doca(epsilon=1, delay=10, k=2, rows_per_person=2), True, True),
        (PRINTED_DOCA, True, False),
        (cg.Castle(k=2, delay=10), False, False),
    ],
)
def test_neighbours_are_those_of_the_guarantee(policy: Policy, replaced: bool, whole_person: bool) -> None:
    assert neighbours_of(policy, SCHEMA) == (replaced, whole_person)


def test_own_claim_is_that_of_the_guarantee() -> None:
    for policy in (PAPER, PRINTED_DOCA, cg.Castle(k=2, delay=10)):
        assert own_claim(policy, SCHEMA) is None
    own = own_claim(SAMPLED, SCHEMA)
    assert own is not None
    assert own.claim == (0.0, 0.5)
    assert own.own


def test_papers_claim_more_than_the_policies() -> None:
    printed = printed_claim(PAPER, SCHEMA)
    assert printed is not None
    assert printed.claim == (1.0, sdgs_delta(k=20, sample_rate=0.5, epsilon=1.0))
    assert printed.claim.dp_delta == pytest.approx(7.7e-4, rel=0.01)
    assert not printed.own
    doca = printed_claim(PRINTED_DOCA, SCHEMA)
    assert doca is not None
    assert doca.claim == (2.0, 0.0)
    assert printed_claim(STRICT, SCHEMA) is None


def test_epsilon_without_delta_selects_the_epsilon_of_theorem_2() -> None:
    (only,) = claims_about(PAPER, SCHEMA, epsilon=2.0)
    assert only.claim == (2.0, sdgs_delta(k=20, sample_rate=0.5, epsilon=2.0))
    assert "Theorem 2" in only.whose


def test_claim_of_the_user_comes_last() -> None:
    assert [each.claim for each in claims_about(SAMPLED, SCHEMA, epsilon=1.0, dp_delta=0.1)][::2] == [
        Claim(0.0, 0.5),
        Claim(1.0, 0.1),
    ]
    assert [each.claim for each in claims_about(cg.Castle(k=2, delay=10), SCHEMA, epsilon=1.0)] == [Claim(1.0, 0.0)]
    own, asked = claims_about(STRICT, SCHEMA, epsilon=0.5)
    assert own.own
    assert (asked.claim, asked.own) == (Claim(0.5, 0.0), False)
