"""Run experiments one after another, each in several processes."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from castleguard.lab.catalogue import is_same
from castleguard.lab.result import Experiment, Result, Scale
from castleguard.workers import workers

_Task = TypeVar("_Task")
_Found = TypeVar("_Found")


@dataclass(frozen=True, kw_only=True)
class Done:
    """Results of one experiment."""

    experiment: Experiment
    results: tuple[Result, ...]
    seconds: float
    """Seconds of wall time."""


def run(experiments: Sequence[Experiment], scale: Scale, *, figures: Sequence[str] = ()) -> Iterator[Done]:
    """Run each experiment on demand; yield its results, all or those with one of these figures."""
    for experiment in experiments:
        start = time.monotonic()
        results = [result for result in experiment.run(scale) if _is_asked(experiment, result, figures)]
        yield Done(experiment=experiment, results=tuple(results), seconds=time.monotonic() - start)


def spread(function: Callable[[_Task], _Found], tasks: Sequence[_Task], jobs: int) -> list[_Found]:
    """Results of the function for every task, in order, computed in `jobs` processes.

    The function must be importable by name. Each task has its own seed: the number of processes changes no result.
    """
    with workers(min(jobs, len(tasks))) as pool:
        return list(pool.map(function, tasks))


def _is_asked(experiment: Experiment, result: Result, figures: Sequence[str]) -> bool:
    if result.figure not in experiment.figures:
        raise AssertionError(f"an experiment of {experiment.paper} did not announce its figure {result.figure}")
    return not figures or any(is_same(result.figure, figure) for figure in figures)
