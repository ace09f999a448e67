"""The experiment of DOCA's paper (2018), section 4, repeated."""

from castleguard.experiments.doca import hours
from castleguard.experiments.result import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (hours.EXPERIMENT,)
