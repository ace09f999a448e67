"""Full runs of the membership game: it refutes the paper's claim and false claims, and does not refute ours.

Seeds are fixed, so every test is repeatable. With other seeds: a verdict of "not refuted" on a true claim fails with
probability 5 % at most, and far less where the claim is not tight; each "refuted", and each bound that is compared with
a number, has a margin of three standard deviations of the counts or more, so it fails less than once in 300.
"""

from dataclasses import replace

import pytest

import castleguard as cg
from benchmarks.membership import Named, paper, paper_clock, sdgs, strict
from castleguard.algorithms.castleguard.policy import Clock
from castleguard.algorithms.policy import Policy
from castleguard.judge.attack.evidence import Claim
from castleguard.judge.attack.membership_game import Verdict
from castleguard.judge.game.backgrounds import made_up_rows
from castleguard.judge.game.claims import Stated, own_claim
from castleguard.judge.game.game import Played, judge_all, play
from castleguard.judge.game.settings import setting_for, with_background, worst_group
from castleguard.privacy.sdgs import sdgs_delta, worst_case

pytestmark = [pytest.mark.compiled, pytest.mark.statistical]


def played(named: Named, *canaries: str, runs: int) -> dict[str, Verdict]:
    """Verdicts from these canaries only."""
    chosen = [canary for canary in named.setting.canaries if canary.name in canaries]
    assert len(chosen) == len(canaries)
    return replace(named, setting=replace(named.setting, canaries=chosen)).verdicts(runs=runs, seed=1)


def audited(policy: Policy, *canaries: str, runs: int) -> Played:
    """Verdicts from the canaries of `castleguard audit dp`."""
    setting = setting_for(policy)
    setting = replace(setting, canaries=[canary for canary in setting.canaries if canary.name in canaries])
    return judge_all(setting, play(setting, runs=runs, seed=1), runs=runs)


@pytest.mark.parametrize(
    ("k", "sample_rate", "epsilon", "clock"),
    [(20, 0.5, 1.0, "arrivals"), (20, 0.5, 1.0, "sampled"), (20, 0.25, 1.0, "sampled"), (10, 0.5, 2.0, "arrivals")],
)
def test_claim_of_the_castleguard_paper_is_refuted(k: int, sample_rate: float, epsilon: float, clock: Clock) -> None:
    """A unique sensitive value is published in a quarter or half of the runs with its row, and never without it."""
    setting = paper(k=k, sample_rate=sample_rate, epsilon=epsilon, clock=clock)
    found = played(setting, "unique sensitive value", runs=400)
    assert found["Theorem 2"].refuted
    assert found["Theorem 2"].worst.seen_other == 0
    assert found["Theorem 2"].dp_delta > 20 * found["Theorem 2"].claim.dp_delta


@pytest.mark.parametrize("canary", ["outlier", "first row", "range extender"])
def test_unusual_quasi_identifiers_refute_the_paper_claim(canary: str) -> None:
    found = played(paper(k=20, sample_rate=0.5, clock="sampled"), canary, runs=400)
    assert found["Theorem 2"].refuted


def test_own_claim_of_paper_mode_holds_and_is_tight() -> None:
    """The claim is (0, sample_rate), with a clock of sampled rows; no stronger claim would be true."""
    found = played(paper(k=20, sample_rate=0.5, clock="sampled"), "unique sensitive value", "first row", runs=500)
    assert found["ours"].claim == (0.0, 0.5)
    assert not found["ours"].refuted
    assert found["ours"].dp_delta > 0.3


def test_clock_of_arrivals_reveals_a_row_that_was_sampled_out() -> None:
    """Streams that differ by one row are distinguished nearly always, so the policy claims nothing."""
    named = paper_clock(k=20, sample_rate=0.5, clock="arrivals")
    assert own_claim(named.setting.policy, named.setting.schema) is None
    found = played(named, "one row more", runs=200)["no one"]
    assert found.claim == (0.0, 0.5)
    assert found.refuted
    assert found.dp_delta > 0.85


def test_clock_of_sampled_rows_does_not_reveal_a_sampled_out_row() -> None:
    setting = paper_clock(k=20, sample_rate=0.5, clock="sampled")
    assert not played(setting, "one row more", runs=200)["ours"].refuted


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_strict_mode_keeps_its_epsilon(epsilon: float) -> None:
    found = played(strict(epsilon=epsilon), "unique sensitive value", "outlier", runs=500)["ours"]
    assert found.claim.epsilon == pytest.approx(epsilon)
    assert not found.refuted


def test_epsilon_that_strict_mode_does_not_keep_is_refuted() -> None:
    """The game has enough power: with noise for epsilon 4, it refutes a claim of 1."""
    named = strict(epsilon=4.0)
    too_proud = [Stated("too proud", Claim(1.0, 0.0), own=False)]
    weakened = replace(named, setting=replace(named.setting, claims=too_proud))
    found = played(weakened, "unique sensitive value", runs=400)["no one"]
    assert found.refuted
    assert 1.5 < found.epsilon < 4


@pytest.mark.parametrize("windows", [1, 3])
def test_sdgs_keeps_its_epsilon_and_delta(windows: int) -> None:
    found = played(sdgs(k=10, windows=windows), "outlier", "repeated person", "worst group", runs=150)["ours"]
    assert found.claim == (1.0, sdgs_delta(k=10, sample_rate=0.25, epsilon=1.0))
    assert not found.refuted


def test_delta_that_sdgs_does_not_keep_is_refuted() -> None:
    """Groups of two are exposed when both rows are kept, a quarter of the time, far more often than with k = 20."""
    policy = cg.Sdgs(k=2, sample_rate=0.5, epsilon=1.0, window=10)
    setting = with_background(setting_for(policy), made_up_rows(20, values=["a", "b"]))
    too_proud = Stated("too proud", Claim(1.0, sdgs_delta(k=20, sample_rate=0.5, epsilon=1.0)), own=False)
    size = worst_case(k=2, sample_rate=0.5, epsilon=1.0).rows
    canary = worst_group(size, setting.schema, setting.background)
    setting = replace(setting, canaries=[canary], claims=[*setting.claims, too_proud])
    found = Named(name="weak", setting=setting).verdicts(runs=400)
    assert found["no one"].refuted
    assert not found["ours"].refuted
    assert 0.04 < found["ours"].dp_delta < 0.25


def test_every_claim_is_refuted_without_noise_and_sampling() -> None:
    """CASTLE promises groups and not differential privacy: presence is visible."""
    found = audited(cg.Castle(k=5, delay=30), "unique sensitive value", runs=200)
    assert found.own is None
    assert found.ok
    assert found.found.worst.seen > 90
    assert found.found.worst.seen_other == 0


@pytest.mark.parametrize("rows_per_person", [None, 3])
def test_strict_doca_keeps_its_epsilon(rows_per_person: int | None) -> None:
    policy = cg.Doca(epsilon=1, delay=40, k=2, rows_per_person=rows_per_person)
    found = audited(policy, "outlier", "repeated person", runs=60)
    assert found.own is not None
    assert found.own.verdict.claim.epsilon == pytest.approx(1)
    assert not found.own.verdict.refuted


def test_points_refute_an_epsilon_below_their_noise() -> None:
    """The observer of points has enough power: with noise for epsilon 20, it refutes a claim of 1."""
    setting = setting_for(cg.Doca(epsilon=20, delay=40, k=2), epsilon=1.0)
    outlier = [canary for canary in setting.canaries if canary.name == "outlier"]
    setting = replace(setting, canaries=outlier)
    found = judge_all(setting, play(setting, runs=200, seed=1), runs=200)
    assert [judged.verdict.refuted for judged in found.judged] == [False, True]


def test_claim_of_the_doca_paper_is_refuted() -> None:
    """The number of rows released together depends on their values, with any noise."""
    found = audited(cg.Doca(epsilon=1, delay=100, mode="paper"), "outlier", runs=200)
    assert found.own is None
    assert found.judged[0].verdict.refuted


def test_strict_mode_keeps_the_epsilon_of_a_person() -> None:
    found = audited(cg.Castleguard(k=2, delay=10, epsilon=1, rows_per_person=2), "repeated person", runs=80)
    assert found.own is not None
    assert found.own.verdict.claim.epsilon == pytest.approx(2)
    assert not found.own.verdict.refuted
