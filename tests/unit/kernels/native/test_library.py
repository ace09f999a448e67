"""Libraries are found by what they were compiled from, and are built where there are none."""

import os
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from castleguard.cli import main
from castleguard.errors import ConfigError
from castleguard.kernels.native import library
from tests.patience import WHOLE_RUN

COMPILER = pytest.mark.compiled


@pytest.mark.parametrize("module", library.list_modules())
def test_a_library_is_named_after_all_kernel_sources_that_it_contains(module: str) -> None:
    """Otherwise an edited kernel could run as an old library."""
    program = (
        f"import sys, {module}\n"
        "print(*sorted(name for name in sys.modules if name.startswith('castleguard.kernels.')"
        " and not name.startswith('castleguard.kernels.native')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.rpartition(".")[2] for name in done.stdout.split()}
    assert {source.stem for source in library._sources(module)} == loaded


def test_another_source_is_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "kernel.py"
    monkeypatch.setattr(library, "_source", lambda module: source)
    names = set()
    for text in ("a = 1\n", "a = 2\n"):
        source.write_text(text)
        library.file_name.cache_clear()
        names.add(library.file_name("some.kernel", library.PORTABLE))
    library.file_name.cache_clear()
    assert len(names) == 2
    assert all(name.startswith("kernel-") and name.endswith("-portable") for name in names)


def test_every_machine_runs_portable_libraries() -> None:
    assert library.levels()[-1] == library.PORTABLE


def test_a_processor_without_wide_registers_gets_portable_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(Path, "read_text", lambda self: "flags\t\t: fpu sse2 avx\n")
    library.levels.cache_clear()
    try:
        assert library.levels() == (library.PORTABLE,)
    finally:
        library.levels.cache_clear()


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CASTLEGUARD_CACHE", str(tmp_path))
    assert library.find_cache() == tmp_path / "kernels"
    (tmp_path / "kernels").chmod(0o777)
    other = library.find_cache()
    assert other != tmp_path / "kernels"
    assert stat.S_IMODE(other.stat().st_mode) == 0o700


def test_without_libraries_and_compiler_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'castleguard\[jit\]'"):
        library.build(["castleguard.kernels.ring"])


@COMPILER
def test_a_failed_build_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "find_library", lambda module: None)
    started: list[list[str]] = []
    monkeypatch.setattr(library, "build", lambda modules: started.append(list(modules)))
    for _ in range(2):
        with pytest.raises(ConfigError):
            library._open_library("castleguard.kernels.shuffle_that_cannot_be_built")
    assert len(started) == 1


def build_and_use(cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Hash two integers in a fresh process whose cache is empty or given."""
    program = (
        "import numpy as np, sys\n"
        "from castleguard.kernels.siphash import hash_integers\n"
        "key = np.array([1, 2], dtype=np.uint64)\n"
        "print(hash_integers(np.array([1, -5]), np.array([True, True]), key).tolist(), 'llvmlite' in sys.modules)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "CASTLEGUARD_CACHE": str(cache), **environment},
        capture_output=True,
        text=True,
        timeout=WHOLE_RUN,
        check=True,
    )


@COMPILER
def test_a_missing_library_is_built_once_and_then_found(tmp_path: Path) -> None:
    first, second = build_and_use(tmp_path), build_and_use(tmp_path)
    assert "compiling the kernels (once): siphash" in first.stderr
    assert second.stderr == ""
    assert first.stdout == second.stdout
    assert len(list((tmp_path / "kernels").glob("siphash-*"))) == 1


@COMPILER
def test_without_a_linker_object_files_are_loaded(tmp_path: Path) -> None:
    """As on a machine with numba, but without a C compiler."""
    usual = build_and_use(tmp_path / "usual")
    folder = tmp_path / "programs"
    folder.mkdir()
    loaded = build_and_use(tmp_path / "objects", PATH=str(folder))
    assert loaded.stdout.split("]")[0] == usual.stdout.split("]")[0]
    assert usual.stdout.endswith("False\n")
    if find_spec("ziglang") is None:
        assert [path.suffix for path in (tmp_path / "objects" / "kernels").glob("siphash-*")] == [".o"]
        assert loaded.stdout.endswith("True\n")


@COMPILER
def test_warmup_builds_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["warmup"])
    assert not ended.value.code
    assert "kernel libraries are ready" in capsys.readouterr().out
    assert all(library.find_library(module) for module in library.list_modules())
