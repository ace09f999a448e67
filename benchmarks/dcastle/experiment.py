"""Runs methods at settings, each pair once, in this process or in several."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from multiprocessing import get_context
from statistics import fmean
from typing import Any

import pyarrow as pa
from pyarrow import csv

from benchmarks.dcastle.methods import METHODS, SHARING, Outcome, Runner, Task
from benchmarks.dcastle.settings import Setting, Sweep, make_schema


@dataclass(eq=False)
class Experiment:
    """The outcomes, found when they are first asked for; other processes find them ahead of that."""

    table: pa.Table
    runs: int = 1
    methods: Mapping[str, Runner] = field(default_factory=lambda: METHODS)
    _found: dict[tuple[str, Setting], Outcome] = field(default_factory=dict)
    _awaited: dict[tuple[str, Setting], Future[Outcome]] = field(default_factory=dict)

    def outcome(self, method: str, setting: Setting) -> Outcome:
        """The mean of the runs."""
        key = method, setting
        if key not in self._found:
            awaited = self._awaited.pop(key, None)
            run = self.methods[method]
            self._found[key] = awaited.result() if awaited else run_setting(run, self.table, setting, self.runs)
        return self._found[key]

    def find_ahead(self, sweeps: Sequence[Sweep], workers: Executor) -> None:
        """Let workers find what the tables of these sweeps will ask for, in that order."""
        settings = [setting for sweep in sweeps for setting in sweep.settings()]
        sharing = [each.name for each in SHARING]
        for setting in settings:
            wanted = [(name, setting) for name in self.methods]
            wanted += [(name, setting.without_l) for name in self.methods if name in sharing]
            for key in wanted:
                if key not in self._awaited and key not in self._found:
                    self._awaited[key] = workers.submit(_run_here, self.methods[key[0]], key[1], self.runs)

    @cached_property
    def data_bytes(self) -> int:
        """The size of the data as CSV."""
        sink = pa.BufferOutputStream()
        csv.write_csv(
            self.table.drop_columns(["pid"]), sink, csv.WriteOptions(include_header=False, quoting_style="none")
        )
        return int(sink.getvalue().size)


def run_setting(run: Runner, table: pa.Table, setting: Setting, runs: int) -> Outcome:
    """The mean of some runs of a method at a setting."""
    schema = make_schema(table, setting)
    columns = table.select(schema.columns)
    return mean([run(Task(columns, schema, setting, seed)) for seed in range(runs)])


def mean(outcomes: Sequence[Outcome]) -> Outcome:
    """The mean loss, and of what is counted the rounded mean; clusters are the most of all."""
    found: dict[str, Any] = {name: round(fmean(getattr(one, name) for one in outcomes)) for name in vars(outcomes[0])}
    found["loss"] = fmean(one.loss for one in outcomes)
    found["most_clusters"] = max(one.most_clusters for one in outcomes)
    # A promise that one run of many has broken must not be rounded away.
    found["groups_below_k"] = ceil(fmean(one.groups_below_k for one in outcomes))
    return Outcome(**found)


@contextmanager
def processes(number: int, table: pa.Table) -> Iterator[Executor]:
    """Workers that have the table. Who leaves early does not wait for what nobody has begun."""
    # Spawned, not forked: a fork would copy the locks of Arrow's threads in whatever state they are.
    pool = ProcessPoolExecutor(number, mp_context=get_context("spawn"), initializer=_start_worker, initargs=(table,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


_tables: list[pa.Table] = []  # of a worker: one


def _start_worker(table: pa.Table) -> None:
    quieten()
    _tables[:] = [table]


def _run_here(run: Runner, setting: Setting, runs: int) -> Outcome:
    return run_setting(run, _tables[0], setting, runs)


def quieten() -> None:
    """Every site of every run would warn of the paper's domains, whose steps are as fine as the data."""
    logging.getLogger("castleguard").setLevel(logging.ERROR)
