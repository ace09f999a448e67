"""HTML report of a membership game, with pictures of the evidence from each canary."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from castleguard.drawing import BLUE, INK, ORANGE
from castleguard.judge.game.game import Judged, Played
from castleguard.judge.game.verdicts import NOT_PROVED, audit_of
from castleguard.judge.report.glossary import OF_GAMES
from castleguard.judge.report.page import Page, Repeat, save
from castleguard.judge.report.pictures import Draw, Picture, height, mark, picture


def write(played: Played, path: Path, *, policy: str, repeat: Repeat | None = None) -> None:
    """Write the report. `policy`: description of the policy. Raises OutputError if the file cannot be written."""
    page = Page(
        title="Audit of differential privacy",
        audit=audit_of(played, policy=policy),
        summary=_summary(played),
        draw=lambda: pictures_of_game(played),
        glossary=OF_GAMES,
        repeat=repeat,
    )
    save(page, path)


def _summary(played: Played) -> str:
    parts = []
    if played.own is None:
        parts.append("The policy claims no differential privacy, so it has no claim to refute.")
    for judged in played.judged:
        parts.append(f"The claim of {judged.stated.whose}, {judged.stated.claim}, is {judged.word}.")
    return " ".join([*parts, NOT_PROVED])


def pictures_of_game(played: Played) -> tuple[Picture, ...]:
    """One picture per claim; without claims, one of the bounds."""
    if not played.judged:
        draw = _draw_found(played)
        title = "Lower bound on epsilon from each canary"
        return (picture(title, draw, height(len(played.found.findings)), _FOUND_CAPTION),)
    return tuple(_claim_picture(judged) for judged in played.judged)


def _claim_picture(judged: Judged) -> Picture:
    """Bounds on epsilon per canary; on delta, if the claim has epsilon 0."""
    verdict, claim = judged.verdict, judged.stated.claim
    by_delta = claim.epsilon == 0 and claim.dp_delta > 0
    names = [found.canary for found in verdict.findings]
    proved = [found.dp_delta if by_delta else found.epsilon for found in verdict.findings]
    claimed = claim.dp_delta if by_delta else claim.epsilon
    reach = 1.0 if by_delta else verdict.ceiling
    word = "delta" if by_delta else "epsilon"

    def draw(axes: Any) -> None:
        _draw_bounds(axes, names, proved, claimed)
        mark(axes, claimed, f"claimed: {claimed:.3g}", style="--")
        mark(axes, reach, f"ceiling: {reach:.3g}", style=":", colour=INK)
        axes.set(xlim=(0, 1.06 * max(reach, claimed)), xlabel=f"{word} is at least")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=2, frameon=False)

    title = f"Claimed by {judged.stated.whose}: {claim} - {judged.word}"
    return picture(title, draw, height(len(names)) + 0.4, _claim_caption(word))


def _draw_found(played: Played) -> Draw:
    verdict = played.found

    def draw(axes: Any) -> None:
        _draw_bounds(axes, [found.canary for found in verdict.findings], [f.epsilon for f in verdict.findings], 0.0)
        mark(axes, verdict.ceiling, f"ceiling: {verdict.ceiling:.3g}", style=":", colour=INK)
        axes.set(xlim=(0, 1.06 * verdict.ceiling), xlabel="epsilon is at least")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.28), frameon=False)

    return draw


def _draw_bounds(axes: Any, names: Sequence[str], proved: Sequence[float], claimed: float) -> None:
    """Draw a bar for each canary, hatched if it exceeds the claim."""
    for place, value in enumerate(reversed(proved)):
        beyond = value > claimed
        axes.barh(
            place,
            value,
            height=0.6,
            color=ORANGE if beyond else BLUE,
            hatch="///" if beyond else None,
            edgecolor="white",
            linewidth=0,
        )
        axes.text(value, place, f" {value:.2f}", va="center")
    axes.set_yticks(range(len(names)), list(reversed(names)))


_FOUND_CAPTION = (
    "Lower bound on epsilon shown by each canary. Without differential privacy, epsilon has no limit: a bar that "
    "reaches the dotted line would be longer with more runs."
)


def _claim_caption(word: str) -> str:
    return (
        f"Each bar is the lower bound on {word} shown by one canary. A hatched bar beyond the dashed line refutes the "
        f"claim. Bars to its left do not prove the claim. With this number of runs, no bar can pass the dotted line."
    )
