"""CASTLE's figures: the rules with both verdicts, and every experiment on made-up rows."""

import io
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.algorithms.policy import Mode
from castleguard.drawing import canvas
from castleguard.lab import adult
from castleguard.lab.castle import EXPERIMENTS, comparison, paper_streams, power_law, tuning, workload
from castleguard.lab.castle.query_errors import Asked, Grouping, answer, grouping_loss
from castleguard.lab.castle.repeated_runs import Run, measure, run_loss
from castleguard.lab.castle.rules import (
    Curve,
    Judgement,
    Sample,
    beats,
    ends_higher,
    falls,
    grows,
    is_at_most,
    is_least,
    stays_below,
    together,
)
from castleguard.lab.castle.summaries import claim, difference_note, table_of
from castleguard.lab.result import Experiment, Scale


def near(*means: float) -> dict[float, Sample]:
    """Samples at 1, 2, ... that hardly vary."""
    return {float(at): Sample((mean - 0.001, mean + 0.001)) for at, mean in enumerate(means, start=1)}


def test_a_difference_counts_beyond_twice_its_standard_error() -> None:
    # 0.10 and 0.12: the deviation is sqrt(2 * 0.01^2) = 0.0141, the standard error 0.0141 / sqrt(2) = 0.01.
    sample = Sample((0.10, 0.12))
    assert sample.mean == pytest.approx(0.11)
    assert sample.spread == pytest.approx(0.014142, abs=1e-6)
    assert sample.error == pytest.approx(0.01)
    # The difference of two of them has the error 0.01414: 0.03 is more than twice that, 0.02 is not.
    assert Sample((0.13, 0.15)).is_above(sample)
    assert not Sample((0.12, 0.14)).is_above(sample)
    assert not sample.is_above(Sample((0.13, 0.15)))
    assert str(sample) == "0.110 ± 0.014"
    assert str(Sample((0.5,))) == "0.500"


def test_growth_at_every_step_is_growth() -> None:
    assert grows(near(0.1, 0.2, 0.3)).verdict == "reproduced"
    assert grows(near(0.1, 0.3, 0.2)) == Judgement("partly", "it grows from 0.100 at 1 to 0.200 at 3, but falls 2 to 3")
    assert grows(near(0.3, 0.4, 0.2)).verdict == "not reproduced"
    assert grows(near(0.2, 0.2, 0.2)).verdict == "not reproduced", "level is not growth"


def test_fall_at_every_step_is_a_fall() -> None:
    assert falls(near(0.3, 0.2, 0.1)) == Judgement("reproduced", "it falls from 0.300 at 1 to 0.100 at 3")
    assert falls(near(0.3, 0.1, 0.2)).verdict == "partly"
    assert falls(near(0.3, 0.1, 0.2)).found.endswith("but grows 2 to 3")
    assert falls(near(0.1, 0.2, 0.3)).verdict == "not reproduced"


def test_step_within_the_spread_does_not_count() -> None:
    noisy = {1.0: Sample((0.1, 0.1)), 2.0: Sample((0.25, 0.35)), 3.0: Sample((0.24, 0.34)), 4.0: Sample((0.5, 0.5))}
    assert grows(noisy).verdict == "reproduced"


def test_ends_decide_if_growth_need_not_be_steady() -> None:
    assert ends_higher(near(0.1, 0.5, 0.2)).verdict == "reproduced"
    assert ends_higher(near(0.1, 0.5, 0.1)).verdict == "partly"
    assert ends_higher(near(0.2, 0.5, 0.1)).verdict == "not reproduced"


def test_the_stated_setting_is_best_only_beyond_chance() -> None:
    samples = near(0.3, 0.2, 0.4)
    assert is_least(samples, (2,)).verdict == "reproduced"
    assert is_least(samples, (1,)).verdict == "not reproduced"
    assert "2 better by more than chance" in is_least(samples, (1,)).found
    level = {**samples, 4.0: Sample((0.1995, 0.2015))}
    assert is_least(level, (2,)).verdict == "partly"
    assert is_least(level, (2, 4)).verdict == "reproduced", "what is stated need not differ among itself"


def test_bound_holds_for_all_points_or_for_half() -> None:
    assert stays_below([Sample((0.1,)), Sample((0.12,))], 0.13).verdict == "reproduced"
    assert stays_below([Sample((0.1,)), Sample((0.13,))], 0.13).verdict == "partly"
    assert stays_below([Sample((0.1,)), Sample((0.2,)), Sample((0.3,))], 0.13).verdict == "not reproduced"
    assert is_at_most([Sample((0.1,)), Sample((0.05,))], 0.1).verdict == "reproduced"
    assert is_at_most([Sample((0.2,)), Sample((0.05,))], 0.1).verdict == "partly"
    assert is_at_most([Sample((0.2,))], 0.1).verdict == "not reproduced"


def test_curve_below_everywhere_wins() -> None:
    assert beats(near(0.1, 0.2), near(0.3, 0.3)).verdict == "reproduced"
    assert beats(near(0.1, 0.4), near(0.3, 0.3)).verdict == "partly"
    assert beats(near(0.3, 0.3), near(0.3, 0.3)).verdict == "not reproduced"
    found = "below at 1 of 2 points, above at 1, such as 0.100 against 0.300 at 1"
    assert beats(near(0.1, 0.4), near(0.3, 0.3)).found == found
    assert beats({2_000.0: Sample((0.1,))}, {2_000.0: Sample((0.3,))}).found == "0.100 against 0.300 at 2,000"


def test_differing_verdicts_combine_to_partly() -> None:
    good, bad = Judgement("reproduced", "well"), Judgement("not reproduced", "badly")
    assert together({"a": good, "b": good}) == Judgement("reproduced", "a: well; b: well")
    assert together({"a": bad, "b": bad}).verdict == "not reproduced"
    assert together({"a": good, "b": bad}).verdict == "partly"
    assert together(dict.fromkeys("abcd", good)).found == "at all 4, such as a: well; b: well; c: well"
    many = together({"a": good, "b": good, "c": bad, "d": good})
    assert many == Judgement("partly", "not reproduced at 1 of 4, such as c: badly")


def test_claim_gives_its_reason_only_for_a_difference() -> None:
    assert claim("p", Judgement("reproduced", "x"), reason="why").reason == ""
    stated = claim("p", Judgement("partly", "x"), strict=Judgement("reproduced", "y"), reason="why")
    assert (stated.verdict, stated.reason, stated.ours) == ("partly", "why", "x. Strict mode (reproduced): y.")


def test_a_table_has_a_row_per_point() -> None:
    columns, rows = table_of("k", {"a": near(0.1, 0.2), "b": {2.0: Sample((0.5,))}})
    assert columns == ("k", "a", "b")
    assert rows == (("1", "0.100 ± 0.001", ""), ("2", "0.200 ± 0.001", "0.500"))
    assert "(+0.100)" in difference_note([near(0.1, 0.2)], [near(0.2, 0.3)])


def figure_4(best: int) -> Mapping[Mode, tuning.Losses]:
    """Losses with their minimum at this beta, and at a mu of 100."""
    losses = {
        (beta, mu): tuple(0.4 + abs(beta - best) / 1000 + abs(mu - 100) / 1000 + noise for noise in (-0.001, 0.001))
        for beta in (10, 50, 100)
        for mu in (50, 100, 150)
    }
    return {"paper": losses, "strict": losses}


def test_figure_4_is_judged_by_its_figures() -> None:
    for best, verdict in ((50, "reproduced"), (10, "not reproduced")):
        beta, mu = tuning.claims_4("UCI", figure_4(best), in_bulk=[0.9, 1.0])
        assert beta.verdict == verdict
        assert (beta.reason == "") == (verdict == "reproduced")
        assert mu.verdict == "reproduced"
    (_, both) = tuning.claims_4("SFU", figure_4(50), in_bulk=[0.9, 1.0])
    assert both.verdict == "reproduced"


def figure_6(low: float, high: float) -> dict[tuple[int, Mode], Curve]:
    """Losses that go from `low` at alpha 1 to `high` at alpha 2, a little less with the longer delay."""
    delays: tuple[tuple[int, float], ...] = ((1_000, 0.01), (5_000, 0.0))
    modes: tuple[Mode, ...] = ("paper", "strict")
    return {(delay, mode): near(low + more, high + more) for delay, more in delays for mode in modes}


def test_figure_6_is_judged_by_its_figures() -> None:
    assert [each.verdict for each in power_law.claims(figure_6(0.5, 0.05))] == ["reproduced"] * 3
    assert [each.verdict for each in power_law.claims(figure_6(0.5, 0.6))] == [
        "not reproduced",
        "not reproduced",
        "reproduced",
    ]


def figure_8(*listed: float) -> dict[workload.Line, Curve]:
    """Errors as given with final-weight, and small ones without."""
    modes: tuple[Mode, ...] = ("paper", "strict")
    return {
        (reading, "UCI", mode): near(*errors)
        for mode in modes
        for reading, errors in ((workload.LISTED, listed), (workload.WITHOUT, (0.03, 0.02, 0.01)))
    }


def test_figure_8_is_judged_by_its_figures() -> None:
    delay = workload.FIGURES[0]
    assert [each.verdict for each in workload.claims(delay, figure_8(0.12, 0.1, 0.08), "")] == ["reproduced"] * 2
    trend, bound = workload.claims(delay, figure_8(0.5, 0.6, 0.7), "age 0.010")
    assert (trend.verdict, bound.verdict) == ("partly", "partly")
    assert "age 0.010" in bound.reason


def figure_9(stated: float, longest: float) -> comparison.Losses:
    """Losses of CASTLE at a delay of 10,000 and at the end, against 0.2."""
    castle = {
        1_000.0: Sample((0.5, 0.502)),
        10_000.0: Sample((stated, stated + 0.002)),
        30_000.0: Sample((longest, longest + 0.002)),
    }
    groups = {2_000.0: Sample((0.3, 0.302)), 8_000.0: Sample((0.2, 0.202))}
    return comparison.Losses({"paper": castle, "strict": castle}, {comparison.SCALED: groups, comparison.RAW: groups})


def test_figure_9_is_judged_by_its_figures() -> None:
    assert [each.verdict for each in comparison.claims_9(figure_9(0.18, 0.15))] == ["reproduced"] * 4
    found = [each.verdict for each in comparison.claims_9(figure_9(0.3, 0.15))]
    assert found == ["reproduced", "not reproduced", "reproduced", "reproduced"]
    assert comparison.best_of({1.0: Sample((0.3,)), 2.0: Sample((0.2,))}).mean == 0.2


def test_figure_10_is_judged_by_its_figures() -> None:
    ours = {"CASTLE, paper": near(0.2, 0.2), "CASTLE, strict": near(0.2, 0.2)}
    theirs = {comparison.SCALED: near(0.3, 0.3), comparison.RAW: near(0.3, 0.3)}
    assert comparison.claim_10({**ours, **theirs}).verdict == "reproduced"
    assert comparison.claim_10({**ours, **theirs, comparison.RAW: near(0.1, 0.1)}).verdict == "partly"


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rows in the shape of Adult, for machines without it."""
    table = rows_like_adult(600)
    trees = {
        name: cg.Hierarchy.from_mapping({"*": {"low": [f"{name} 0", f"{name} 1"], "high": [f"{name} 2", f"{name} 3"]}})
        for name in (*adult.CATEGORICAL, "workclass")
    }
    monkeypatch.setattr(adult, "uci", lambda: table)
    monkeypatch.setattr(adult, "sfu", lambda: table)
    monkeypatch.setattr(adult, "hierarchies", lambda: trees)
    forget()
    yield
    forget()


def forget() -> None:
    """Rows that earlier tests have made."""
    paper_streams.rows_of.cache_clear()
    paper_streams._adult.cache_clear()


def rows_like_adult(rows: int) -> pa.Table:
    """Numbers and categories under the names of Adult."""
    draw = np.random.default_rng(0)
    columns = {name: pa.array(draw.integers(0, 100, rows)) for name in adult.NUMERIC}
    for name in (*adult.CATEGORICAL, "workclass"):
        columns[name] = pa.array([f"{name} {value}" for value in draw.integers(0, 4, rows)])
    return pa.table({**columns, adult.PERSON: pa.array(np.arange(rows))})


@pytest.mark.compiled
@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.figures[0])
def test_every_experiment_has_a_quick_run(experiment: Experiment) -> None:
    results = experiment.run(Scale(quick=True))
    assert {result.figure for result in results} <= set(experiment.figures)
    for result in results:
        assert result.claims
        assert all(one.reason for one in result.claims if one.verdict == "not reproduced")
        assert all(len(row) == len(result.columns) for row in result.rows)
        assert result.draw is not None


def test_every_figure_of_the_paper_is_repeated_once() -> None:
    figures = [figure for experiment in EXPERIMENTS for figure in experiment.figures]
    assert figures == [
        *("4a", "4b", "5a", "5b"),
        *("6a", "6b", "6c", "6d", "7a", "7b"),
        *("8a", "8b", "8c", "8d", "9a", "9b", "9c", "9d", "10a", "10b"),
    ]
    assert {experiment.paper for experiment in EXPERIMENTS} == {"castle"}


@pytest.mark.compiled
@pytest.mark.usefixtures("made_up")
def test_figures_can_be_drawn() -> None:
    pytest.importorskip("matplotlib")
    result = tuning.repeat_figure_4(Scale(quick=True))[0]
    target = io.BytesIO()
    with canvas(target, width=result.size[0], height=result.size[1]) as figure:
        assert result.draw is not None
        result.draw(figure)
        labels = [axes.get_xlabel() for axes in figure.axes]
    assert labels == ["β (open clusters at most)"] * 2
    assert target.getvalue().startswith(b"\x89PNG")


@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize("mode", ["paper", "strict"])
def test_rows_that_are_suppressed_lose_everything(mode: Mode) -> None:
    # 20 rows can never be 30 persons: every row is suppressed, at the root or dropped.
    run = Run(stream=paper_streams.Adult("UCI", ("age", "education"), rows=20), k=30, delay=40, mode=mode, seed=0)
    outcome = run_loss(run)
    assert (outcome.loss, outcome.suppressed, outcome.at_end) == (1.0, 1.0, 1.0)


@pytest.mark.usefixtures("made_up")
def test_the_loss_is_that_of_the_bounding_boxes() -> None:
    # k = 20 of 20 rows is one cluster with the range of all of them.
    stream = paper_streams.Adult("UCI", ("age", "fnlwgt"), rows=20)
    outcome = run_loss(Run(stream=stream, k=20, delay=40, mode="paper", seed=0))
    table = rows_like_adult(600)
    widths = [np.ptp(table.column(name).to_numpy()) for name in ("age", "fnlwgt")]
    ranges = [np.ptp(table.column(name).to_numpy()[:20]) for name in ("age", "fnlwgt")]
    expected = float(np.mean([part / whole for part, whole in zip(ranges, widths, strict=True)]))
    assert outcome.loss == pytest.approx(expected)
    assert outcome.in_bulk == 0.0
    assert run_loss(Run(stream=stream, k=10, delay=40, mode="paper", seed=0)).in_bulk == 1.0, "20 rows are 2k"
    grouped = grouping_loss(Grouping(stream=stream, k=20, history=20))
    assert grouped == pytest.approx(expected), "one group has the same box"


@pytest.mark.usefixtures("made_up")
def test_points_are_measured_once_each() -> None:
    runs = [
        Run(stream=paper_streams.Adult("UCI", ("age",), rows=30), k=2, delay=5, mode="paper", seed=s) for s in (0, 0, 1)
    ]
    found = measure(Scale(), run_loss, runs)
    assert list(found) == [runs[0], runs[2]]


@pytest.mark.usefixtures("made_up")
def test_exact_boxes_answer_without_an_error() -> None:
    # Groups of one row are published as they are.
    stream = paper_streams.Adult("UCI", ("age",), "workclass", rows=40)
    assert answer(Asked(method=Grouping(stream=stream, k=1, history=40), queries=20)) == 0.0
    assert answer(Asked(method=Grouping(stream=stream, k=40, history=40), queries=20)) > 0.0


@pytest.mark.usefixtures("made_up")
def test_purchases_repeat_the_attributes_of_a_person() -> None:
    table, coded = paper_streams.rows_of(paper_streams.Purchases(5, ("age", "fnlwgt"), rows=250))
    assert table.num_rows == coded.count == 250
    persons = table.column(adult.PERSON).to_numpy()
    assert (np.diff(persons) >= 0).all()
    assert np.unique(persons).size < 60, "everybody has five rows and more, in the mean"
    both = np.stack([persons, table.column("age").to_numpy(), table.column("fnlwgt").to_numpy()])
    assert np.unique(both, axis=1).shape[1] == np.unique(persons).size
