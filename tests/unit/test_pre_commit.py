"""The hooks of a commit: local ones only, and the same commands that `make` runs."""

import importlib.util
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

_ROOT = Path(__file__).parents[2]
_CONFIG = yaml.safe_load((_ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
_HOOKS: list[dict[str, Any]] = [hook for repository in _CONFIG["repos"] for hook in repository["hooks"]]


def test_hooks_download_no_code() -> None:
    assert [repository["repo"] for repository in _CONFIG["repos"]] == ["local"]
    assert {hook["language"] for hook in _HOOKS} == {"system"}


def test_hooks_cover_style_types_imports_and_language() -> None:
    assert [hook["id"] for hook in _HOOKS] == ["ruff-check", "ruff-format", "mypy", "import-contracts", "language"]
    assert all(hook["name"] for hook in _HOOKS)


@pytest.mark.parametrize("hook", _HOOKS, ids=lambda hook: hook["id"])
def test_hook_runs_a_command_of_make_that_the_environment_has(hook: dict[str, Any]) -> None:
    command = hook["entry"].removeprefix(".venv/bin/")
    assert command != hook["entry"]
    assert f"@$(BIN)/{command}" in (_ROOT / "Makefile").read_text(encoding="utf-8")
    name, *arguments = command.split()
    assert shutil.which(name, path=str(Path(sys.executable).parent))
    if arguments[:1] == ["-m"]:
        assert importlib.util.find_spec(arguments[1]) is not None


@pytest.mark.parametrize("hook", [hook for hook in _HOOKS if "files" in hook], ids=lambda hook: hook["id"])
def test_pattern_of_a_hook_matches_files(hook: dict[str, Any]) -> None:
    assert re.search(hook["files"], "src/castleguard/stream.py")
    assert not re.search(hook["files"], "docs/releasing.md")
