"""The transcription of CASTLE behind the engine's interface, so that both take the same calls.

Both are compared by their `Outcome`: groups in order of release, the order of their rows, and dropped rows.
"""

import struct
from dataclasses import dataclass, replace
from typing import Protocol

from castleguard.algorithms.castle.policy import Castle as Policy
from castleguard.privacy.closeness import Closeness
from castleguard.privacy.diversity import Diversity
from castleguard.schema.coded import NEW, NO_PERSON, REUSED, ROOT, CodedRows
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Numeric, Schema
from tests.properties.streams import Step, Stream
from tests.reference import measure
from tests.reference.castle import Castle, Decision, Row, Settings
from tests.reference.chacha import Draws, shuffle
from tests.reference.measure import Box, Cluster
from tests.reference.shape import Shape

KINDS = {"new": NEW, "reuse": REUSED, "root": ROOT}


@dataclass(frozen=True)
class Group:
    """Rows that leave together under one box."""

    event: int
    kind: int
    positions: list[int]
    box: Box
    loss: float
    seen: int  # rows that had arrived


@dataclass(frozen=True)
class Outcome:
    """Decisions of one or more calls."""

    groups: list[Group]
    order: list[int]
    dropped: list[int]

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(self.groups + other.groups, self.order + other.order, self.dropped + other.dropped)


NOTHING = Outcome([], [], [])


class Transcription(Castle):
    """Runs step by step, keeps the clock, and records the row that triggered each decision."""

    def __init__(self, stream: Stream) -> None:
        self.draws = Draws([int(word) for word in stream.key])
        attributes = attributes_of(stream.schema, snap=stream.policy.strict)
        super().__init__(attributes, settings_of(stream.schema, stream.policy), self.draws)
        self.policy = stream.policy
        self.rows = rows_of(stream.rows)
        self.now = 0.0
        self.arrived: dict[int, float] = {}
        self.outcome = NOTHING
        self.longest_wait = 0
        self.taken_in: dict[int, Row] = {}

    def begin_at(self, position: int) -> None:
        """Pretend that this many rows have come and gone."""
        self._arrivals = position

    def step(self, step: Step) -> Outcome:
        self.outcome = NOTHING
        self.now = step.now
        while self.pending and self._is_late(min(self.pending), step.now):
            self.expire(min(self.pending))
        for _ in range(step.rows):
            row = self.rows.pop(0)
            self.push(Row(self._arrivals, row.person, row.quasi, row.sensitive, row.to_root))
        return self.outcome

    def end(self) -> Outcome:
        self.outcome = NOTHING
        self.flush()
        return self.outcome

    def next_position(self) -> int:
        position = super().next_position()
        self.arrived[position] = self.now
        return position

    def assign(self, row: Row) -> None:
        super().assign(row)
        self.taken_in[row.position] = self.pending[row.position]

    def output_cluster(self, cluster: Cluster, event: int) -> list[Decision]:
        return self._note(event, super().output_cluster(cluster, event))

    def _reuse(self, row: Row) -> list[Decision]:
        return self._note(row.position, super()._reuse(row))

    def _suppress(self, row: Row) -> list[Decision]:
        return self._note(row.position, super()._suppress(row))

    def _note(self, event: int, decisions: list[Decision]) -> list[Decision]:
        published = [decision for decision in decisions if decision.kind != "drop"]
        self.outcome += Outcome(
            groups=[Group(event, KINDS[d.kind], d.rows, d.box or (), d.loss, self._arrivals) for d in published],
            order=self._in_order(event, [position for d in published for position in d.rows]),
            dropped=[position for d in decisions if d.kind == "drop" for position in d.rows],
        )
        for decision in published:
            self.longest_wait = max(self.longest_wait, self._arrivals - 1 - decision.rows[0])
        return decisions

    def _is_late(self, position: int, now: float) -> bool:
        return self.policy.max_wait is not None and self.arrived[position] + self.policy.max_wait <= now

    def _in_order(self, event: int, positions: list[int]) -> list[int]:
        """Order of rows: by arrival, or shuffled across groups."""
        if self.policy.chosen_order != "shuffled":
            return sorted(positions)
        shuffle(self.draws, event, positions, b"".join(content_of(self.taken_in[position]) for position in positions))
        return positions


def content_of(row: Row) -> bytes:
    """Position and content of a row, 64 bits each."""
    quasi, sensitive = row.quasi, row.sensitive
    person = NO_PERSON if row.person is None else row.person
    return struct.pack(f"<qQ{len(quasi)}d{len(sensitive)}q", row.position, person, *quasi, *sensitive)


def settings_of(schema: Schema, policy: Policy) -> Settings:
    reading = policy.chosen_reading
    return Settings(
        k=policy.k,
        l=policy.l,
        delay=policy.delay,
        max_clusters=policy.max_clusters,
        loss_window=policy.loss_window,
        max_reusable=policy.max_reusable,
        tau_init=reading.first_threshold,
        reuse=policy.reuse == "paper",
        containment=reading.containment,
        admission=reading.admission,
        tie=reading.tie_break,
        buckets=reading.representatives,
        merge=reading.merge,
        suppression=policy.chosen_suppression,
        l_per=policy.l_per,
        reusable_ttl=policy.reusable_age,
        shape=shape_of(schema, policy, policy.remembered_pairs),
    )


class Judged(Protocol):
    """A policy that may have a criterion on the distribution of sensitive values."""

    @property
    def l(self) -> int: ...  # noqa: E743
    @property
    def delay(self) -> int: ...
    @property
    def diversity(self) -> Diversity: ...
    @property
    def c(self) -> float | None: ...
    @property
    def closeness(self) -> Closeness | None: ...


def shape_of(schema: Schema, policy: Judged, remembered: int = 0) -> Shape | None:
    """Criterion on the distribution of sensitive values, or None; `remembered`: pairs remembered per column.

    Columns must have hierarchies if there is one.
    """
    closeness = policy.closeness
    if policy.diversity == "distinct" and closeness is None:
        return None
    trees = [tree_of(role.hierarchy) for role in schema.sensitive if role.hierarchy is not None]
    shape = Shape(
        l=policy.l,
        sizes=[len(tree.leaf_nodes) + 1 for tree in trees],
        trees=trees,
        room=remembered * len(trees),
        diversity=policy.diversity,
        c=policy.c or 0.0,
    )
    if closeness is None:
        return shape
    burn_in = 0 if closeness.reference == "public" else min(policy.delay, 1000)
    return replace(
        shape,
        t=closeness.t,
        distance=closeness.distance,
        reference=closeness.reference,
        window=closeness.window or 0,
        decay=1.0 if closeness.decay is None else closeness.decay,
        public=[list(shares.values()) for shares in (closeness.public or {}).values()],
        alpha=closeness.alpha,
        burn_in=burn_in if closeness.burn_in is None else closeness.burn_in,
    )


def attributes_of(schema: Schema, *, snap: bool) -> list[measure.Attribute]:
    """The quasi-identifiers; with `snap`, published numbers are on their grid."""
    attributes: list[measure.Attribute] = []
    for role in schema.quasi_identifiers:
        if isinstance(role, Numeric):
            lower, upper = role.domain or (None, None)
            attributes.append(measure.Numeric(lower, upper, role.edges.tolist() if snap else None))
        else:
            attributes.append(measure.Categorical(tree_of(role.hierarchy)))
    return attributes


def tree_of(nodes: Hierarchy) -> measure.Tree:
    return measure.Tree.from_arrays(nodes.parents, nodes.first_leaf, nodes.last_leaf)


def rows_of(rows: CodedRows) -> list[Row]:
    columns = zip(*(array.tolist() for array in rows), strict=True)
    return [
        Row(i, None if person == NO_PERSON else person, tuple(q), tuple(s), root)
        for i, (q, person, s, root) in enumerate(columns)
    ]
