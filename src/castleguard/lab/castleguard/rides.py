"""One run over taxi rides and its information loss, by two measures.

The paper does not define its average information loss. The loss of published rows is one reading. The authors' code
suggests another: the mean over the clusters that are open when the stream ends. These are never published, and small
because they are unfinished.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from castleguard.algorithms.castleguard.policy import Castleguard
from castleguard.lab import taxi
from castleguard.lab.result import Experiment, Result, Scale
from castleguard.schema.roles import Numeric, Schema
from castleguard.stream import Anonymiser

K, DELAY, LOSS_WINDOW, MAX_CLUSTERS = 10, 200, 100, 25
RUNS = 5


def experiment(figure: str, about: str, run: Callable[[Scale], Sequence[Result]]) -> Experiment:
    """An experiment on taxi rides."""
    return Experiment(paper="castleguard", figures=(figure,), about=about, needs=("taxi",), run=run)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The varied parameters; the defaults are the paper's."""

    max_clusters: int = MAX_CLUSTERS
    """The paper's b."""
    loss_window: int = LOSS_WINDOW
    """The paper's mu."""
    phi: float = 10_000.0
    sample_rate: float = 1.0
    """The paper's beta."""
    strict: bool = False
    """Strict mode; phi is then the epsilon of every column."""

    def policy(self) -> Castleguard:
        """The policy for the engine."""
        return Castleguard(
            k=K,
            l=1,
            delay=DELAY,
            loss_window=self.loss_window,
            max_clusters=self.max_clusters,
            phi=self.phi,
            sample_rate=self.sample_rate,
            mode="strict" if self.strict else "paper",
        )


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Mean losses of several runs of one setting."""

    published: float
    """Mean loss of the published rows."""
    published_spread: float
    """Its standard deviation over the runs."""
    opened: float
    """Mean loss of the clusters that are open when the stream ends."""
    opened_spread: float
    rows: float
    """Published rows."""


def measure(rides: pa.Table, setting: Setting, seeds: Sequence[int]) -> Lost:
    """One run per seed."""
    schema = taxi.schema(rides, strict=setting.strict)
    runs = [_run(rides, schema, setting.policy(), seed) for seed in seeds]
    published, opened, rows = zip(*runs, strict=True)
    return Lost(
        published=statistics.fmean(published),
        published_spread=statistics.pstdev(published),
        opened=statistics.fmean(opened),
        opened_spread=statistics.pstdev(opened),
        rows=statistics.fmean(rows),
    )


def seeds(first: int, *, quick: bool) -> range:
    """Seeds of the paper's five runs, or of two."""
    return range(first, first + (2 if quick else RUNS))


def _run(rides: pa.Table, schema: Schema, policy: Castleguard, seed: int) -> tuple[float, float, int]:
    stream = Anonymiser(schema, policy, seed=seed)
    stream.push(rides)
    opened = _open_loss(stream, schema)
    stream.flush(warn=False)
    report = stream.report()
    return report.information_loss or 0.0, opened, report.published


def _open_loss(stream: Anonymiser, schema: Schema) -> float:
    """Mean loss of the open clusters; 0 if none is open."""
    arrays = stream._engine.snapshot()
    born, bounds = arrays["book"][0, :-1], arrays["bounds"]
    domains = [role.domain for role in schema.quasi_identifiers if isinstance(role, Numeric) and role.domain]
    widths = np.array([upper - lower for lower, upper in domains])
    shares = (bounds[1] - bounds[0])[:, born >= 0] / widths[:, None]
    return float(shares.mean()) if shares.size else 0.0
