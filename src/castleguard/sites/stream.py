"""SiteStream: the stream of one site, which publishes together with those of other sites.

    decode -> intake -> engine -> gate -> encode        as in `stream.py`
                          |  ^
                     cooperation  <-> transport         rows lent to, or borrowed for, releases across sites

It has the same calls as an Anonymiser, and one more: `committed`, once all that it handed out is on disk and delivered.
"""

import random
import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.dcastle.engine import MemberEngine
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.checkpoint.codec import Record, pack, unpack
from castleguard.checkpoint.tables import table_from_bytes, table_to_bytes
from castleguard.errors import PolicyError, SnapshotError
from castleguard.release.encode import Encoder, Numbers
from castleguard.release.gate import Box, Gate
from castleguard.schema.coded import NEW, CodedRows, Decisions
from castleguard.schema.roles import Schema
from castleguard.sites.cooperation import Cooperation, Settled
from castleguard.sites.membership import Membership
from castleguard.sites.messages import Bounds, Prepared, Rows, Seal
from castleguard.sites.releases import Lead, Offer, Outcome, Positions, Verdict, facts_of
from castleguard.sites.transport import Transport
from castleguard.sites.wire import Wire
from castleguard.stream import Anonymiser, without_null_types


class SiteStream(Anonymiser):
    """One site's rows under a strict `Dcastle` policy."""

    _policy: Dcastle
    _engine: MemberEngine
    _gate: Gate
    _encoder: Encoder

    def __init__(
        self,
        schema: Schema,
        policy: Dcastle,
        site: Membership,
        transport: Transport,
        *,
        seal: Seal | None = None,
        seed: int | None = None,
        numbers: Numbers | None = None,
    ) -> None:
        if not policy.strict:
            raise PolicyError("mode='paper' publishes fewer than k persons: it is for `castleguard simulate` only")
        if len(site.sites) != policy.sites:
            raise PolicyError(f"{policy.sites} sites are promised, and {len(site.sites)} are named")
        super().__init__(schema, policy, seed=seed, numbers=numbers)
        self._token_key = site.token_key()
        self._keys = self._keys._replace(hashes=self._token_key)
        self._decoder.change_key(self._keys.hashes)
        self._decoder.counter = site.number << 48  # rows without a person column are nobody else's
        self._shuffle = random.Random(f"{seed} {site.name}") if seed is not None else secrets.SystemRandom()
        self.wire = Wire(site, self._identity(), transport, seal=seal)
        self.cooperation = Cooperation(self.wire, policy, engine=self._engine, local=self)
        self._held: list[pa.Table] = []  # won, and not handed out yet
        self._held_boxes: list[Box] = []

    # -- the stream --------------------------------------------------------------------------------------------------

    @property
    def urgent(self) -> bool:
        """Whether something waits for a commit."""
        return self.cooperation.urgent or bool(self._held)

    @property
    def holding(self) -> bool:
        """Whether the next rows had better wait a little, for what has to be decided before them."""
        return self.cooperation.holding

    @property
    def sent(self) -> tuple[int, int]:
        """See Anonymiser."""
        return self.wire.messages, self.wire.bytes

    @property
    def unsettled(self) -> bool:
        """See Anonymiser."""
        return self.cooperation.unsettled

    def wind_down(self) -> bool:
        """See Anonymiser."""
        self.cooperation.ending = True
        return self.cooperation.is_done

    def committed(self) -> None:
        """All that was handed out so far has arrived, and a snapshot of after it is on disk."""
        self._check_whole()
        with self._releasing():
            self._settle(self.cooperation.committed())

    def tick(self, now: float) -> pa.Table:
        """See Anonymiser."""
        self._advance(now)
        with self._releasing():
            self._settle(self.cooperation.turn(0, self._now))
            return self._with_held([self._publish(self._engine.tick(self._now))])

    def flush(self, *, warn: bool = True) -> pa.Table:
        """See Anonymiser. Nothing stays locked."""
        self._check_whole()
        with self._releasing():
            self._settle(self.cooperation.settle_all())
            out = self._with_held([self._publish(self._engine.flush())])
        if warn:
            self._warn_if_empty()
        return out

    def _pass_on(self, rows: CodedRows, present: NDArray[np.bool_] | None) -> pa.Table:
        """In steps so small that the other sites are heard in time."""
        out = []
        for at in range(0, max(rows.person.size, 1), self._policy.joint.step):
            part = slice(at, at + self._policy.joint.step)
            self._settle(self.cooperation.turn(rows.person[part].size, self._now))
            out.append(super()._pass_on(rows.take(part), None if present is None else present[part]))
        return self._with_held(out)

    def _with_held(self, tables: list[pa.Table]) -> pa.Table:
        """Tables with what was won before them."""
        schema = tables[-1].schema
        out = [table if table.schema == schema else table.cast(schema) for table in (*self._held, *tables)]
        self._held.clear()
        for box in self._held_boxes:  # others hear of them once this has arrived
            self.cooperation.publish(*box)
        self._held_boxes.clear()
        return out[0] if len(out) == 1 else pa.concat_tables(out)

    def _publish(self, decisions: Decisions) -> pa.Table:
        table = super()._publish(decisions)
        for group in np.flatnonzero(decisions.kept & (decisions.kind == NEW)):
            box = (decisions.lower[group], decisions.upper[group])
            if self._gate.knows(box):
                self.cooperation.publish(*box)
        return table

    @property
    def _oldest(self) -> int:
        locked = [int(positions.min()) for positions in self.cooperation.locked]
        return min([self._engine.oldest, *locked])

    @property
    def _locked(self) -> int:
        return sum(positions.size for positions in self.cooperation.locked)

    # -- what the protocol asks ----------------------------------------------------------------------------------------

    def rows(self, positions: Positions, levels: NDArray[np.int64]) -> Rows:
        """See `cooperation.Local`."""
        coded = self._pending.coded(positions)
        payload = self._pending.payload(positions, self._payload_schema)
        return Rows(coded.person, coded.sensitive, payload, levels)

    def judge(self, lead: Lead, verdict: Verdict, box: Box) -> bool:
        """See `cooperation.Local`."""
        coded = self._pending.coded(lead.positions[verdict.takes(lead.release, lead.positions.size)])
        taken = [(rows, verdict.takes(offer, rows.tokens.size)) for offer, rows in _offered(lead)]
        tokens = np.concatenate([coded.person[:0], *(rows.tokens[mask] for rows, mask in taken)])
        values = np.concatenate([coded.sensitive[:0], *(rows.values[mask] for rows, mask in taken)])
        return self._gate.check_joint(box, coded, tokens, values)

    def compose(self, lead: Lead, verdict: Verdict, box: Box) -> Outcome:
        """See `cooperation.Local`."""
        own = lead.positions[verdict.takes(lead.release, lead.positions.size)]
        payloads = [self._pending.payload(own, self._payload_schema)]
        count = own.size
        for offer, rows in _offered(lead):
            taken = verdict.takes(offer, rows.tokens.size)
            count += int(np.count_nonzero(taken))
            if len(payloads[0].schema):  # a table without columns has forgotten how many rows it has
                payloads.append(rows.payload.cast(payloads[0].schema).filter(pa.array(taken)))
        order = list(range(count))
        self._shuffle.shuffle(order)
        payload = pa.concat_tables(payloads)
        if len(payload.schema):
            payload = payload.take(pa.array(order, pa.int64()))
        return Outcome(lower=box[0], upper=box[1], rows=count, payload=payload, verdict=verdict)

    def adopt(self, lower: Bounds, upper: Bounds) -> tuple[Bounds, Bounds]:
        """See `cooperation.Local`."""
        public = self._gate.adopt(lower, upper)
        return lower[public], upper[public]

    def fits(self, answer: Prepared) -> bool:
        """See `cooperation.Local`."""
        rows = answer.rows
        assert rows is not None
        if rows.values.shape != (rows.tokens.size, len(self._schema.sensitive)) or rows.levels.size != rows.tokens.size:
            return False
        if np.any(np.diff(rows.levels) < 0) or answer.lower.shape != answer.upper.shape:
            return False
        if not all(self._is_alike(rows.payload.schema, role.name) for role in self._schema.sensitive):
            return False
        if len(self._payload_schema) and rows.payload.num_rows != rows.tokens.size:
            return False
        try:
            rows.payload.cast(self._payload_schema)
        except (pa.ArrowException, ValueError):
            return False
        return True

    def _is_alike(self, theirs: pa.Schema, name: str) -> bool:
        """Whether a sensitive column has the same type elsewhere: equal values have equal codes only then."""
        kind = theirs.field(name).type
        return bool(pa.types.is_null(kind) or kind == self._payload_schema.field(name).type)

    # -- the books -----------------------------------------------------------------------------------------------------

    def _settle(self, settled: Settled) -> None:
        """Enter what has been settled, and hold what is to be published until the next table is handed out."""
        counts = self._counts
        for lead in settled.won:
            self._pending.leave(lead.positions)
            self._emit(lead)
        for lead in settled.found_published:
            counts["undecided"] -= lead.positions.size
            self._emit(lead)
        for positions in settled.handed_over:
            self._pending.leave(positions)
            counts["handed_over"] += positions.size
        for positions in settled.undecided:
            self._pending.leave(positions)
            counts["undecided"] += positions.size
        counts["undecided"] -= settled.found_handed_over + settled.found_aborted
        counts["handed_over"] += settled.found_handed_over
        counts["suppressed"] += settled.found_aborted

    def _emit(self, lead: Lead) -> None:
        """Publish a release that is committed."""
        outcome = lead.outcome
        assert outcome is not None
        self._payload_schema = without_null_types(self._payload_schema)
        group = np.zeros(outcome.rows, dtype=np.int64)
        table = self._encoder.encode(outcome.lower[None, :], outcome.upper[None, :], group, outcome.payload)
        self._held.append(table)
        self._counts["published"] += lead.positions.size
        self._counts["received"] += outcome.rows - lead.positions.size
        self._counts["groups"] += 1
        self._loss += outcome.rows * outcome.verdict.loss
        lower, upper = self.adopt(outcome.lower[None, :], outcome.upper[None, :])
        self._engine.adopt(lower, upper)
        self._held_boxes += zip(lower, upper, strict=True)

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """See Anonymiser."""
        together = self.cooperation
        facts: dict[str, Any] = {"site": self.wire.name, "given_up": together.given_up, "offers": [], "leads": []}
        arrays: dict[str, NDArray[Any]] = {}
        blobs = {"stream": super().snapshot()}
        for at, offer in enumerate(together.offers.values()):
            facts["offers"].append({name: getattr(offer, name) for name in ("name", "release", "coordinator", "made")})
            arrays[f"offer.{at}"] = offer.positions
            blobs[f"offer.{at}"] = offer.answer
        for at, lead in enumerate(together.leads.values()):
            facts["leads"].append(facts_of(lead))
            arrays[f"lead.{at}"] = np.array([lead.positions, lead.levels])
            if lead.outcome is not None:
                arrays[f"box.{at}"] = np.array([lead.outcome.lower, lead.outcome.upper])
                blobs[f"lead.{at}"] = table_to_bytes(lead.outcome.payload)
        for at, table in enumerate(self._held):
            blobs[f"held.{at}"] = table_to_bytes(table)
        return pack(Record(facts, arrays, blobs))

    def resume(self, blob: bytes) -> None:
        """Continue a snapshot of this site, in place of `restore`."""
        record = unpack(blob)
        together = self.cooperation
        if record.facts["site"] != self.wire.name:
            raise SnapshotError(f"the snapshot belongs to the site {record.facts['site']!r}, not to {self.wire.name!r}")
        self._continue_same(record.blobs["stream"])
        if not np.array_equal(self._keys.hashes, self._token_key):
            raise SnapshotError(
                "the snapshot was made with another key of the sites: a person would be two. Drain all sites with the "
                "former key, then change it"
            )
        together.has_resumed()
        together.given_up = {name: (gone[0], gone[1], gone[2]) for name, gone in record.facts["given_up"].items()}
        for at, fact in enumerate(record.facts["offers"]):
            positions, answer = record.arrays[f"offer.{at}"], record.blobs[f"offer.{at}"]
            together.take_up_offer(Offer(positions=positions, answer=answer, **fact))
        for at, fact in enumerate(record.facts["leads"]):
            positions, levels = record.arrays[f"lead.{at}"]
            if fact["stage"] == "asking":  # nobody else can commit it, and now nobody does
                self._engine.readmit(positions)
                continue
            lower, upper = record.arrays[f"box.{at}"]
            verdict = Verdict(**fact["verdict"])
            payload = table_from_bytes(record.blobs[f"lead.{at}"])
            together.leads[fact["release"]] = Lead(
                release=fact["release"],
                cluster=-1,
                positions=positions,
                levels=levels,
                lower=lower[None, :],
                upper=upper[None, :],
                losses=np.array([verdict.loss]),
                otherwise=1.0,
                began=self._engine.arrivals,
                made=fact["made"],
                stage=fact["stage"],
                tried=True,  # for all that is known
                outcome=Outcome(lower=lower, upper=upper, rows=fact["rows"], payload=payload, verdict=verdict),
            )
        at = 0
        while f"held.{at}" in record.blobs:
            self._held.append(table_from_bytes(record.blobs[f"held.{at}"]))
            at += 1


def _offered(lead: Lead) -> Iterator[tuple[str, Rows]]:
    """What others have offered: its name, and the rows."""
    return ((answer.offer, answer.rows) for answer in lead.answers.values() if answer.rows is not None)
