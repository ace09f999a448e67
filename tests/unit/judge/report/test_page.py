"""The report is one self-contained file that shows every finding and escapes its input."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from castleguard import __version__
from castleguard.errors import OutputError
from castleguard.judge.audit.audit_page import write
from castleguard.judge.game.backgrounds import SCHEMA
from castleguard.judge.game.game_page import write as write_game
from castleguard.judge.report import page
from castleguard.judge.report.findings import Audit, Finding, Section
from castleguard.judge.report.page import Repeat, shown
from tests.unit.judge.audit.played import SAMPLED, coins, outcome, with_claims, without_claim

NASTY = "<script>alert(\"x\")</script> & 'quotes'"
AUDIT = Audit(
    subject={"published": NASTY, "policy": "castle(k=10)"},
    promise=f"Ten persons. {NASTY}",
    sections=(
        Section(
            id="structure",
            title="Is the promise kept?",
            about="Counted again.",
            findings=(
                Finding(
                    id="fewest-persons",
                    title="Enough persons?",
                    status="passed",
                    sentence="Each group has ten.",
                    figures={"groups": 12345, "asked": 10, "share": 0.123456, "unknown": None, "word": NASTY},
                ),
                Finding(id="delay", title="In time?", status="failed", sentence="Twelve rows were late."),
                Finding(id="edges", title="Own values?", status="warning", sentence="Some bounds are values."),
            ),
        ),
        Section(
            id="linkage",
            title="Can persons be found?",
            about="An attacker knows them.",
            findings=(
                Finding(id="journalist", title="Others?", status="not checked", sentence="No population was given."),
            ),
        ),
    ),
    distributions={"persons per group": (10, 11, 40), "loss: <age>": (0.5,)},
)
REPEAT = Repeat(command="castleguard audit a.csv b.csv --k 10 && echo <done>", date="2026-11-16")


class Elements(HTMLParser):
    """The elements and addresses of a page; every element that is opened is closed."""

    VOID = frozenset({"meta", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action", "data", "srcset")]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        """Visible text."""
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write(AUDIT, path, repeat=REPEAT)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "game.html"
    write_game(with_claims(), path, policy="castleguard(k=20)", repeat=REPEAT)
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["report", "game"])
def test_page_is_self_contained(name: str, request: pytest.FixtureRequest) -> None:
    text = request.getfixturevalue(name)
    found = Elements(text)
    assert "script" not in found.names
    assert "link" not in found.names
    assert not re.search(r"https?:|//\w|@import|url\(", re.sub(r'src="data:[^"]*"', "", text))
    assert all(each.startswith(("data:image/png;base64,", "#")) for each in found.addresses)
    assert {each[1:] for each in found.addresses if each.startswith("#")} <= set(found.ids)


def test_page_shows_every_finding(report: str) -> None:
    text = Elements(report).text
    for section in AUDIT.sections:
        assert section.title in text
        assert section.about in text
        for finding in section.findings:
            assert finding.title in text
            assert finding.sentence in text
            assert f"{page.SYMBOLS[finding.status]} {finding.status}" in text
    assert "12,345" in text
    assert "0.1235" in text


def test_input_is_escaped(report: str) -> None:
    assert "<script" not in report
    assert "<age>" not in report
    assert "echo <done>" not in report
    assert NASTY in Elements(report).text


def test_summary_counts_broken_promises_and_warnings(report: str) -> None:
    text = Elements(report).text
    assert "1 broken promise was found. Do not publish this file." in text
    assert "Risks that no promise covers: 1 warning." in text


def test_what_was_not_checked_is_listed_with_its_reason(report: str) -> None:
    after = Elements(report).text.partition("Not checked")[2]
    assert "Others? No population was given." in after


def test_page_has_glossary_and_command(report: str, game: str) -> None:
    text = Elements(report).text
    for word in ("k-anonymity", "Person", "Group", "l-diversity", "t-closeness", "Prosecutor risk", "Epsilon"):
        assert word in text.partition("Glossary")[2]
    assert REPEAT.command in text
    assert f"castleguard {__version__}, 2026-11-16" in text
    assert "Canary" in Elements(game).text.partition("Glossary")[2]


def test_page_fits_paper_and_phones(report: str) -> None:
    assert "@media print" in report
    assert "size: A4" in report
    assert 'content="width=device-width' in report
    # Every table lies in a box of its own that scrolls.
    assert report.count("<table>") == report.count('<div class="wide"><table>') > 0


def test_pictures_are_embedded_with_captions(report: str) -> None:
    pytest.importorskip("matplotlib")
    assert report.count('src="data:image/png;base64,') == 2
    assert "The dashed line is the promised k" in Elements(report).text


def test_page_without_matplotlib_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "have_matplotlib", lambda: False)
    write(AUDIT, tmp_path / "plain.html")
    write_game(with_claims(), tmp_path / "game.html", policy="some")
    for name in ("plain.html", "game.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "<img" not in text
        assert "castleguard[plot]" in text


def test_game_page_states_every_claim_and_verdict(game: str) -> None:
    text = Elements(game).text
    assert "The claim of the policy itself, (0, 0.5), is not refuted." in text
    assert "The claim of Theorem 2 of the CASTLEGUARD paper, (1, 0.000772), is REFUTED." in text
    assert "Not refuted is not proved" in text
    assert SAMPLED.guarantee(SCHEMA, seeded=False).sentence in text


def test_game_page_without_a_claim_says_so(tmp_path: Path) -> None:
    write_game(without_claim(), tmp_path / "game.html", policy="castle(k=5)")
    assert "claims no differential privacy" in (tmp_path / "game.html").read_text(encoding="utf-8")


def test_no_value_of_a_real_row_is_shown(tmp_path: Path) -> None:
    """An event on real rows has a threshold, which may be one: here 1, beside a feature's name."""
    played = outcome(SAMPLED, coins(0.9, 0.0), made_up=False)
    write_game(played, tmp_path / "game.html", policy="some")
    text = (tmp_path / "game.html").read_text(encoding="utf-8")
    assert "is at least a threshold" in text
    assert "is at least 1" not in text


def test_unwritable_page_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        write(AUDIT, tmp_path)


@pytest.mark.parametrize(
    ("figure", "text"), [(None, "\u2013"), (1234, "1,234"), (0.5, "0.5"), (True, "True"), ("a", "a"), (2e-7, "2e-07")]
)
def test_figures_are_shown_for_reading(figure: float | str | None, text: str) -> None:
    assert shown(figure) == text
