"""Experiments by paper and figure, and how they are run."""

import sys
import time
from collections.abc import Sequence
from types import ModuleType

import pytest

from castleguard.errors import UsageError
from castleguard.lab import catalogue, datasets, running
from castleguard.lab.result import Claim, Experiment, Result, Scale

CLAIM = Claim(paper="It is so.", ours="It is.", verdict="reproduced")


def result(figure: str) -> Result:
    return Result(figure=figure, title="a title", setting="a setting", claims=(CLAIM,))


def experiment(*figures: str, paper: str = "castle") -> Experiment:
    def run(scale: Scale) -> Sequence[Result]:
        return [result(figure) for figure in figures]

    return Experiment(paper=paper, figures=figures, about="something", needs=(), run=run)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """CASTLE has figures 5a, 5b and 6; DOCA has a table and a figure 6."""
    own = {
        "castle": (experiment("5a", "5b"), experiment("6")),
        "doca": (experiment("Table 1", "6", paper="doca"),),
    }
    for paper, experiments in own.items():
        module = ModuleType(f"castleguard.lab.{paper}")
        module.EXPERIMENTS = experiments  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_all_experiments_of_the_papers_in_their_order(made_up: None) -> None:
    assert [each.figures for each in catalogue.select(["castle", "doca"])] == [("5a", "5b"), ("6",), ("Table 1", "6")]


def test_a_figure_selects_the_experiments_that_have_it(made_up: None) -> None:
    assert [each.figures for each in catalogue.select(["castle"], ["5b"])] == [("5a", "5b")]
    assert [each.paper for each in catalogue.select(["castle", "doca"], ["6"])] == ["castle", "doca"]
    assert [each.figures for each in catalogue.select(["doca"], ["table-1"])] == [("Table 1", "6")]


def test_unknown_figure_is_refused_with_the_known_ones(made_up: None) -> None:
    with pytest.raises(UsageError, match=r"no figure 7 .*\(castle: 5a, 5b, 6; doca: Table 1, 6\)"):
        catalogue.select(["castle", "doca"], ["6", "7"])


@pytest.mark.parametrize(
    ("figure", "heading", "slug"),
    [
        ("5a", "Figure 5a", "5a"),
        ("12", "Figure 12", "12"),
        ("6.1-k", "Section 6.1-k", "6.1-k"),
        ("VI-B", "Section VI-B", "vi-b"),
        ("Table 1", "Table 1", "table-1"),
    ],
)
def test_figures_have_names_for_texts_and_for_files(figure: str, heading: str, slug: str) -> None:
    assert catalogue.heading(figure) == heading
    assert catalogue.slug(figure) == slug


@pytest.mark.parametrize("paper", sorted(catalogue.PAPERS))
def test_no_figure_belongs_to_two_experiments(paper: str) -> None:
    found = catalogue.experiments(paper)
    assert found
    figures = [catalogue.slug(figure) for each in found for figure in each.figures]
    assert len(figures) == len(set(figures))
    for each in found:
        assert each.paper == paper
        assert set(each.needs) <= set(datasets.DATA_SETS)


def test_run_yields_the_requested_figures() -> None:
    whole, part = (list(running.run([experiment("5a", "5b")], Scale(), figures=asked)) for asked in ((), ("5B",)))
    assert [found.figure for found in whole[0].results] == ["5a", "5b"]
    assert [found.figure for found in part[0].results] == ["5b"]
    assert whole[0].seconds >= 0


def test_experiments_run_one_by_one() -> None:
    """So that finished results can be shown while the next experiment runs."""
    began: list[int] = []

    def run(scale: Scale) -> Sequence[Result]:
        began.append(scale.seed)
        return []

    slow = Experiment(paper="castle", figures=("1",), about="something", needs=(), run=run)
    found = running.run([slow, slow], Scale(seed=3))
    assert began == []
    next(found)
    assert began == [3]


def test_a_figure_that_was_not_announced_is_a_mistake() -> None:
    wrong = Experiment(paper="castle", figures=("1",), about="something", needs=(), run=lambda scale: [result("2")])
    with pytest.raises(AssertionError, match="did not announce its figure 2"):
        list(running.run([wrong], Scale()))


def test_tasks_keep_their_order_in_any_number_of_processes() -> None:
    assert running.spread(abs, [-3, 1, -2], 1) == [3, 1, 2]
    assert running.spread(abs, [], 4) == []


def test_seconds_are_wall_time() -> None:
    def run(scale: Scale) -> Sequence[Result]:
        time.sleep(0.02)
        return []

    slow = Experiment(paper="castle", figures=("1",), about="something", needs=(), run=run)
    assert next(running.run([slow], Scale())).seconds >= 0.02
