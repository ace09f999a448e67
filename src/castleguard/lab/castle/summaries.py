"""Summaries of runs: curves of repeated runs, tables of curves, claims with verdicts, and shared notes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TypeVar

from castleguard.lab.castle.curves import Picture
from castleguard.lab.castle.rules import Curve, Judgement, Sample
from castleguard.lab.result import Claim, Result, Scale

SEEDS = 5
LOSS_NOTE = (
    "The loss is the mean over all rows, measured before the gate. A row at the root loses 1, and so does one that "
    "strict mode drops. Points are means, bars standard deviations, over runs that differ in random choices."
)
END_NOTE = (
    "The paper does not say how this stream ends. Here it ends as in section 5.3 of the paper: clusters of k persons "
    "leave, then rows that a published box contains, and the rest leaves as one cluster."
)
ORDER_NOTE = (
    "The paper does not state which attributes a QI of size n has: the first n in its list are taken (age, "
    "final-weight, education-number, capital-gain, capital-loss, hours-per-week, education, marital-status, "
    "occupation, nation)."
)
POINTS_NOTE = "The paper's figure has no values to read off; the points are chosen here."

Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]  # headings, and a row per point

_Line = TypeVar("_Line")
_Run = TypeVar("_Run")
_Found = TypeVar("_Found")


def seeds_of(scale: Scale, number: int = SEEDS) -> range:
    """Seeds of repeated runs; one for a quick run."""
    return range(scale.seed, scale.seed + (1 if scale.quick else number))


def some(values: Sequence[_Line], scale: Scale) -> Sequence[_Line]:
    """Points of an axis; only its ends for a quick run."""
    return (values[0], values[-1]) if scale.quick and len(values) > 1 else values


def flat(grid: Mapping[_Line, Mapping[float, Sequence[_Run]]]) -> list[_Run]:
    """All runs of a grid of lines and points."""
    return [run for line in grid.values() for runs in line.values() for run in runs]


def curves(
    grid: Mapping[_Line, Mapping[float, Sequence[_Run]]],
    found: Mapping[_Run, _Found],
    value: Callable[[_Found], float],
) -> dict[_Line, Curve]:
    """Measurements by line and point."""
    return {
        name: {at: Sample(tuple(value(found[run]) for run in runs)) for at, runs in line.items()}
        for name, line in grid.items()
    }


def claim(paper: str, judged: Judgement, *, strict: Judgement | None = None, reason: str = "") -> Claim:
    """Compare a statement of the paper with our findings; `reason` is kept only if paper mode differs."""
    ours = judged.found if strict is None else f"{judged.found}. Strict mode ({strict.verdict}): {strict.found}"
    differs = judged.verdict != "reproduced"
    return Claim(paper=paper, ours=f"{ours}.", verdict=judged.verdict, reason=reason if differs else "")


def table_of(varied: str, lines: Mapping[str, Curve]) -> Table:
    """Column headings, and a row per point."""
    points = list(dict.fromkeys(at for curve in lines.values() for at in curve))
    rows = tuple((f"{at:,.10g}", *(str(curve[at]) if at in curve else "" for curve in lines.values())) for at in points)
    return (varied, *lines), rows


def illustrate(result: Result, table: Table, picture: Picture) -> Result:
    """The result with its figures as a table and as a picture."""
    columns, rows = table
    return replace(result, columns=columns, rows=rows, draw=picture, size=picture.size)


def difference_note(paper: Sequence[Curve], strict: Sequence[Curve], what: str = "loss") -> str:
    """Extra loss of strict mode over paper mode, over all points."""
    pairs = [
        (mine.mean, theirs.mean)
        for before, after in zip(paper, strict, strict=True)
        for mine, theirs in zip(before.values(), after.values(), strict=True)
    ]
    more = fmean(theirs - mine for mine, theirs in pairs)
    return (
        f"Strict mode has a mean {what} of {fmean(theirs for _, theirs in pairs):.3f}, paper mode of "
        f"{fmean(mine for mine, _ in pairs):.3f} ({more:+.3f}): strict bounds are widened to a public grid of a "
        f"hundredth of the domain, and ties go to the oldest cluster."
    )


def percent(share: float) -> str:
    """A share as text."""
    return f"{100 * share:.2g} %"
