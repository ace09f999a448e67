"""The experiment of DOCA's paper (2018), section 4, repeated."""

from castleguard.lab.doca import hours
from castleguard.lab.result import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (hours.EXPERIMENT,)
