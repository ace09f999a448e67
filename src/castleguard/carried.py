"""Counts of the rows of each person, carried from one stream of a job to the next: across epochs."""

import math

from castleguard.algorithms.stages import Stages
from castleguard.checkpoint.codec import Record, differences, pack, unpack
from castleguard.release.publisher import Pending
from castleguard.runtime.epochs import counting_of
from castleguard.schema.roles import Schema


def carry(schema: Schema, stages: Stages, now: float) -> bytes | None:
    """What the next stream needs: keyed hashes of persons, their counts and the key; None if none are counted."""
    counting = counting_of(schema, stages.intake.counting)
    if counting is None:
        return None
    facts = {"counting": counting, "now": None if now == -math.inf else now}
    return pack(Record(facts=facts, arrays={"hash_key": stages.decoder.key, **stages.intake.carry()}))


def take_over(carried: bytes, schema: Schema, stages: Stages, pending: Pending, now: float) -> tuple[list[str], float]:
    """Go on with the counts of an earlier stream, before the first row; the time of the stream after that. Where the
    counts do not fit, what differs: nothing has changed then.
    """
    record, counting = unpack(carried), counting_of(schema, stages.intake.counting)
    if counting is None:
        return ["ledger"], now
    differing = differences(counting, record.facts["counting"])
    if differing:
        return differing, now
    stages.decoder.change_key(record.arrays["hash_key"])
    arrivals = stages.intake.take_over(record.arrays)
    if counting["unit"] == "seconds" and counting["window"] is not None and record.facts["now"] is not None:
        now = record.facts["now"]  # a window that has been counted must not come again
    # Windows of the engine are those of the ledger: only so a window of the engine has what the ledger admits.
    if counting["unit"] == "rows" and counting["aligned"] and stages.engine.begin_at(arrivals):
        pending.begin_at(arrivals)
    return [], now
