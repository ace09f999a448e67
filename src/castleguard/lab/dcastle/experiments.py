"""The four parts of the paper's evaluation, in its order."""

from collections.abc import Callable, Sequence
from types import ModuleType

from castleguard.lab.datasets import ADULT
from castleguard.lab.dcastle import contributions, diversity, effectiveness, traffic
from castleguard.lab.dcastle.study import Study, study
from castleguard.lab.result import Experiment, Result, Scale

_PARTS = {
    contributions: "6.1: what the parameters contribute to the loss",
    traffic: "6.2: the bytes that sites send",
    diversity: "6.3: what l-diversity costs",
    effectiveness: "6.4: what sites gain by talking",
}


def run_part(part: ModuleType, given: Study) -> list[Result]:
    """Figures of one part; runs of earlier parts are reused."""
    given.runs.find(part.points(given), jobs=given.jobs)
    found: list[Result] = part.results(given)
    return found


def _runner(part: ModuleType) -> Callable[[Scale], Sequence[Result]]:
    return lambda scale: run_part(part, study(scale))


EXPERIMENTS = tuple(
    Experiment(paper="dcastle", figures=part.FIGURES, about=about, needs=(ADULT.name,), run=_runner(part))
    for part, about in _PARTS.items()
)
