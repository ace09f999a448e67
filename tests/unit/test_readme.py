"""What the documentation shows runs: Python blocks, make commands, options of the command line, links, the example."""

import re
import runpy
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from castleguard.cli import COMMANDS, commands

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return [text for name, text in BLOCK.findall(page.read_text(encoding="utf-8")) if name == language]


def name_of(page: Path) -> str:
    """A page by its place in the repository."""
    return str(page.relative_to(ROOT))


def with_python() -> list[object]:
    """The pages with Python blocks; some of them publish so many rows that they need the compiler."""
    heavy = {"docs/concepts/doca.md", "docs/proofs/doca.md"}
    pages = [page for page in PAGES if blocks(page, "python")]
    marks = {page: [pytest.mark.compiled] if name_of(page) in heavy else [] for page in pages}
    return [pytest.param(page, marks=marks[page], id=name_of(page)) for page in pages]


@pytest.mark.parametrize("page", with_python())
def test_python_blocks_run_one_after_the_other(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, name_of(page), "exec"), names)


def test_readme_has_a_python_block() -> None:
    assert blocks(ROOT / "README.md", "python")


def test_every_make_command_of_the_readme_is_a_target() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    shown = set(re.findall(r"(?:^|`)make ([a-z-]+)", readme, re.MULTILINE))
    assert {"demo", "test"} <= shown
    assert shown <= targets


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_option_that_a_page_shows_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    lines = re.findall(rf"^\s*(?:\$ )?(castleguard (?:{'|'.join(COMMANDS)})(?: .*)?)$", text, re.MULTILINE)
    for words in (shlex.split(line, comments=True) for line in lines):
        context = click.Context(commands)
        command = commands.get_command(context, words[1])
        assert command is not None
        # What follows a pipe or a redirection is the shell's.
        own = next((at for at, word in enumerate(words) if word in ("<", ">", "|")), len(words))
        with command.make_context(words[1], words[2:own], parent=context):
            pass


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")], ids=name_of)
def test_console_blocks_show_what_the_commands_print(page: Path) -> None:
    for block in blocks(page, "console"):
        command, _, shown = block.partition("\n")
        assert command.startswith("$ castleguard ")
        result = CliRunner().invoke(commands, shlex.split(command)[2:], prog_name="castleguard")
        assert result.exit_code == 0
        assert result.output == shown


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{target} does not exist"
        if anchor:
            assert anchor in anchors(found), f"{target} has no part {anchor}"


def anchors(page: Path) -> set[str]:
    """Where links into a page may point: its headings, as they are rendered, and its named places."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "visits" / "run.py"))["main"](1000)
    assert "1000 rows in" in capsys.readouterr().out
