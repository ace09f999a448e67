"""Run a sweep in several processes, store each finished setting, and recommend one."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from castleguard.algorithms.policy import Policy
from castleguard.errors import CastleguardError
from castleguard.judge.sweep.advice import Advice, Limits, advise
from castleguard.judge.sweep.figures import Figures
from castleguard.judge.sweep.folder import PICTURE, REPORT, TABLE, Folder
from castleguard.judge.sweep.parameter_grid import Grid, Setting
from castleguard.judge.sweep.sweep_report import as_csv, as_report, rows_of
from castleguard.judge.sweep.trial import Ground, measure, warm_up
from castleguard.judge.sweep.weighing import Outcome, Weighed, weigh
from castleguard.telemetry.background import SupervisedThread, Task
from castleguard.workers import workers

_ground: list[Ground] = []  # per process: passed once at start, not with every setting


@dataclass(frozen=True, eq=False)
class Sweep:
    """All settings with their loss and risk, and the recommended one. `str()` shows the Pareto set."""

    grid: Grid
    weighed: Weighed
    advice: Advice
    about: Mapping[str, str] = field(default_factory=dict)
    """Description of the sweep."""

    @property
    def recommended(self) -> Policy:
        """Policy of the recommended setting."""
        return self.weighed.outcomes[self.advice.chosen].setting.policy

    def as_json(self) -> dict[str, Any]:
        """JSON form of all settings and the recommendation: figures, never a row's value."""
        ranks = {at: rank for rank, at in enumerate(self.weighed.best, start=1)}
        return {
            "about": dict(self.about),
            "lists": {name: list(values) for name, values in self.grid.lists.items()},
            "settings": [
                {
                    "parameters": dict(outcome.setting.parameters),
                    "figures": outcome.figures.as_json(),
                    "pareto": ranks.get(at),
                    "recommended": at == self.advice.chosen,
                }
                for at, outcome in enumerate(self.weighed.outcomes)
            ],
            "refused": [{"parameters": dict(each.parameters), "reason": each.reason} for each in self.grid.refused],
            "met": self.advice.met,
            "sentences": list(self.advice.sentences),
            "warnings": list(self.advice.warnings),
        }

    def write(self, folder: Folder) -> bool:
        """Write table, picture and report; return False if matplotlib is missing for the picture."""
        from castleguard.judge.sweep.pareto_picture import draw

        folder.write(TABLE, as_csv(self.weighed, self.grid))
        drawn = True
        try:
            title = f"{self.about['algorithm']} on {self.about['data']}"
            folder.write(PICTURE, draw(self.weighed, self.grid, self.advice.chosen, title=title))
        except ModuleNotFoundError as exc:
            if exc.name is None or exc.name.partition(".")[0] != "matplotlib":
                raise
            drawn = False
        folder.write(REPORT, as_report(self.about, self.weighed, self.grid, self.advice, picture=drawn))
        return drawn

    def __str__(self) -> str:
        table = rows_of(self.weighed, self.grid, self.advice.chosen, only_best=True)
        widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
        star = "recommended" if self.advice.met else "closest to the limits"
        best, settings = len(self.weighed.best), len(self.weighed.outcomes)
        lines += ["", f"Pareto set: {best} of {settings} settings; * is {star}.", "", *self.advice.sentences]
        if self.grid.refused:
            lines.append(f"Refused combinations: {len(self.grid.refused)}; the report gives the reasons.")
        lines += [f"note: {warning}" for warning in self.advice.warnings]
        return "\n".join(lines)


def recommend(
    ground: Ground,
    grid: Grid,
    folder: Folder | None = None,
    *,
    limits: Limits | None = None,
    jobs: int = 1,
    progress: Callable[[], None] | None = None,
    about: Mapping[str, str] | None = None,
) -> Sweep:
    """Measure every setting of a grid, compare them, and recommend one."""
    weighed = weigh(sweep(ground, grid.settings, folder, jobs=jobs, progress=progress))
    return Sweep(grid, weighed, advise(weighed, grid, limits or Limits()), about or {})


def sweep(
    ground: Ground,
    settings: Sequence[Setting],
    folder: Folder | None = None,
    *,
    jobs: int = 1,
    progress: Callable[[], None] | None = None,
) -> tuple[Outcome, ...]:
    """Measure every setting that is not in the folder yet, and return all outcomes in the order of the settings.

    Without a folder nothing is stored. `progress` is called after every setting. An interruption keeps finished
    settings and terminates all worker processes; a worker exits by itself if this process is killed.
    """
    done = {} if folder is None else dict(folder.done)
    left = [setting for setting in settings if setting.key not in done]
    if left:
        jobs = min(jobs, len(left))
        start = _start if jobs <= 1 else _start_worker
        others = set(multiprocessing.active_children())
        one_each = {setting.policy.name: setting.policy for setting in left}
        with workers(jobs, start=start, given=(ground, tuple(one_each.values()))) as pool:
            try:
                for setting, figures in _measured(pool, left, jobs):
                    done[setting.key] = figures
                    if folder is not None:
                        folder.add(setting, figures)
                    if progress is not None:
                        progress()
            except BrokenProcessPool as exc:
                raise CastleguardError(
                    "a worker process of the sweep died (out of memory?); finished settings are kept: "
                    "start again with fewer --jobs"
                ) from exc
            except BaseException:
                # Terminate the workers: leaving the block would otherwise wait for their current settings.
                for child in set(multiprocessing.active_children()) - others:
                    child.terminate()
                raise
            finally:
                _ground.clear()
    return tuple(Outcome(setting, done[setting.key]) for setting in settings)


def _measured(pool: Executor, settings: Sequence[Setting], jobs: int) -> Iterator[tuple[Setting, Figures]]:
    """Yield settings as they finish. Submits few at a time: with one process, submitting runs them."""
    waiting = iter(settings)
    running: dict[Future[Figures], Setting] = {}
    while True:
        while len(running) < (jobs if jobs <= 1 else 2 * jobs):
            setting = next(waiting, None)
            if setting is None:
                break
            with _uninterrupted(jobs > 1):
                running[pool.submit(_measure, setting.policy)] = setting
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            setting = running.pop(future)
            try:
                yield setting, future.result()
            except CastleguardError as exc:
                names = [name for name, _ in setting.parameters]
                raise CastleguardError(f"{setting.words(names)}: {exc}") from exc


def _measure(policy: Policy) -> Figures:
    return measure(_ground[0], policy)


def _start(ground: Ground, policies: Sequence[Policy]) -> None:
    """Prepare this process, with the compiled kernels of each policy."""
    _ground[:] = [ground]
    for policy in policies:
        warm_up(ground, policy)


def _start_worker(ground: Ground, policies: Sequence[Policy]) -> None:
    SupervisedThread("parent-watch", _end_with_parent)
    _start(ground, policies)


def _end_with_parent(task: Task) -> None:
    """Exit when the parent process is gone: its result is no longer needed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _uninterrupted(in_workers: bool) -> Iterator[None]:
    """Block SIGINT in workers started here: a terminal sends Ctrl-C to all processes, and only this one handles it."""
    if not in_workers or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
