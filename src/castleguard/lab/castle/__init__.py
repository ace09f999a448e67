"""Figures of CASTLE's paper (Cao, Carminati, Ferrari, Tan 2011, section 5), repeated.

Read `paper_streams` (the data), `repeated_runs` and `query_errors` (the measurements), `rules` (the verdicts), then the
figures: `tuning` (4, 5), `power_law` (6), `duplicates` (7), `workload` (8), `comparison` (9, 10). Each runs CASTLE as
printed, on which the verdict rests, and strict beside it.
"""

from castleguard.lab.castle import comparison, duplicates, power_law, tuning, workload
from castleguard.lab.result import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    *tuning.EXPERIMENTS,
    *power_law.EXPERIMENTS,
    *duplicates.EXPERIMENTS,
    *workload.EXPERIMENTS,
    *comparison.EXPERIMENTS,
)
