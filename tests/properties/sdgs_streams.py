"""Random streams for SDGS, and the stages around the engine: cap, coin, gate.

Hypothesis draws sizes and settings; the rows come from a seed, dense enough that boxes are split and merged.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from castleguard.algorithms.sdgs.engine import SdgsEngine
from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.release.cell_gate import CellGate
from castleguard.schema.coded import CodedRows, Decisions
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive
from tests.properties.choices import among
from tests.reference import sdgs_stream as reference

Flags = NDArray[np.bool_]

TREES: tuple[dict[str, Any], ...] = (
    {"*": {"a": {"a1": None, "a2": None, "a3": None}, "b": {"b1": {"b11": None, "b12": None}}, "c": None}},
    {"*": {"only": {"x": None, "y": None}}},
    {"*": {"alone": None}},
    {"*": {str(leaf): None for leaf in range(7)}},
)
ROLES: tuple[QuasiIdentifier, ...] = (
    Numeric("n0", lower=0, upper=32, step=1),
    Numeric("n1", lower=-1.0, upper=2.5, step=0.5),
    Numeric("n2", lower=0, upper=10, step=4),
    Numeric("n3", lower=3, upper=3),
    *(Categorical(f"c{at}", hierarchy=Hierarchy.from_mapping(tree)) for at, tree in enumerate(TREES)),
)
_SENSITIVE = (Sensitive("s0", values=["a", "b"]), Sensitive("s1", bins=[5]))
CALLS: tuple[Literal["push", "tick", "flush"], ...] = ("push", "push", "push", "push", "tick", "flush")


class Call(NamedTuple):
    """One call of the engine: the rows from `start` to `stop` arrive `now`; or a tick; or a flush."""

    kind: Literal["push", "tick", "flush"]
    start: int
    stop: int
    now: float


@dataclass(frozen=True, eq=False)
class Stream:
    """All input of an engine."""

    schema: Schema
    policy: Sdgs
    rows: CodedRows
    present: Flags
    calls: tuple[Call, ...]

    def engine(self) -> SdgsEngine:
        """A new engine."""
        return SdgsEngine(self.schema, self.policy)

    def call(self, engine: SdgsEngine, call: Call) -> Decisions:
        """One call."""
        if call.kind == "flush":
            return engine.flush()
        if call.kind == "tick":
            return engine.tick(call.now)
        part = slice(call.start, call.stop)
        return engine.push(self.rows.take(part), call.now, self.present[part])


def twin_of(stream: Stream) -> reference.Stream:
    """The slow reference, with the same settings."""
    policy = stream.policy
    return reference.Stream(
        attributes=[_attribute(role) for role in stream.schema.quasi_identifiers],
        k=policy.k,
        l=policy.l,
        survival=policy.survival,
        max_cells=policy.max_cells,
        start_cells=policy.start_cells,
        window=policy.window,
        by_time=policy.window_unit == "seconds",
        adapts=policy.adapt,
    )


def call_twin(twin: reference.Stream, stream: Stream, call: Call) -> None:
    """The same call, row by row."""
    if call.kind == "flush":
        twin.flush()
    else:
        twin.tick(call.now)
    for row in range(call.start, call.stop):
        twin.arrive(
            tuple(stream.rows.quasi[row].tolist()),
            tuple(stream.rows.sensitive[row].tolist()),
            bool(stream.rows.to_root[row]),
            call.now,
            bool(stream.present[row]),
        )


def one_by_one(calls: tuple[Call, ...]) -> list[Call]:
    """The same calls, one row each."""
    single = []
    for call in calls:
        rows = range(call.start, call.stop)
        single += [Call("push", row, row + 1, call.now) for row in rows] if call.kind == "push" and rows else [call]
    return single


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Few attributes with small domains, so boxes fill up."""
    roles = draw(st.permutations(ROLES))[: draw(st.integers(1, 3))]
    return Schema(person="id", quasi_identifiers=roles, sensitive=_SENSITIVE[: draw(st.integers(0, 2))])


@st.composite
def policies(draw: st.DrawFn, schema: Schema) -> Sdgs:
    """Small k, and grids of a few boxes."""
    max_cells = draw(among(40, 8, 3, 1))
    seconds = draw(st.booleans())
    k = draw(st.integers(2, 4))
    return Sdgs(
        k=k,
        sample_rate=0.5,
        epsilon=1.0,
        window=draw(among(10.0, 0.7)) if seconds else draw(among(60, 15, k)),
        window_unit="seconds" if seconds else "rows",
        l=draw(st.integers(1, 2)) if schema.sensitive else 1,
        adapt=draw(among(True, True, True, False)),
        max_cells=max_cells,
        start_cells=draw(st.integers(1, max_cells)),
        survival=draw(among(0.3, 0.75, 1.0)),
    )


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """A stream of up to 800 rows."""
    schema = draw(schemas())
    policy = draw(policies(schema))
    rows = random_rows(schema, draw(among(800, 400, 100, 3, 0)), draw(st.integers(0, 2**32 - 1)))
    choose = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    present = choose.random(rows.person.size) < draw(among(0.5, 0.9))
    calls: list[Call] = []
    at, now = 0, float(choose.integers(-20, 20))
    while at < rows.person.size or len(calls) < 3:
        kind = CALLS[choose.integers(len(CALLS))]
        more = min(int(choose.integers(0, 60)), rows.person.size - at) if kind == "push" else 0
        calls.append(Call(kind, at, at + more, now))
        at += more
        now += float(choose.choice([0.0, 0.1, 3.0, 10.0, 40.0], p=[0.5, 0.2, 0.2, 0.08, 0.02]))
    return Stream(schema, policy, rows, present, (*calls, Call("flush", at, at, now)))


def random_rows(schema: Schema, size: int, seed: int) -> CodedRows:
    """Rows concentrated at the low end of every domain, edges and ends included; one in twenty is root-only."""
    draw = np.random.default_rng(seed)
    skew = draw.choice([1.0, 3.0])
    quasi = np.empty((size, len(schema.quasi_identifiers)))
    for at, role in enumerate(schema.quasi_identifiers):
        share = draw.random(size) ** skew
        if isinstance(role, Numeric):
            low, high = role.domain or (0.0, 0.0)
            quasi[:, at] = np.clip(np.round((low + share * (high - low)) * 4) / 4, low, high)
            quasi[draw.random(size) < 0.02, at] = high
        else:
            quasi[:, at] = np.floor(share * len(role.hierarchy.leaves))
    to_root = draw.random(size) < 0.05
    quasi[to_root] = 0.0
    values = [len(role.labels or ()) + 1 for role in schema.sensitive]
    codes = [np.floor(draw.random(size) ** 2 * count).astype(np.int64) for count in values]
    return CodedRows(
        quasi=quasi,
        person=draw.integers(0, max(size, 1), size).astype(np.uint64),
        sensitive=np.stack(codes, axis=1) if codes else np.empty((size, 0), dtype=np.int64),
        to_root=to_root,
    )


class Front:
    """The stages around the engine: the first row of a person in a window, a coin for it, then the gate.

    `coins` are one per position, so that a test can choose them.
    """

    def __init__(self, schema: Schema, policy: Sdgs, coins: Flags) -> None:
        self.engine = SdgsEngine(schema, policy)
        self.gate = CellGate(schema, policy.criteria)
        self._schema, self._policy, self._coins = schema, policy, coins
        self._rows: list[CodedRows] = []
        self._seen: set[tuple[int, int]] = set()
        self.out: list[tuple[float, ...]] = []
        """Every published row as an observer sees it: its box, then its sensitive codes."""
        self.persons: list[tuple[int, int]] = []
        """Secret owner of each of them: (release, person)."""

    def push(self, rows: CodedRows, now: float = 0.0) -> None:
        """Push rows that arrive now."""
        first = self.engine.arrivals
        present = self._coins[first : first + rows.person.size].copy()
        if self._policy.unit_for(self._schema) == "person":
            for at, person in enumerate(rows.person.tolist()):
                key = (self._policy.window_at(now, first + at), person)
                present[at] &= key not in self._seen
                self._seen.add(key)
        self._rows.append(rows)
        self._publish(self.engine.push(rows, now, present))

    def tick(self, now: float) -> None:
        """Advance time."""
        self._publish(self.engine.tick(now))

    def flush(self) -> None:
        """End the stream."""
        self._publish(self.engine.flush())

    def _publish(self, decisions: Decisions) -> None:
        if not self._rows:
            return  # nothing has arrived, so nothing can leave
        arrived = CodedRows(*(np.concatenate(parts) for parts in zip(*self._rows, strict=True)))
        rows = arrived.take(decisions.position)
        assert self.gate.check(decisions, rows).all()
        for at, group in enumerate(decisions.group):
            self.out.append((*decisions.lower[group], *decisions.upper[group], *rows.sensitive[at]))
            self.persons.append((int(decisions.event[group]), int(rows.person[at])))


def with_calls(stream: Stream, calls: list[Call]) -> Stream:
    """The same rows in different calls."""
    return replace(stream, calls=tuple(calls))


def _attribute(role: QuasiIdentifier) -> reference.Attribute:
    if isinstance(role, Numeric):
        return reference.Number(role.edges.tolist())
    return reference.Category(TREES[int(role.name[1:])]["*"])
