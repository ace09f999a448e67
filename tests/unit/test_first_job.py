"""The page about the first job is executed as written, and its output is compared."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.patience import PATIENCE

PAGE = Path(__file__).parents[2] / "docs" / "start" / "first-job.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "--- block"


class Block(NamedTuple):
    """A fenced block of the page."""

    language: str
    text: str


def page_blocks() -> list[Block]:
    """Return the blocks of the page, in order."""
    return [Block(*found) for found in BLOCK.findall(PAGE.read_text(encoding="utf-8"))]


def as_commands(block: Block) -> str:
    """Convert a block to shell commands: as it is, run as Python, or written to the job file."""
    if block.language == "sh":
        return block.text
    if block.language == "python":
        return f"python - <<'END'\n{block.text}END\n"
    if block.language == "yaml":
        return f"cat > job.yaml <<'END'\n{block.text}END\n"
    return ""


def output_by_block(folder: Path) -> dict[int, str]:
    """Run the commands, and return the output of each block."""
    programs = folder / "bin"
    programs.mkdir()
    for name, start in (("castleguard", "-m castleguard"), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {start} "$@"\n')
        program.chmod(0o755)
    blocks = page_blocks()
    script = "".join(f'echo "{MARK} {at}"\n{as_commands(block)}' for at, block in enumerate(blocks))
    process = subprocess.Popen(
        ["bash", "-e", "-u", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # the page starts a job in the background, which must not outlive a failure
    )
    try:
        shown, _ = process.communicate(timeout=2 * PATIENCE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, shown
    parts = re.split(rf"^{MARK} (\d+)\n", shown, flags=re.MULTILINE)
    return {int(at): text for at, text in zip(parts[1::2], parts[2::2], strict=True)}


def shape(line: str) -> str:
    """Remove the numbers from a line: many of them are random."""
    bare = re.sub(r" +[\d,]+ at the root$", "", line)
    return " ".join(re.sub(r"\d[\d.,]*", "0", bare).split())


@pytest.mark.compiled
def test_commands_of_the_page_print_the_shown_output(tmp_path: Path) -> None:
    output = output_by_block(tmp_path)
    blocks = page_blocks()
    for at, block in enumerate(blocks):
        if block.language != "text":
            continue
        printed = [shape(line) for line in output[at - 1].splitlines()]
        for line in map(shape, block.text.splitlines()):
            assert line in ("...", *printed), f"{line!r} is not printed by:\n{blocks[at - 1].text}"
    (header,) = [block.text.splitlines()[0] for block in blocks if block.language == "csv"]
    for folder in ("published", "stream"):
        parts = list((tmp_path / "rentals" / folder).glob("part-*.csv"))
        assert {part.read_text().splitlines()[0] for part in parts} == {header}


def test_every_shown_output_follows_a_command() -> None:
    blocks = page_blocks()
    before = [blocks[at - 1].language for at, block in enumerate(blocks) if block.language in ("text", "csv")]
    assert before
    assert set(before) == {"sh"}
