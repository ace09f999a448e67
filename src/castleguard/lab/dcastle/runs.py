"""Run methods at settings, each pair once, in one process or several."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import ceil
from statistics import fmean
from typing import Any

from castleguard.lab.dcastle.contenders import AT_ONE_SITE, METHODS, PROMISE_K, STRICT_FEW, Outcome, Runner, Task
from castleguard.lab.dcastle.design import Data, Setting
from castleguard.workers import workers

Point = tuple[str, Setting]
"""A method and its setting."""


@dataclass(eq=False)
class Runs:
    """Outcomes, each computed once and shared by all figures."""

    data: Data
    seed: int = 0
    repeats: int = 1
    methods: Mapping[str, Runner] = field(default_factory=lambda: METHODS)
    _found: dict[Point, Outcome] = field(default_factory=dict)

    def find(self, points: Iterable[Point], *, jobs: int) -> None:
        """Compute the missing ones of these.

        Raises RuntimeError if a method that promises k has published a smaller group.
        """
        every = dict.fromkeys(_same(*point) for point in points)
        # Longest first: otherwise one process would end with it while the others wait.
        missing = sorted((point for point in every if point not in self._found), key=_is_short)
        with _processes(jobs if len(missing) > 1 else 1, self.data) as pool:
            awaited: list[tuple[Point, Future[Outcome]]] = [
                (point, pool.submit(_run_here, self.methods[point[0]], point[1], self.seeds)) for point in missing
            ]
            for point, future in awaited:
                self._found[point] = kept(point, future.result())

    def outcome(self, method: str, setting: Setting) -> Outcome:
        """Mean of the runs at a computed point."""
        return self._found[_same(method, setting)]

    def has(self, method: str, setting: Setting) -> bool:
        """Whether the point has been computed."""
        return _same(method, setting) in self._found

    @property
    def seeds(self) -> tuple[int, ...]:
        """Means of the runs at every point."""
        return tuple(range(self.seed, self.seed + self.repeats))


def _same(method: str, setting: Setting) -> Point:
    """One site with all rows gives the same result for any number of sites."""
    return method, replace(setting, sites=1) if method in AT_ONE_SITE else setting


def _is_short(point: Point) -> bool:
    method, setting = point
    return method != STRICT_FEW and setting.l <= 6


def kept(point: Point, outcome: Outcome) -> Outcome:
    """The outcome, checked against the promise of the method."""
    method, setting = point
    if method in PROMISE_K and outcome.groups_below_k:
        raise RuntimeError(
            f"strict must never publish a group below k, but did: {method}, {setting}: "
            f"{outcome.groups_below_k:,} groups below k"
        )
    return outcome


def run_setting(run: Runner, data: Data, setting: Setting, seeds: Sequence[int] = (0,)) -> Outcome:
    """Mean of some runs of a method at a setting."""
    schema = data.schema(setting)
    columns = data.table.select(schema.columns)
    return mean([run(Task(columns, schema, setting, seed)) for seed in seeds])


def mean(outcomes: Sequence[Outcome]) -> Outcome:
    """Mean loss, and rounded means of counts; the maximum of clusters."""
    found: dict[str, Any] = {name: round(fmean(getattr(one, name) for one in outcomes)) for name in vars(outcomes[0])}
    found["loss"] = fmean(one.loss for one in outcomes)
    found["most_clusters"] = max(one.most_clusters for one in outcomes)
    # A promise broken in one run of many must not be rounded away.
    found["groups_below_k"] = ceil(fmean(one.groups_below_k for one in outcomes))
    return Outcome(**found)


# -- In a process that does the work -----------------------------------------------------------------------------------

_data: list[Data] = []  # one entry in each worker process


@contextmanager
def _processes(number: int, data: Data) -> Iterator[Executor]:
    """Start workers with the data. Silence the warning about domains whose steps are as fine as the data: every site of
    every run would log it."""
    logger = logging.getLogger("castleguard")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with workers(number, start=_start_worker, given=(data,)) as pool:
            yield pool
    finally:
        logger.setLevel(level)


def _start_worker(data: Data) -> None:
    _data[:] = [data]


def _run_here(run: Runner, setting: Setting, seeds: Sequence[int]) -> Outcome:
    return run_setting(run, _data[0], setting, seeds)
