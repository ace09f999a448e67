"""Delay and memory of a job."""

from collections.abc import Iterator

from castleguard.config.job_model import JobFile
from castleguard.runtime.durations import spell_duration

_ROW_BYTES = 240  # of one pending row: its links and its share of the tables of persons and values
_CELL_BYTES = 16  # of one of its coded values, which are kept by the engine and beside it
_PAYLOAD_BYTES = 32  # of a value that is published as it is


def delay(job: JobFile) -> Iterator[str]:
    """How long a row may wait, and how many rows are held meanwhile."""
    yield from job.policy.waits(endless=job.spark is None or job.source.never_ends)
    if job.spark is not None and job.source.never_ends:
        yield "Both are looked at once in a micro-batch: up to two of them may pass until the row can be read."
    elif job.checkpoint is not None and job.spark is None:
        yield f"What is released is delivered at the next commit, up to {spell_duration(job.checkpoint.every)} later."
    size, rows = _row_bytes(job), job.policy.rows_held
    if rows is None:
        yield f"All rows of a window are held in memory: about {size:,} bytes for each."
    else:
        yield f"Up to {rows:,} rows are held in memory, {_size(rows * size)}, besides some 250 MB for the program."
        if job.spark is not None:
            yield "A shard also holds all rows of a micro-batch (or of the whole batch) that are its own."
    yield from job.policy.keeps()


def _row_bytes(job: JobFile) -> int:
    coded = len(job.schema.quasi_identifiers) + len(job.schema.sensitive)
    payload = len(job.schema.sensitive) + len(job.schema.public)
    return _ROW_BYTES + _CELL_BYTES * coded + _PAYLOAD_BYTES * payload


def _size(size: int) -> str:
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB")):
        if size >= unit:
            return f"about {size / unit:.2g} {name}" if size < 10 * unit else f"about {size // unit:,} {name}"
    return "less than 1 MB"
