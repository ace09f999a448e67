"""The experiments of CASTLEGUARD's paper (2020), sections V and VI, repeated."""

from castleguard.lab.castleguard import classifiers, clusters, independence, tuples
from castleguard.lab.result import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    clusters.EXPERIMENT,
    independence.EXPERIMENT,
    tuples.EXPERIMENT,
    classifiers.EXPERIMENT,
)
