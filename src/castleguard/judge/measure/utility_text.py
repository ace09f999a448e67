"""Plain-text form of utility figures, for a terminal or a notebook."""

import math
from itertools import groupby
from typing import TYPE_CHECKING

from castleguard.judge.report.text import wrapped

if TYPE_CHECKING:
    from castleguard.judge.measure.utility import Figure, Utility

_MOST_DIGITS = 1e6


def utility_text(found: "Utility") -> str:
    """Format the figures by section, each with its meaning."""
    names = max(len(figure.name) for figure in found.figures)
    values = max(len(_number(figure)) for figure in found.figures)
    lines: list[str] = []
    for section, figures in groupby(found.figures, key=lambda figure: figure.section):
        lines += ["", section] if lines else [section]
        shown: set[str] = set()
        for each in figures:
            # Do not repeat the same meaning for every column.
            meaning = "" if each.meaning in shown else each.meaning
            shown.add(each.meaning)
            lines.append(f"  {each.name:<{names}}  {_number(each):>{values}}  {meaning}".rstrip())
    for title, sentences in (("notes", found.notes), ("left out", found.left_out)):
        if sentences:
            lines += ["", title]
            lines += [wrapped(sentence, "  ", "    ") for sentence in sentences]
    return "\n".join(lines)


def _number(figure: "Figure") -> str:
    if isinstance(figure.value, int):
        return f"{figure.value:,}"
    if math.isnan(figure.value):
        return "-"
    spread = "" if math.isnan(figure.deviation) else f" ± {figure.deviation:.4f}"
    return (f"{figure.value:.3e}" if figure.value >= _MOST_DIGITS else f"{figure.value:.4f}") + spread
