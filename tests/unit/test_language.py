"""The word list: what it finds in Python and Markdown, what it leaves alone, and how a word is allowed."""

from pathlib import Path

import pytest

from tests import language


def _rules(folder: Path, text: str, name: str = "module.py") -> list[tuple[int, str]]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return [(finding.line, finding.rule) for finding in language.check(path)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # language: allow nobody whoever is-no of anew whatever: examples of findings
        ('"""Docstring.\n\nRows that nobody asked for.\n"""\n', [(3, "nobody")]),
        ("x = 1  # whoever reads it\n", [(1, "whoever")]),
        ("# This is\n# no error.\n", [(1, "is-no")]),
        ('raise ValueError("a", "Of a file that is gone")\n', [(1, "of")]),
        ('x = f"{y} is no row of {z}"\n', [(1, "is-no")]),
        ('x = (\n    "rows are "\n    f"no {y}, made anew"\n)\n', [(3, "anew")]),
        ('x = "first\\nWhatever follows"\n', [(1, "whatever")]),
    ],
)
def test_refused_words_are_found_with_their_line(tmp_path: Path, text: str, found: list[tuple[int, str]]) -> None:
    assert _rules(tmp_path, text) == found


@pytest.mark.parametrize(
    "text",
    [
        # language: allow nobody anew: examples of names
        "nobody = NOBODY  # NOBODY is a missing person\n",
        "def test_nobody_waits() -> None: ...\n",
        "# The function `nobody` and the option `--anew`.\n",
        "# It is no longer open, is no more than k, is no larger than n. There is no file.\n",
        "# The first of them, out of two.\n",
        '"""A sentence\nof two lines."""\n',
    ],
)
def test_names_and_plain_english_are_left_alone(tmp_path: Path, text: str) -> None:
    assert _rules(tmp_path, text) == []


def test_markdown_is_checked_outside_code_and_links(tmp_path: Path) -> None:
    # language: allow nobody whatever is-no of: examples of findings
    text = "# Of sinks\n\n```\nnobody\n```\n\nSee [here](nobody.md): `whatever` is\nno answer.\n"
    assert _rules(tmp_path, text, "page.md") == [(1, "of"), (7, "is-no")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # language: allow nobody: examples of findings
        ("module.py", "# language: allow nobody: quoted from the paper\n# nobody\n"),
        ("module.py", 'x = "nobody"  # language: allow nobody: quoted from the paper\n'),
        ("module.py", '# language: allow nobody: quoted from the paper\n"""One line.\n\nnobody\n"""\n'),
        ("page.md", "<!-- language: allow nobody: quoted from the paper -->\nOne line,\nand nobody.\n"),
    ],
)
def test_word_is_allowed_with_a_reason(tmp_path: Path, name: str, text: str) -> None:
    assert _rules(tmp_path, text, name) == []


def test_allowance_without_a_reason_is_a_finding(tmp_path: Path) -> None:
    # language: allow nobody: examples of findings
    assert _rules(tmp_path, 'x = "nobody"  # language: allow nobody\n') == [(1, "allow"), (1, "nobody"), (1, "nobody")]


def test_allowance_ends_at_a_blank_line(tmp_path: Path) -> None:
    # language: allow nobody: examples of findings
    text = "<!-- language: allow nobody: quoted -->\nnobody\n\nnobody\n"
    assert _rules(tmp_path, text, "page.md") == [(4, "nobody")]


def test_command_lists_findings_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # language: allow anew: examples of findings
    path = tmp_path / "page.md"
    path.write_text("It is made anew.\n", encoding="utf-8")
    assert language.main([str(path)]) == 1
    assert capsys.readouterr().out == f"{path}:1  anew.  (write `again`)\n"
    path.write_text("It is made again.\n", encoding="utf-8")
    assert language.main([str(path)]) == 0


def test_count_fails_above_the_limit_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # language: allow anew: examples of findings
    (tmp_path / "page.md").write_text("Made anew and anew.\n", encoding="utf-8")
    monkeypatch.setattr(language, "LIMIT", 2)
    assert language.main(["--count", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "     2  anew\n     2  in all (limit 2)\n"
    monkeypatch.setattr(language, "LIMIT", 1)
    assert language.main(["--count", str(tmp_path)]) == 1
