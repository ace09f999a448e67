"""How much memory a job needs: the arrays of its engine, its pending rows, and what a release and a commit take."""

from dataclasses import replace
from typing import Any, cast

from castleguard.algorithms.ring_engine import KernelEngine, Memory
from castleguard.algorithms.stages import make_keys
from castleguard.config.job_model import JobFile

PROGRAM = 200_000_000
"""Bytes that a job needs however few rows are pending: the program, reads, and the segment between two commits."""

_PAYLOAD_BYTES = 16  # per value that is published unchanged
_MOST_BUILT = 1_000_000  # rows of the largest engine that is built to measure it; from there on, memory is linear
_ROW_BYTES = 240  # per row of an engine that cannot be measured: its links and its share of tables
_CELL_BYTES = 16  # and per coded value


def memory_of_rows(job: JobFile) -> int | None:
    """Bytes for the pending rows of one stream when it needs most; None: their number depends on the stream."""
    rows = job.policy.rows_held
    if rows is None:
        return None
    columns, sensitive, payload = _widths(job)
    engine = _engine_memory(job, rows)
    coded = 8 * columns + 8 + 8 * sensitive + 2
    # Coded rows have twice the room, and payload is there twice while it is joined. A flush decides all rows at once.
    held = engine.all + rows * (2 * coded + 2 * _PAYLOAD_BYTES * payload + 72 + 16 * columns)
    if job.checkpoint is None:
        return held
    snapshot = engine.changing + rows * (coded + _PAYLOAD_BYTES * payload)
    # Copied, packed, and held by the store until they are written; encrypted, if there is a key.
    copies = 3 if job.checkpoint.key is None else 4
    return held + copies * snapshot + rows * _PAYLOAD_BYTES * payload


def memory_per_row(job: JobFile) -> int:
    """Rough number of bytes for each row of a window whose rows are counted by time."""
    columns, sensitive, payload = _widths(job)
    return _ROW_BYTES + _CELL_BYTES * (columns + sensitive) + 2 * _PAYLOAD_BYTES * payload


def _widths(job: JobFile) -> tuple[int, int, int]:
    """Numbers of quasi-identifiers, of sensitive columns, and of columns that are published unchanged."""
    schema = job.schema
    sensitive = len(schema.sensitive)
    return len(schema.quasi_identifiers), sensitive, sensitive + len(schema.public)


def _engine_memory(job: JobFile, rows: int) -> Memory:
    """Memory of the arrays of an engine, which is built to measure it: the arrays are reserved and not filled."""
    built = min(rows, _MOST_BUILT)
    policy = job.policy
    if built < rows:
        policy = replace(cast(Any, policy), delay=built)
    engine = policy.stages(job.schema, make_keys(seed=0)).engine
    if not isinstance(engine, KernelEngine):
        return Memory(rows * _ROW_BYTES, rows * _ROW_BYTES // 2)
    found = engine.memory
    return Memory(found.all * rows // built, found.changing * rows // built)
