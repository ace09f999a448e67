"""Audits and figures of utility as plain text, for a terminal or a notebook."""

import math
import textwrap
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from castleguard.judge.findings import Audit
    from castleguard.judge.measure.utility import Figure, Utility

_MARKS = {"passed": "passed", "failed": "FAILED", "warning": "warning", "not checked": "not checked"}
_WIDTH = 100
_INDENT = 15
_MOST_DIGITS = 1e6


def audit_text(found: "Audit") -> str:
    """The findings for a reader, and the verdict in the last line."""
    lines = [f"{name}: {text}" for name, text in found.subject.items()]
    lines += ["", _wrapped(found.promise)]
    for section in found.sections:
        lines += ["", section.title]
        for each in section.findings:
            mark = f"  {_MARKS[each.status]:<{_INDENT - 2}}"
            name = f" ({each.id})" if each.status == "failed" else ""
            lines.append(_wrapped(f"{each.title}{name} {each.sentence}", mark, " " * _INDENT))
    return "\n".join([*lines, "", _verdict(found)])


def utility_text(found: "Utility") -> str:
    """The figures for a reader, section by section, each with what it means."""
    names = max(len(figure.name) for figure in found.figures)
    values = max(len(_number(figure)) for figure in found.figures)
    lines: list[str] = []
    for section, figures in groupby(found.figures, key=lambda figure: figure.section):
        lines += ["", section] if lines else [section]
        shown: set[str] = set()
        for each in figures:
            # A meaning that stands above is not repeated for every column.
            meaning = "" if each.meaning in shown else each.meaning
            shown.add(each.meaning)
            lines.append(f"  {each.name:<{names}}  {_number(each):>{values}}  {meaning}".rstrip())
    for title, sentences in (("to know", found.notes), ("left out", found.left_out)):
        if sentences:
            lines += ["", title]
            lines += [_wrapped(sentence, "  ", "    ") for sentence in sentences]
    return "\n".join(lines)


def _verdict(found: "Audit") -> str:
    counts = ", ".join(f"{count} {_MARKS[status]}" for status in _MARKS if (count := found.count(status)))  # type: ignore[arg-type]
    if found.ok:
        return f"verdict: nothing was found broken ({counts})"
    broken = [each.id for section in found.sections for each in section.findings if each.status == "failed"]
    return f"verdict: BROKEN: {', '.join(broken)} ({counts})"


def _number(figure: "Figure") -> str:
    if isinstance(figure.value, int):
        return f"{figure.value:,}"
    if math.isnan(figure.value):
        return "-"
    spread = "" if math.isnan(figure.deviation) else f" ± {figure.deviation:.4f}"
    return (f"{figure.value:.3e}" if figure.value >= _MOST_DIGITS else f"{figure.value:.4f}") + spread


def _wrapped(text: str, first: str = "", others: str = "") -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=first, subsequent_indent=others, replace_whitespace=False)
