"""The figures of CASTLE's paper (Cao, Carminati, Ferrari, Tan 2011, section 5), repeated.

Read `streams` (the data), `runs` and `answers` (what is measured), `rules` (how it is judged), then the figures:
`tuning` (4, 5), `distribution` (6), `duplicates` (7), `utility` (8), `comparison` (9, 10). All of them run CASTLE as
printed, by which the paper is judged, and strict beside it.
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
