"""How kernels are compiled, and where the result is kept.

One file for the options, because they are a promise: no fastmath (a reordered sum would make two runs disagree; only
minima and maxima may be reordered, see `scan_kernel`), the GIL released, numpy's error model (a division by zero is
checked where it can happen, not at every division).

Numba's own cache notices a changed source file, but not a changed callee in another file. So the cache folder is named
by a hash of all kernel sources and of the versions that compiled them: an edit anywhere starts a fresh folder. Nothing
is compiled at import; the first call of a kernel compiles it.
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

# Scalars inside a kernel: numpy's own where they come out of an array.
Int = int | np.int64
Bool = bool | np.bool_

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SOURCES = Path(__file__).parent
_MARK = "warm"


def _digest() -> str:
    """Name everything that compiled code depends on: sources, their place, and the versions of the compilers."""
    digest = hashlib.sha256()
    for part in (sys.version, np.__version__, numba.__version__, llvmlite.__version__, str(_SOURCES)):
        digest.update(part.encode() + b"\0")
    for source in sorted(_SOURCES.glob("*.py")):
        digest.update(source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _find_folder() -> Path | None:
    """The cache folder, created private to this user; None where no such folder can be written.

    A folder that others can write (a shared temporary one) is never used: the cache holds machine code.
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
    """Whether this user can write the folder and nobody else can; where a system has no owners, the first must do."""
    if not os.access(folder, os.W_OK):
        return False
    facts = folder.stat()
    return not hasattr(os, "getuid") or (facts.st_uid == os.getuid() and facts.st_mode & 0o022 == 0)


_CONFIG: Any = numba.config  # its settings are made at run time, so no stub knows them
JIT = not _CONFIG.DISABLE_JIT
FOLDER = _find_folder() if JIT else None


def kernel(function: _Function) -> _Function:
    """Compile `function` on its first call, for use by other kernels, and keep the result for the next process.

    It must not allocate: without numba's reference counts a call that passes the whole state costs a tenth. Python
    can call only an `entry_kernel`: leaving out the wrappers saves a third of the compiling.
    """
    return _compile(function, allocates=False, entry=False)


def inlined_kernel(function: _Function) -> _Function:
    """The same for a function that becomes part of its caller.

    For thin layers above large ones: the compiler works through everything below a function once for each layer.
    """
    return _compile(function, allocates=False, entry=False, inline="always")


def allocating_kernel(function: _Function) -> _Function:
    """The same for a function that makes arrays.

    It must return none of them, and take none from a `kernel`: one side counts references, the other does not.
    """
    return _compile(function, allocates=True, entry=False)


def entry_kernel(function: _Function) -> _Function:
    """A `kernel` that Python calls. It does not allocate either: its caller brings the arrays."""
    return _compile(function, allocates=False, entry=True)


def scan_kernel(function: _Function) -> _Function:
    """A `kernel` that looks for minima and maxima in arrays without NaN.

    Comparisons become vector instructions only if NaN and the sign of zero do not matter. Neither option reorders a
    sum, so results do not depend on the machine.
    """
    return _compile(function, allocates=False, entry=False, fastmath={"nnan", "nsz"})


def _compile(
    function: _Function, *, allocates: bool, entry: bool, inline: str = "never", fastmath: set[str] | None = None
) -> _Function:
    if not JIT:
        # Hashes and ciphers wrap around on purpose; compiled code does so silently, numpy scalars would warn.
        return np.errstate(over="ignore")(function)
    # The folder is set for this decoration only: other users of numba in this process keep their own.
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


_WARM: set[str] = set()  # what is known to be compiled, so that the disk is asked once


def is_warm(algorithm: str) -> bool:
    """Whether an algorithm's kernels need no compiling: they were compiled before on this machine, or run as plain
    Python.
    """
    if algorithm not in _WARM and (not JIT or (FOLDER is not None and (FOLDER / f"{_MARK}-{algorithm}").exists())):
        _WARM.add(algorithm)
    return algorithm in _WARM


def mark_warm(algorithm: str) -> None:
    """Remember that an algorithm's kernels have been compiled and cached."""
    if algorithm in _WARM:
        return
    _WARM.add(algorithm)
    if FOLDER is not None:
        # A full disk must not stop a stream: the next start merely announces a compile again.
        with contextlib.suppress(OSError):
            (FOLDER / f"{_MARK}-{algorithm}").touch()
