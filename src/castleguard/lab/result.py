"""One figure or table of a paper: the paper's statements, our findings, and a picture."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Word = Literal["reproduced", "partly", "not reproduced", "not comparable"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement of a paper, and our finding."""

    paper: str
    """The statement, in one sentence."""
    ours: str
    """Our finding, with figures."""
    verdict: Word
    reason: str = ""
    """Why it differs, if it does."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One figure or table of a paper, repeated."""

    figure: str
    """The paper's number, such as "5a"; a section if it has none, such as "VI-B"."""
    title: str
    setting: str
    """Data, rows, parameters, runs and seeds: everything needed to repeat it."""
    claims: tuple[Claim, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    """The figures as a table, one row per point."""
    draw: Callable[[Any], None] | None = field(default=None, repr=False, compare=False)
    """Draws on an empty matplotlib figure, with labels and units."""
    size: tuple[float, float] = (7.5, 4.5)
    """Size of that figure, in inches."""
    notes: tuple[str, ...] = ()
    """Notes for the reader: deviations from the paper, with reasons."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Amount of work."""

    seed: int = 0
    jobs: int = 1
    """Processes."""
    quick: bool = False
    """A few points on few rows: a smoke test, not a comparison with the paper."""
    full: bool = False
    """Every point and method, at any cost of time."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Figures of a paper that share their runs."""

    paper: str
    """castle, castleguard, dcastle or doca."""
    figures: tuple[str, ...]
    about: str
    """Subject, in a few words."""
    needs: tuple[str, ...]
    """Names of the data sets it reads."""
    run: Callable[[Scale], Sequence[Result]]
