"""From what an engine decides to what is published: gate, order, encode. Owns the rows that are pending."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.books import Tally
from castleguard.release.cells import CellGate
from castleguard.release.encode import Encoder
from castleguard.release.gate import Gate
from castleguard.release.order import InputOrder, Leaving, nothing_leaving, select
from castleguard.release.pending import Pending
from castleguard.release.point_gate import PointGate
from castleguard.release.points import PointEncoder
from castleguard.schema.batch_reader import PayloadTypes
from castleguard.schema.coded import NEW, REUSED, ROOT, CodedRows, Decisions
from castleguard.schema.roles import Schema
from castleguard.telemetry.logs import LOG

Groups = dict[str, dict[str, NDArray[Any]]]


class Publisher:
    """The last stages of one stream."""

    def __init__(
        self,
        schema: Schema,
        gate: Gate | CellGate | PointGate,
        encoder: Encoder | PointEncoder,
        tally: Tally,
        *,
        sealed: bool,
        in_order: bool,
    ) -> None:
        """`sealed`: sensitive columns are published as codes. `in_order`: rows leave in the order of arrival."""
        self._columns = len(schema.quasi_identifiers)
        self._gate = gate
        self._encoder = encoder
        self._tally = tally
        self._order = InputOrder(self._columns) if in_order else None
        self.pending = Pending(self._columns, len(schema.sensitive))
        self.payload = PayloadTypes(schema, sealed=sealed)

    @property
    def held(self) -> int:
        """Decided rows that wait for earlier ones."""
        return 0 if self._order is None else self._order.held.position.size

    def publish(self, decisions: Decisions, oldest: int) -> pa.Table:
        """Gate, order and encode what the engine has decided; `oldest` is the first position that stays pending."""
        self.pending.leave(decisions.position)
        self.pending.leave(decisions.dropped)
        passed = self._gate.check(decisions, self.pending.coded(decisions.position))
        through = np.flatnonzero(passed[decisions.group])
        refused = decisions.position.size - through.size
        if refused:
            LOG.warning("the gate refused %d rows that the engine would have published", refused)
        self._tally.gate_refused += refused
        self._tally.suppressed += refused + decisions.dropped.size
        self._tally.groups += int(np.count_nonzero(passed & (decisions.kind == NEW)))
        decided = Leaving(
            decisions.position, decisions.group, decisions.lower, decisions.upper, decisions.loss, decisions.kind
        )
        leaving = select(decided, through) if refused else decided
        if self._order is not None:
            leaving = self._order.release(leaving, oldest)
        self._count(leaving)
        published = self.payload.published
        if leaving.position.size:  # from its first published row on, the stream publishes the same types for ever
            self.payload.settle()
        payload = self.pending.payload(leaving.position, published)
        self.pending.forget(oldest)
        if isinstance(self._encoder, Encoder):
            return self._encoder.encode(leaving.lower, leaving.upper, leaving.group, payload)
        return self._encoder.encode(decisions.points[through], payload)

    def _count(self, leaving: Leaving) -> None:
        """Enter the rows that leave now into the books."""
        kind = leaving.kind[leaving.group]
        self._tally.published += leaving.position.size
        self._tally.at_root += int(np.count_nonzero(kind == ROOT))
        self._tally.reused += int(np.count_nonzero(kind == REUSED))
        self._tally.loss += float(np.sum(leaving.loss[leaving.group]))

    def snapshot(self) -> tuple[int, NDArray[np.bool_], Groups, pa.Table]:
        """The position of the first row that is kept, which rows have left, the state by group, and the payload."""
        first, rows, gone, payload = self.pending.snapshot(self.payload.schema)
        held = nothing_leaving(self._columns) if self._order is None else self._order.held
        return first, gone, {"gate": self._gate.snapshot(), "rows": rows._asdict(), "held": held._asdict()}, payload

    def restore(self, first: int, gone: NDArray[np.bool_], groups: Groups, payload: pa.Table) -> None:
        """Go on from what `snapshot` returned."""
        self._gate.restore(groups["gate"])
        self.payload.schema = payload.schema
        self.pending.restore(first, CodedRows(**groups["rows"]), gone, payload)
        if self._order is not None:
            self._order.held = Leaving(**groups["held"])
