"""Compiling the kernels once for all workers of a parallel run.

Workers that find a cold cache would all compile the same kernels at the same time. So the process that starts them
starts one more, which compiles all of them and holds a lock meanwhile. Tests that need no kernels run first; a worker
that comes to another one waits for the lock. Where the cache is warm nothing of this happens.
"""

import fcntl
import logging
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

import castleguard as cg
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.kernels.compile import FOLDER
from castleguard.sites.simulation import simulate

ROWS = 60
SCHEMA = cg.Schema(
    person="pid",
    quasi_identifiers=[
        cg.Numeric("age", lower=0, upper=100, step=5),
        cg.Categorical("place", hierarchy=cg.Hierarchy.from_mapping({"all": ["a", "b", "c"]})),
    ],
    sensitive=[cg.Sensitive("job", values=["x", "y", "z"])],
)


def is_cold() -> bool:
    """Whether kernels are to be compiled. The folder of the cache belongs to the very sources of the kernels."""
    return FOLDER is not None and not (FOLDER / "warm-tests").exists()


def start() -> "subprocess.Popen[bytes] | None":
    """Start to compile, unless another run does; the lock is held until that process ends, however it ends."""
    with _lock_file() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        return subprocess.Popen(
            [sys.executable, "-m", "tests.warming"],
            cwd=Path(__file__).parents[1],
            pass_fds=[lock.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
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


def compile_all() -> None:
    """Let every algorithm publish a few rows."""
    assert FOLDER is not None
    table = pa.table({
        "pid": [row % 20 for row in range(ROWS)], "age": [row * 7 % 100 for row in range(ROWS)],
        "place": ["abc"[row % 3] for row in range(ROWS)], "job": ["xyz"[row // 3 % 3] for row in range(ROWS)],
    })  # fmt: skip
    policies: list[Any] = [
        cg.Citadel(k=3, l=2, delay=20),
        cg.Citadel(k=3, delay=20, reuse="narrow"),
        cg.Castle(k=3, l=2, delay=20),
        cg.Castleguard(k=3, delay=20, epsilon=9, closeness=cg.Closeness(t=0.5)),
        cg.Sdgs(k=3, sample_rate=0.5, epsilon=1, window=30, window_unit="rows"),
        cg.Doca(k=3, delay=20, epsilon=9),
        cg.Doca(delay=20, epsilon=9, mode="paper"),
    ]
    for policy in policies:
        stream = cg.Anonymiser(SCHEMA, policy)
        stream.push(table, now=0.0)
        stream.tick(1.0)
        stream.flush(warn=False)
        stream.snapshot()
    simulate(table, SCHEMA, Dcastle(k=3, delay=20, sites=2), seed=1)
    (FOLDER / "warm-tests").touch()


if __name__ == "__main__":
    if "--is-cold" in sys.argv:
        sys.stdout.write(f"{int(is_cold())}\n")
    else:
        logging.disable()
        compile_all()
