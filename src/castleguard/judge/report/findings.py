"""What an audit found, as a value: sections of findings, each with a status, a sentence and its figures.

It holds counts, shares and names of columns, and never a value of a row: a report is read by more people than the data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["passed", "failed", "warning", "not checked"]
Figure = int | float | str | None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One question and its answer."""

    id: str
    """Stays the same from version to version, for whoever reads the JSON: "fewest-persons"."""
    title: str
    """The question in a few words."""
    status: Status
    """`failed`: a promise is broken. `warning`: no promise covers it, but somebody should know. `not checked`: why is
    in the sentence."""
    sentence: str
    """The answer, for a reader who is no engineer."""
    figures: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Section:
    """Findings that belong together."""

    id: str
    title: str
    about: str
    """What is asked here and why it matters, in two or three sentences for a reader who is no engineer."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Everything that was found about one publication."""

    subject: Mapping[str, str]
    """What was looked at: names of files, rows, the policy, in words."""
    promise: str
    """The policy's own statement."""
    sections: tuple[Section, ...]
    distributions: Mapping[str, tuple[float, ...]] = field(default_factory=dict, repr=False)
    """Numbers to draw, by name: persons per group, risks per person, ..."""

    @property
    def ok(self) -> bool:
        """Whether no promise was found broken. What was not checked is not proved."""
        return not any(finding.status == "failed" for section in self.sections for finding in section.findings)

    def count(self, status: Status) -> int:
        """How many findings have this status."""
        return sum(finding.status == status for section in self.sections for finding in section.findings)

    def as_json(self) -> dict[str, Any]:
        """The same for programs; without the distributions, which can be long."""
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
        """What `castleguard audit` prints."""
        from castleguard.judge.report.text import audit_text

        return audit_text(self)


def finding(id: str, title: str, status: Status, sentence: str, **figures: Figure) -> Finding:
    """A finding in one line; names of figures have hyphens where arguments have none."""
    return Finding(
        id=id,
        title=title,
        status=status,
        sentence=sentence,
        figures={name.replace("_", "-"): value for name, value in figures.items()},
    )


def none_of(id: str, title: str, wrong: int, *, good: str, bad: str, **figures: Figure) -> Finding:
    """Passed if nothing was found wrong, else failed; `bad` is told after the number."""
    if wrong:
        return finding(id, title, "failed", f"{wrong:,} {bad}", wrong=wrong, **figures)
    return finding(id, title, "passed", good, wrong=0, **figures)
