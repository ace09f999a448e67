"""What came of one figure or table of a paper: what the paper states, what was found here, and a picture of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Word = Literal["reproduced", "partly", "not reproduced", "not comparable"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement of a paper, and what came of it."""

    paper: str
    """What it states, in one sentence."""
    ours: str
    """What was found, with figures."""
    verdict: Word
    reason: str = ""
    """Why it differs, where it does."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One figure or table of a paper, repeated."""

    figure: str
    """As the paper numbers it, such as "5a"; a section where there is no figure, such as "VI-B"."""
    title: str
    setting: str
    """Data, rows, parameters, runs and seeds: what somebody needs to find the same."""
    claims: tuple[Claim, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    """The figures as a table, one row per point."""
    draw: Callable[[Any], None] | None = field(default=None, repr=False, compare=False)
    """Draws on an empty matplotlib figure, with labels and units."""
    size: tuple[float, float] = (7.5, 4.5)
    """Of that figure, in inches."""
    notes: tuple[str, ...] = ()
    """What a reader must know about it: deviations from the paper, and why."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much work is done."""

    seed: int = 0
    jobs: int = 1
    """Processes."""
    quick: bool = False
    """A few points on few rows: to see that it works, not to compare with the paper."""
    full: bool = False
    """Every point and method, however long it takes."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Figures of a paper that come from the same runs."""

    paper: str
    """castle, castleguard, dcastle or doca."""
    figures: tuple[str, ...]
    about: str
    """What it shows, in a few words."""
    needs: tuple[str, ...]
    """Names of the data sets that it reads."""
    run: Callable[[Scale], Sequence[Result]]
