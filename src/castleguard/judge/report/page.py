"""The report of an audit as one HTML file that can be read anywhere: no script, no address, pictures inside.

It is made for a reader who decides and does not program: a summary in words, every finding with a word, a symbol and a
sentence, what was not checked and why, a glossary, and how to repeat it. No meaning is carried by colour alone, and it
prints on A4.
"""

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from castleguard.errors import OutputError
from castleguard.judge.findings import Audit, Figure, Finding, Section, Status
from castleguard.judge.game.game import Played
from castleguard.judge.game.verdicts import NOT_PROVED, audit_of
from castleguard.judge.report.game_pictures import pictures_of_game
from castleguard.judge.report.glossary import OF_GAMES, OF_PUBLICATIONS, Term
from castleguard.judge.report.page_style import CSS
from castleguard.judge.report.pictures import Picture, have_matplotlib, pictures_of
from castleguard.version import __version__

SYMBOLS: dict[Status, str] = {"passed": "\u2713", "failed": "\u2717", "warning": "!", "not checked": "\u2013"}
_CALLS: dict[Status, str] = {
    "failed": "Promises that were found broken",
    "warning": "What no promise covers, but somebody should know",
}
NO_PICTURES = "There are no pictures: they need matplotlib (pip install 'castleguard[plot]')."


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """How the same report can be had again."""

    command: str
    date: str
    version: str = __version__


@dataclass(frozen=True, kw_only=True)
class _Page:
    """What differs between the reports."""

    title: str
    audit: Audit
    summary: str
    pictures: Sequence[Picture]
    glossary: Sequence[Term]
    repeat: Repeat | None


def write(audit: Audit, path: Path, *, repeat: Repeat | None = None) -> None:
    """The report of a published file. Raises OutputError if it cannot be written."""
    drawn = pictures_of(audit) if have_matplotlib() else ()
    _save(
        _Page(
            title="Audit of a publication",
            audit=audit,
            summary=_summary(audit),
            pictures=drawn,
            glossary=OF_PUBLICATIONS,
            repeat=repeat,
        ),
        path,
    )


def write_game(played: Played, path: Path, *, policy: str, repeat: Repeat | None = None) -> None:
    """The report of a membership game. `policy` says which one was played, in words."""
    drawn = pictures_of_game(played) if have_matplotlib() else ()
    _save(
        _Page(
            title="Audit of differential privacy",
            audit=audit_of(played, policy=policy),
            summary=_game_summary(played),
            pictures=drawn,
            glossary=OF_GAMES,
            repeat=repeat,
        ),
        path,
    )


def html_of(page: _Page) -> str:
    """The whole file."""
    return "".join(_html(page))


def _save(page: _Page, path: Path) -> None:
    try:
        path.write_text(html_of(page), encoding="utf-8")
    except OSError as exc:
        raise OutputError(f"{path} cannot be written: {exc.strerror}") from exc


def _summary(audit: Audit) -> str:
    failed, warnings = audit.count("failed"), audit.count("warning")
    first = (
        "No promise was found broken."
        if audit.ok
        else f"{_number(failed, 'promise was', 'promises were')} found broken. This file should not be published."
    )
    more = f" {_number(warnings, 'finding', 'findings')} that no promise covers should be known." if warnings else ""
    return f"{first}{more} What was not checked has not been proved."


def _game_summary(played: Played) -> str:
    parts = []
    if played.own is None:
        parts.append("The policy claims no differential privacy, so there is no claim of its own to refute.")
    for judged in played.judged:
        parts.append(f"The claim of {judged.stated.whose}, {judged.stated.claim}, is {judged.word}.")
    return " ".join([*parts, NOT_PROVED])


def _number(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _html(page: _Page) -> Iterator[str]:
    audit = page.audit
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{escape(page.title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
    yield f"<h1>{escape(page.title)}</h1>\n"
    yield "<h2>What was looked at</h2>\n"
    yield from _table(audit.subject.items())
    yield f"<h2>What is promised</h2>\n<blockquote>{escape(audit.promise)}</blockquote>\n"
    yield f'<h2>Summary</h2>\n<p class="summary">{escape(page.summary)}</p>\n'
    yield from _tally(audit)
    for section in audit.sections:
        yield from _section(section)
    yield from _pictures(page.pictures)
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
    """How many findings there are of every kind, and which ones call for a reader."""
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
    # Whoever decides reads the sentence; the figures are for whoever checks it.
    if finding.figures:
        yield "<details><summary>figures</summary>\n"
        yield from _table([(name, shown(figure)) for name, figure in finding.figures.items()])
        yield "</details>\n"
    yield "</article>\n"


def shown(figure: Figure) -> str:
    """A figure for reading."""
    if figure is None:
        return "\u2013"
    if isinstance(figure, bool | str):
        return str(figure)
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:,.4g}"


def _pictures(pictures: Sequence[Picture]) -> Iterator[str]:
    if not have_matplotlib():
        yield f"<h2>Pictures</h2>\n<p>{escape(NO_PICTURES)}</p>\n"
    elif pictures:
        yield "<h2>Pictures</h2>\n"
    for picture in pictures:
        data = base64.b64encode(picture.png).decode("ascii")
        yield f"<figure>\n<h3>{escape(picture.title)}</h3>\n"
        yield f'<img alt="{escape(picture.title)}. {escape(picture.caption)}" src="data:image/png;base64,{data}">\n'
        yield f"<figcaption>{escape(picture.caption)}</figcaption>\n</figure>\n"


def _not_checked(audit: Audit) -> Iterator[str]:
    yield "<h2>What was not checked, and why</h2>\n"
    missing = [each for section in audit.sections for each in section.findings if each.status == "not checked"]
    if not missing:
        yield "<p>Everything that this report asks was checked.</p>\n"
        return
    yield "<ul>\n"
    for each in missing:
        yield f"<li><b>{escape(each.title)}</b> {escape(each.sentence)}</li>\n"
    yield "</ul>\n"


def _repeat(repeat: Repeat | None) -> Iterator[str]:
    yield "<h2>How to repeat it</h2>\n"
    if repeat is None:
        yield f"<p>Made with castleguard {escape(__version__)}.</p>\n"
        return
    yield f'<pre class="command">{escape(repeat.command)}</pre>\n'
    yield f"<p>Made with castleguard {escape(repeat.version)}, {escape(repeat.date)}.</p>\n"
