"""Style of all figures, with lines that remain distinguishable in grey. Needs matplotlib, the extra `plot`."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

INK, BLUE, ORANGE, GREY = "#22303c", "#2f6f9f", "#d9822b", "#9aa5b1"
COLOURS = ("#2f6f9f", "#d9822b", "#4f9d69", "#b5495b", "#7a5ea8", "#8a7a3b")
# The colours look alike in grey: dashes and markers distinguish the lines.
LINES: tuple[dict[str, Any], ...] = tuple(
    {"color": colour, "linestyle": dash, "marker": marker, "linewidth": 1.6, "markersize": 5}
    for colour, dash, marker in zip(
        COLOURS, ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 1))), "osD^vP", strict=True
    )
)
STYLE: Any = {
    "font.size": 10,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "image.cmap": "viridis",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def canvas(target: Path | io.BytesIO, *, width: float, height: float) -> Iterator[Any]:
    """Yield a figure (size in inches) and write it to the target as PNG when the block ends without an error.

    Raises ModuleNotFoundError without matplotlib.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with mpl.rc_context(STYLE):
        figure = plt.figure(figsize=(width, height), layout="constrained")
        try:
            yield figure
            if isinstance(target, Path):
                target.parent.mkdir(parents=True, exist_ok=True)
            # Without date and version, equal figures are equal bytes.
            figure.savefig(target, dpi=130, facecolor="white", format="png", metadata={"Software": None})
        finally:
            plt.close(figure)
