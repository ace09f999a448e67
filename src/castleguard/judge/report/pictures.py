"""How the pictures of a report are made: a PNG with a title and a caption that says how to read it.

What can be told apart is told apart in grey too: by hatches, dashes, markers and words. Pictures hold counts and shares
and never a value of a row. Without matplotlib there are none.
"""

import io
from collections.abc import Callable
from typing import Any, NamedTuple

from castleguard.drawing import ORANGE, canvas

Draw = Callable[[Any], None]
"""Draws into axes."""

HEIGHT = 3.0
_WIDTH = 6.4


class Picture(NamedTuple):
    """A PNG, and what to say about it."""

    title: str
    png: bytes
    caption: str
    """How to read it."""


def have_matplotlib() -> bool:
    """Whether pictures can be drawn at all."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


def picture(title: str, draw: Draw, height: float, caption: str) -> Picture:
    """Draw it. Raises ModuleNotFoundError without matplotlib."""
    png = io.BytesIO()
    with canvas(png, width=_WIDTH, height=height) as figure:
        draw(figure.subplots())
    return Picture(title, png.getvalue(), caption)


def height(bars: int) -> float:
    """The height of a picture with so many bars, in inches."""
    return 1.2 + 0.32 * bars


def mark(axes: Any, at: float, label: str, *, style: str = "--", colour: str = ORANGE) -> None:
    """A vertical line with its words in the legend."""
    axes.axvline(at, color=colour, linestyle=style, linewidth=1.8, label=label)
    axes.legend(loc="best", frameon=False)
