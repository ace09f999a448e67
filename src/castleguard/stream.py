"""READ FIRST: Anonymiser, one stream from raw rows to published rows.

    decode -> intake -> engine -> gate -> encode

The stream owns all state: that of the engine and the gate, and the rows pending between them. `snapshot` returns it as
bytes; `restore` builds a stream from those bytes. `job.py` runs a stream between a source and a sink.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.policy import Policy
from castleguard.algorithms.stages import check_gate, check_policy, check_schema, make_keys
from castleguard.books import Report, Tally
from castleguard.carried import carry, take_over
from castleguard.checkpoint.codec import Record, flat, grouped, pack, table_from_bytes, table_to_bytes, unpack
from castleguard.coordination import Alone, Coordinator, StreamParts
from castleguard.errors import UsageError
from castleguard.pipeline import follow
from castleguard.privacy.guarantee import Guarantee
from castleguard.release.emptiness import warn_at_end
from castleguard.release.encode import Numbers
from castleguard.release.publisher import Decided, Publisher
from castleguard.runtime.clock import advance
from castleguard.runtime.epochs import Described, check_same_stream, counting_of, identity_of
from castleguard.schema.batch_reader import BatchReader, GridCheck, Part, Prepared
from castleguard.schema.coded import CodedRows, Decisions
from castleguard.schema.publishable import Unfit
from castleguard.schema.roles import Schema

_SLICE = 1 << 16  # rows per call of the engine: bounds its memory


class Anonymiser:
    """Publishes the rows of one stream under a policy. Not thread-safe.

    `seed` is for tests and experiments: it makes every draw predictable, which the guarantee states. `numbers` selects
    the form of published ranges: "bounds" (the default), "interval" or "midpoint". `key`: 32 secret bytes that make a
    replay deterministic; by default they are random, and two streams must never share them. `coordinator` negotiates
    joint releases with other streams; without one the stream publishes alone.
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
        self.longest_row: int | None = None  # size limit of a published row in bytes of JSON; longer ones are rejected
        self.parallel = False  # whether the gate may check rows of a push while the engine decides later ones
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
        self._now, self._usable = -math.inf, True
        pending, payload = self._publisher.pending, self._publisher.payload
        self.coordinator.join(
            StreamParts(schema, policy, self._identity, self._stages, pending, payload, self._tally, self._releasing)
        )

    def push(self, batch: object, now: float | None = None) -> pa.Table:
        """Take in rows that arrive at `now` (seconds; required with `max_wait`) and return the rows this releases.

        `batch` is a pyarrow Table or RecordBatch, a pandas or polars DataFrame, or a list of dicts. The result has all
        output columns and possibly no rows. A sensitive or public column is published with the type declared in the
        schema, else with the type of its input, else with that of its first value; a row whose value does not convert
        to that type is rejected. A column still all null when the first row is published is text from then on.
        """
        self._check_usable()
        self._now = advance(self._now, now, needed=self._policy.timed)
        out: list[pa.Table] = []
        try:
            for part in self._reader.read(batch, self.longest_row):
                # Decoding has succeeded; from here on the state changes.
                with self._releasing():
                    out += self._take_in(part)
        except BaseException:
            self._usable = self._usable and not out  # rows of earlier parts were released but not returned
            raise
        with self._releasing():
            return self.coordinator.hand_out([table.cast(out[-1].schema) for table in out])

    def prepare(self, batch: pa.RecordBatch) -> pa.RecordBatch | Prepared:
        """Decode a batch of a finite input before it is pushed, perhaps in another thread. Take no snapshot then."""
        return self._reader.prepare(batch, self.longest_row)

    def _take_in(self, part: Part) -> list[pa.Table]:
        """Pass rows through the intake, enter them into the books, and push them to the engine in slices."""
        decoded = part.decoded
        rows, payload, present, over_budget, sampled_out = self._intake.take(decoded.rows, part.payload, self._now)
        self._publisher.payload.schema = payload.schema
        self._tally.enter(part.rows, over_budget, sampled_out, decoded.rejected.counts, decoded.clamped)
        self._grids.look_at(decoded.sample)
        self._publisher.pending.append(rows, payload, present)
        step = min(self.coordinator.step or _SLICE, _SLICE // 4 if self.parallel else _SLICE)
        slices = [slice(at, at + step) for at in range(0, max(rows.person.size, 1), step)]
        decided = (self._decide(rows.take(at), None if present is None else present[at]) for at in slices)
        parallel = self.parallel and len(slices) > 1 and self.coordinator.step is None
        return follow(self._publish, decided) if parallel else list(map(self._publish, decided))

    def reject_unfit(self, unfit: Unfit | None) -> None:
        """Reject rows with sensitive or public values that the sink cannot store. Not part of the snapshot."""
        self._reader.unfit = unfit

    def tick(self, now: float) -> pa.Table:
        """Advance the time to `now` and publish rows that have waited `max_wait` seconds. `now` must not decrease."""
        self._check_usable()
        self._now = advance(self._now, now, needed=self._policy.timed)
        with self._releasing():
            self.coordinator.turn(0, self._now)
            return self.coordinator.hand_out([self._publish(self._after(self._engine.tick(self._now)))])

    def flush(self, *, warn: bool = True) -> pa.Table:
        """End the stream: publish every pending row that can be published; suppress the rest.

        Where presence is promised, the open window is dropped: publishing it before its end would reveal when the
        caller flushed, and later rows of the same window would form a second release of it. Use `finish` when the
        input is complete. Unless `warn` is false, a warning reports dropped rows and an output that stayed empty.
        """
        dropped = self._engine.pending if self.edge is not None else 0
        with self._releasing():
            self.coordinator.settle()
            out = self.coordinator.hand_out([self._publish(self._after(self._engine.flush()))])
        if warn:
            warn_at_end(self.report(), dropped=dropped)
        return out

    def finish(self, *, warn: bool = True) -> pa.Table:
        """End a stream whose input is complete: advance the time to the end of the open window, then flush."""
        if self.edge is None:
            return self.flush(warn=warn)
        ended, flushed = self.tick(self.edge), self.flush(warn=warn)
        return pa.concat_tables([ended.cast(flushed.schema), flushed])

    def drop_window(self) -> pa.Table:
        """End the stream within a window of SDGS: suppress its rows, even those that `flush` would publish."""
        if not self._engine.has_windows:
            raise UsageError("this policy has no window to drop: call flush instead")
        with self._releasing():
            return self._publish(self._after(self._engine.drop()))

    def report(self) -> Report:
        """Return the books of the stream. They are for the operator and must not be published."""
        oldest = self.coordinator.oldest(self._engine.oldest)
        return self._tally.books(
            pending=self._engine.pending + self._publisher.held + self.coordinator.locked,
            waiting=max(self._engine.arrivals - 1 - oldest, 0),
            open_clusters=self._engine.open_clusters,
            threshold=self._engine.threshold,
        )

    def rejected(self) -> list[tuple[int, str]]:
        """Return the rejected rows of the latest push: each row's number in the batch, and "column: reason"."""
        return self._reader.rejected()

    def guarantee(self) -> Guarantee:
        """Return the privacy guarantee of the stream."""
        return self._policy.guarantee(self._schema, seeded=self._seeded)

    def describe(self) -> Described:
        """Return what distinguishes this stream's output from another's: identity, guarantee, and counting windows."""
        counting = counting_of(self._schema, self._intake.counting)
        return Described(identity=self._identity(), guarantee=self.guarantee(), counting=counting)

    def _identity(self) -> dict[str, Any]:
        """Return what a snapshot and the stream restored from it must share, as JSON values."""
        return identity_of(self._schema, self._policy.fingerprint(), self._numbers)

    @property
    def now(self) -> float:
        """Latest time passed to the stream, in seconds; minus infinity before the first."""
        return self._now

    @property
    def edge(self) -> float | None:
        """End of the open window; None if presence is not promised, or before the first `now`."""
        presence = self._policy.presence
        return None if presence is None or self._now == -math.inf else presence.edge_after(self._now)

    @property
    def lag(self) -> float | None:
        """Seconds from the end of a window to its delivery by a job; None if presence is not promised."""
        return None if self._policy.presence is None else self._policy.presence.lag

    def snapshot(self) -> bytes:
        """Return the whole state for `restore`. It contains raw personal data: protect it like the input."""
        self._check_usable()
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
        """Restore a stream from its snapshot. Refuses one that was taken with another schema, policy or `numbers`."""
        stream = cls(schema, policy, numbers=numbers, coordinator=coordinator)
        stream.coordinator.restore(blob, stream._restore)
        return stream

    def _restore(self, blob: bytes) -> None:
        """Replace the state by that of a snapshot of the same stream."""
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
        """After a flush, return the row counts per person and their hash key for the next stream; None if uncounted."""
        self._check_usable()
        return carry(self._schema, self._stages, self._now)

    def take_over(self, carried: bytes) -> list[str]:
        """Before the first row, adopt the row counts of an earlier stream. If they do not fit, return what differs."""
        if self._tally.rows_in:
            raise UsageError("rows have already arrived: call take_over before the first push")
        differing, self._now = take_over(carried, self._schema, self._stages, self._publisher.pending, self._now)
        return differing

    @contextmanager
    def _releasing(self) -> Iterator[None]:
        """Guard a block that counts and decides rows: if it fails, the stream is unusable.

        The gate may then hold boxes whose rows were never returned, and a later row could be published alone in one of
        them; the intake may have counted rows that never reached the engine.
        """
        self._check_usable()
        self._usable = False
        yield
        self._usable = True

    def _check_usable(self) -> None:
        if not self._usable:
            raise UsageError("an earlier call failed and left the stream unusable: restore a snapshot taken before it")

    def _decide(self, rows: CodedRows, present: NDArray[np.bool_] | None) -> Decided:
        """Push rows to the engine. Leaves the publisher alone: it may be busy with earlier decisions."""
        self.coordinator.turn(rows.person.size, self._now)
        return self._after(self._engine.push(rows, self._now, present), rows.sensitive, present)

    def _after(self, decisions: Decisions, *arrived: Any) -> Decided:
        """The engine's decisions with its present state."""
        return Decided(decisions, self.coordinator.oldest(self._engine.oldest), self._engine.longest_wait, *arrived)

    def _publish(self, decided: Decided) -> pa.Table:
        """Pass the engine's decisions through gate, order and encoder."""
        table = self._publisher.publish(decided)
        self.coordinator.decided(decided.decisions)
        return table
