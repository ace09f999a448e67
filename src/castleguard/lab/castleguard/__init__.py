"""Experiments of CASTLEGUARD's paper (2020), sections V and VI, repeated."""

from castleguard.lab.castleguard import classifiers, cluster_limits, independence, tuples
from castleguard.lab.result import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    cluster_limits.EXPERIMENT,
    independence.EXPERIMENT,
    tuples.EXPERIMENT,
    classifiers.EXPERIMENT,
)
