"""Size of a check that CI runs briefly and `make soak` runs in full.

A test that uses `effort` carries the mark `soak`, so that `make soak` finds it.
"""

import os

FULL = bool(os.environ.get("CASTLEGUARD_SOAK"))


def effort(brief: int, full: int) -> int:
    """Number of cases to run: `brief` by default, `full` if CASTLEGUARD_SOAK is set."""
    return full if FULL else brief
