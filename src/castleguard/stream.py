"""READ FIRST: Anonymiser, one stream from raw rows to published ones.

    decode -> intake -> engine -> gate -> encode

The stream owns all state: the engine's, the gate's, and the rows that are pending between them. `snapshot` returns it
as bytes, and `restore` continues from them. `job.py` runs a stream between a source and a sink.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.base import Policy
from castleguard.algorithms.stages import check_gate, check_policy, check_schema, make_keys
from castleguard.books import Report, Tally
from castleguard.carried import carry, take_over
from castleguard.checkpoint.codec import Record, flat, grouped, pack, table_from_bytes, table_to_bytes, unpack
from castleguard.coordination import Alone, Coordinator, StreamParts
from castleguard.errors import UsageError
from castleguard.kernels.compile import is_warm, mark_warm
from castleguard.privacy.guarantee import Guarantee
from castleguard.release.emptiness import warn_at_end
from castleguard.release.encode import Numbers
from castleguard.release.publisher import Publisher
from castleguard.runtime.clock import advanced
from castleguard.runtime.epochs import Described, check_same_stream, counting_of, identity_of
from castleguard.schema.batch_reader import BatchReader, GridCheck, Part
from castleguard.schema.coded import CodedRows, Decisions
from castleguard.schema.publishable import Unfit
from castleguard.schema.roles import Schema
from castleguard.telemetry.logs import LOG

_SLICE = 1 << 16  # rows handed to the engine at once: bounds the memory of one call


class Anonymiser:
    """Publishes the rows of one stream under a policy. Not for use by several threads at once.

    `seed` is for tests and experiments: it makes every choice predictable, and the guarantee says so. `numbers` says
    how a range is published: "bounds" (the default), "interval" or "midpoint". `key`: 32 secret bytes that make a
    replay deterministic, in place of fresh ones; two streams must never have the same. `coordinator` agrees with other
    streams on what is published together; without one the stream publishes alone.
    """

    def __init__(
        self,
        schema: Schema,
        policy: Policy,
        *,
        seed: int | None = None,
        numbers: Numbers | None = None,
        key: bytes | None = None,
        coordinator: Coordinator | None = None,
    ) -> None:
        check_schema(schema)
        check_policy(policy)
        self.longest_row: int | None = None
        """Bytes that a row may take as JSON where it goes; a longer one is rejected. None: any number."""
        self.coordinator = coordinator or Alone()
        self._schema, self._policy, self._numbers = schema, policy, numbers or "bounds"
        self._seeded = seed is not None
        keys = self.coordinator.share_keys(make_keys(seed, key))
        self._stages = policy.stages(schema, keys, numbers=numbers)
        check_gate(self._stages.gate, self.guarantee().k)
        self._decoder, self._intake, self._engine, self._gate, encoder = self._stages
        self._tally = Tally()
        sealed, in_order = self._decoder.seals_sensitive, policy.chosen_order == "input"
        self._publisher = Publisher(schema, self._gate, encoder, self._tally, sealed=sealed, in_order=in_order)
        self._reader = BatchReader(schema, self._decoder, self._publisher.payload)
        self._grids = GridCheck(schema, needed=policy.publishes_values)
        self._now, self._whole = -math.inf, True
        pending, payload = self._publisher.pending, self._publisher.payload
        mine = StreamParts(schema, policy, self._identity, self._stages, pending, payload, self._tally, self._releasing)
        self.coordinator.join(mine)

    def push(self, batch: object, now: float | None = None) -> pa.Table:
        """Take in rows that arrive `now` (seconds; needed with `max_wait`), and return the rows that this releases.

        Rows may come as a pyarrow Table or RecordBatch, a pandas or polars DataFrame, or a list of dicts. The result
        has all output columns, and maybe no rows. A sensitive or public column is published with the type that the
        schema declares, else with the one that its input declares, else with that of its first value; a row with a
        value that does not convert to it is rejected. A column that has no type when the first row is published,
        because it was always null, is text for ever.
        """
        self._check_whole()
        self._now = advanced(self._now, now, needed=self._policy.timed)
        if not is_warm(self._policy.name):
            LOG.warning("compiling the kernels for this machine, once: up to two minutes")
        self._reader.longest_row = self.longest_row
        out: list[pa.Table] = []
        try:
            for part in self._reader.read(batch):
                # Decoding has succeeded: from here on the state changes.
                with self._releasing():
                    out += self._take_in(part)
        except BaseException:
            self._whole = self._whole and not out  # earlier parts were taken in but not returned
            raise
        with self._releasing():
            released = self.coordinator.hand_out([table.cast(out[-1].schema) for table in out])
        mark_warm(self._policy.name)
        return released

    def _take_in(self, part: Part) -> list[pa.Table]:
        """Pass rows through the intake, enter them into the books, and hand them step by step to the engine."""
        decoded = part.decoded
        rows, payload, present, over_budget, sampled_out = self._intake.take(decoded.rows, part.payload, self._now)
        self._publisher.payload.schema = payload.schema
        self._tally.enter(part.rows, over_budget, sampled_out, decoded.rejected.counts, decoded.clamped)
        self._grids.look_at(decoded.sample)
        self._publisher.pending.append(rows, payload, present)
        step = min(self.coordinator.step or _SLICE, _SLICE)
        slices = [slice(at, at + step) for at in range(0, max(rows.person.size, 1), step)]
        return [self._pass_on(rows.take(at), None if present is None else present[at]) for at in slices]

    def reject_unfit(self, unfit: Unfit | None) -> None:
        """From now on, reject rows with a sensitive or public value that the sink cannot take. Not in the snapshot."""
        self._reader.unfit = unfit

    def tick(self, now: float) -> pa.Table:
        """Let time pass: publish what has waited `max_wait` seconds. `now` never goes back."""
        self._check_whole()
        self._now = advanced(self._now, now, needed=self._policy.timed)
        with self._releasing():
            self.coordinator.turn(0, self._now)
            return self.coordinator.hand_out([self._publish(self._engine.tick(self._now))])

    def flush(self, *, warn: bool = True) -> pa.Table:
        """The end of the stream: publish all that can be published; the rest is counted as suppressed.

        Where presence is promised, the open window has not ended and is dropped: publishing it now would show when the
        caller flushed, and rows that still arrive in it would be a second release of one window. Use `finish` for an
        input that is complete. Dropped rows, and rows that came in while none was ever published, are logged as a
        warning; not with `warn=False`.
        """
        dropped = self._engine.pending if self.edge is not None else 0
        with self._releasing():
            self.coordinator.settle()
            out = self.coordinator.hand_out([self._publish(self._engine.flush())])
        if warn:
            warn_at_end(self.report(), dropped=dropped)
        return out

    def finish(self, *, warn: bool = True) -> pa.Table:
        """The end of a complete input: let the open window end, then flush; no row can arrive in that window then."""
        if self.edge is None:
            return self.flush(warn=warn)
        ended = self.tick(self.edge)
        flushed = self.flush(warn=warn)
        return pa.concat_tables([ended.cast(flushed.schema), flushed])

    def drop_window(self) -> pa.Table:
        """The end in the middle of a window of SDGS: its rows are suppressed, even where `flush` would publish them."""
        if not self._engine.has_windows:
            raise UsageError("this policy has no window to drop; flush the stream")
        with self._releasing():
            return self._publish(self._engine.drop())

    def report(self) -> Report:
        """The books of the stream: for its operator, never to be published."""
        oldest = self.coordinator.oldest(self._engine.oldest)
        return self._tally.books(
            pending=self._engine.pending + self._publisher.held + self.coordinator.locked,
            waiting=max(self._engine.arrivals - 1 - oldest, 0),
            open_clusters=self._engine.open_clusters,
            threshold=self._engine.threshold,
        )

    def rejected(self) -> list[tuple[int, str]]:
        """Rows of the latest push that were rejected: the row's number in the batch, and "column: reason"."""
        return self._reader.rejected()

    def guarantee(self) -> Guarantee:
        """The privacy statement."""
        return self._policy.guarantee(self._schema, seeded=self._seeded)

    def describe(self) -> Described:
        """What tells its output from that of another stream, and what it promises."""
        counting = counting_of(self._schema, self._intake.counting)
        return Described(identity=self._identity(), guarantee=self.guarantee(), counting=counting)

    def _identity(self) -> dict[str, Any]:
        """What a snapshot must have in common with the stream that continues it, as JSON has it."""
        return identity_of(self._schema, self._policy.fingerprint(), self._numbers)

    @property
    def now(self) -> float:
        """The latest time that the stream was told, in seconds; before the first, minus infinity."""
        return self._now

    @property
    def edge(self) -> float | None:
        """The end of the open window; None where presence is not promised, and before the stream was told the time."""
        presence = self._policy.presence
        return None if presence is None or self._now == -math.inf else presence.edge_after(self._now)

    @property
    def lag(self) -> float | None:
        """Seconds from the edge to the delivery of the window by a job; None where presence is not promised."""
        return None if self._policy.presence is None else self._policy.presence.lag

    def snapshot(self) -> bytes:
        """The whole state, to be continued by `restore`. It holds raw personal data: keep it as you keep the input."""
        self._check_whole()
        first, gone, groups, payload = self._publisher.snapshot()
        own = {"hash_key": self._decoder.key, "sample": self._grids.sample, "gone": gone}
        groups |= {"engine": self._engine.snapshot(), "intake": self._intake.snapshot(), "stream": own}
        facts = {
            **self._identity(),
            "seeded": self._seeded,
            **self._tally.facts(),
            "now": None if self._now == -math.inf else self._now,
            "first": first,
            "decoder": self._decoder.counter,
            "person_kind": self._decoder.person_kind,
            "grids_checked": self._grids.done,
        }
        return self.coordinator.snapshot(pack(Record(facts, flat(groups), {"payload": table_to_bytes(payload)})))

    @classmethod
    def restore(
        cls,
        schema: Schema,
        policy: Policy,
        blob: bytes,
        *,
        numbers: Numbers | None = None,
        coordinator: Coordinator | None = None,
    ) -> "Anonymiser":
        """Continue a stream from its snapshot; refused if schema, policy or `numbers` are not the snapshot's own."""
        stream = cls(schema, policy, numbers=numbers, coordinator=coordinator)
        stream.coordinator.restore(blob, stream._continue)
        return stream

    def _continue(self, blob: bytes) -> None:
        """Continue from a snapshot, if that is one of this stream."""
        record = unpack(blob)
        check_same_stream(self._identity(), record.facts)
        facts, groups = record.facts, grouped(record.arrays)
        own = groups["stream"]
        self._seeded = facts["seeded"]
        self._decoder.change_key(own["hash_key"])
        self._decoder.counter, self._decoder.person_kind = facts["decoder"], facts["person_kind"]
        self._engine.restore(groups["engine"])
        self._intake.restore(groups["intake"])
        self._publisher.restore(facts["first"], own["gone"], groups, table_from_bytes(record.blobs["payload"]))
        self._tally.restore(facts)
        self._now = -math.inf if facts["now"] is None else facts["now"]
        self._grids.done, self._grids.sample = facts["grids_checked"], own["sample"]

    def carry(self) -> bytes | None:
        """After a flush: counts of the rows of each person, and their key, for the next stream; None: none counted."""
        self._check_whole()
        return carry(self._schema, self._stages, self._now)

    def take_over(self, carried: bytes) -> list[str]:
        """Before the first row: go on with the counts of an earlier stream, or say what differs and begin new ones."""
        if self._tally.rows_in:
            raise UsageError("rows have arrived already: take over counts before the first row")
        differing, self._now = take_over(carried, self._schema, self._stages, self._publisher.pending, self._now)
        return differing

    @contextmanager
    def _releasing(self) -> Iterator[None]:
        """From here on rows are counted and decided. If that ends half-way, the stream is over: the gate may know boxes
        whose rows nobody has received, and a later row could be published alone in one of them; and the intake may have
        counted rows that the engine has not seen.
        """
        self._check_whole()
        self._whole = False
        yield
        self._whole = True

    def _check_whole(self) -> None:
        if not self._whole:
            raise UsageError("an earlier call failed half-way: continue from a snapshot taken before it")

    def _pass_on(self, rows: CodedRows, present: NDArray[np.bool_] | None) -> pa.Table:
        """Hand rows to the engine after the gate has observed them, and publish what that makes due."""
        self.coordinator.turn(rows.person.size, self._now)
        self._gate.observe(rows.sensitive, present)
        return self._publish(self._engine.push(rows, self._now, present))

    def _publish(self, decisions: Decisions) -> pa.Table:
        """Gate, order and encode what the engine has decided."""
        table = self._publisher.publish(decisions, self.coordinator.oldest(self._engine.oldest))
        self._tally.longest_wait = max(self._tally.longest_wait, self._engine.longest_wait)
        self.coordinator.decided(decisions)
        return table
