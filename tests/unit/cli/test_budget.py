"""`castleguard budget`: every question, every answer as figures too, and one sentence for what cannot be asked."""

import json
import math
from typing import Any

import pytest

from castleguard.privacy import (
    compose_advanced,
    compose_zcdp,
    min_epsilon,
    min_k,
    phi_for,
    probability_within,
    sdgs_delta,
    sdgs_delta_tight,
)
from tests.unit.cli.conftest import Outcome, Run


def ask(run: Run, question: str) -> Outcome:
    return run("budget", *question.split())


def figures(run: Run, question: str) -> dict[str, Any]:
    shown = ask(run, f"{question} --json")
    assert shown.code == 0
    found = json.loads(shown.out)
    assert isinstance(found, dict)
    return found


def words(shown: Outcome) -> str:
    """The output without line breaks."""
    assert shown.code == 0, shown.err
    return " ".join(shown.out.split())


def refusal(run: Run, question: str, *, code: int) -> str:
    """The error of a question that gets no answer."""
    shown = ask(run, question)
    assert (shown.code, shown.out) == (code, "")
    return shown.err


def test_without_options_it_explains_itself_with_examples_that_work(run: Run) -> None:
    shown = ask(run, "")
    assert shown.code == 0
    examples = [line.split()[2:] for line in shown.out.splitlines() if line.startswith("    castleguard budget ")]
    assert len(examples) == 7
    for example in examples:
        assert run("budget", *example).code == 0


def test_delta_of_given_parameters(run: Run) -> None:
    shown = words(ask(run, "--k 20 --sample-rate 0.25 --epsilon 1"))
    assert "delta is 1.21e-07 (Theorem 2 of CASTLEGUARD)" in shown
    assert "The smallest delta that holds for the same algorithm is 9.24e-09." in shown
    assert "the SDGS algorithm (policy Sdgs)" in shown
    assert "does not hold for CASTLEGUARD as printed in its paper" in shown


def test_the_table_shows_neighbouring_parameters(run: Run) -> None:
    lines = ask(run, "--k 20 --sample-rate 0.25 --epsilon 0.5").out.splitlines()
    assert "  delta by Theorem 2   epsilon 0.25   epsilon 0.5   epsilon 1" in lines
    assert "  k 20                            -      8.84e-05    1.21e-07" in lines
    assert "  (-: this sample rate needs a larger epsilon)" in lines


def test_delta_as_figures(run: Run) -> None:
    given = {"k": 20, "sample_rate": 0.25, "epsilon": 1.0}
    assert figures(run, "--k 20 --sample-rate 0.25 --epsilon 1") == {
        "asked": "dp_delta",
        **given,
        "dp_delta": sdgs_delta(k=20, sample_rate=0.25, epsilon=1),
        "tight": {**given, "dp_delta": sdgs_delta_tight(k=20, sample_rate=0.25, epsilon=1)},
    }


def test_which_k_is_needed(run: Run) -> None:
    shown = words(ask(run, "--sample-rate 0.1 --epsilon 1 --delta 1e-6"))
    k = min_k(sample_rate=0.1, epsilon=1, dp_delta=1e-6)
    assert f"k must be at least {k} (Theorem 2" in shown
    assert f"would allow k {min_k(sample_rate=0.1, epsilon=1, dp_delta=1e-6, tight=True)}." in shown
    assert "sample rate 0.05 9 7 5 sample rate 0.1 13 9 7 sample rate 0.2 25 14 10" in shown
    found = figures(run, "--sample-rate 0.1 --epsilon 1 --delta 1e-6")
    assert (found["asked"], found["k"]) == ("k", k)
    assert found["dp_delta"] == sdgs_delta(k=k, sample_rate=0.1, epsilon=1) <= 1e-6


def test_which_epsilon_can_be_promised(run: Run) -> None:
    shown = words(ask(run, "--k 10 --sample-rate 0.25 --delta 1e-6"))
    assert "epsilon is 2.19723 (Theorem 2" in shown
    assert "No epsilon below 0.287683 is possible at this sample rate." in shown
    assert "(-: no epsilon reaches this delta)" in shown
    found = figures(run, "--k 10 --sample-rate 0.25 --delta 1e-6")
    assert (found["asked"], found["epsilon"]) == ("epsilon", min_epsilon(k=10, sample_rate=0.25, dp_delta=1e-6))
    assert found["tight"]["epsilon"] == min_epsilon(k=10, sample_rate=0.25, dp_delta=1e-6, tight=True)


def test_windows_compose_at_one_total_delta(run: Run) -> None:
    question = "--k 40 --sample-rate 0.1 --epsilon 0.12 --windows 365"
    delta = sdgs_delta(k=40, sample_rate=0.1, epsilon=0.12)
    advanced = compose_advanced(epsilon=0.12, times=365, dp_delta=delta, total_delta=2 * 365 * delta)
    assert figures(run, question)["composition"] == {
        "windows": 365,
        "total_delta": 2 * 365 * delta,
        "losses": {
            "basic": {"epsilon": 365 * 0.12, "dp_delta": 365 * delta},
            "advanced": {"epsilon": advanced.epsilon, "dp_delta": 2 * 365 * delta},
        },
        "smallest": "advanced",
    }
    assert "one row in each of 365 windows loses at most epsilon 1" in words(ask(run, question))
    assert figures(run, f"{question} --total-delta 0.9")["composition"]["total_delta"] == 0.9


def test_windows_that_leave_no_privacy_are_refused(run: Run) -> None:
    shown = ask(run, "--k 2 --sample-rate 0.25 --epsilon 0.6 --windows 10")
    assert shown.code == 1
    assert shown.err.startswith("castleguard: 10 windows with a delta of 0.157 each leave no privacy: use a larger k")
    assert "is too small" in ask(run, "--k 9 --sample-rate 0.1 --epsilon 1 --windows 9 --total-delta 1e-9").err


def test_theorem_1_is_solved_for_any_of_its_three(run: Run) -> None:
    shown = words(ask(run, "--phi 100 --distance 0.05"))
    assert "With phi 100 a value moves by less than 0.05 of its range with probability 0.993262" in shown
    assert "phi is exactly the epsilon of this numeric attribute" in shown
    assert figures(run, "--phi 100 --distance 0.05")["probability"] == probability_within(phi=100, distance=0.05)
    assert figures(run, "--probability 0.9 --distance 0.05") == {
        "asked": "phi",
        "phi": phi_for(probability=0.9, distance=0.05),
        "distance": 0.05,
        "probability": 0.9,
    }
    assert figures(run, "--probability 0.9 --phi 100")["distance"] == pytest.approx(math.log(10) / 100)


def test_rows_of_a_person_are_summed_by_every_bound(run: Run) -> None:
    question = "--row-epsilon 0.1 --rows 365 --delta 1e-6"
    found = figures(run, question)
    assert list(found["losses"]) == ["basic", "advanced", "zCDP", "tight zCDP"]
    tight = compose_zcdp(epsilon=0.1, times=365, total_delta=1e-6, tight=True)
    assert found["losses"][found["smallest"]] == {"epsilon": tight.epsilon, "dp_delta": 1e-6}
    shown = words(ask(run, question))
    assert "365 rows of epsilon 0.1 each loses at most epsilon 11.0598 by tight zCDP composition" in shown
    assert "sampling rows first does not lower the loss" in shown


def test_rows_without_a_delta_add_up(run: Run) -> None:
    assert "1 row of epsilon 0.5 each loses at most epsilon 0.5" in words(ask(run, "--row-epsilon 0.5 --rows 1"))
    assert list(figures(run, "--row-epsilon 0.5 --rows 10")["losses"]) == ["basic"]
    assert list(figures(run, "--row-epsilon 0.5 --rows 10 --delta 0")["losses"]) == ["basic"]


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("--delta 1e-6", "nothing to compute"),
        ("--json", "nothing to compute"),
        ("--k 20", "--sample-rate is missing"),
        ("--sample-rate 0.1 --k 20", "give two of --k, --epsilon and --delta: the third is the answer"),
        ("--sample-rate 0.1 --k 9 --epsilon 1 --delta 0.1", "remove one of --k, --epsilon and --delta"),
        ("--sample-rate 0.1 --k 9 --epsilon 1 --total-delta 0.1", "--total-delta needs --windows"),
        ("--phi 3 --k 3", "--k and --phi belong to different questions: ask one at a time"),
        ("--phi 3 --rows 3", "--phi and --rows belong to different questions: ask one at a time"),
        ("--phi 3", "give two of --phi, --distance and --probability: the third is the answer"),
        ("--phi 3 --distance 1 --delta 0.1", "--delta cannot be combined with --phi, --distance and --probability"),
        ("--rows 3", "--row-epsilon is missing"),
        ("--row-epsilon 3", "--rows is missing"),
        ("--row-epsilon 3 --rows 0", "Invalid value for '--rows'"),
    ],
)
def test_a_question_that_is_none_gets_one_sentence_and_code_two(run: Run, question: str, sentence: str) -> None:
    last = refusal(run, question, code=2).splitlines()[-1]
    assert sentence in last
    assert last.startswith("Error: ")


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("--k 3 --sample-rate 1 --epsilon 2", "sample_rate 1 keeps every row"),
        ("--k 3 --sample-rate 0.5 --epsilon 0.2", "epsilon must be at least -ln(1 - sample_rate) = 0.693148"),
        ("--k 3 --sample-rate 0.5 --delta 0.02", "no epsilon reaches dp_delta 0.02"),
        ("--k 1 --sample-rate 0.5 --delta 0.02", "k must be a whole number of at least 2"),
        ("--sample-rate 0.5 --epsilon 1 --delta 1.5", "dp_delta must be a number above 0 and below 1"),
        ("--phi -1 --distance 0.1", "phi must be a finite number above 0"),
        ("--row-epsilon nan --rows 3", "epsilon must be a finite number"),
    ],
)
def test_a_parameter_that_cannot_be_gets_one_line(run: Run, question: str, sentence: str) -> None:
    told = refusal(run, question, code=1)
    assert told.startswith(f"castleguard: {sentence}")
    assert told.count("\n") == 1
