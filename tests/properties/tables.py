"""Random user input: tables with nulls, odd values and guessed types; and independent books of what is published.

Every raw value is drawn together with its meaning, so this module does not repeat castleguard's decoding. Values come
from small pools, one byte per value: Hypothesis draws and shrinks a stream as one piece of binary data.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import castleguard as cg
from tests.properties.choices import among

Problem = Literal["null", "invalid", "outside", "unknown"]
ANSWERS: tuple[Literal["reject", "root"], ...] = ("reject", "root")
OUTSIDE_ANSWERS: tuple[Literal["clamp", "reject", "root"], ...] = ("clamp", "reject", "root")
WHOLE_DOMAINS = ((0, 20, 4), (0, 1, 1), (-7, 9, 5), (3, 3, None))
DOMAINS = ((0.0, 1.0, 0.1), (-2.5, 2.5, 0.7))
Box = tuple[object, ...]  # published quasi-identifiers of one row

MAX_ROWS = 90
_START = dt.date(2020, 1, 1)
_TREES: tuple[dict[str, Any], ...] = (
    {"Any": {"School": ["Junior", "Senior"], "University": {"Bachelor": None, "Graduate": ["Master", "Doctor"]}}},
    {"Any": {"Only": {"Child": ["a", "b", "c"]}}},
    {"Any": ["x", "y"]},
    {"Any": ["alone"]},
)
_HIERARCHIES = st.sampled_from([cg.Hierarchy.from_mapping(tree) for tree in _TREES])


class Meaning(NamedTuple):
    """A raw value with its coded value or its problem."""

    raw: object
    says: float | str | Problem


@dataclass(frozen=True)
class ColumnPool:
    """A quasi-identifier with its possible raw values."""

    role: cg.Numeric | cg.Categorical
    kind: pa.DataType
    values: tuple[Meaning, ...]


@dataclass(frozen=True)
class Row:
    """An input row as the books know it."""

    person: object
    quasi: tuple[float | str, ...]
    sensitive: tuple[object, ...]
    fate: Literal["normal", "root", "reject"]


@dataclass(frozen=True)
class Stream:
    """A table, its meaning, the arrival times of its rows, and the policy."""

    schema: cg.Schema
    policy: cg.Castle
    table: pa.Table
    rows: tuple[Row, ...]
    times: tuple[float, ...]
    seed: int
    numbers: Literal["bounds", "interval", "midpoint"] = "bounds"

    def start(self) -> cg.Anonymiser:
        """A new stream."""
        return cg.Anonymiser(self.schema, self.policy, seed=self.seed, numbers=self.numbers)


# -- quasi-identifiers -------------------------------------------------------------------------------------------------


@st.composite
def column_pools(draw: st.DrawFn, name: str) -> ColumnPool:
    """A number, a date or a category; typed or as text; with any answers to bad values."""
    null = draw(among(*ANSWERS))
    outside = draw(among(*OUTSIDE_ANSWERS))
    odd = draw(st.booleans())
    as_text = draw(st.booleans())
    what = draw(among("int", "int", "float", "date", "category"))
    if what == "category":
        tree = draw(_HIERARCHIES)
        values = [Meaning(leaf, leaf) for leaf in tree.leaves]
        if odd:
            values += [Meaning(None, "null"), Meaning("no such leaf", "unknown")]
        return ColumnPool(cg.Categorical(name, hierarchy=tree, null=null, unknown=null), pa.string(), tuple(values))
    lower: Any
    upper: Any
    step: Any
    if what == "date":
        lower, upper, kind = _START, _START + dt.timedelta(days=60), pa.date32()
        step = draw(among(None, 7, 45))
        values = [Meaning(_START + dt.timedelta(days=day), _days(_START) + day) for day in range(0, 61, 4)]
        beyond = [Meaning(_START - dt.timedelta(days=9), _days(_START)), Meaning(dt.date(2031, 5, 5), _days(upper))]
    else:
        whole = what == "int"
        lower, upper, step = draw(among(*WHOLE_DOMAINS) if whole else among(*DOMAINS))
        kind = pa.int64() if whole else pa.float64()
        inside = range(lower, upper + 1) if whole else [lower + (upper - lower) * part / 12 for part in range(13)]
        values = [Meaning(value, float(value)) for value in inside]
        beyond = [Meaning(lower - 5, float(lower)), Meaning(upper + 1000, float(upper))]
    if odd:
        values += [Meaning(None, "null")]
        values += beyond if outside == "clamp" else [Meaning(value.raw, "outside") for value in beyond]
        values += [Meaning("odd", "invalid")] if as_text else []
    if as_text:
        kind = pa.string()
        values = [Meaning(None if value.raw is None else str(value.raw), value.says) for value in values]
    role = cg.Numeric(name, lower=lower, upper=upper, step=step, null=null, outside=outside, invalid=null)
    return ColumnPool(role, kind, tuple(values))


def _days(date: dt.date) -> float:
    return float((date - dt.date(1970, 1, 1)).days)


def _answer(role: cg.Numeric | cg.Categorical, problem: str) -> str:
    return str(getattr(role, problem))


def _fate(pools: Sequence[ColumnPool], meanings: Sequence[Meaning]) -> Literal["normal", "root", "reject"]:
    """A reject by any column overrides the root."""
    problems = ("null", "invalid", "outside", "unknown")
    answers = {_answer(pool.role, str(m.says)) for pool, m in zip(pools, meanings, strict=True) if m.says in problems}
    return "reject" if "reject" in answers else "root" if "root" in answers else "normal"


# -- streams -----------------------------------------------------------------------------------------------------------


@st.composite
def streams(
    draw: st.DrawFn,
    *,
    mode: Literal["strict", "paper"] = "strict",
    timed: bool | None = None,
    lopsided: bool = False,
    secretive: bool = False,
) -> Stream:
    """Any schema, policy and table; `timed`: with a clock and max_wait, without, or (None) either.

    `lopsided`: three values are promised per person, and rare values tend to be of one person. `secretive`: there is a
    sensitive column for sure.
    """
    pools = [draw(column_pools(f"q{number}")) for number in range(draw(st.integers(1, 3)))]
    sensitive = [cg.Sensitive("s0"), cg.Sensitive("s1", bins=[10, 20])][
        : draw(st.integers(int(lopsided or secretive), 2))
    ]
    person = "pid" if lopsided else draw(among("pid", "pid", "pid", None))
    schema = cg.Schema(
        person=person, quasi_identifiers=[pool.role for pool in pools], sensitive=sensitive, public=["row"]
    )
    clock = draw(st.booleans()) if timed is None else timed
    policy = draw(policies(mode=mode, diverse=bool(sensitive), clock=clock))
    if lopsided:
        policy = replace(policy, k=3, l=3, l_per="person", delay=max(policy.delay, 6))
    table, rows = draw(tables(schema, pools, lopsided=lopsided))
    steps = draw(st.binary(min_size=len(rows), max_size=len(rows))) if clock else bytes(len(rows))
    times = np.cumsum([max(0, step - 180) // 16 for step in steps], dtype=np.float64)  # often at the same moment
    return Stream(
        schema=schema,
        policy=policy,
        table=table,
        rows=tuple(rows),
        times=tuple(float(time) for time in times),
        seed=draw(st.integers(0, 2**32)),
        numbers=draw(among("bounds", "bounds", "interval", "midpoint")),
    )


@st.composite
def policies(draw: st.DrawFn, *, mode: Literal["strict", "paper"], diverse: bool, clock: bool) -> cg.Castle:
    """Small parameters, so all limits are reached."""
    k = draw(among(2, 2, 3, 3, 4, 6))
    return cg.Castle(
        k=k,
        l=draw(st.integers(1, min(k, 3))) if diverse else 1,
        l_per=draw(among("row", "person")),
        delay=draw(among(k - 1, k, 2 * k, 12, 30, 200)),
        max_wait=draw(among(0.5, 3, 10)) if clock else None,
        max_clusters=draw(among(1, 2, 5, 50)),
        loss_window=draw(st.integers(1, 5)),
        max_reusable=draw(among(1, 2, 4, 1000)),
        reusable_age=draw(among(None, None, 0, 20)),
        mode=mode,
        reuse=draw(among("paper", "paper", "paper", "off")),
        suppression=draw(among(None, "root", "drop")),
        order=draw(among(None, "shuffled", "arrival", "input")),
    )


@st.composite
def tables(
    draw: st.DrawFn, schema: cg.Schema, pools: Sequence[ColumnPool], *, lopsided: bool = False
) -> tuple[pa.Table, list[Row]]:
    """Up to MAX_ROWS rows; few or many persons, some of them missing."""
    count = draw(st.integers(0, MAX_ROWS))
    persons = draw(among(*((3, 5) if lopsided else (1, 2, 5, 12, 60, 250))))
    spread = [draw(among(*((4,) if lopsided else (1, 2, 4)))) for _ in schema.sensitive]
    person_kind = draw(among(pa.int64(), pa.float64(), pa.string()))
    width = 1 + len(pools) + len(spread)
    data = draw(st.binary(min_size=width * count, max_size=width * count))
    raws: list[list[object]] = [[] for _ in range(width)]
    rows: list[Row] = []
    for at in range(0, width * count, width):
        person = None if data[at] > 250 else data[at] % persons
        meanings = [pool.values[byte % len(pool.values)] for pool, byte in zip(pools, data[at + 1 :], strict=False)]
        codes = [byte % values for byte, values in zip(data[at + 1 + len(pools) :], spread, strict=False)]
        if lopsided and person != 0:
            codes = [code if byte > 245 else 0 for code, byte in zip(codes, data[at + 1 + len(pools) :], strict=False)]
        secrets = [None if code == 3 else 7 * code for code in codes]  # missing is a value of its own
        counted = tuple(  # the second column has bins of ten
            -1 if secret is None else secret // 10 if number else secret for number, secret in enumerate(secrets)
        )
        quasi = tuple(meaning.says for meaning in meanings)
        owner: object = len(rows) if schema.person is None else person
        rows.append(Row(owner, quasi, counted, _fate(pools, meanings)))
        shown = [person if person_kind != pa.string() or person is None else str(person)]
        for column, raw in zip(raws, [*shown, *(m.raw for m in meanings), *secrets], strict=True):
            column.append(raw)
    kinds = [person_kind, *(pool.kind for pool in pools), *[pa.int64()] * len(spread)]
    names = ["pid", *(pool.role.name for pool in pools), *(role.name for role in schema.sensitive)]
    arrays = {name: pa.array(raw, kind) for name, raw, kind in zip(names, raws, kinds, strict=True)}
    return pa.table({**arrays, "row": pa.array(range(count), pa.int64())}), rows


# -- books -------------------------------------------------------------------------------------------------------------


@dataclass
class Group:
    """Everything published so far under the same quasi-identifiers."""

    rows: list[int] = field(default_factory=list)

    def is_covered(self, stream: Stream) -> bool:
        """Whether the group has k persons and l values; rows without a person count for neither."""
        members = [member for row in self.rows if (member := stream.rows[row]).person is not None]
        enough = len({member.person for member in members}) >= stream.policy.k
        for column in range(len(stream.schema.sensitive) if stream.policy.l > 1 else 0):
            pairs = {(member.person, member.sensitive[column]) for member in members}
            values = len({value for _, value in pairs})
            enough = enough and (most_apart(pairs) if stream.policy.l_per == "person" else values) >= stream.policy.l
        return enough


def most_apart(pairs: Iterable[tuple[object, object]]) -> int:
    """Size of a largest matching of persons to values, by the deficiency form of Hall's theorem.

    Over all sets of values: values - max(values in the set - their holders). Slow and obvious; there are few values.
    """
    holders: dict[object, set[object]] = {}
    for person, value in pairs:
        holders.setdefault(value, set()).add(person)
    values = list(holders)
    worst = 0
    for chosen in range(1 << len(values)):
        subset = [value for number, value in enumerate(values) if chosen >> number & 1]
        worst = max(worst, len(subset) - len(set().union(*(holders[value] for value in subset))))
    return len(values) - worst


@dataclass
class Books:
    """Records published rows, and fails on a broken promise."""

    stream: Stream
    groups: dict[Box, Group] = field(default_factory=dict)
    published: set[int] = field(default_factory=set)

    def enter(self, out: pa.Table) -> list[int]:
        """Record a published table, checking each row; returns its rows."""
        rows: list[int] = out["row"].to_pylist()
        sensitive = [role.name for role in self.stream.schema.sensitive]
        names = [name for name in out.column_names if name not in ("row", *sensitive)]
        for row, box in zip(rows, zip(*(out[name].to_pylist() for name in names), strict=True), strict=True):
            assert row not in self.published, "a row was published twice"
            assert self.stream.rows[row].fate != "reject", "a refused row was published"
            self.published.add(row)
            self.groups.setdefault(box, Group()).rows.append(row)
            if self.stream.numbers == "bounds":
                self._check_box(self.stream.rows[row], dict(zip(names, box, strict=True)))
        payload = self.stream.table.take(pa.array(rows, pa.int64())).select([*sensitive, "row"])
        assert out.select([*sensitive, "row"]).to_pylist() == payload.to_pylist()
        return rows

    def uncovered(self) -> list[Box]:
        """Groups that break the promise."""
        return [box for box, group in self.groups.items() if not group.is_covered(self.stream)]

    def _check_box(self, row: Row, box: dict[str, Any]) -> None:
        """Check that the row lies in its box and the box is public: on the grid, in the domain, a node of the tree."""
        for role, says in zip(self.stream.schema.quasi_identifiers, row.quasi, strict=True):
            if isinstance(role, cg.Categorical):
                covered = _leaves_under(role.hierarchy, box[role.name])
                assert says in covered if row.fate == "normal" else covered == set(role.hierarchy.leaves)
                continue
            low, high = box[f"{role.name}_min"], box[f"{role.name}_max"]
            if isinstance(low, dt.date):
                low, high = _days(low), _days(high)
            if row.fate == "root":
                assert (low, high) == role.domain
            elif low is not None:  # the root of an observed domain has no bounds
                assert isinstance(says, float)
                ends = self.stream.policy.mode != "strict" or high == role.edges[-1]
                assert low <= says <= high if ends else low <= says < high
            if self.stream.policy.mode == "strict":
                assert low in role.edges
                assert high in role.edges
                assert low < high or role.edges.size == 1


def _leaves_under(tree: cg.Hierarchy, label: str) -> set[str]:
    node = tree.labels.index(label)
    return set(tree.leaves[tree.first_leaf[node] : tree.last_leaf[node] + 1])
