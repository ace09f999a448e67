"""Import rules beyond the contracts in pyproject.toml: allowed imports, and modules loaded at import."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "castleguard"
KERNELS = sorted((PACKAGE / "kernels").glob("*.py"))
BUILD = sorted((PACKAGE / "kernels" / "native").glob("*.py"))
COMPILER = {"llvmlite", "numba"}
OPTIONAL = ["llvmlite", "matplotlib", "nats", "numba", "pandas", "polars", "scipy"]


def imported_modules(source: Path) -> Iterator[str]:
    """Return the full name of every module that a source file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""


@pytest.mark.parametrize("source", KERNELS, ids=lambda source: source.stem)
def test_kernel_imports_numpy_only(source: Path) -> None:
    foreign = {
        module
        for module in imported_modules(source)
        if not f"{module}.".startswith("castleguard.kernels.")
        and module.split(".")[0] not in {"numpy"} | sys.stdlib_module_names
    }
    assert foreign == set()


@pytest.mark.parametrize("module", ["castleguard", "castleguard.cli"])
def test_import_loads_no_optional_library(module: str) -> None:
    """They may be missing, and would slow down every start."""
    program = f"import sys, {module}; print(*sorted(set({OPTIONAL}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
