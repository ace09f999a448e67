"""SiteCoordinator: negotiates joint releases with other sites for the stream of this site.

decode -> intake -> engine -> gate -> encode        as in `stream.py`
                      |  ^
                 cooperation  <-> transport         rows lent to, or borrowed for, joint releases
"""

import random
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.dcastle.engine import MemberEngine
from castleguard.algorithms.facts import Joint
from castleguard.algorithms.stages import Keys
from castleguard.checkpoint.codec import Record, pack, table_from_bytes, table_to_bytes, unpack
from castleguard.coordination import StreamParts
from castleguard.errors import PolicyError, SnapshotError
from castleguard.release.encode import Encoder
from castleguard.release.gate import Box, Gate
from castleguard.schema.coded import NEW, Decisions
from castleguard.sites.cooperation import Cooperation
from castleguard.sites.joint_releases import Lead, Offer, Outcome, Positions, Settled, Verdict, facts_of
from castleguard.sites.site_membership import Membership
from castleguard.sites.site_messages import Bounds, Prepared, Rows, Seal
from castleguard.sites.transport import Transport
from castleguard.sites.wire import Wire


class SiteCoordinator:
    """The coordinator of one site (`coordination.Coordinator`). `seed`: that of its stream.

    `patience`: maximum seconds to hold back the next rows while a decision is awaited. `farewell`: maximum seconds for
    joint releases at the end of the stream.
    """

    wire: Wire
    cooperation: Cooperation

    def __init__(
        self,
        site: Membership,
        transport: Transport,
        *,
        seal: Seal | None = None,
        seed: int | None = None,
        patience: float = 0.0,
        farewell: float = 10.0,
    ) -> None:
        self._site = site
        self._transport = transport
        self._seal = seal
        self._shuffle = random.Random(f"{seed} {site.name}") if seed is not None else secrets.SystemRandom()
        self._patience = patience
        self._farewell = farewell
        self._ending_since: tuple[float, int] | None = None  # time, and pending rows then
        self._token_key = site.token_key()
        self._held: list[pa.Table] = []  # joint releases not handed out yet
        self._held_boxes: list[Box] = []

    # -- called by the stream ------------------------------------------------------------------------------------------

    def share_keys(self, own: Keys) -> Keys:
        """See Coordinator: all sites hash persons with the same key."""
        return own._replace(hashes=self._token_key)

    def join(self, stream: StreamParts) -> None:
        """See Coordinator."""
        self._joint = _joint_of(stream, self._site)
        self._stream = stream
        self._schema, self._pending, self._payload = stream.schema, stream.pending, stream.payload
        self._engine = cast(MemberEngine, stream.stages.engine)
        self._gate, self._encoder = cast(Gate, stream.stages.gate), cast(Encoder, stream.stages.encoder)
        stream.stages.decoder.counter = self._site.number << 48  # without a person column, each row is its own person
        self.wire = Wire(self._site, stream.identity(), self._transport, seal=self._seal)
        self.cooperation = Cooperation(self.wire, self._joint, engine=self._engine, local=self)

    @property
    def step(self) -> int:
        """See Coordinator: small enough to read messages in time."""
        return self._joint.step

    def turn(self, arriving: int, now: float) -> None:
        """See Coordinator."""
        self._settle(self.cooperation.turn(arriving, now))

    def decided(self, decisions: Decisions) -> None:
        """See Coordinator: other sites may reuse boxes that have passed the gate."""
        for group in np.flatnonzero(decisions.kept & (decisions.kind == NEW)):
            box = (decisions.lower[group], decisions.upper[group])
            if self._gate.knows(box):
                self.cooperation.publish(*box)

    def hand_out(self, tables: Sequence[pa.Table]) -> pa.Table:
        """See Coordinator."""
        schema = tables[-1].schema
        out = [table if table.schema == schema else table.cast(schema) for table in (*self._held, *tables)]
        self._held.clear()
        for box in self._held_boxes:  # announced after the commit of these rows
            self.cooperation.publish(*box)
        self._held_boxes.clear()
        return out[0] if len(out) == 1 else pa.concat_tables(out)

    def settle(self) -> None:
        """See Coordinator."""
        self._settle(self.cooperation.settle_all())

    def oldest(self, own: int) -> int:
        """See Coordinator."""
        return min([own, *(int(positions.min()) for positions in self.cooperation.locked)])

    @property
    def locked(self) -> int:
        """See Coordinator."""
        return sum(positions.size for positions in self.cooperation.locked)

    # -- called by the job ---------------------------------------------------------------------------------------------

    @property
    def urgent(self) -> bool:
        """See Coordinator."""
        return self.cooperation.urgent or bool(self._held)

    def holds_rows(self, waited: float) -> bool:
        """See Coordinator."""
        return self.cooperation.holding and 0.0 <= waited < self._patience

    def committed(self) -> None:
        """See Coordinator."""
        with self._stream.releasing():
            self._settle(self.cooperation.committed())

    def wind_down(self, now: float, pending: int) -> bool:
        """See Coordinator. Stops when few rows leave for the time spent: the rest should leave alone at once."""
        self.cooperation.ending = True
        if self.cooperation.is_done:
            return True
        if self._ending_since is None:
            self._ending_since = now, pending
            return False
        began, before = self._ending_since
        spent, left = (now - began) / self._farewell, pending / max(before, 1)
        return spent > 1.0 or (spent > 0.1 and left > 1.0 - spent / 2)

    @property
    def unsettled(self) -> str | None:
        """See Coordinator."""
        if not self.cooperation.unsettled:
            return None
        return (
            "the relay is unavailable, and other sites may have published rows of this one: all other rows are "
            "published. Run the site again when the relay is back"
        )

    @property
    def traffic(self) -> tuple[int, int]:
        """See Coordinator."""
        return self.wire.messages, self.wire.bytes

    # -- called by the protocol ----------------------------------------------------------------------------------------

    def rows(self, positions: Positions, levels: NDArray[np.int64]) -> Rows:
        """See `cooperation.Local`."""
        coded = self._pending.coded(positions)
        payload = self._pending.payload(positions, self._payload.schema)
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
        payloads = [self._pending.payload(own, self._payload.schema)]
        count = own.size
        for offer, rows in _offered(lead):
            taken = verdict.takes(offer, rows.tokens.size)
            count += int(np.count_nonzero(taken))
            if len(payloads[0].schema):  # a table without columns has no row count
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
        if not all(self._has_same_type(rows.payload.schema, role.name) for role in self._schema.sensitive):
            return False
        if len(self._payload.schema) and rows.payload.num_rows != rows.tokens.size:
            return False
        try:
            rows.payload.cast(self._payload.schema)
        except (pa.ArrowException, ValueError):
            return False
        return True

    def _has_same_type(self, other: pa.Schema, name: str) -> bool:
        """Whether a sensitive column has the same type at both sites: only then equal values have equal codes."""
        kind = other.field(name).type
        return bool(pa.types.is_null(kind) or kind == self._payload.schema.field(name).type)

    # -- the books -----------------------------------------------------------------------------------------------------

    def _settle(self, settled: Settled) -> None:
        """Enter settled rows into the books, and hold joint releases until the next table is handed out."""
        tally = self._stream.tally
        for lead in settled.won:
            self._pending.leave(lead.positions)
            self._emit(lead)
        for lead in settled.found_published:
            tally.undecided -= lead.positions.size
            self._emit(lead)
        for positions in settled.handed_over:
            self._pending.leave(positions)
            tally.handed_over += positions.size
        for positions in settled.undecided:
            self._pending.leave(positions)
            tally.undecided += positions.size
        tally.undecided -= settled.found_handed_over + settled.found_aborted
        tally.handed_over += settled.found_handed_over
        tally.suppressed += settled.found_aborted

    def _emit(self, lead: Lead) -> None:
        """Encode a committed release for the next table."""
        outcome = lead.outcome
        assert outcome is not None
        self._payload.settle()
        group = np.zeros(outcome.rows, dtype=np.int64)
        table = self._encoder.encode(outcome.lower[None, :], outcome.upper[None, :], group, outcome.payload)
        self._held.append(table)
        self._stream.tally.published += lead.positions.size
        self._stream.tally.received += outcome.rows - lead.positions.size
        self._stream.tally.groups += 1
        self._stream.tally.loss += outcome.rows * outcome.verdict.loss
        lower, upper = self.adopt(outcome.lower[None, :], outcome.upper[None, :])
        self._engine.adopt(lower, upper)
        self._held_boxes += zip(lower, upper, strict=True)

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def snapshot(self, own: bytes) -> bytes:
        """See Coordinator: the stream's snapshot, offers and releases."""
        cooperation = self.cooperation
        facts: dict[str, Any] = {"site": self.wire.name, "given_up": cooperation.given_up, "offers": [], "leads": []}
        arrays: dict[str, NDArray[Any]] = {}
        blobs = {"stream": own}
        for at, offer in enumerate(cooperation.offers.values()):
            facts["offers"].append({name: getattr(offer, name) for name in ("name", "release", "coordinator", "made")})
            arrays[f"offer.{at}"] = offer.positions
            blobs[f"offer.{at}"] = offer.answer
        for at, lead in enumerate(cooperation.leads.values()):
            facts["leads"].append(facts_of(lead))
            arrays[f"lead.{at}"] = np.array([lead.positions, lead.levels])
            if lead.outcome is not None:
                arrays[f"box.{at}"] = np.array([lead.outcome.lower, lead.outcome.upper])
                blobs[f"lead.{at}"] = table_to_bytes(lead.outcome.payload)
        for at, table in enumerate(self._held):
            blobs[f"held.{at}"] = table_to_bytes(table)
        return pack(Record(facts, arrays, blobs))

    def restore(self, blob: bytes, restore_stream: Callable[[bytes], None]) -> None:
        """See Coordinator."""
        record = unpack(blob)
        cooperation = self.cooperation
        if record.facts["site"] != self.wire.name:
            raise SnapshotError(f"the snapshot belongs to the site {record.facts['site']!r}, not to {self.wire.name!r}")
        restore_stream(record.blobs["stream"])
        if not np.array_equal(self._stream.stages.decoder.key, self._token_key):
            raise SnapshotError(
                "the snapshot was taken with another key of the sites, so one person would count as two. Drain all "
                "sites with the former key, then change it"
            )
        cooperation.forget_time()
        gone = record.facts["given_up"]
        cooperation.given_up.update({name: (release, rows, made) for name, (release, rows, made) in gone.items()})
        for at, fact in enumerate(record.facts["offers"]):
            positions, answer = record.arrays[f"offer.{at}"], record.blobs[f"offer.{at}"]
            cooperation.restore_offer(Offer(positions=positions, answer=answer, **fact))
        for at, fact in enumerate(record.facts["leads"]):
            positions, levels = record.arrays[f"lead.{at}"]
            if fact["stage"] == "asking":  # only this site could commit it, and it never will
                self._engine.readmit(positions)
                continue
            lower, upper = record.arrays[f"box.{at}"]
            verdict = Verdict(**fact["verdict"])
            payload = table_from_bytes(record.blobs[f"lead.{at}"])
            cooperation.leads[fact["release"]] = Lead(
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
                tried=True,  # possibly
                outcome=Outcome(lower=lower, upper=upper, rows=fact["rows"], payload=payload, verdict=verdict),
            )
        at = 0
        while f"held.{at}" in record.blobs:
            self._held.append(table_from_bytes(record.blobs[f"held.{at}"]))
            at += 1


def _offered(lead: Lead) -> Iterator[tuple[str, Rows]]:
    """Yield the offers of other sites: name and rows."""
    return ((answer.offer, answer.rows) for answer in lead.answers.values() if answer.rows is not None)


def _joint_of(stream: StreamParts, site: Membership) -> Joint:
    """Return how the policy is published jointly. Raises PolicyError if it is not, or not by these sites."""
    joint = stream.policy.joint
    if joint is None:
        raise PolicyError(f"{stream.policy.name} publishes a single stream: for joint releases of sites use dcastle")
    if joint.refused is not None:
        raise PolicyError(joint.refused)
    if len(site.sites) != joint.sites:
        raise PolicyError(f"the policy is for {joint.sites} sites, but {len(site.sites)} are named")
    return joint
