"""The table, the report and the picture of a sweep."""

import csv
import io

from castleguard.judge.sweep.advice import Limits, advise
from castleguard.judge.sweep.pareto_picture import draw, roles
from castleguard.judge.sweep.sweep_report import as_csv, as_report, rows_of
from tests.unit.judge.sweep.made_up import castle_grid, weighed

GRID = castle_grid(k=[5, 10, 40], delay=[20, 60])
WEIGHED = weighed(
    GRID,
    {
        (5, 20): {"loss": 0.30, "mean_risk": 0.20, "delay": 20},
        (5, 60): {"loss": 0.10, "mean_risk": 0.20, "delay": 60},
        (10, 20): {"loss": 0.35, "mean_risk": 0.09, "delay": 20},
        (10, 60): {"loss": 0.40, "mean_risk": 0.09, "delay": 60},
        (40, 60): {"loss": 0.60, "mean_risk": 0.02, "delay": 60},
    },
)
ADVICE = advise(WEIGHED, GRID, Limits())
PLACES = {outcome.setting.words(GRID.varied): at for at, outcome in enumerate(WEIGHED.outcomes)}


def test_csv_has_every_figure_and_numbers_the_pareto_set() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(WEIGHED, GRID).decode())))
    assert [(row["k"], row["delay_given"], row["pareto"]) for row in rows] == [
        ("5", "20", "4"), ("5", "60", "3"), ("10", "20", "2"), ("10", "60", ""), ("40", "60", "1"),
    ]  # fmt: skip
    assert rows[1]["loss"] == "0.1"
    assert rows[1]["epsilon"] == ""


def test_report_has_recommendation_and_refused_combinations() -> None:
    text = as_report({"data": "ages"}, WEIGHED, GRID, ADVICE, picture=True).decode()
    assert "- data: ages" in text
    assert ADVICE.sentences[0] in text
    assert "![Loss against risk](picture.png)" in text
    assert "- k=40 delay=20: delay must be at least k - 1" in text
    assert "counts as 1" in text
    assert text.count("\n| ") == 1 + len(WEIGHED.outcomes)
    assert "picture.png" not in as_report({}, WEIGHED, GRID, ADVICE, picture=False).decode()


def test_recommended_setting_has_a_star_in_the_table() -> None:
    titles, *rows = rows_of(WEIGHED, GRID, ADVICE.chosen)
    starred = [row for row in rows if row[0].endswith("*")]
    assert len(starred) == 1
    assert starred[0][1:3] == [str(WEIGHED.outcomes[ADVICE.chosen].setting.value(name)) for name in ("k", "delay")]
    assert "epsilon stated" not in titles  # no epsilon was claimed
    assert len(rows_of(WEIGHED, GRID, ADVICE.chosen, only_best=True)) == 1 + 4


def test_picture_is_a_png() -> None:
    assert draw(WEIGHED, GRID, ADVICE.chosen, title="ages").startswith(b"\x89PNG")


def test_single_setting_can_be_drawn() -> None:
    grid = castle_grid(k=[5], delay=[20])
    assert draw(weighed(grid, {(5, 20): {}}), grid, 0, title="alone").startswith(b"\x89PNG")


def test_lines_run_along_k_and_the_delay_has_the_styles() -> None:
    assert roles(GRID) == ("k", "delay", None)
    assert roles(castle_grid(k=[5, 6], l=[1, 2], delay=[20, 30])) == ("k", "delay", "l")
    assert roles(castle_grid(k=[5], delay=[20, 30])) == ("delay", None, None)
