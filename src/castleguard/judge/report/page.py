"""Report as one self-contained HTML file: no scripts, no links to other hosts, embedded pictures.

It is written for readers who decide and do not program: a summary in words, findings with a status and a sentence, the
unchecked questions with reasons, a glossary, and the command to repeat it. Colour never carries meaning by itself, and
the page prints on A4.
"""

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from castleguard.errors import OutputError
from castleguard.judge.report.findings import Audit, Figure, Finding, Section, Status
from castleguard.judge.report.glossary import Term
from castleguard.judge.report.pictures import Picture, have_matplotlib
from castleguard.version import __version__

SYMBOLS: dict[Status, str] = {"passed": "\u2713", "failed": "\u2717", "warning": "!", "not checked": "\u2013"}
_CALLS: dict[Status, str] = {
    "failed": "Broken promises",
    "warning": "Risks that no promise covers",
}
NO_PICTURES = "Pictures need matplotlib, which is not installed (pip install 'castleguard[plot]')."


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """Command, date and version to repeat a report."""

    command: str
    date: str
    version: str = __version__


@dataclass(frozen=True, kw_only=True)
class Page:
    """Content of a report."""

    title: str
    audit: Audit
    summary: str
    draw: Callable[[], Sequence[Picture]]
    """Called only if pictures can be drawn."""
    glossary: Sequence[Term]
    repeat: Repeat | None


def html_of(page: Page) -> str:
    """Content of the HTML file."""
    return "".join(_html(page))


def save(page: Page, path: Path) -> None:
    """Write the HTML file. Raises OutputError if it cannot be written."""
    try:
        path.write_text(html_of(page), encoding="utf-8")
    except OSError as exc:
        raise OutputError(f"cannot write {path}: {exc.strerror}") from exc


def _html(page: Page) -> Iterator[str]:
    audit = page.audit
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{escape(page.title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n<main>\n"
    yield f"<h1>{escape(page.title)}</h1>\n"
    yield "<h2>Input</h2>\n"
    yield from _table(audit.subject.items())
    yield f"<h2>Promise</h2>\n<blockquote>{escape(audit.promise)}</blockquote>\n"
    yield f'<h2>Summary</h2>\n<p class="summary">{escape(page.summary)}</p>\n'
    yield from _tally(audit)
    for section in audit.sections:
        yield from _section(section)
    yield from _pictures(page)
    yield from _not_checked(audit)
    yield "<h2>Glossary</h2>\n<dl>\n"
    for term in page.glossary:
        yield f"<dt>{escape(term.word)}</dt><dd>{escape(term.meaning)}</dd>\n"
    yield "</dl>\n"
    yield from _repeat(page.repeat)
    yield "</main>\n</body>\n</html>\n"


def _table(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield '<div class="wide"><table>\n'
    for name, value in pairs:
        yield f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>\n"
    yield "</table></div>\n"


def _tally(audit: Audit) -> Iterator[str]:
    """Count findings by status, and list the broken promises and warnings."""
    yield '<ul class="tally">\n'
    for status in SYMBOLS:
        yield f"<li>{_badge(status)} <b>{audit.count(status)}</b></li>\n"
    yield "</ul>\n"
    for status, words in _CALLS.items():
        found = [each for section in audit.sections for each in section.findings if each.status == status]
        if found:
            yield f"<p>{words}:</p>\n<ul>\n"
            for each in found:
                yield f'<li><a href="#{escape(each.id)}">{escape(each.title)}</a></li>\n'
            yield "</ul>\n"


def _badge(status: Status) -> str:
    kind = status.replace(" ", "-")
    return f'<span class="badge {kind}"><span aria-hidden="true">{SYMBOLS[status]}</span> {status}</span>'


def _section(section: Section) -> Iterator[str]:
    yield f'<section>\n<h2>{escape(section.title)}</h2>\n<p class="about">{escape(section.about)}</p>\n'
    for finding in section.findings:
        yield from _finding(finding)
    yield "</section>\n"


def _finding(finding: Finding) -> Iterator[str]:
    kind = finding.status.replace(" ", "-")
    yield f'<article class="{kind}" id="{escape(finding.id)}">\n'
    yield f"<h3>{escape(finding.title)} {_badge(finding.status)}</h3>\n<p>{escape(finding.sentence)}</p>\n"
    # The sentence is for deciders; the figures are for reviewers.
    if finding.figures:
        yield "<details><summary>figures</summary>\n"
        yield from _table([(name, shown(figure)) for name, figure in finding.figures.items()])
        yield "</details>\n"
    yield "</article>\n"


def shown(figure: Figure) -> str:
    """Format a figure."""
    if figure is None:
        return "\u2013"
    if isinstance(figure, bool | str):
        return str(figure)
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:,.4g}"


def _pictures(page: Page) -> Iterator[str]:
    if not have_matplotlib():
        yield f"<h2>Pictures</h2>\n<p>{escape(NO_PICTURES)}</p>\n"
        return
    pictures = page.draw()
    if pictures:
        yield "<h2>Pictures</h2>\n"
    for picture in pictures:
        data = base64.b64encode(picture.png).decode("ascii")
        yield f"<figure>\n<h3>{escape(picture.title)}</h3>\n"
        yield f'<img alt="{escape(picture.title)}. {escape(picture.caption)}" src="data:image/png;base64,{data}">\n'
        yield f"<figcaption>{escape(picture.caption)}</figcaption>\n</figure>\n"


def _not_checked(audit: Audit) -> Iterator[str]:
    yield "<h2>Not checked</h2>\n"
    missing = [each for section in audit.sections for each in section.findings if each.status == "not checked"]
    if not missing:
        yield "<p>All questions of this report were checked.</p>\n"
        return
    yield "<ul>\n"
    for each in missing:
        yield f"<li><b>{escape(each.title)}</b> {escape(each.sentence)}</li>\n"
    yield "</ul>\n"


def _repeat(repeat: Repeat | None) -> Iterator[str]:
    yield "<h2>How to repeat this report</h2>\n"
    if repeat is None:
        yield f"<p>Made with castleguard {escape(__version__)}.</p>\n"
        return
    yield f'<pre class="command">{escape(repeat.command)}</pre>\n'
    yield f"<p>Made with castleguard {escape(repeat.version)}, {escape(repeat.date)}.</p>\n"


# For screens, phones, greyscale and A4.
_CSS = """
:root { color-scheme: light; }
body { margin: 0; color: #22303c; background: #fff; font: 16px/1.5 system-ui, "Segoe UI", Arial, sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 1rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem; padding-bottom: .2rem; border-bottom: 1px solid #9aa5b1; }
h3 { font-size: 1rem; margin: 0 0 .3rem; }
p, blockquote { margin: 0 0 .7rem; }
blockquote { padding: .6rem 1rem; border-left: 4px solid #9aa5b1; background: #f4f6f8; }
.summary { font-size: 1.1rem; font-weight: 600; }
.about { color: #465462; }
article { margin: .8rem 0; padding: .6rem .9rem; border: 1px solid #cdd5dc; border-left: 5px solid #9aa5b1; }
article.failed { border: 2px solid #22303c; border-left-width: 10px; }
article.warning { border-left: 5px double #22303c; }
article.not-checked { border-style: dashed; }
.badge { display: inline-block; padding: 0 .45rem; border: 1px solid #22303c; border-radius: .7rem; font-size: .82rem;
  font-weight: 600; white-space: nowrap; }
.badge.failed { color: #fff; background: #22303c; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.badge.not-checked { border-style: dashed; font-weight: 400; }
.tally { list-style: none; display: flex; flex-wrap: wrap; gap: .4rem 1.2rem; margin: 0 0 .7rem; padding: 0; }
.wide { max-width: 100%; overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; margin: 0 0 .4rem; }
th, td { padding: .15rem .8rem .15rem 0; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
th { min-width: 6.5rem; font-weight: 400; color: #465462; }
figure { margin: 1.2rem 0; }
img { max-width: 100%; height: auto; }
figcaption { color: #465462; font-size: .92rem; }
dt { font-weight: 600; }
dd { margin: 0 0 .5rem 1.2rem; }
details { font-size: .92rem; }
summary { color: #465462; cursor: pointer; }
a { color: inherit; }
.command { padding: .6rem; background: #f4f6f8; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; }
@media print {
  @page { size: A4; margin: 18mm; }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  article, figure, tr, dd, dt { break-inside: avoid; }
  h2, h3, dt, .about { break-after: avoid; }
  .wide { overflow: visible; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""
