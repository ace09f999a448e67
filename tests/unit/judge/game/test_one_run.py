"""One-run audit: p-values by hand and as printed in the paper, and a run in which all canaries show."""

import json
import math

import pytest

import castleguard as cg
from castleguard.errors import UsageError
from castleguard.judge.attack.evidence import Claim
from castleguard.judge.game.one_run import Guessed, audit_once, epsilon_above, p_value, play_once, weigh

PAPER = cg.Castleguard(k=20, delay=100, sample_rate=0.5, phi=100, mode="paper")


def test_p_value_without_delta_is_binomial() -> None:
    """Three of three at epsilon ln 3, which is right three times out of four: (3/4)^3. Two or more: + 3 (3/4)^2 / 4."""
    assert p_value(Guessed(canaries=9, guesses=3, right=3), Claim(math.log(3), 0.0)) == pytest.approx(27 / 64)
    assert p_value(Guessed(canaries=9, guesses=3, right=2), Claim(math.log(3), 0.0)) == pytest.approx(54 / 64)
    assert p_value(Guessed(canaries=9, guesses=3, right=0), Claim(math.log(3), 0.1)) == 1


def test_delta_raises_the_p_value() -> None:
    """Two of two at epsilon 0: 1/4; one more may be right by a failure: P[1] / 1 = 1/2, or two: P[0 or 1] / 2 = 3/8.

    With 5 canaries and a delta of 0.01 that adds 2 * 5 * 0.01 * 1/2.
    """
    assert p_value(Guessed(canaries=5, guesses=2, right=2), Claim(0.0, 0.01)) == pytest.approx(0.25 + 0.05)


def test_figures_are_those_of_the_paper() -> None:
    """Appendix D: 75 of 100 guesses, of 1,000 canaries with a delta of 10^-4; and the p-value at the very epsilon."""
    assert epsilon_above(Guessed(canaries=1000, guesses=100, right=75), dp_delta=1e-4) == pytest.approx(0.673, abs=1e-3)
    assert p_value(Guessed(canaries=100, guesses=100, right=75), Claim(math.log(3), 0.0)) == pytest.approx(
        0.553, abs=1e-3
    )


@pytest.mark.parametrize("guesses", [5, 50, 500])
def test_bound_of_all_right_guesses_grows_with_their_number(guesses: int) -> None:
    """q^r = 0.05, and epsilon = ln(q / (1 - q))."""
    q = 0.05 ** (1 / guesses)
    found = Guessed(canaries=1000, guesses=guesses, right=guesses)
    assert epsilon_above(found) == pytest.approx(math.log(q / (1 - q)), abs=1e-5)
    assert epsilon_above(found, confidence=0.99) < epsilon_above(found)
    assert epsilon_above(found, dp_delta=1e-3) < epsilon_above(found)


def test_guesses_by_chance_prove_nothing() -> None:
    assert epsilon_above(Guessed(canaries=1000, guesses=1000, right=500)) == 0
    assert epsilon_above(Guessed(canaries=1000, guesses=0, right=0)) == 0


@pytest.mark.parametrize(("guesses", "right"), [(3, 4), (11, 2), (3, -1)])
def test_impossible_counts_are_refused(guesses: int, right: int) -> None:
    with pytest.raises(UsageError, match="must not decrease"):
        Guessed(canaries=10, guesses=guesses, right=right)


@pytest.mark.compiled
def test_one_run_refutes_the_papers_claim() -> None:
    """About half of the canaries are included, half of those are kept, and nearly all of these show."""
    once = audit_once(PAPER, canaries=400)
    found = once.guessed
    assert found.right == found.guesses
    assert 60 < found.guesses < 140
    (printed,) = once.claims
    assert printed.refuted
    assert printed.epsilon > 1
    text = once.text
    assert "the policy itself: no differential privacy is claimed" in text
    assert "Theorem 2 of the CASTLEGUARD paper claims (1, 0.000772): REFUTED" in text
    figures = json.loads(json.dumps(once.as_json()))
    assert once.ok
    assert figures["ok"]
    assert figures["claims"][0]["refuted"]


@pytest.mark.compiled
def test_one_run_shows_nothing_if_unique_values_are_not_published() -> None:
    policy = cg.Sdgs(k=10, sample_rate=0.25, epsilon=1, window=60)
    found = play_once(policy, canaries=100)
    assert (found.guesses, found.right) == (0, 0)
    (own,) = weigh(found, policy)
    assert own.stated.own
    assert not own.refuted


def test_one_run_refuses_a_claim_about_values() -> None:
    with pytest.raises(UsageError, match="a claim about values"):
        play_once(cg.Castleguard(k=20, delay=100, epsilon=1), canaries=10)
