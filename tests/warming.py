"""Compiling the kernels once for all workers of a parallel run.

Workers that find no libraries would wait for each other. So the process that starts them builds all libraries first, in
a process beside it, and holds a lock meanwhile. Tests that need no kernels run first; a worker that comes to another
one waits for the lock. Where the libraries exist nothing of this happens.
"""

import fcntl
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import IO

from castleguard.kernels.compile import COMPILED
from castleguard.kernels.native.library import find_cache, find_library, list_modules

FOLDER = find_cache() if COMPILED else None


def is_cold() -> bool:
    """Whether kernels are to be compiled."""
    return FOLDER is not None and any(find_library(module) is None for module in list_modules())


def start() -> "subprocess.Popen[bytes] | None":
    """Start to compile, unless another run does; the lock is held until that process ends, however it ends."""
    with _lock_file() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        return subprocess.Popen(
            [sys.executable, "-m", "castleguard.kernels.native.build"],
            cwd=Path(__file__).parents[1],
            pass_fds=[lock.fileno()],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


@cache
def wait() -> None:
    """Wait until the process that compiles has ended; after that, never again."""
    if FOLDER is not None:
        with _lock_file() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)


def _lock_file() -> IO[bytes]:
    assert FOLDER is not None
    return open(FOLDER / "tests.lock", "wb")


if __name__ == "__main__":
    sys.stdout.write(f"{int(is_cold())}\n")
