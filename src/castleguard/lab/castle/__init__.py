"""Figures of CASTLE's paper (Cao, Carminati, Ferrari, Tan 2011, section 5), repeated.

Read `paper_streams` (the data), `repeated_runs` and `query_errors` (the measurements), `rules` (the verdicts), then the
figures: `tuning` (4, 5), `power_law` (6), `duplicates` (7), `workload` (8), `comparison` (9, 10). Each runs CASTLE as
printed, on which the verdict rests, and strict beside it.
"""

from castleguard.lab.castle import comparison, duplicates, power_law, tuning, workload
from castleguard.lab.result import Experiment

_ADULT = ("adult",)
_PARTS = (
    (("4a", "4b"), "information loss by the number of clusters and the loss window", _ADULT, tuning.repeat_figure_4),
    (("5a", "5b"), "information loss by the number of quasi-identifiers and by k", _ADULT, tuning.repeat_figure_5),
    (("6a", "6b", "6c", "6d"), "information loss on power-law data", (), power_law.repeat_figure_6),
    (("7a", "7b"), "information loss where persons have several rows", _ADULT, duplicates.repeat_figure_7),
    (
        tuple(varied.figure for varied in workload.FIGURES),
        "errors of counting queries on what CASTLE publishes",
        _ADULT,
        workload.repeat_figure_8,
    ),
    (("9a", "9b", "9c", "9d"), "information loss of CASTLE and dynamicGroup", _ADULT, comparison.repeat_figure_9),
    (
        ("10a", "10b"),
        "errors of counting queries on what CASTLE and dynamicGroup publish",
        _ADULT,
        comparison.repeat_figure_10,
    ),
)

EXPERIMENTS = tuple(
    Experiment(paper="castle", figures=figures, about=about, needs=needs, run=run)
    for figures, about, needs, run in _PARTS
)
