"""Anonymiser: one stream from raw rows to published ones.

    decode -> intake -> engine -> gate -> encode

The stream owns all state: the engine's, the gate's, and the rows that are pending between them. It can be put
aside as bytes and continued (`snapshot`, `restore`) as if nothing had happened.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.base import Policy
from castleguard.algorithms.keys import make_keys
from castleguard.algorithms.registry import check_policy
from castleguard.algorithms.stages import check_gate
from castleguard.checkpoint.codec import Record, differences, pack, unpack
from castleguard.checkpoint.tables import table_from_bytes, table_to_bytes
from castleguard.errors import SchemaError, SnapshotError, UsageError
from castleguard.kernels.compile import is_warm, mark_warm
from castleguard.privacy.guarantee import Guarantee
from castleguard.privacy.parameters import is_number
from castleguard.release.emptiness import empty_output
from castleguard.release.encode import Encoder, Numbers
from castleguard.release.order import InputOrder, Leaving, nothing_leaving, select
from castleguard.release.pending import Pending
from castleguard.release.report import Report
from castleguard.runtime.epochs import Described
from castleguard.schema.arguments import check_schema, kind_of
from castleguard.schema.casting import Misfits, cast_values
from castleguard.schema.coded import (
    NEW,
    REASONS,
    REUSED,
    ROOT,
    CodedRows,
    Decisions,
    Decoded,
    Quasi,
    Rejects,
    join_rejects,
)
from castleguard.schema.declared import ARROW_TYPES, read_declared
from castleguard.schema.decode import SAMPLE, reject_names
from castleguard.schema.identities import CANONICAL_FORM
from castleguard.schema.plain import plain, plain_type
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.table import has_types, split_table
from castleguard.schema.unfit import Unfit
from castleguard.schema.untyped import Arrivals, convert_values, kind_of_value
from castleguard.telemetry.logs import LOG

_SLICE = 1 << 16  # rows handed to the engine at once: bounds the memory of one call


class Anonymiser:
    """Publishes the rows of one stream under a policy. Not for use by several threads at once.

    `seed` is for tests and experiments: it makes every choice predictable, and the guarantee says so. `numbers` says
    how a range is published: "bounds" (the default), "interval" or "midpoint". `key` is for who may have to publish the
    same rows again after a failure, and must then come to the same result: 32 random bytes that are kept as secret as
    the rows, in place of fresh ones. Two streams must never have the same.
    """

    def __init__(
        self,
        schema: Schema,
        policy: Policy,
        *,
        seed: int | None = None,
        numbers: Numbers | None = None,
        key: bytes | None = None,
    ) -> None:
        check_schema(schema)
        check_policy(policy)
        self.longest_row: int | None = None
        """Bytes that a row may take as JSON where it goes; a longer one is rejected. None: any number."""
        self._schema = schema
        self._policy = policy
        self._seeded = seed is not None
        self._numbers = numbers or "bounds"
        columns = len(schema.quasi_identifiers)
        self._keys = make_keys(seed, key)
        stages = policy.stages(schema, self._keys, numbers=numbers)
        check_gate(stages.gate, policy.guarantee(schema, seeded=self._seeded).k)
        self._decoder, self._intake, self._engine, self._gate, self._encoder = stages
        self._pending = Pending(columns, len(schema.sensitive))
        self._order = InputOrder(columns) if policy.chosen_order == "input" else None
        types = {name: ARROW_TYPES[schema.types[name]] for name in self._published_as_they_are if name in schema.types}
        self._payload_schema = pa.schema([(name, types.get(name, pa.null())) for name in _payload_names(schema)])
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._rejected: dict[str, int] = {}
        self._clamped: dict[str, int] = {}
        self._loss = 0.0
        self._now = -math.inf
        self._grids_checked = False
        self._whole = True
        self._rejects: Rejects | None = None
        self._unfit: Unfit | None = None
        self._sample = np.empty((0, columns))

    def push(self, batch: object, now: float | None = None) -> pa.Table:
        """Take in rows that arrive `now` (seconds; needed with `max_wait`), and return what is published by that.

        Rows may come as a pyarrow Table or RecordBatch, a pandas or polars DataFrame, or a list of dicts. The result
        has all output columns, and maybe no rows. A sensitive or public column is published with the type that the
        schema declares, else with the one that its input declares, else with that of its first value; a row with a
        value that does not convert to it is rejected. A column that has no type when the first row is published,
        because it was always null, is text for ever.
        """
        self._advance(now)
        if not is_warm(self._policy.name):
            LOG.warning("compiling the kernels for this machine, once: up to two minutes")
        table, values = split_table(
            batch, self._schema.columns, person=self._schema.person, apart=self._published_as_they_are
        )
        self._decoder.longest_row = self.longest_row
        rows = Arrivals(table, values, typed=has_types(batch, self._schema.person))
        rejects: list[tuple[int, Rejects]] = []
        out: list[pa.Table] = []
        first, known = 0, self._payload_schema
        try:
            while first < table.num_rows or not out:
                part = self._next_part(rows)
                published, rejected = self._push_part(part)
                out += published
                rejects.append((first, rejected))
                first, rows = first + part.table.num_rows, rows.slice(part.table.num_rows)
        except BaseException:
            if not out:  # nothing was taken in: nothing is decided either
                self._payload_schema = known
            raise
        self._rejects = join_rejects(rejects)
        mark_warm(self._policy.name)
        return out[0] if len(out) == 1 else pa.concat_tables([table.cast(out[-1].schema) for table in out])

    def _next_part(self, rows: Arrivals) -> Arrivals:
        """The rows before the next one whose values decide the type of a column, after deciding by the first row.

        A column without a type is text as soon as a row is published. Whether one is, before the row with the first
        value comes, must not depend on what else is in the batch. So the rows before it go first.
        """
        while True:
            self._take_types(rows.table)
            at, kinds = self._find_types(rows)
            if at != 0:
                return rows if at is None else rows.slice(0, at)
            for name, kind in kinds.items():
                self._set_type(name, kind)

    def _find_types(self, rows: Arrivals) -> tuple[int | None, dict[str, pa.DataType]]:
        """The first row with a value in a column without a type, and the types that its values decide; None if there is
        none. A row that is rejected because of its other columns decides nothing.
        """
        undecided = [name for name in rows.values if pa.types.is_null(self._payload_schema.field(name).type)]
        found = {name: rows.first_value(name) for name in undecided}
        if all(at is None for at in found.values()):
            return None, {}
        before = self._decoder.counter, self._decoder.person_kind
        rejected = set(self._decode(rows).rejected.index.tolist())
        self._decoder.counter, self._decoder.person_kind = before
        found = {name: rows.first_value(name, rejected) for name in undecided}
        at = min((row for row in found.values() if row is not None), default=None)
        if at is None:
            return None, {}
        deciding = {name: rows.values[name][at] for name in undecided}
        return at, {name: kind_of_value(value) for name, value in deciding.items() if value is not None}

    def _push_part(self, rows: Arrivals) -> tuple[list[pa.Table], Rejects]:
        """Take in rows that decide no type: what is published by that, and what is rejected."""
        decoded = self._decode(rows)
        payload = self._typed(decoded.payload)
        # What can fail because of the rows has not failed: from here on the state changes.
        with self._releasing():
            coded, present = self._enter(decoded, payload, rows.table.num_rows)
            slices = [slice(at, at + _SLICE) for at in range(0, max(coded.person.size, 1), _SLICE)]
            out = [self._pass_on(coded.take(at), None if present is None else present[at]) for at in slices]
        return out, decoded.rejected

    def _decode(self, rows: Arrivals) -> Decoded:
        table, misfits = self._as_published(rows)
        return self._decoder.decode(table, self._unfit, typed=rows.typed, misfits=misfits)

    def reject_unfit(self, unfit: Unfit | None) -> None:
        """From now on, reject rows with a sensitive or public value that the sink cannot take. Not in the snapshot."""
        self._unfit = unfit

    def tick(self, now: float) -> pa.Table:
        """Let time pass: publish what has waited `max_wait` seconds. `now` never goes back."""
        self._advance(now)
        with self._releasing():
            return self._publish(self._engine.tick(self._now))

    def flush(self, *, warn: bool = True) -> pa.Table:
        """The end of the stream: publish whatever can be published; the rest is counted as suppressed.

        Where presence is promised, the open window has not ended and is dropped: publishing it now would show when the
        caller flushed, and rows that still arrive in it would be a second release of one window. Use `finish` for an
        input that is complete.

        A warning is logged if a window with rows is dropped, and if rows came in and none was ever published:
        `warn=False` leaves both out.
        """
        self._check_whole()
        dropped = self._engine.pending if self.edge is not None else 0
        with self._releasing():
            out = self._publish(self._engine.flush())
        if warn and dropped:
            LOG.warning(
                "%d rows of a window that has not ended were dropped, because presence is promised: tick the stream at "
                "the end of the window before the flush, or finish it if its input is complete",
                dropped,
            )
        elif warn:
            self._warn_if_empty()
        return out

    def finish(self, *, warn: bool = True) -> pa.Table:
        """The end of an input that is complete, such as a table: let the open window end, then flush.

        Its time is then the end of that window, so that no row can arrive in it any more.
        """
        edge = self.edge
        if edge is None:
            return self.flush(warn=warn)
        ended = self.tick(edge)
        flushed = self.flush(warn=warn)
        return pa.concat_tables([ended.cast(flushed.schema), flushed])

    def drop_window(self) -> pa.Table:
        """The end of a stream in the middle of a window of SDGS: its rows are dropped and counted as suppressed, also
        if it is a window of rows, which `flush` would publish.
        """
        self._check_whole()
        if not self._engine.has_windows:
            raise UsageError("only SDGS has windows that can be dropped; flush the stream")
        with self._releasing():
            return self._publish(self._engine.drop())

    @property
    def edge(self) -> float | None:
        """The end of the open window, in seconds as `now` counts them. None where presence is not promised, and before
        the stream was told the time.
        """
        presence = self._policy.presence
        return None if presence is None or self._now == -math.inf else presence.edge_after(self._now)

    @property
    def lag(self) -> float | None:
        """Seconds after the edge at which a job delivers what a window released; None where presence is not
        promised.
        """
        presence = self._policy.presence
        return None if presence is None else presence.lag

    def report(self) -> Report:
        """The books of the stream: for its operator, never to be published."""
        counts = self._counts
        held = 0 if self._order is None else self._order.held.position.size
        waiting = max(self._engine.arrivals - 1 - self._oldest, 0)
        return Report(
            rows_in=counts["rows_in"],
            published=counts["published"],
            suppressed=counts["suppressed"],
            sampled_out=counts["sampled_out"],
            over_budget=counts["over_budget"],
            rejected=dict(self._rejected),
            clamped=dict(self._clamped),
            pending=self._engine.pending + held + self._locked,
            handed_over=counts["handed_over"],
            undecided=counts["undecided"],
            received=counts["received"],
            at_root=counts["at_root"],
            reused=counts["reused"],
            gate_refused=counts["gate_refused"],
            groups=counts["groups"],
            information_loss=self._loss / out if (out := counts["published"] + counts["received"]) else None,
            oldest_wait=max(counts["longest_wait"], waiting),
            open_clusters=self._engine.open_clusters,
            threshold=self._engine.threshold,
        )

    def rejected(self) -> list[tuple[int, str]]:
        """Which rows of the latest push were refused: the row's number in the batch, and "column: reason"."""
        if self._rejects is None:
            return []
        names = reject_names(self._schema)
        found = zip(self._rejects.index, self._rejects.column, self._rejects.reason, strict=True)
        return [(int(row), f"{names[column]}: {REASONS[reason]}") for row, column, reason in found]

    @property
    def urgent(self) -> bool:
        """Whether something waits for a commit: that comes soon then."""
        return False

    @property
    def holding(self) -> bool:
        """Whether it would do better with a moment before the next rows: others are about to answer."""
        return False

    @property
    def sent(self) -> tuple[int, int]:
        """Messages and bytes to other sites, since it was made."""
        return 0, 0

    @property
    def unsettled(self) -> bool:
        """Whether others have to be asked yet what became of rows that were given up."""
        return False

    def wind_down(self) -> bool:
        """No more rows come: whether all is done that can be done together with others before `flush`. If not, time
        has to pass (`tick`, `committed`).
        """
        return True

    def committed(self) -> None:
        """All that was handed out so far has arrived, and a snapshot of after it is on disk."""

    @property
    def now(self) -> float:
        """The latest time that the stream was told, in seconds; before the first, minus infinity."""
        return self._now

    def guarantee(self) -> Guarantee:
        """The privacy statement."""
        return self._policy.guarantee(self._schema, seeded=self._seeded)

    def carry(self) -> bytes | None:
        """After a flush: what the next stream of the same job needs to go on counting the rows of each person. None if
        the policy does not count. It holds keyed hashes of persons and their key: keep it as you keep the input.
        """
        self._check_whole()
        counting = self._counting()
        if counting is None:
            return None
        facts = {"counting": counting, "now": None if self._now == -math.inf else self._now}
        return pack(Record(facts=facts, arrays={"hash_key": self._keys.hashes, **self._intake.carry()}))

    def take_over(self, carried: bytes) -> list[str]:
        """Before the first row: go on with the counts of an earlier stream. Where that cannot be, say what differs and
        begin new counts.
        """
        record, counting = unpack(carried), self._counting()
        if counting is None:
            return ["ledger"]
        differing = differences(counting, record.facts["counting"])
        if differing:
            return differing
        self._keys = self._keys._replace(hashes=record.arrays["hash_key"])
        self._decoder.change_key(self._keys.hashes)
        arrivals = self._intake.take_over(record.arrays)
        if counting["unit"] == "seconds" and counting["window"] is not None and record.facts["now"] is not None:
            self._now = record.facts["now"]  # a window that has been counted must not come again
        # Windows of the engine are those of the ledger: only so a window of the engine has what the ledger admits.
        if counting["unit"] == "rows" and counting["aligned"] and self._engine.begin_at(arrivals):
            self._pending.begin_at(arrivals)
        return []

    def _counting(self) -> dict[str, Any] | None:
        """How rows of a person are counted, as JSON has it; None if they are not."""
        if self._intake.counting is None:
            return None
        fingerprint = self._schema.fingerprint()
        person = {name: value for name, value in fingerprint.items() if name.startswith("person")}
        described = {**self._intake.counting, **person, "canonical_form": CANONICAL_FORM}
        counting: dict[str, Any] = json.loads(json.dumps(described, default=str))
        return counting

    def describe(self) -> Described:
        """What tells its output from that of another stream, and what it promises."""
        return Described(identity=self._identity(), guarantee=self.guarantee(), counting=self._counting())

    def snapshot(self) -> bytes:
        """The whole state, to be continued by `restore`. It holds raw personal data: keep it as you keep the input."""
        self._check_whole()
        first, rows, gone, payload = self._pending.snapshot(self._payload_schema)
        held = nothing_leaving(len(self._schema.quasi_identifiers)) if self._order is None else self._order.held
        groups = {"engine": self._engine.snapshot(), "gate": self._gate.snapshot(), "intake": self._intake.snapshot()}
        groups |= {
            "rows": rows._asdict(),
            "held": held._asdict(),
            "stream": {"hash_key": self._keys.hashes, "sample": self._sample, "gone": gone},
        }
        return pack(
            Record(
                facts={
                    **self._identity(),
                    "seeded": self._seeded,
                    "counts": self._counts,
                    "rejected": self._rejected,
                    "clamped": self._clamped,
                    "loss": self._loss,
                    "now": None if self._now == -math.inf else self._now,
                    "first": first,
                    "decoder": self._decoder.counter,
                    "person_kind": self._decoder.person_kind,
                    "grids_checked": self._grids_checked,
                },
                arrays={f"{group}.{name}": array for group, arrays in groups.items() for name, array in arrays.items()},
                blobs={"payload": table_to_bytes(payload)},
            )
        )

    @classmethod
    def restore(cls, schema: Schema, policy: Policy, blob: bytes, *, numbers: Numbers | None = None) -> "Anonymiser":
        """Continue a stream from its snapshot; refused if schema, policy or `numbers` are not the snapshot's own."""
        stream = cls(schema, policy, numbers=numbers)
        stream._continue_same(blob)
        return stream

    def _continue_same(self, blob: bytes) -> None:
        """Continue from a snapshot, if that is one of this stream."""
        record = unpack(blob)
        mine = self._identity()
        differing = differences(mine, {name: record.facts.get(name) for name in mine})
        if differing:
            raise SnapshotError(
                f"the snapshot belongs to a stream with another {' and another '.join(differing)}. Drain the job "
                f"(flush the stream) with what it was made with, then change that"
            )
        self._continue(record)

    def _identity(self) -> dict[str, Any]:
        """What a snapshot must have in common with the stream that continues it, as JSON has it."""
        own = {
            "schema": self._schema.fingerprint(),
            "policy": self._policy.fingerprint(),
            "numbers": self._numbers,
            "canonical_form": CANONICAL_FORM,  # a person who is pending must not come again under another hash
        }
        described: dict[str, Any] = json.loads(json.dumps(own, default=str))
        return described

    def _continue(self, record: Record) -> None:
        facts, arrays = record.facts, record.arrays
        groups: dict[str, dict[str, Any]] = {}
        for name, array in arrays.items():
            group, _, field = name.partition(".")
            groups.setdefault(group, {})[field] = array
        payload = table_from_bytes(record.blobs["payload"])
        self._keys = self._keys._replace(hashes=groups["stream"]["hash_key"])
        self._seeded = facts["seeded"]
        self._engine.restore(groups["engine"])
        self._gate.restore(groups["gate"])
        self._intake.restore(groups["intake"])
        self._decoder.change_key(self._keys.hashes)
        self._decoder.counter = facts["decoder"]
        self._decoder.person_kind = facts["person_kind"]
        self._payload_schema = payload.schema
        self._pending.restore(facts["first"], CodedRows(**groups["rows"]), groups["stream"]["gone"], payload)
        if self._order is not None:
            self._order.held = Leaving(**groups["held"])
        self._counts = facts["counts"]
        self._rejected = facts["rejected"]
        self._clamped = facts["clamped"]
        self._loss = facts["loss"]
        self._now = -math.inf if facts["now"] is None else facts["now"]
        self._grids_checked = facts["grids_checked"]
        self._sample = groups["stream"]["sample"]

    @contextmanager
    def _releasing(self) -> Iterator[None]:
        """From here on rows are counted and decided. If that ends half-way, the stream is over: the gate may know boxes
        whose rows nobody has received, and a later row could be published alone in one of them; and the intake may have
        counted rows that the engine has not seen.
        """
        self._whole = False
        yield
        self._whole = True

    def _warn_if_empty(self) -> None:
        """Say that a stream has ended which published nothing: an empty table looks like success."""
        if self._counts["rows_in"] and (found := empty_output(self.report())) is not None:
            LOG.warning("%s", found)

    def _check_whole(self) -> None:
        if not self._whole:
            raise UsageError("an earlier call failed half-way: continue from a snapshot taken before it")

    def _advance(self, now: float | None) -> None:
        """Move the clock forward."""
        self._check_whole()
        if now is None:
            if self._policy.timed and self._now == -math.inf:
                raise UsageError(
                    "the policy counts seconds (max_wait, a window): say when the rows arrive, push(batch, now=seconds)"
                )
            return
        if not is_number(now):
            raise UsageError(f"now must be a number of seconds, got {kind_of(now)}")
        if not math.isfinite(now):
            raise UsageError(f"now must be a finite number of seconds, got {now}")
        if now < self._now:
            raise UsageError(f"now must not go back: it was {self._now}, got {now}")
        self._now = float(now)

    def _enter(self, decoded: Decoded, payload: pa.Table, rows_in: int) -> tuple[CodedRows, NDArray[np.bool_] | None]:
        """Pass decoded rows through the intake and enter them into the books; which rows go on (None: all)."""
        taken = self._intake.take(decoded.rows, payload, self._now)
        self._payload_schema = taken.payload.schema
        self._counts["rows_in"] += rows_in
        self._counts["over_budget"] += taken.over_budget
        self._counts["sampled_out"] += taken.sampled_out
        for reason, count in decoded.rejected.counts.items():
            self._rejected[reason] = self._rejected.get(reason, 0) + count
        for column, count in decoded.clamped.items():
            self._clamped[column] = self._clamped.get(column, 0) + count
        self._check_grids(decoded.sample)
        self._pending.append(taken.rows, taken.payload, taken.present)
        return taken.rows, taken.present

    def _pass_on(self, rows: CodedRows, present: NDArray[np.bool_] | None) -> pa.Table:
        """Hand rows to the engine, before the eyes of the gate, and publish what that makes due."""
        self._gate.observe(rows.sensitive, present)
        return self._publish(self._engine.push(rows, self._now, present))

    def _publish(self, decisions: Decisions) -> pa.Table:
        """Gate, order and encode what the engine has decided."""
        self._pending.leave(decisions.position)
        self._pending.leave(decisions.dropped)
        passed = self._gate.check(decisions, self._pending.coded(decisions.position))
        through = np.flatnonzero(passed[decisions.group])
        refused = decisions.position.size - through.size
        if refused:
            LOG.warning("the gate refused %d rows that the engine would have published", refused)
        self._counts["gate_refused"] += refused
        self._counts["suppressed"] += refused + decisions.dropped.size
        self._counts["groups"] += int(np.count_nonzero(passed & (decisions.kind == NEW)))
        decided = Leaving(
            decisions.position, decisions.group, decisions.lower, decisions.upper, decisions.loss, decisions.kind
        )
        leaving = select(decided, through) if refused else decided
        oldest = self._oldest
        if self._order is not None:
            leaving = self._order.release(leaving, oldest)
        self._count(leaving)
        published = without_null_types(self._payload_schema)
        if leaving.position.size:  # from its first published row on, the stream publishes the same types for ever
            self._payload_schema = published
        payload = self._pending.payload(leaving.position, published)
        self._pending.forget(oldest)
        if isinstance(self._encoder, Encoder):
            return self._encoder.encode(leaving.lower, leaving.upper, leaving.group, payload)
        return self._encoder.encode(decisions.points[through], payload)

    def _count(self, leaving: Leaving) -> None:
        """Enter the rows that leave now into the books."""
        kind = leaving.kind[leaving.group]
        self._counts["published"] += leaving.position.size
        self._counts["at_root"] += int(np.count_nonzero(kind == ROOT))
        self._counts["reused"] += int(np.count_nonzero(kind == REUSED))
        self._loss += float(np.sum(leaving.loss[leaving.group]))
        self._counts["longest_wait"] = max(self._counts["longest_wait"], self._engine.longest_wait)

    @property
    def _oldest(self) -> int:
        """The position of the oldest row that is pending."""
        return self._engine.oldest

    @property
    def _locked(self) -> int:
        """Pending rows that the engine does not hold."""
        return 0

    @property
    def _published_as_they_are(self) -> list[str]:
        """The columns whose values are published: not sensitive ones that are made anew from codes."""
        sealed = len(self._schema.sensitive) if self._decoder.seals_sensitive else 0
        return _payload_names(self._schema)[sealed:]

    def _set_type(self, name: str, kind: pa.DataType) -> None:
        at = self._payload_schema.get_field_index(name)
        self._payload_schema = self._payload_schema.set(at, self._payload_schema.field(at).with_type(kind))

    def _take_types(self, table: pa.Table) -> None:
        """Give columns without a type the one that the batch declares, if it declares one."""
        for name in self._published_as_they_are:
            at = table.schema.get_field_index(name)
            if at >= 0 and pa.types.is_null(self._payload_schema.field(name).type):
                try:
                    self._set_type(name, plain_type(table.schema.field(at).type))
                except SchemaError as exc:
                    raise SchemaError(f"column {name!r}: {exc}") from exc

    def _as_published(self, rows: Arrivals) -> tuple[pa.Table, dict[str, Misfits]]:
        """A batch with its sensitive and public columns in the types that they are published with, and by column the
        rows with a value that does not convert. Before decoding: values that differ, and are published as the same
        one, must not count as two.
        """
        table, misfits = rows.table, {}
        for name in self._published_as_they_are:
            at = table.schema.get_field_index(name)
            kind = self._payload_schema.field(name).type
            if at < 0 or pa.types.is_null(kind):
                continue
            if name not in rows.values and plain_type(table.schema.field(at).type) == kind:
                continue
            try:
                column, found = self._converted(rows, name, kind)
            except SchemaError as exc:
                raise SchemaError(f"column {name!r}: {exc}") from exc
            table = table.set_column(at, name, column)
            if found is not None:
                misfits[name] = found
        return table, misfits

    def _converted(self, rows: Arrivals, name: str, kind: pa.DataType) -> tuple[pa.ChunkedArray, Misfits | None]:
        declared = self._schema.types.get(name)
        convert = None if declared is None else partial(read_declared, declared=declared)
        if name in rows.values:
            return convert_values(rows.values[name], kind, convert)
        column = plain(rows.table.column(name))
        return cast_values(column, kind) if convert is None else convert(column)

    def _typed(self, payload: pa.Table) -> pa.Table:
        """The payload with the types that are published, as far as they are known."""
        if payload.schema.equals(self._payload_schema, check_metadata=True) or not payload.num_columns:
            return payload
        columns = [
            pa.nulls(payload.num_rows) if pa.types.is_null(field.type) else column.cast(field.type)
            for field, column in zip(self._payload_schema, payload.columns, strict=True)
        ]
        return pa.table(columns, schema=self._payload_schema)

    def _check_grids(self, values: Quasi) -> None:
        """Warn once where a cell of the public grid holds a single value of the data: its bounds then tell it."""
        if self._grids_checked or not self._policy.publishes_values:
            return
        self._sample = np.concatenate([self._sample, values])[:SAMPLE]
        if len(self._sample) < SAMPLE:
            return
        self._grids_checked = True
        fine = [
            role.name
            for column, role in enumerate(self._schema.quasi_identifiers)
            if isinstance(role, Numeric) and role.hides_nothing(self._sample[:, column])
        ]
        self._sample = self._sample[:0]
        if fine:
            LOG.warning(
                "%s: a cell of the grid holds a single value of the data, so published bounds can tell it; "
                "give a larger step",
                ", ".join(fine),
            )


_COUNTS = (
    "rows_in",
    "published",
    "suppressed",
    "sampled_out",
    "over_budget",
    "at_root",
    "reused",
    "gate_refused",
    "groups",
    "longest_wait",
    "handed_over",
    "undecided",
    "received",
)


def anonymise(
    table: object, schema: Schema, policy: Policy, *, seed: int | None = None, numbers: Numbers | None = None
) -> pa.Table:
    """The whole of a finite table: push and finish in one."""
    stream = Anonymiser(schema, policy, seed=seed, numbers=numbers)
    pushed = stream.push(table, now=0.0)
    finished = stream.finish()
    return pa.concat_tables([pushed.cast(finished.schema), finished])


def _payload_names(schema: Schema) -> list[str]:
    return [*(role.name for role in schema.sensitive), *schema.public]


def without_null_types(schema: pa.Schema) -> pa.Schema:
    """With text in place of the type that a column has which never had a value: whoever reads several parts of the
    output together cannot do so if one part has no type, and text can hold whatever comes later.
    """
    for number, field in enumerate(schema):
        if pa.types.is_null(field.type):
            schema = schema.set(number, field.with_type(pa.string()))
    return schema
