"""Row counts per person, carried from one epoch of a job to the next."""

import math

from castleguard.algorithms.stages import Stages
from castleguard.checkpoint.codec import Record, differences, pack, unpack
from castleguard.release.publisher import Pending
from castleguard.runtime.epochs import counting_of
from castleguard.schema.roles import Schema


def carry(schema: Schema, stages: Stages, now: float) -> bytes | None:
    """Encode the hashes of persons, their row counts and the hash key for the next stream; None if uncounted."""
    counting = counting_of(schema, stages.intake.counting)
    if counting is None:
        return None
    facts = {"counting": counting, "now": None if now == -math.inf else now}
    return pack(Record(facts=facts, arrays={"hash_key": stages.decoder.key, **stages.intake.carry()}))


def take_over(carried: bytes, schema: Schema, stages: Stages, pending: Pending, now: float) -> tuple[list[str], float]:
    """Adopt the row counts of an earlier stream, before the first row.

    Returns what differs, if the counts do not fit (the stream is unchanged then), and the time of the stream.
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
        now = record.facts["now"]  # a counted window must not begin again
    # The engine's windows must coincide with the ledger's, or one of them could hold more than the ledger admits.
    if counting["unit"] == "rows" and counting["aligned"] and stages.engine.begin_at(arrivals):
        pending.begin_at(arrivals)
    return [], now
