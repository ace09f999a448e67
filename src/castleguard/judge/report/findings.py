"""Results of an audit as values: sections of findings, each with a status, a sentence and figures.

Findings hold counts, shares and column names, never a value of a row: a report has more readers than the data.
"""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["passed", "failed", "warning", "not checked"]
Figure = int | float | str | None

_MARKS: dict[Status, str] = {
    "passed": "passed",
    "failed": "FAILED",
    "warning": "warning",
    "not checked": "not checked",
}
_WIDTH = 100
_INDENT = 15


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One question and its answer."""

    id: str
    """Stable across versions, for readers of the JSON: "fewest-persons"."""
    title: str
    """The question in a few words."""
    status: Status
    """`failed`: a promise is broken. `warning`: a risk that no promise covers. `not checked`: the sentence says why."""
    sentence: str
    """The answer, for readers who are not engineers."""
    figures: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Section:
    """Findings that belong together."""

    id: str
    title: str
    about: str
    """Purpose of the checks, in two or three sentences for readers who are not engineers."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True, kw_only=True)
class Audit:
    """All findings about one publication."""

    subject: Mapping[str, str]
    """Description of the input: file names, numbers of rows, the policy."""
    promise: str
    """The policy's own statement."""
    sections: tuple[Section, ...]
    distributions: Mapping[str, tuple[float, ...]] = field(default_factory=dict, repr=False)
    """Numbers to draw, by name: persons per group, risks per person, ..."""

    @property
    def ok(self) -> bool:
        """Whether no broken promise was found. Unchecked promises are not proved."""
        return not any(finding.status == "failed" for section in self.sections for finding in section.findings)

    def count(self, status: Status) -> int:
        """Number of findings with this status."""
        return sum(finding.status == status for section in self.sections for finding in section.findings)

    def as_json(self) -> dict[str, Any]:
        """JSON form, without the distributions, which can be long."""
        return {
            "ok": self.ok,
            "subject": dict(self.subject),
            "promise": self.promise,
            "sections": [
                {
                    "id": section.id,
                    "title": section.title,
                    "findings": [
                        {
                            "id": each.id,
                            "title": each.title,
                            "status": each.status,
                            "sentence": each.sentence,
                            "figures": dict(each.figures),
                        }
                        for each in section.findings
                    ],
                }
                for section in self.sections
            ],
        }

    def __str__(self) -> str:
        """Output of `castleguard audit`: all findings, with the verdict in the last line."""
        lines = [f"{name}: {text}" for name, text in self.subject.items()]
        lines += ["", wrapped(self.promise)]
        for section in self.sections:
            lines += ["", section.title]
            for each in section.findings:
                mark = f"  {_MARKS[each.status]:<{_INDENT - 2}}"
                name = f" ({each.id})" if each.status == "failed" else ""
                lines.append(wrapped(f"{each.title}{name} {each.sentence}", mark, " " * _INDENT))
        return "\n".join([*lines, "", self._verdict()])

    def _verdict(self) -> str:
        counts = ", ".join(f"{count} {mark}" for status, mark in _MARKS.items() if (count := self.count(status)))
        if self.ok:
            return f"verdict: no broken promise was found ({counts})"
        broken = [each.id for section in self.sections for each in section.findings if each.status == "failed"]
        return f"verdict: BROKEN: {', '.join(broken)} ({counts})"


def finding(id: str, title: str, status: Status, sentence: str, **figures: Figure) -> Finding:
    """Build a finding; underscores in figure names become hyphens."""
    return Finding(
        id=id,
        title=title,
        status=status,
        sentence=sentence,
        figures={name.replace("_", "-"): value for name, value in figures.items()},
    )


def none_of(id: str, title: str, wrong: int, *, good: str, bad: str, remark: str = "", **figures: Figure) -> Finding:
    """Finding that passes if `wrong` is 0; otherwise its sentence is `bad` with the number, then `remark`."""
    if wrong:
        return finding(id, title, "failed", f"{bad}: {wrong:,}. {remark}".strip(), wrong=wrong, **figures)
    return finding(id, title, "passed", good, wrong=0, **figures)


def wrapped(text: str, first: str = "", others: str = "") -> str:
    """Wrap text for a terminal; `first` and `others` are indents."""
    return textwrap.fill(text, _WIDTH, initial_indent=first, subsequent_indent=others, replace_whitespace=False)
