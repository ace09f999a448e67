"""One shard: a separate stream whose whole state is bytes that the host stores.

The host calls a shard for the rows of a micro-batch and when a timer expires; each time it restores the shard from its
state and stores the new state. A batch may be replayed from the state before it, and every draw must then repeat. The
keys are therefore part of the state. A new shard only draws its keys and keeps its rows: it publishes nothing before a
later batch, because only then are its keys certainly stored. If its first batch is run twice, it has drawn two keys and
revealed nothing of either.
"""

import hashlib
import json
import math
import os
from typing import NamedTuple

import pyarrow as pa

from castleguard.algorithms.stages import KEY_BYTES
from castleguard.checkpoint.codec import Record, differences, pack, table_from_bytes, table_to_bytes, unpack
from castleguard.errors import SnapshotError
from castleguard.shards.order import put_in_order
from castleguard.shards.plan import Plan
from castleguard.stream import Anonymiser

_MILLISECONDS = 1000


class Reject(NamedTuple):
    """A rejected row."""

    place: str | None
    """Its position columns as JSON; None without position columns."""
    reason: str
    """Column and reason, never the value."""


class Outcome(NamedTuple):
    """Result of a call."""

    published: list[pa.Table]
    rejected: list[Reject]
    counts: str
    """The books as JSON: those of `Books`, `waiting` for rows that wait for the keys to be stored, and `now`."""


class Shard:
    """One stream of many. `take` and `tick` get the time of the batch in seconds, which is the same in every replay."""

    def __init__(self, plan: Plan, number: int, *, key: bytes | None = None, kept: bool = False) -> None:
        """Create a shard with fresh keys, or with keys derived from a secret `key` of the host.

        `kept`: the host stores `key`, so the shard need not wait until its keys are stored.
        """
        self._plan = plan
        self._number = number
        self._born: float | None = None
        self._waiting: list[tuple[float, pa.Table]] = []
        self._arrivals: list[float] = []
        self._alarm: int | None = None
        if plan.seed is not None:
            seeded = hashlib.sha256(f"castleguard order {plan.seed} {number}".encode()).digest()
            self._order, self._settled = seeded, kept
            self._stream = Anonymiser(plan.schema, plan.policy, seed=plan.seed + number, numbers=plan.numbers)
            return
        secret = os.urandom(KEY_BYTES) if key is None else derive_key(key, f"shard {number}")
        self._order, self._settled = derive_key(secret, "order"), kept
        stream_key = derive_key(secret, "stream")
        self._stream = Anonymiser(plan.schema, plan.policy, key=stream_key, numbers=plan.numbers)

    @classmethod
    def restore(cls, plan: Plan, number: int, state: bytes) -> "Shard":
        """Restore a shard from its snapshot. Raises SnapshotError if that belongs to another plan or shard."""
        record = unpack(state)
        shard = cls.__new__(cls)
        shard._plan, shard._number = plan, number
        identity = shard._identity()
        differing = differences(identity, {name: record.facts.get(name) for name in identity})
        if differing:
            raise SnapshotError(
                f"the state belongs to a stream with another {' and another '.join(differing)}: run the stream with "
                f"its original settings until no row is pending, then start a new one with a new checkpoint"
            )
        shard._born = record.facts["born"]
        shard._settled = record.facts["settled"]
        shard._arrivals = record.facts["arrivals"]
        shard._alarm = record.facts["alarm"]
        shard._order = record.blobs["order"]
        times = record.facts["waiting"]
        shard._waiting = [(now, table_from_bytes(record.blobs[f"waiting {at}"])) for at, now in enumerate(times)]
        snapshot = record.blobs["stream"]
        shard._stream = Anonymiser.restore(plan.schema, plan.policy, snapshot, numbers=plan.numbers)
        return shard

    def snapshot(self) -> bytes:
        """Return the whole state. It contains raw rows and keys: the host must protect it like the input."""
        blobs = {"order": self._order, "stream": self._stream.snapshot()}
        blobs |= {f"waiting {at}": table_to_bytes(table) for at, (_, table) in enumerate(self._waiting)}
        facts = {
            "born": self._born,
            "settled": self._settled,
            "waiting": [now for now, _ in self._waiting],
            "arrivals": self._arrivals,
            "alarm": self._alarm,
        }
        return pack(Record(facts={**self._identity(), **facts}, blobs=blobs))

    @property
    def pending(self) -> int:
        """Pending rows, including those that wait for the keys to be stored."""
        return self._stream.report().pending + self._rows_waiting

    def move_alarm(self, now: float) -> tuple[int | None, int | None]:
        """Return the previous and the new alarm, in milliseconds: when to call `tick` if no rows arrive before."""
        before, self._alarm = self._alarm, self._next_alarm(now)
        return before, self._alarm

    def _next_alarm(self, now: float) -> int | None:
        soonest = math.floor(now * _MILLISECONDS) + 1
        if self._waiting:
            return soonest
        if self._plan.policy.max_wait is None or not self.pending:
            self._arrivals = []
            return None
        self._arrivals = [then for then in self._arrivals if self._due(then) > now] or [now]
        return max(math.ceil(self._due(self._arrivals[0]) * _MILLISECONDS), soonest)

    def _due(self, arrival: float) -> float:
        """Return when a row with this arrival must leave: after `max_wait`, or at the end of its window."""
        due = self._plan.policy.leaves_by(arrival)
        assert due is not None
        return due

    def take(self, rows: pa.Table, now: float) -> Outcome:
        """Take in the rows of a batch, in any order."""
        self._arrivals.append(self._forward(now))
        if not self._settle(now):
            self._waiting.append((now, rows))
            return self._outcome([], [], now)
        published, rejected = self._take_waiting()
        more, refused = self._push(rows, now)
        return self._outcome([*published, more], [*rejected, *refused], now)

    def tick(self, now: float) -> Outcome:
        """Advance the time, and publish rows that are due."""
        if not self._settle(now):
            return self._outcome([], [], now)
        published, rejected = self._take_waiting()
        published.append(self._stream.tick(self._forward(now)))
        return self._outcome(published, rejected, now)

    def flush(self, now: float) -> Outcome:
        """End a complete frame: publish all rows."""
        published, rejected = self._take_waiting()
        published.append(self._stream.finish(warn=False))
        return self._outcome(published, rejected, now)

    def _settle(self, now: float) -> bool:
        """Whether the keys are stored: they are in any batch after the one that drew them.

        Batches are identified by their times: a batch has one time, and no two batches share it.
        """
        if self._born is None:
            self._born = now
        self._settled = self._settled or now != self._born
        return self._settled

    def _take_waiting(self) -> tuple[list[pa.Table], list[Reject]]:
        published, rejected = [], []
        for then, rows in self._waiting:
            more, refused = self._push(rows, then)
            published.append(more)
            rejected += refused
        self._waiting = []
        return published, rejected

    def _push(self, rows: pa.Table, now: float) -> tuple[pa.Table, list[Reject]]:
        ordered = put_in_order(rows, self._plan.position, self._order)
        # Ratchet: the key of this batch cannot be derived from that of the next.
        self._order = derive_key(self._order, "next")
        published = self._stream.push(ordered, now=self._forward(now))
        refused = self._stream.rejected()
        places = self._places(ordered, [row for row, _ in refused])
        return published, [Reject(place, why) for place, (_, why) in zip(places, refused, strict=True)]

    def _places(self, rows: pa.Table, numbers: list[int]) -> list[str | None]:
        if not self._plan.position:
            return [None] * len(numbers)
        found = rows.select(list(self._plan.position)).take(pa.array(numbers, pa.int64())).to_pylist()
        return [json.dumps(place, default=str) for place in found]

    def _forward(self, now: float) -> float:
        """Return `now`, or the stream's latest time if the clock was set back."""
        return max(now, self._stream.now)

    def _outcome(self, published: list[pa.Table], rejected: list[Reject], now: float) -> Outcome:
        books = {**self._stream.report().facts(), "waiting": self._rows_waiting, "now": now}
        return Outcome([table for table in published if table.num_rows], rejected, json.dumps(books))

    @property
    def _rows_waiting(self) -> int:
        rows: int = sum(table.num_rows for _, table in self._waiting)
        return rows

    def _identity(self) -> dict[str, object]:
        return {**self._plan.fingerprint(), "shard": self._number}


def derive_key(key: bytes, use: str) -> bytes:
    """Derive a key for one use; it does not reveal `key`."""
    return hashlib.blake2b(use.encode(), key=key, digest_size=KEY_BYTES).digest()
