"""CASTLEGUARD's experiments: measurements of examples by hand, and verdicts from figures."""

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from castleguard.judge.measure.learning import Learning
from castleguard.lab import pima
from castleguard.lab.castleguard import (
    EXPERIMENTS,
    classifiers,
    cluster_limits,
    independence,
    lessons,
    rides,
    statements,
    tuples,
)
from castleguard.lab.castleguard.agreement import Agreement, agreement
from castleguard.lab.castleguard.lessons import Marks, Task
from castleguard.lab.castleguard.rides import Lost, Setting
from castleguard.lab.castleguard.statements import Found
from castleguard.lab.result import Scale

DRAW = np.random.default_rng(1)
RIDES = pa.table(
    {
        "pid": DRAW.integers(0, 100, 300),
        "TripDistance": DRAW.uniform(0, 20, 300),
        "PickupLocationID": DRAW.integers(1, 200, 300),
        "FareAmount": DRAW.uniform(3, 50, 300),
    }
)


def test_every_figure_of_the_paper_is_there() -> None:
    figures = [figure for experiment in EXPERIMENTS for figure in experiment.figures]
    assert figures == ["2", "VI-B", "3", "4", "5", "6"]


# The authors' comparison


def test_predictions_are_compared_with_other_rows_and_with_their_own() -> None:
    """Ten rows with 1 in one place, ten with 0 in another, in ten folds of two. A row with 1 finds its eight fellows
    first: 8 of 10 and 8 of 15 are a majority, 8 of all 18 are not. So 2 of the 9 numbers of neighbours are right. For a
    row with 0 it is the same. The first rows of every training part have 1, which is predicted for rows with 1 in 2 of
    9 cases, and for rows with 0 in 7 of 9: (2/9 + 7/9) / 2.
    """
    labels = np.repeat(np.array([1, 0]), 10)
    found = agreement(100.0 * labels[:, None], labels)
    assert found.with_own == pytest.approx(2 / 9)
    assert found.with_others == pytest.approx(0.5)


def test_equal_labels_always_agree() -> None:
    assert agreement(np.arange(60.0)[:, None], np.zeros(60, dtype=np.int64)) == (1.0, 1.0)


def test_the_papers_value_for_original_rows_is_that_of_the_wrong_comparison(data_folder: Path) -> None:
    found = classifiers.fold_original()
    assert found.with_others == pytest.approx(statements.NEAREST_ORIGINAL, abs=0.0001)
    assert found.with_own == pytest.approx(0.7428, abs=0.0001)


# The lower bound of any grouping


def test_distance_to_the_nearest_other_persons() -> None:
    points = np.array([[0.0, 0.0], [0.1, 0.1], [0.4, 0.4]])
    persons = np.array([7, 3, 5])
    # 0.1, 0.1, 0.3 to the nearest; 0.4, 0.3, 0.4 to the second.
    assert independence.nearest(points, persons, 1) == pytest.approx(0.5 / 3)
    assert independence.nearest(points, persons, 2) == pytest.approx(1.1 / 3)


def test_rows_of_the_same_person_do_not_count_as_others() -> None:
    points = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]])
    assert independence.nearest(points, np.array([0, 1, 0]), 1) == pytest.approx((1 + 0.5 + 0.5) / 3)


# One run


@pytest.mark.compiled
@pytest.mark.parametrize("strict", [False, True])
def test_a_run_measures_published_rows_and_open_clusters(strict: bool) -> None:
    found = rides.measure(RIDES, Setting(strict=strict), [0, 1])
    assert found == rides.measure(RIDES, Setting(strict=strict), [0, 1])
    assert 0.05 < found.opened < found.published < 1
    assert found.published_spread > 0
    assert 250 < found.rows <= 300


def test_sampling_thins_out_and_noise_blurs() -> None:
    original = np.stack([RIDES[name].to_numpy() for name in ("PickupLocationID", "TripDistance")], axis=1)
    exact = tuples.perturbed(RIDES, 1e9, 1.0, 0)
    assert exact.points == pytest.approx(original, abs=1e-3)
    assert tuples.in_common(original, exact.points) > 0.98
    noisy = tuples.perturbed(RIDES, 1.0, 0.25, 0)
    assert 40 < len(noisy.points) < 110
    assert tuples.in_common(original, noisy.points) < 0.6


def test_overlap_of_two_clouds() -> None:
    original = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert tuples.in_common(original, original[:1]) == 0.5
    assert tuples.in_common(original, original[:0]) == 0.0


@pytest.mark.compiled
@pytest.mark.parametrize("strict", [False, True])
def test_classifiers_learn_from_published_rows(monkeypatch: pytest.MonkeyPatch, strict: bool) -> None:
    """Two clearly separate groups of persons."""
    ill = np.arange(300) % 2
    columns = {name: DRAW.uniform(0, 1, 300) + 5 * ill for name in pima.FEATURES}
    table = pa.table({**columns, "outcome": ill, "pid": np.arange(300)})
    monkeypatch.setattr(pima, "load", lambda: table)
    monkeypatch.setattr(lessons, "NETWORK", Learning(hidden_layers=(16,), rounds=300))
    pytest.importorskip("sklearn")
    marks = lessons.learn(Task(seed=0, phi=50.0, strict=strict, neighbours=(5,)))
    assert marks.neighbours == (1.0, 1.0)
    assert marks.network[1] > 0.9
    assert 150 < marks.rows <= 210
    assert marks.agreed.with_own > marks.agreed.with_others
    whole = lessons.learn(Task(seed=0, neighbours=(5,)))
    assert whole.rows == 210
    assert whole.neighbours == (1.0, 1.0)


# Verdicts


def lost(published: float, opened: float = 0.1, spread: float = 0.001) -> Lost:
    return Lost(published=published, published_spread=spread, opened=opened, opened_spread=0.0, rows=1000)


@pytest.mark.parametrize(
    ("losses", "verdict"),
    [((0.1, 0.2, 0.1), "reproduced"), ((0.1, 0.2, 0.2), "partly"), ((0.2, 0.2, 0.2), "not reproduced")],
)
def test_peak_has_a_trough_on_either_side(losses: tuple[float, ...], verdict: str) -> None:
    found = {(b, mu): lost(loss) for b, loss in zip((100, 200, 400), losses, strict=True) for mu in (1, 100)}
    assert cluster_limits.judge_peak(found, (100, 200, 400), (1, 100)).verdict == verdict


def test_peak_within_the_noise_does_not_count() -> None:
    found = {(b, 1): lost(0.21 if b == 200 else 0.2, spread=0.1) for b in (100, 200, 400)}
    assert cluster_limits.judge_peak(found, (100, 200, 400), (1,)).verdict == "not reproduced"


@pytest.mark.parametrize(
    ("published", "opened", "verdict"),
    [
        ((0.1, 0.2), (0.1, 0.1), "reproduced"),
        ((0.2, 0.1), (0.1, 0.2), "partly"),
        ((0.2, 0.1), (0.2, 0.1), "not reproduced"),
    ],
)
def test_the_loss_grows_with_mu_or_not(published: tuple[float, ...], opened: tuple[float, ...], verdict: str) -> None:
    windows = (1, 100)
    found = {(5, mu): lost(*pair) for mu, pair in zip(windows, zip(published, opened, strict=True), strict=True)}
    found |= {(400, mu): lost(9.0) for mu in windows}  # not small: does not count
    assert cluster_limits.judge_window(found, (5, 400), windows).verdict == verdict


@pytest.mark.parametrize(
    ("loss", "floor", "verdict"),
    [(0.018, 0.01, "reproduced"), (0.2, 0.03, "not comparable"), (0.2, 0.01, "not reproduced")],
)
def test_a_value_below_the_floor_cannot_be_compared(loss: float, floor: float, verdict: str) -> None:
    found = independence.judge_value({(1.0, 0.25): lost(loss)}, {0.25: floor})
    assert found.verdict == verdict
    assert ("cannot be the mean loss" in found.reason) == (verdict == "not comparable")


def test_independence_requires_both_parameters() -> None:
    def verdict(by_phi: float, by_rate: float) -> str:
        found = {
            (phi, rate): lost(1 + by_phi * (phi > 1) + by_rate * (rate > 0.5))
            for phi in (1.0, 9.0)
            for rate in (0.5, 1.0)
        }
        return independence.judge_independence(found).verdict

    assert verdict(0.02, 0.05) == "reproduced"
    assert verdict(0.02, 0.5) == "partly"
    assert verdict(0.5, 0.5) == "not reproduced"


def test_clouds_approach_the_input_with_phi() -> None:
    def verdict(*shares: float) -> str:
        grid = {(phi, 1.0): share for phi, share in zip((1.0, 10.0, 100.0), shares, strict=True)}
        return tuples.judge_shape(grid, (1.0, 10.0, 100.0), (1.0,)).verdict

    assert verdict(0.3, 0.6, 0.9) == "reproduced"
    assert verdict(0.3, 0.2, 0.9) == "partly"
    assert verdict(0.9, 0.6, 0.3) == "not reproduced"


def test_sparse_clouds_have_their_share_of_tuples() -> None:
    def verdict(few: int, many: int) -> str:
        clouds = {
            (1.0, rate): tuples.Cloud(np.zeros((rows, 2)), np.zeros(rows)) for rate, rows in ((0.25, few), (0.5, many))
        }
        return tuples.judge_count(clouds, (1.0,), (0.25, 0.5)).verdict

    assert verdict(260, 490) == "reproduced"
    assert verdict(100, 490) == "partly"
    assert verdict(490, 260) == "not reproduced"


def marks(share: float, *, agreed: float = 0.6, rows: int = 500) -> Marks:
    return Marks(
        neighbours=(share, share),
        network=(share, share),
        area=(share, share),
        agreed=Agreement(agreed, share),
        rows=rows,
    )


def found(
    original: float, cells: dict[tuple[float, float], Marks], *, folds: float = 0.5488, majority: float = 0.651
) -> Found:
    strict = {(phi, 1.0): mark for (phi, _), mark in cells.items()}
    return Found(marks(original), cells, strict, Agreement(folds, 0.74), majority)


def cells(*shares: float, agreed: float = 0.6) -> dict[tuple[float, float], Marks]:
    """phi 1 and 100, each with rates 0.25 and 1."""
    keys = [(phi, rate) for phi in (1.0, 100.0) for rate in (0.25, 1.0)]
    return {key: marks(share, agreed=agreed) for key, share in zip(keys, shares, strict=True)}


SAME = cells(0.7, 0.7, 0.7, 0.7)


def test_the_original_value_is_an_accuracy_or_the_wrong_comparison_or_neither() -> None:
    assert statements.judge_nearest_original(found(0.55, SAME)).verdict == "reproduced"
    explained = statements.judge_nearest_original(found(0.74, SAME))
    assert explained.verdict == "partly"
    assert "labels of other rows" in explained.reason
    assert "54.88%" in explained.ours
    assert statements.judge_nearest_original(found(0.74, SAME, folds=0.6)).verdict == "not reproduced"


def test_equivalent_means_half_of_the_cells_within_three_points() -> None:
    judge = statements.judge_nearest_better
    assert judge(found(0.72, cells(0.70, 0.71, 0.1, 0.1))).verdict == "reproduced"
    assert judge(found(0.72, cells(0.6, 0.6, 0.1, 0.1))).verdict == "partly"  # by the authors' comparison
    assert judge(found(0.72, cells(0.6, 0.6, 0.1, 0.1, agreed=0.5))).verdict == "not reproduced"


def test_the_best_cell_has_a_value_and_a_place() -> None:
    there, elsewhere = cells(0.7, 0.7, 0.7, 0.7), cells(0.7, 0.7, 0.7, 0.7)
    there[100.0, 0.25] = marks(0.7, agreed=0.657)
    elsewhere[1.0, 1.0] = marks(0.7, agreed=0.657)
    assert statements.judge_nearest_best(found(0.7, there)).verdict == "reproduced"
    assert statements.judge_nearest_best(found(0.7, elsewhere)).verdict == "partly"
    elsewhere[1.0, 1.0] = marks(0.7, agreed=0.9)
    assert statements.judge_nearest_best(found(0.7, elsewhere)).verdict == "not reproduced"


def test_the_network_is_judged_by_its_values() -> None:
    assert statements.judge_network_original(found(0.69, SAME)).verdict == "reproduced"
    assert statements.judge_network_original(found(0.8, SAME)).verdict == "not reproduced"
    assert statements.judge_network_below(found(0.71, SAME)).verdict == "reproduced"
    assert statements.judge_network_below(found(0.71, cells(0.7, 0.7, 0.7, 0.8))).verdict == "partly"
    assert statements.judge_network_below(found(0.5, SAME)).verdict == "not reproduced"
    assert statements.judge_network_best(found(0.7, SAME)).verdict == "reproduced"
    assert statements.judge_network_best(found(0.7, cells(0.5, 0.5, 0.5, 0.9))).verdict == "not reproduced"


def test_trends_are_correlations() -> None:
    growing, crossed = cells(0.5, 0.5, 0.7, 0.7), cells(0.5, 0.7, 0.7, 0.5)
    assert statements.judge_no_trend(found(0.7, growing)).verdict == "not reproduced"
    assert statements.judge_no_trend(found(0.7, crossed)).verdict == "reproduced"
    assert statements.judge_no_trend(found(0.7, SAME)).verdict == "reproduced"
    assert statements.judge_area(found(0.7, growing)).verdict == "reproduced"
    assert statements.judge_area(found(0.7, cells(0.70, 0.70, 0.71, 0.71))).verdict == "not reproduced"
    assert statements.judge_area(found(0.7, crossed)).verdict == "not reproduced"


def test_means_are_taken_of_every_score() -> None:
    assert lessons.mean([marks(0.5, rows=10), marks(0.7, rows=20)]) == marks(statistics.fmean([0.5, 0.7]), rows=15)


# Pictures


def empty_figure() -> Any:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    return Figure(layout="constrained")


def texts(figure: Any) -> list[str]:
    return [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes]


def test_grids_show_their_values() -> None:
    figure = empty_figure()
    classifiers.draw(found(0.74, cells(0.5, 0.6, 0.7, 0.8)), "neighbours", "right answers, %", figure)
    written = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert written[:4] == ["50.0", "60.0", "70.0", "80.0"]
    assert written[-4:] == ["60.0"] * 4  # the authors' comparison
    assert len(figure.axes) == 5  # with the scale
    other = empty_figure()
    classifiers.draw(found(0.74, SAME), "area", "area, %", other)
    assert len(other.axes) == 4


def test_losses_and_clouds_are_drawn_with_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = empty_figure()
    losses = {(b, mu): lost(0.1) for b in (5, 200) for mu in (1, 100)}
    cluster_limits._draw(losses, losses, (5, 200), (1, 100), figure)
    assert [axes.get_xlabel() for axes in figure.axes] == ["clusters, b"] * 3
    figure = empty_figure()
    by_phi = {(phi, rate): lost(0.1) for phi in (1.0, 10.0) for rate in (0.5, 1.0)}
    independence._draw(by_phi, by_phi, {0.5: 0.03, 1.0: 0.02}, figure)
    assert len(figure.axes[0].lines) == 4
    figure = empty_figure()
    clouds = {(phi, 1.0): tuples.perturbed(RIDES, phi, 1.0, 0) for phi in (1.0, 10.0)}
    tuples._draw(clouds, (1.0, 10.0), (1.0,), figure)
    assert len(figure.axes) == 3


# Whole runs


@pytest.mark.compiled
@pytest.mark.parametrize("experiment", [cluster_limits, independence, tuples], ids=["2", "VI-B", "3"])
def test_a_quick_run_has_a_result_for_every_figure(
    monkeypatch: pytest.MonkeyPatch, experiment: Any, data_folder: Path
) -> None:
    (result,) = experiment.run(Scale(quick=True))
    assert (result.figure,) == experiment.EXPERIMENT.figures
    assert len(result.claims) == 2
    assert all(len(row) == len(result.columns) for row in result.rows)


def test_results_of_classifiers_have_all_cells(monkeypatch: pytest.MonkeyPatch, data_folder: Path) -> None:
    monkeypatch.setattr(lessons, "learn", None)
    monkeypatch.setattr(
        classifiers, "spread", lambda function, tasks, jobs: [marks(0.6 + task.seed / 10) for task in tasks]
    )
    results = classifiers.run(Scale(seed=1, quick=True))
    assert [result.figure for result in results] == ["4", "5", "6"]
    for result in results:
        # The original rows, two phi with two rates each, and two phi in strict mode.
        assert [row[0] for row in result.rows] == ["original", *["as printed"] * 4, *["strict"] * 2]
        assert all(len(row) == len(result.columns) for row in result.rows)
        assert result.rows[1][4] == "70.0%"
