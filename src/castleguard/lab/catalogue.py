"""All experiments by paper and figure. A paper's package is imported on demand."""

import re
from collections.abc import Sequence
from importlib import import_module

from castleguard.errors import UsageError
from castleguard.lab.result import Experiment

PAPERS = {
    "castle": "Cao, Carminati, Ferrari and Tan: CASTLE: Continuously Anonymizing Data Streams (2011)",
    "castleguard": "Robinson, Brown, Hall, Jackson, Kemp and Leeke: CASTLEGUARD: Anonymised Data Streams with "
    "Guaranteed Differential Privacy (2020)",
    "dcastle": "Mohamed, Ghanem and Nagi: Privacy-Preserving for Distributed Data Streams: Towards l-Diversity (2020)",
    "doca": "Leal, Vidal and Machado: Anonimização de Streaming de Dados em DOCA (2018)",
}


def experiments(paper: str) -> tuple[Experiment, ...]:
    """Experiments of one paper, in its order."""
    found: tuple[Experiment, ...] = import_module(f"castleguard.lab.{paper}").EXPERIMENTS
    return found


def select(papers: Sequence[str], figures: Sequence[str] = ()) -> list[Experiment]:
    """Experiments of these papers, all or those with one of these figures.

    Raises UsageError for a figure that none of these papers has.
    """
    every = [experiment for paper in papers for experiment in experiments(paper)]
    if not figures:
        return every
    for figure in figures:
        if not any(has(experiment, [figure]) for experiment in every):
            known = "; ".join(f"{paper}: {', '.join(_figures(paper))}" for paper in papers)
            raise UsageError(f"there is no figure {figure} among those that are repeated ({known})")
    return [experiment for experiment in every if has(experiment, figures)]


def has(experiment: Experiment, figures: Sequence[str]) -> bool:
    """Whether the experiment produces one of these figures; an empty list means any."""
    return not figures or any(is_same(own, asked) for own in experiment.figures for asked in figures)


def is_same(figure: str, asked: str) -> bool:
    """Whether two names denote the same figure, such as `Table 1` and `table-1`."""
    return slug(figure) == slug(asked)


def slug(figure: str) -> str:
    """A figure as part of a file name."""
    return figure.lower().replace(" ", "-")


def heading(figure: str) -> str:
    """A figure as a heading names it."""
    if re.fullmatch(r"\d+[a-z]?", figure):
        return f"Figure {figure}"
    return figure if figure.startswith("Table") else f"Section {figure}"


def _figures(paper: str) -> list[str]:
    return [figure for experiment in experiments(paper) for figure in experiment.figures]
