"""Shared parts of all figures: runs, varied points, and the number of points."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from castleguard.lab.dcastle.contenders import CLUSTERS, CLUSTERS_ALONE, LOSS_WINDOW, STRICT_FEW
from castleguard.lab.dcastle.design import SWEEPS, Setting, Sweep, load, shortened
from castleguard.lab.dcastle.runs import Runs
from castleguard.lab.result import Scale


@dataclass(frozen=True, eq=False, kw_only=True)
class Study:
    """Runs over the points of the figures."""

    runs: Runs
    sweeps: Mapping[str, Sweep]
    jobs: int = 1
    quick: bool = False
    full: bool = False
    """Whether to include slow methods: strict sites that share boxes from k/n persons on, in every figure and point."""

    def settings(self, method: str, sweep: Sweep) -> list[Setting]:
        """Points of a method: all; for slow methods the ends and the middle, or almost none."""
        if method != STRICT_FEW or self.full:
            return sweep.settings()
        return [setting for setting in sweep.few() if not self.quick or setting.sites <= 2]

    def loss(self, method: str, setting: Setting) -> float | None:
        """Loss of a method at a point where it was run."""
        return self.runs.outcome(method, setting).loss if self.runs.has(method, setting) else None

    def about(self, parameters: str) -> str:
        """Data, parameters, runs and seeds of a figure."""
        seeds = self.runs.seeds
        runs = "one run per point" if len(seeds) == 1 else f"the mean of {len(seeds)} runs per point"
        return (
            f"Adult, {self.runs.data.table.num_rows:,} complete rows of the training file, dealt out to the sites in "
            f"turn; {parameters}; mu={LOSS_WINDOW}, beta={CLUSTERS} for sites that talk and {CLUSTERS_ALONE} for all "
            f"others; {runs}, seed {', '.join(map(str, seeds))}."
        )


@lru_cache(maxsize=1)
def study(scale: Scale) -> Study:
    """The study of a scale. Consecutive figures share it, and with it their runs."""
    sweeps = {letter: shortened(sweep) if scale.quick else sweep for letter, sweep in SWEEPS.items()}
    runs = Runs(load(quick=scale.quick), seed=scale.seed)
    return Study(runs=runs, sweeps=sweeps, jobs=scale.jobs, quick=scale.quick, full=scale.full)
