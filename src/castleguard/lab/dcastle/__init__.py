"""Experiments of dCASTLE's paper (Mohamed, Ghanem, Nagi 2020, section 6), repeated: Adult over several sites.

The 30,162 complete rows go round-robin to n sites. The information loss is compared for centralised CASTLE, dCASTLE,
and sites that do not talk to each other: each as printed and strict, strict dCASTLE twice, with boxes shared from k
persons on and from the paper's k/n on. As in the paper, dCASTLE has 25 clusters and the others 50, the loss window is
100, and the delay counts rows of a site (with 10,000 and 8 sites nothing expires before the end, while centralised rows
expire). The columns before and after the sensitive one, of eleven, are quasi-identifiers, in the paper's order.

Losses are means over rows and attributes; suppressed, dropped and undecided rows count as 1. Engines without messages
are measured before the gate, which in paper mode would refuse rows that the paper publishes; strict dCASTLE is measured
behind it, by the joint output of all sites.

By the text of section 6.2 the sub-figures vary QI (a, b), k (c, d), the delay (e, f) and n (g), first with 2 sites and
then with 10; the last ones vary l.

Read `design` (the varied parameters), `contenders` (the methods), `runs` (how they run), `contributions`, `traffic`,
`l_diversity` and `effectiveness` (sections 6.1 to 6.4), and `verdicts`.
"""

from collections.abc import Callable, Sequence
from types import ModuleType

from castleguard.lab.datasets import ADULT
from castleguard.lab.dcastle import contributions, effectiveness, l_diversity, traffic
from castleguard.lab.dcastle.study import Study, study
from castleguard.lab.result import Experiment, Result, Scale

_PARTS = {
    contributions: "6.1: what the parameters contribute to the loss",
    traffic: "6.2: the bytes that sites send",
    l_diversity: "6.3: what l-diversity costs",
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
