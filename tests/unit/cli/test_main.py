"""The command line as a whole: help, usage errors, and nothing heavy before it is needed."""

import subprocess
import sys

import pytest

import castleguard
from castleguard.cli import COMMANDS
from tests.unit.cli.conftest import Run


def test_help_lists_the_commands(run: Run) -> None:
    shown = run("--help")
    assert shown.code == 0
    for command in COMMANDS:
        assert f"  {command} " in shown.out


WITH_POLICIES = ("anonymise", "audit", "simulate", "sweep")


@pytest.mark.parametrize(
    "arguments", [["--help"], *([command, "--help"] for command in COMMANDS), ["budget"], ["--version"]]
)
def test_help_imports_nothing_that_only_a_command_needs(arguments: list[str]) -> None:
    script = (
        "import sys\n"
        "import castleguard\n"
        "before = set(sys.modules)\n"
        "from castleguard.cli import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit as ended: assert not ended.code\n"
        "heavy = {'numba', 'pyarrow', 'pyarrow.csv', 'numpy', 'rich', 'matplotlib', 'pydantic', 'scipy', 'yaml'}\n"
        "print(sorted(heavy & (set(sys.modules) - before)))\n"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    # The options of policies are made of the policies themselves, whose types are numpy's.
    needed = "['numpy']" if arguments[0] in WITH_POLICIES else "[]"
    assert shown.stdout.splitlines()[-1] == needed


def test_the_version_is_the_packages(run: Run) -> None:
    assert run("--version").out == f"castleguard {castleguard.__version__}\n"


@pytest.mark.parametrize("arguments", [["nothing"], ["anonymise"], ["anonymise", "--nothing"], ["demo", "--rows", "x"]])
def test_wrong_usage_exits_with_two(run: Run, arguments: list[str]) -> None:
    shown = run(*arguments)
    assert shown.code == 2
    assert "Error:" in shown.err


def test_it_runs_as_a_module() -> None:
    shown = subprocess.run([sys.executable, "-m", "castleguard", "-h"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("Usage: castleguard")
