"""Pictures of Figures 4 to 6: grids of phi and sampling rate with their values."""

from typing import Any

import numpy as np

from castleguard.lab.castleguard.statements import AS_THEY_ARE, SCALED, Found, Grid


def draw(found: Found, name: str, label: str, figure: Any) -> None:
    """As printed in both scales, strict, and for k-nearest neighbours the authors' comparison."""
    ways = ((found.paper, AS_THEY_ARE), (found.paper, SCALED), (found.strict, SCALED))
    grids = [{key: getattr(marks, name)[at] for key, marks in cells.items()} for cells, at in ways]
    originals = [getattr(found.original, name)[at] for _, at in ways]
    titles = ["as printed, values as they are", "as printed, scaled", "strict, scaled"]
    if name == "neighbours":
        grids.append({key: marks.agreed.with_others for key, marks in found.paper.items()})
        originals.append(found.folds.with_others)
        titles.append("as the authors compare")
    every = [100 * share for grid in grids for share in grid.values()]
    widths = [max(len({rate for _, rate in grid}), 2) for grid in grids]
    panels = figure.subplots(1, len(grids), width_ratios=widths)
    shown = None
    for axes, grid, title, original in zip(panels, grids, titles, originals, strict=True):
        shown = _draw_grid(axes, grid, (min(every), max(every)))
        axes.set_title(f"{title}\n(original: {100 * original:.1f})", fontsize=9)
        axes.set_xlabel("sample rate, beta")
    panels[0].set_ylabel("phi")
    figure.colorbar(shown, ax=list(panels), label=label)


def _draw_grid(axes: Any, grid: Grid, limits: tuple[float, float]) -> Any:
    phis, rates = (sorted({key[at] for key in grid}) for at in (0, 1))
    values = np.array([[100 * grid[phi, rate] for rate in rates] for phi in phis])
    shown = axes.imshow(values, vmin=limits[0], vmax=limits[1], aspect="auto", origin="lower")
    middle = (limits[0] + limits[1]) / 2
    for (row, column), value in np.ndenumerate(values):
        ink = "white" if value < middle else "black"
        axes.text(column, row, f"{value:.1f}", ha="center", va="center", color=ink, fontsize=9)
    axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axes.set_yticks(range(len(phis)), [f"{phi:,g}" for phi in phis])
    return shown
