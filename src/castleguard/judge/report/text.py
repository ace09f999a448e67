"""Plain-text form of an audit, for a terminal or a notebook."""

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from castleguard.judge.report.findings import Audit

_MARKS = {"passed": "passed", "failed": "FAILED", "warning": "warning", "not checked": "not checked"}
_WIDTH = 100
_INDENT = 15


def audit_text(found: "Audit") -> str:
    """Format all findings, with the verdict in the last line."""
    lines = [f"{name}: {text}" for name, text in found.subject.items()]
    lines += ["", wrapped(found.promise)]
    for section in found.sections:
        lines += ["", section.title]
        for each in section.findings:
            mark = f"  {_MARKS[each.status]:<{_INDENT - 2}}"
            name = f" ({each.id})" if each.status == "failed" else ""
            lines.append(wrapped(f"{each.title}{name} {each.sentence}", mark, " " * _INDENT))
    return "\n".join([*lines, "", _verdict(found)])


def _verdict(found: "Audit") -> str:
    counts = ", ".join(f"{count} {_MARKS[status]}" for status in _MARKS if (count := found.count(status)))  # type: ignore[arg-type]
    if found.ok:
        return f"verdict: no broken promise was found ({counts})"
    broken = [each.id for section in found.sections for each in section.findings if each.status == "failed"]
    return f"verdict: BROKEN: {', '.join(broken)} ({counts})"


def wrapped(text: str, first: str = "", others: str = "") -> str:
    """Wrap text for a terminal; `first` and `others` are indents."""
    return textwrap.fill(text, _WIDTH, initial_indent=first, subsequent_indent=others, replace_whitespace=False)
