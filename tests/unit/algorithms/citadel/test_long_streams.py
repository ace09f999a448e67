"""Memory of Citadel does not grow with the stream."""

import os
from pathlib import Path

import numpy as np
import pytest

from castleguard.algorithms.citadel.engine import CitadelEngine
from castleguard.algorithms.citadel.policy import Citadel
from castleguard.schema.coded import CodedRows
from castleguard.schema.roles import Numeric, Schema
from tests.soak import effort

PIECE = 10_000
GROWTH = 16 << 20  # bytes that allocators may keep


STATM = Path("/proc/self/statm")


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def made_up(rng: np.random.Generator) -> CodedRows:
    return CodedRows(
        quasi=np.floor(rng.normal(50, 15, (PIECE, 6)).clip(0, 99)),
        person=rng.integers(1, 1 << 62, PIECE).astype(np.uint64),
        sensitive=rng.integers(0, 9, (PIECE, 1)),
        to_root=np.zeros(PIECE, dtype=np.bool_),
    )


@pytest.mark.soak
@pytest.mark.compiled
@pytest.mark.skipif(not STATM.exists(), reason="the memory of a process is read from /proc, which Linux has")
@pytest.mark.parametrize("reuse", ["off", "narrow"])
def test_memory_stays_flat(reuse: str) -> None:
    schema = Schema(
        person="p",
        quasi_identifiers=[Numeric(f"x{column}", lower=0, upper=100, step=1) for column in range(6)],
        sensitive=["s"],
    )
    policy = Citadel(k=10, l=2, delay=1_000, reuse="narrow" if reuse == "narrow" else "off")
    engine = CitadelEngine(schema, policy, key=np.arange(8, dtype=np.uint32))
    rng = np.random.default_rng(1)
    pieces = effort(40, 1_000)
    before = 0
    for number in range(pieces):
        engine.push(made_up(rng), float(number))
        if number == pieces // 10:
            before = resident()
    assert resident() - before < GROWTH
    assert engine.arrivals == pieces * PIECE
    assert engine.pending <= policy.delay + 1
