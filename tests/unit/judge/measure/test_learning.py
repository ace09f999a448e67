"""Learning utility: scores computed by hand, and compared with scikit-learn."""

import math
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("sklearn", reason="learning utility needs scikit-learn, the extra `learn`")

from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

from castleguard.errors import InputError, PolicyError, UsageError
from castleguard.judge.measure.examples import Examples
from castleguard.judge.measure.learning import (
    Learning,
    LearningUtility,
    held_out_utility,
    learning_utility,
    split,
    spread,
    train_and_judge,
)
from castleguard.judge.reading.linked import link
from tests.unit.judge.measure.made_up import LABELLED

QUICK = Learning(models=("k-NN",), scaled=(False,), neighbours=1, runs=3)


def people(rows: int, *, seed: int = 0) -> dict[str, list[Any]]:
    """Persons, of whom those older than 50 are ill."""
    ages = np.random.default_rng(seed).integers(0, 101, rows)
    return {
        "row": list(range(rows)),
        "age": ages.tolist(),
        "job": ["Cook"] * rows,
        "ill": ["yes" if age > 50 else "no" for age in ages],
    }


def published(table: dict[str, list[Any]], width: int) -> pa.Table:
    """Ages in ranges of one width."""
    lower = [age // width * width for age in table["age"]]
    upper = [min(100, low + width - 1) for low in lower]
    return pa.table({name: table[name] for name in ("row", "job", "ill")} | {"age_min": lower, "age_max": upper})


def score(found: LearningUtility, source: str) -> float:
    (one,) = (each for each in found.scores if each.trained_on == source)
    return one.accuracy.mean


def test_one_nearest_neighbour_matches_hand_computed_scores() -> None:
    # Training: 10 is class 0, 20 class 1. Test: 11 and 19 are right, 14 (nearer to 10) is wrong: two of three.
    train = Examples(np.array([[10.0], [20.0]]), np.array([0, 1]))
    test = Examples(np.array([[11.0], [19.0], [14.0]]), np.array([0, 1, 1]))
    outcome = train_and_judge(train, test, "k-NN", scaled=False, settings=QUICK, seed=0)
    assert outcome.accuracy == pytest.approx(2 / 3)
    # Pairs (ill, well): 19 before 11 is right, 14 and 11 are equal, which counts half: 1.5 of 2.
    assert outcome.auc == pytest.approx(0.75)


def test_fewer_rows_than_neighbours_are_all_neighbours() -> None:
    train = Examples(np.array([[10.0], [20.0], [21.0]]), np.array([0, 1, 1]))
    test = Examples(np.array([[10.0], [20.0]]), np.array([0, 1]))
    assert train_and_judge(train, test, "k-NN", scaled=False, settings=Learning(), seed=0).accuracy == 0.5


def test_initial_weights_depend_only_on_the_seed() -> None:
    random = np.random.default_rng(1)
    train = Examples(random.random((40, 2)), random.integers(0, 2, 40))
    settings = Learning(hidden_layers=(4,), rounds=3)
    first, again, other = (
        train_and_judge(train, train, "neural network", scaled=True, settings=settings, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_scaling_makes_a_small_feature_count() -> None:
    # (510, 0) is nearer to (1000, 1) than to (0, 0). Scaled, these are (1, 1) and (-1, -1), and it is (0.02, -1).
    train = Examples(np.array([[0.0, 0.0], [1000.0, 1.0]]), np.array([0, 1]))
    raw = Examples(np.array([[510.0, 0.0]]), np.array([0]))
    assert train_and_judge(train, raw, "k-NN", scaled=False, settings=QUICK, seed=0).accuracy == 0.0
    assert train_and_judge(train, raw, "k-NN", scaled=True, settings=QUICK, seed=0).accuracy == 1.0


def test_scores_are_those_of_scikit_learn() -> None:
    random = np.random.default_rng(4)
    features, labels = random.random((300, 4)), random.integers(0, 3, 300)
    train, test = Examples(features[:200], labels[:200]), Examples(features[200:], labels[200:])
    outcome = train_and_judge(train, test, "k-NN", scaled=False, settings=Learning(neighbours=7), seed=0)
    theirs = KNeighborsClassifier(7).fit(train.features, train.labels)
    assert outcome.accuracy == accuracy_score(test.labels, theirs.predict(test.features))
    chances = theirs.predict_proba(test.features)
    assert outcome.auc == pytest.approx(roc_auc_score(test.labels, chances, multi_class="ovr", average="macro"))


def test_neural_network_learns_a_threshold() -> None:
    table = people(300)
    settings = Learning(models=("neural network",), scaled=(True,), runs=1, hidden_layers=(10,), rounds=300)
    found = learning_utility(
        link(published(table, 10), pa.table(table), LABELLED, by="row"), label="ill", settings=settings
    )
    assert score(found, "original") > 0.9
    assert score(found, "published") > 0.9
    assert {each.model for each in found.scores} == {"neural network"}


def test_network_that_did_not_converge_is_noted() -> None:
    table = people(60)
    settings = Learning(models=("neural network",), scaled=(True,), runs=1, hidden_layers=(5,), rounds=2)
    found = learning_utility(
        link(published(table, 10), pa.table(table), LABELLED, by="row"), label="ill", settings=settings
    )
    assert found.notes == ("neural networks that did not converge within 2 rounds: 2",)


def test_exact_publication_has_the_original_accuracy() -> None:
    table = people(100)
    found = learning_utility(
        link(published(table, 1), pa.table(table), LABELLED, by="row"), label="ill", settings=QUICK
    )
    assert score(found, "published") == score(found, "original") > 0.9
    assert found.notes == ()


def test_wide_ranges_lower_accuracy() -> None:
    table = people(200)
    found = learning_utility(
        link(published(table, 101), pa.table(table), LABELLED, by="row"), label="ill", settings=QUICK
    )
    assert score(found, "original") > 0.9
    assert score(found, "published") < 0.7


def test_no_person_is_in_both_sets_of_a_split() -> None:
    persons = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    for seed in range(5):
        tested = split(persons, share=0.25, seed=seed)
        assert np.count_nonzero(tested) == 2
        assert set(persons[tested]).isdisjoint(persons[~tested])
    assert np.count_nonzero(split(np.arange(3), share=0.01, seed=0)) == 1
    assert np.count_nonzero(split(np.arange(3), share=0.99, seed=0)) == 2
    with pytest.raises(InputError, match="fewer than two persons"):
        split(np.zeros(4, dtype=np.int64), share=0.5, seed=0)


def test_test_rows_are_not_used_for_training() -> None:
    # Labels are coin flips and all ages differ, so predictions for unseen rows are right half the time.
    coins = np.random.default_rng(3).integers(0, 2, 100)
    table = people(100) | {"age": list(range(100)), "ill": coins.tolist()}
    found = learning_utility(
        link(published(table, 1), pa.table(table), LABELLED, by="row"), label="ill", settings=QUICK
    )
    assert 0.2 < score(found, "published") < 0.8
    assert 0.2 < score(found, "original") < 0.8


def test_published_row_without_an_original_is_not_used_for_training() -> None:
    # The published rows have the wrong label; the strays would have the right one.
    table = people(40)
    wrong = published(table | {"ill": ["no" if ill == "yes" else "yes" for ill in table["ill"]]}, 1)
    strays = published(table | {"row": list(range(100, 140))}, 1)
    both = pa.concat_tables([strays, wrong])
    found = learning_utility(link(both, pa.table(table), LABELLED, by="row"), label="ill", settings=QUICK)
    assert score(found, "published") < 0.2


def test_rows_with_a_missing_value_are_left_out_and_counted() -> None:
    table = people(50)
    table["age"][7] = None
    table["ill"][8] = None
    shown = published(people(50), 1)
    found = learning_utility(link(shown, pa.table(table), LABELLED, by="row"), label="ill", settings=QUICK)
    assert found.left_out == 2


def test_majority_is_the_accuracy_of_the_most_frequent_class() -> None:
    table = people(40) | {"ill": ["no"] * 30 + ["yes"] * 10}
    settings = Learning(models=("k-NN",), scaled=(False,), runs=20)
    found = learning_utility(
        link(published(table, 10), pa.table(table), LABELLED, by="row"), label="ill", settings=settings
    )
    assert found.majority.mean == pytest.approx(0.75, abs=0.1)


def test_empty_publication_has_no_figures_and_a_note() -> None:
    table = people(20)
    found = learning_utility(
        link(published(table, 10).slice(0, 0), pa.table(table), LABELLED, by="row"), label="ill", settings=QUICK
    )
    assert math.isnan(score(found, "published"))
    assert found.notes == ("no training rows were published in 3 of 3 runs, which have no figures",)


def test_single_class_has_no_roc_curve_and_a_note() -> None:
    table = people(20) | {"ill": ["no"] * 20}
    found = learning_utility(
        link(published(table, 10), pa.table(table), LABELLED, by="row"), label="ill", settings=QUICK
    )
    assert score(found, "published") == 1.0
    assert all(math.isnan(each.auc.mean) for each in found.scores)
    assert found.notes == (
        "the published rows have only one class in 3 of 3 runs, which is always predicted",
        "all test rows have one class in 3 of 3 runs, which have no ROC curve",
    )


def test_class_without_training_rows_is_never_predicted() -> None:
    train = Examples(np.array([[1.0], [1.0]]), np.array([0, 0]))
    test = Examples(np.array([[1.0], [2.0]]), np.array([0, 1]))
    outcome = train_and_judge(train, test, "k-NN", scaled=True, settings=QUICK, seed=0)
    assert outcome == (0.5, 0.5, True)


def test_held_out_rows_need_no_link() -> None:
    table, later = people(100), people(30, seed=9)
    found = held_out_utility(
        published(table, 5), pa.table(table), pa.table(later), LABELLED, label="ill", settings=QUICK
    )
    assert score(found, "original") > 0.9
    assert score(found, "published") > 0.85
    assert found.left_out == 0


def test_spread_leaves_out_what_is_not_defined() -> None:
    found = spread([1.0, float("nan"), 3.0])
    assert found[:2] == pytest.approx((2.0, math.sqrt(2)))
    assert math.isnan(spread([1.0]).deviation)
    assert math.isnan(spread([float("nan")]).mean)


@pytest.mark.parametrize(
    "wrong",
    [
        {"test_share": 1},
        {"neighbours": 0},
        {"rounds": 0},
        {"runs": 0},
        {"seed": -1},
        {"scaled": ()},
        {"models": ()},
        {"hidden_layers": (0,)},
    ],
)
def test_invalid_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        Learning(**wrong)


@pytest.mark.parametrize("ill", [["yes", "no"] * 10, ["no"] * 20])
def test_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, ill: list[str]) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.neighbors", None)
    table = people(20) | {"ill": ill}
    with pytest.raises(UsageError, match=r"castleguard\[learn\]"):
        learning_utility(link(published(table, 10), pa.table(table), LABELLED, by="row"), label="ill", settings=QUICK)
