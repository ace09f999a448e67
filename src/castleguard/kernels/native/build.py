"""Build libraries of compiled kernels: `python -m castleguard.kernels.native.build [MODULE ...]`.

Without modules it builds all that the package has, in as many processes as there are cores. Libraries that exist
already are kept. `--into FOLDER` builds for wheels: for every instruction set, not only this machine's best.
"""

import argparse
import fcntl
import gc
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from castleguard.kernels import compile as decorators
from castleguard.kernels.native import emit
from castleguard.kernels.native.library import file_name, find_cache, levels, list_modules
from castleguard.kernels.native.link import find_linker, link


class Task(NamedTuple):
    """Libraries of one module to build."""

    module: str
    folder: Path
    levels: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> None:
    """Build libraries."""
    parser = argparse.ArgumentParser(prog="python -m castleguard.kernels.native.build", description=__doc__)
    parser.add_argument("modules", nargs="*", help="a name, or name=file for a module of tests")
    parser.add_argument("--into", type=Path)
    given = parser.parse_args(arguments)
    folder = given.into or find_cache()
    wanted = levels() if given.into else levels()[:1]
    tasks = [Task(_load(module), folder, wanted) for module in given.modules or list_modules()]
    waiting = [task for task in tasks if _unbuilt(task)]
    if not waiting:
        return
    started = time.monotonic()
    _say(f"compiling the kernels (once): {', '.join(task.module.rpartition('.')[2] for task in waiting)}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with get_context("fork").Pool(min(len(waiting), cores)) as pool:
        for module, seconds in pool.imap_unordered(build_module, waiting):
            _say(f"  {module.rpartition('.')[2]}: {seconds:.0f} s")
    _say(f"compiled the kernels in {time.monotonic() - started:.0f} s")


def _load(module: str) -> str:
    """Name of a module; one that is given with its file is imported from there."""
    name, _, file = module.partition("=")
    if file:
        decorators.lower_with(emit.lower)
        emit.postpone_code_generation()
        spec = spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return name


def _unbuilt(task: Task) -> list[str]:
    """Instruction sets for which a module has no library."""
    return [
        level
        for level in task.levels
        if not any((task.folder / (file_name(task.module, level) + suffix)).exists() for suffix in (".so", ".o"))
    ]


def build_module(task: Task) -> tuple[str, float]:
    """Build the libraries of a module; return its name and the time this took."""
    started = time.monotonic()
    with _locked(task.folder / f"{task.module}.lock"):
        if _unbuilt(task):  # otherwise another process was faster
            gc.disable()  # saves a tenth of the time: the compiler makes few cycles, and the process ends soon
            decorators.lower_with(emit.lower)
            emit.postpone_code_generation()
            module = import_module(task.module)
            entries = [entry for entry in emit.ENTRIES if entry.py_func.__module__ == module.__name__]
            bitcode = emit.link_entries(entries)
            for level in task.levels:
                _write(emit.emit_object(bitcode, level), task.folder / file_name(task.module, level))
    return task.module, time.monotonic() - started


def _write(code: bytes, path: Path) -> None:
    """Link an object file and put the library, or without a linker the object file, in place."""
    with TemporaryDirectory(dir=path.parent, prefix=".building-") as folder:
        source = Path(folder) / "kernels.o"
        source.write_bytes(code)
        linker = find_linker()
        if linker is None:
            source.replace(path.with_name(f"{path.name}.o"))
        else:
            library = Path(folder) / "kernels.so"
            link(source, library, linker)
            library.replace(path.with_name(f"{path.name}.so"))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock, so that several processes do not build the same library."""
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    sys.stderr.write(f"castleguard: {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
