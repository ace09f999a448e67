"""The paper's statements about Figures 4 to 6, and our verdicts."""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from castleguard.lab.castleguard.agreement import Agreement
from castleguard.lab.castleguard.lessons import Marks
from castleguard.lab.result import Claim, Word

# Accuracies that the paper gives.
NEAREST_ORIGINAL, NEAREST_BEST, NETWORK_ORIGINAL, NETWORK_BEST = 0.5487, 0.659, 0.7056, 0.684
BEST_PLACE = (100.0, 0.25)  # phi and rate of its maximum for k-nearest neighbours
AS_THEY_ARE, SCALED = 0, 1
_SCALES = ((AS_THEY_ARE, "as they are"), (SCALED, "scaled"))
_CHANCE = 0.03  # about one standard deviation of a share of 230 held-out rows
_TREND = 0.5  # smallest absolute correlation that counts

Cells = Mapping[tuple[float, float], Marks]  # by phi and rate
Grid = Mapping[tuple[float, float], float]


class Found(NamedTuple):
    """All scores, averaged over the splits."""

    original: Marks
    paper: Cells
    strict: Cells
    """With all rows kept."""
    folds: Agreement
    """The authors' figure for the original rows, and the correct comparison."""
    majority: float
    """The share of the more frequent outcome."""


def judge_nearest_original(found: Found) -> Claim:
    """Reproduced if held-out rows give it within chance; partly if the authors' comparison does, to half a point."""
    ours, theirs = found.original.neighbours, found.folds.with_others
    is_near = any(abs(share - NEAREST_ORIGINAL) <= _CHANCE for share in ours)
    is_explained = abs(theirs - NEAREST_ORIGINAL) <= 0.005
    return Claim(
        paper=f"Trained on the original data, k-NN has an accuracy of {NEAREST_ORIGINAL:.2%}.",
        ours=f"Held-out rows: {ours[AS_THEY_ARE]:.1%} as they are, {ours[SCALED]:.1%} scaled. As the authors' code "
        f"compares: {theirs:.2%}.",
        verdict="reproduced" if is_near else "partly" if is_explained else "not reproduced",
        reason="The value is found, but it is not an accuracy: predictions are compared with the labels of other rows."
        if is_explained and not is_near
        else "",
    )


def judge_nearest_better(found: Found) -> Claim:
    """Reproduced if half of the cells are equivalent or better for held-out rows, within chance; partly if they are by
    the authors' comparison."""
    cells = [marks.neighbours[AS_THEY_ARE] for marks in found.paper.values()]
    control, theirs = found.original.neighbours[AS_THEY_ARE], found.folds.with_others
    equivalent = sum(share >= control - _CHANCE for share in cells)
    compared = [marks.agreed.with_others for marks in found.paper.values()]
    above = sum(share >= theirs for share in compared)
    half = len(cells) / 2
    verdict: Word = "reproduced" if equivalent >= half else "partly" if above >= half else "not reproduced"
    return Claim(
        paper="Training k-NN on CASTLEGUARD data is generally equivalent, if not better, than on original data.",
        ours=f"Held-out rows: {min(cells):.1%} to {max(cells):.1%}, against {control:.1%}; {equivalent} of "
        f"{len(cells)} cells are better, or less than three points worse. As the authors' code compares: "
        f"{min(compared):.1%} to {max(compared):.1%}, {above} of {len(cells)} cells above {theirs:.1%}.",
        verdict=verdict,
        reason="By that comparison learning less helps: the more frequent outcome is then predicted more often."
        if verdict == "partly"
        else "",
    )


def judge_nearest_best(found: Found) -> Claim:
    """The authors' maximum: reproduced if value (within chance) and place agree, partly if one does."""
    compared = {key: marks.agreed.with_others for key, marks in found.paper.items()}
    held_out = {key: marks.neighbours[AS_THEY_ARE] for key, marks in found.paper.items()}
    best = max(compared, key=lambda key: compared[key])
    is_near, is_there = abs(compared[best] - NEAREST_BEST) <= _CHANCE, best == BEST_PLACE
    there = f"; {compared[BEST_PLACE]:.1%} {_place(BEST_PLACE)}" if BEST_PLACE in compared else ""
    return Claim(
        paper=f"k-NN reaches {NEAREST_BEST:.1%} at most, {_place(BEST_PLACE)}.",
        ours=f"As the authors' code compares: {_best(compared)}{there}. Held-out rows: {_best(held_out)}.",
        verdict="reproduced" if is_near and is_there else "partly" if is_near or is_there else "not reproduced",
        reason=f"Always predicting the more frequent outcome gives {found.majority:.1%}.",
    )


def judge_network_original(found: Found) -> Claim:
    """Reproduced within chance."""
    ours = found.original.network
    return Claim(
        paper=f"Trained on the original data, the neural network has an accuracy of {NETWORK_ORIGINAL:.2%}.",
        ours=f"{ours[AS_THEY_ARE]:.1%} with values as they are, {ours[SCALED]:.1%} scaled.",
        verdict=_near([abs(share - NETWORK_ORIGINAL) for share in ours]),
    )


def judge_network_below(found: Found) -> Claim:
    """Reproduced if every cell is below the original data in both scales, partly if three of four are in one scale."""
    parts, shares = [], []
    for at, words in _SCALES:
        control = found.original.network[at]
        below = sum(marks.network[at] < control for marks in found.paper.values())
        shares.append(below / len(found.paper))
        parts.append(f"{below} of {len(found.paper)} cells are below {control:.1%} with values {words}")
    return Claim(
        paper="Trained on anonymised data, the network is consistently below the one trained on original data.",
        ours=f"{'; '.join(parts)}.",
        verdict="reproduced" if min(shares) == 1 else "partly" if max(shares) >= 0.75 else "not reproduced",
    )


def judge_network_best(found: Found) -> Claim:
    """Reproduced within chance."""
    grids = [{key: marks.network[at] for key, marks in found.paper.items()} for at, _ in _SCALES]
    return Claim(
        paper=f"It reaches {NETWORK_BEST:.1%} at most, with phi=100 and a rate of 0.5.",
        ours=f"With values as they are {_best(grids[AS_THEY_ARE])}; scaled {_best(grids[SCALED])}.",
        verdict=_near([abs(max(grid.values()) - NETWORK_BEST) for grid in grids]),
    )


def judge_no_trend(found: Found) -> Claim:
    """Reproduced if neither scale correlates with log phi or the rate, partly if one does not."""
    parts, clear = [], []
    for at, words in _SCALES:
        by_phi, by_rate = _trends({key: marks.network[at] for key, marks in found.paper.items()})
        parts.append(f"{by_phi:+.2f} with log phi and {by_rate:+.2f} with the rate, values {words}")
        clear.append(max(abs(by_phi), abs(by_rate)) >= _TREND)
    return Claim(
        paper="Its accuracy does not appear to clearly correlate with phi and the sampling rate.",
        ours=f"Correlations over the cells: {'; '.join(parts)}.",
        verdict="not reproduced" if all(clear) else "partly" if any(clear) else "reproduced",
    )


def judge_area(found: Found) -> Claim:
    """Whether it grows: it correlates with log phi and ends 0.03 above its start, in both scales, or in one."""
    parts, grows = [], []
    phis = sorted({phi for phi, _ in found.paper})
    for at, words in _SCALES:
        grid = {key: marks.area[at] for key, marks in found.paper.items()}
        ends = [statistics.fmean(area for key, area in grid.items() if key[0] == phi) for phi in (phis[0], phis[-1])]
        trend = _trends(grid)[0]
        parts.append(f"{ends[0]:.3f} to {ends[1]:.3f}, correlation with log phi {trend:+.2f}, values {words}")
        grows.append(trend >= _TREND and ends[1] > ends[0] + _CHANCE)
    original = found.original.area
    return Claim(
        paper="The area under the ROC curve grows with phi.",
        ours=f"From phi={phis[0]:,g} to {phis[-1]:,g}, mean over the rates: {'; '.join(parts)}. Original data: "
        f"{original[AS_THEY_ARE]:.3f} and {original[SCALED]:.3f}.",
        verdict="reproduced" if all(grows) else "partly" if any(grows) else "not reproduced",
    )


def _near(differences: Sequence[float]) -> Word:
    """Reproduced if unscaled values agree within chance, partly if only scaled ones do."""
    is_near = [difference <= _CHANCE for difference in differences]
    return "reproduced" if is_near[AS_THEY_ARE] else "partly" if is_near[SCALED] else "not reproduced"


def _trends(grid: Grid) -> tuple[float, float]:
    """Correlations with log phi and with the rate."""
    values = list(grid.values())
    if np.ptp(values) == 0:
        return 0.0, 0.0
    axes = ([np.log(phi) for phi, _ in grid], [rate for _, rate in grid])
    by_phi, by_rate = (float(np.corrcoef(axis, values)[0, 1]) for axis in axes)
    return by_phi, by_rate


def _best(grid: Grid) -> str:
    best = max(grid, key=lambda key: grid[key])
    return f"{grid[best]:.1%} at most, {_place(best)}"


def _place(key: tuple[float, float]) -> str:
    return f"with phi={key[0]:,g} and a rate of {key[1]:g}"
