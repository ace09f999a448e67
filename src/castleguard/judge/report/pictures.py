"""Pictures of a report: a PNG with a title and a caption that explains it.

Hatches, dashes, markers and labels keep the pictures readable in greyscale. They show counts and shares, never a value
of a row. Without matplotlib, a report has no pictures.
"""

import io
from collections.abc import Callable
from typing import Any, NamedTuple

from castleguard.drawing import ORANGE, canvas

Draw = Callable[[Any], None]
"""Function that draws into axes."""

HEIGHT = 3.0
_WIDTH = 6.4


class Picture(NamedTuple):
    """A PNG with title and caption."""

    title: str
    png: bytes
    caption: str


def have_matplotlib() -> bool:
    """Whether pictures can be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


def picture(title: str, draw: Draw, height: float, caption: str) -> Picture:
    """Draw a picture. Raises ModuleNotFoundError without matplotlib."""
    png = io.BytesIO()
    with canvas(png, width=_WIDTH, height=height) as figure:
        draw(figure.subplots())
    return Picture(title, png.getvalue(), caption)


def height(bars: int) -> float:
    """Height in inches of a picture with `bars` bars."""
    return 1.2 + 0.32 * bars


def mark(axes: Any, at: float, label: str, *, style: str = "--", colour: str = ORANGE) -> None:
    """Draw a vertical line with a label in the legend."""
    axes.axvline(at, color=colour, linestyle=style, linewidth=1.8, label=label)
    axes.legend(loc="best", frameon=False)
