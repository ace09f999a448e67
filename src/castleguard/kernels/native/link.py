"""Object files to shared libraries, by the machine's C compiler or that of a Python package.

Without either, object files are kept as they are, and LLVM loads them (`objects.py`).
"""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path


def find_linker() -> list[str] | None:
    """Command that links like a C compiler: `cc`, or the one of the package ziglang; None without either."""
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    return [sys.executable, "-m", "ziglang", "cc"] if find_spec("ziglang") is not None else None


def link(object_file: Path, library: Path, linker: list[str]) -> None:
    """Link an object file to a shared library that needs the C and mathematics libraries only."""
    shared = ["-dynamiclib"] if sys.platform == "darwin" else ["-shared", "-Wl,-z,noexecstack", "-Wl,--as-needed"]
    command = [*linker, *shared, "-o", str(library), str(object_file), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{linker[0]} cannot link the compiled kernels: {done.stderr.strip()[-500:]}")
