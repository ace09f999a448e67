"""Compile options of the kernels, and the cache of compiled code.

All options are in this file because results depend on them: fastmath is off (a reordered sum would make two runs
disagree; only minima and maxima may be reordered, see `scan_kernel`), the GIL is released, and numpy's error model
applies (a kernel checks for division by zero where it can happen, not at every division).

Numba's cache notices a changed source file, but not a changed callee in another file. The cache folder is therefore
named after a hash of all kernel sources and compiler versions: any edit starts a new folder. Importing compiles
nothing; the first call of a kernel does.
"""

import contextlib
import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np

# Scalars inside a kernel: numpy scalars where they come out of an array.
Int = int | np.int64
Bool = bool | np.bool_

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SOURCES = Path(__file__).parent
_MARK = "warm"


def _digest() -> str:
    """Hash of everything that compiled code depends on: the sources, their folder, and the compiler versions."""
    digest = hashlib.sha256()
    for part in (sys.version, np.__version__, numba.__version__, llvmlite.__version__, str(_SOURCES)):
        digest.update(part.encode() + b"\0")
    for source in sorted(_SOURCES.glob("*.py")):
        digest.update(source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _find_folder() -> Path | None:
    """Create the cache folder, private to this user; None if that is impossible.

    A folder that other users can write, such as a shared temporary folder, is never used: the cache holds machine code.
    """
    chosen = os.environ.get("CASTLEGUARD_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "castleguard"
    folder = base / f"kernels-{_digest()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if _is_private(folder) else None


def _is_private(folder: Path) -> bool:
    """Whether only this user can write the folder; without file owners (Windows), whether this user can."""
    if not os.access(folder, os.W_OK):
        return False
    facts = folder.stat()
    return not hasattr(os, "getuid") or (facts.st_uid == os.getuid() and facts.st_mode & 0o022 == 0)


_CONFIG: Any = numba.config  # its attributes are created at run time, so stubs do not list them
JIT = not _CONFIG.DISABLE_JIT
FOLDER = _find_folder() if JIT else None


def kernel(function: _Function) -> _Function:
    """Compile `function` on its first call, for use by other kernels, and cache the result for later processes.

    It must not allocate: without numba's reference counting, a call that passes the whole state costs a tenth. Python
    can call only an `entry_kernel`: omitting the wrappers saves a third of the compile time.
    """
    return _compile(function, allocates=False, entry=False)


def inlined_kernel(function: _Function) -> _Function:
    """A `kernel` that is inlined into its caller.

    Meant for thin layers above large ones: the compiler processes everything below a function once per layer.
    """
    return _compile(function, allocates=False, entry=False, inline="always")


def allocating_kernel(function: _Function) -> _Function:
    """A `kernel` that may allocate arrays.

    It must not return them, nor receive arrays allocated by a `kernel`: only one of the two counts references.
    """
    return _compile(function, allocates=True, entry=False)


def entry_kernel(function: _Function) -> _Function:
    """A `kernel` that Python can call. It must not allocate either: the caller passes the arrays."""
    return _compile(function, allocates=False, entry=True)


def scan_kernel(function: _Function) -> _Function:
    """A `kernel` that searches arrays without NaN for minima and maxima.

    The compiler vectorises comparisons only if NaN and the sign of zero do not matter. Neither option reorders a sum,
    so results do not depend on the machine.
    """
    return _compile(function, allocates=False, entry=False, fastmath={"nnan", "nsz"})


def _compile(
    function: _Function, *, allocates: bool, entry: bool, inline: str = "never", fastmath: set[str] | None = None
) -> _Function:
    if not JIT:
        # Hashes and ciphers overflow on purpose; compiled code does so silently, numpy scalars would warn.
        return np.errstate(over="ignore")(function)
    # Set the folder for this decoration only: other users of numba in this process keep their own.
    previous = _CONFIG.CACHE_DIR
    try:
        if FOLDER is not None:
            _CONFIG.CACHE_DIR = str(FOLDER)
        njit: Any = numba.njit
        compiled = njit(
            cache=FOLDER is not None,
            nogil=True,
            fastmath=fastmath or False,
            error_model="numpy",
            inline=inline,
            no_cpython_wrapper=not entry,
            no_cfunc_wrapper=True,
            _nrt=allocates,
        )(function)
    finally:
        _CONFIG.CACHE_DIR = previous
    return cast(_Function, compiled)


_WARM: set[str] = set()  # algorithms known to be compiled, so that the disk is checked once


def is_warm(algorithm: str) -> bool:
    """Whether an algorithm's kernels need no compilation: they are cached on this machine, or run as plain Python."""
    if algorithm not in _WARM and (not JIT or (FOLDER is not None and (FOLDER / f"{_MARK}-{algorithm}").exists())):
        _WARM.add(algorithm)
    return algorithm in _WARM


def mark_warm(algorithm: str) -> None:
    """Record that an algorithm's kernels have been compiled and cached."""
    if algorithm in _WARM:
        return
    _WARM.add(algorithm)
    if FOLDER is not None:
        # A full disk must not stop a stream: the next start only announces the compilation again.
        with contextlib.suppress(OSError):
            (FOLDER / f"{_MARK}-{algorithm}").touch()
