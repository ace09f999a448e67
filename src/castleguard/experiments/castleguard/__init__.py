"""The experiments of CASTLEGUARD's paper (2020), sections V and VI, repeated."""

from castleguard.experiments.castleguard import classifiers, clusters, independence, tuples
from castleguard.experiments.result import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    clusters.EXPERIMENT,
    independence.EXPERIMENT,
    tuples.EXPERIMENT,
    classifiers.EXPERIMENT,
)
