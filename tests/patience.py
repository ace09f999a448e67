"""Waiting in tests. A deadline bounds a hang and nothing else: a busy machine must never decide a test."""

import time
from collections.abc import Callable

PATIENCE = 300.0
"""Seconds for one answer or event: the longest timeout that a connector takes."""
WHOLE_RUN = 900.0
"""Seconds for the whole run of a process on a machine with ten busy processes per core. Both are less than the limit of
a test, so that a test that hangs reports where."""


def eventually(happens: Callable[[], object], what: str = "it does not happen", every: float = 0.01) -> None:
    """Ask until the answer is true."""
    limit = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < limit, what
        time.sleep(every)


def fastest(attempt: Callable[[], object], enough: float, attempts: int = 20) -> float:
    """Seconds that the fastest of several attempts took; the first one that takes less than `enough` is the last.

    What is slow by itself is slow every time; what had to wait for a busy machine is not.
    """
    best = float("inf")
    for _ in range(attempts):
        began = time.monotonic()
        attempt()
        best = min(best, time.monotonic() - began)
        if best < enough:
            break
    return best
