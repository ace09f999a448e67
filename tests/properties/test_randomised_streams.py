"""Strict CASTLEGUARD and SDGS as a black box: for any input, the output keeps the statement.

Uses public names only, and a row number in a public column where one is allowed.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import castleguard as cg
from tests.properties.streams import examples

TREE = cg.Hierarchy.from_mapping({"any": {"a": ["x", "y"], "b": ["z"]}})
ROLES = (
    cg.Numeric("q0", lower=0, upper=20, step=4),
    cg.Categorical("q1", hierarchy=TREE, default="z"),
    cg.Numeric("q2", lower=-1.0, upper=1.0, step=0.3),
    cg.Numeric("q3", lower=7, upper=7),
)
RAW: dict[str, list[Any]] = {
    "q0": ["0", "3", "7", "19", "20", "99", "", "odd"],
    "q1": ["x", "y", "z", "nowhere", None],
    "q2": ["-1", "-0.2", "0", "0.95", "1", "nan", "-7"],
    "q3": ["7", "8", None],
    "s0": ["u", "v", "w", None],
}
SENSITIVE = cg.Sensitive("s0", values=["u", "v"])


@dataclass(frozen=True)
class Case:
    """A stream in batches, with their arrival times."""

    schema: cg.Schema
    policy: cg.Castleguard | cg.Sdgs
    table: pa.Table
    cuts: tuple[int, ...]
    seed: int

    def start(self) -> cg.Anonymiser:
        return cg.Anonymiser(self.schema, self.policy, seed=self.seed)

    def batches(self) -> list[pa.Table]:
        edges = [0, *self.cuts, self.table.num_rows]
        return [self.table.slice(start, stop - start) for start, stop in pairwise(edges)]


@st.composite
def cases(draw: st.DrawFn, *, sdgs: bool) -> Case:
    roles = ROLES[: draw(st.integers(1, 4))]
    sensitive = [SENSITIVE] if draw(st.booleans()) else []
    schema = cg.Schema(
        person=draw(st.sampled_from(["pid", "pid", None])),
        quasi_identifiers=roles,
        sensitive=sensitive,
        public=[] if sdgs else ["row"],
    )
    count, persons = draw(st.integers(0, 80)), draw(st.sampled_from([2, 10, 60]))
    columns: dict[str, list[Any]] = {
        "pid": draw(st.lists(st.integers(0, persons), min_size=count, max_size=count)),
        "row": list(range(count)),
    }
    for name in (*(role.name for role in roles), *(role.name for role in sensitive)):
        columns[name] = draw(st.lists(st.sampled_from(RAW[name]), min_size=count, max_size=count))
    kinds = {"pid": pa.int64(), "row": pa.int64()}
    table = pa.table({name: pa.array(values, kinds.get(name, pa.string())) for name, values in columns.items()})
    policy: cg.Castleguard | cg.Sdgs
    policy = draw(sdgs_policies(bool(sensitive))) if sdgs else draw(guard_policies(schema))
    cuts = sorted(draw(st.lists(st.integers(0, count), max_size=4)))
    return Case(schema, policy, table, tuple(cuts), draw(st.integers(0, 99)))


@st.composite
def guard_policies(draw: st.DrawFn, schema: cg.Schema) -> cg.Castleguard:
    k = draw(st.integers(2, 4))
    ledger = schema.person is not None and draw(st.booleans())
    return cg.Castleguard(
        k=k,
        l=draw(st.integers(1, 2)) if schema.sensitive else 1,
        delay=draw(st.sampled_from([k, 12, 100])),
        max_clusters=draw(st.sampled_from([1, 5, 50])),
        epsilon=draw(st.sampled_from([0.1, 5.0, 10_000.0])),
        sample_rate=draw(st.sampled_from([1.0, 0.5])),
        rows_per_person=draw(st.integers(1, 3)) if ledger else None,
        window=draw(st.sampled_from([None, 5, 30])) if ledger else None,
        window_unit=draw(st.sampled_from(["seconds", "rows"])),
    )


@st.composite
def sdgs_policies(draw: st.DrawFn, diverse: bool) -> cg.Sdgs:
    return cg.Sdgs(
        k=draw(st.integers(2, 3)),
        l=draw(st.integers(1, 2)) if diverse else 1,
        sample_rate=draw(st.sampled_from([0.3, 0.6])),
        epsilon=1.0,
        window=draw(st.sampled_from([5, 20])),
        window_unit=draw(st.sampled_from(["seconds", "rows"])),
        unit=draw(st.sampled_from(["person", "row"])),
        start_cells=draw(st.sampled_from([1, 4])),
    )


def push(stream: cg.Anonymiser, batch: pa.Table, at: int) -> pa.Table:
    return stream.push(batch, now=3.0 * at)


def run(case: Case) -> tuple[pa.Table, cg.Report]:
    stream = case.start()
    out = [push(stream, batch, at) for at, batch in enumerate(case.batches())]
    out.append(stream.finish())
    return pa.concat_tables([table.cast(out[-1].schema) for table in out]), stream.report()


def boxes_of(table: pa.Table, hidden: tuple[str, ...] = ("row", "s0")) -> list[tuple[object, ...]]:
    names = [name for name in table.column_names if name not in hidden]
    columns = [table.column(name).to_pylist() for name in names]
    return list(zip(*columns, strict=True)) if columns else []


@examples(4)
@given(cases(sdgs=False))
def test_noisy_rows_are_in_groups_of_k_persons_and_l_values(case: Case) -> None:
    assert isinstance(case.policy, cg.Castleguard)
    stream, out = case.start(), None
    for at, batch in enumerate(case.batches()):
        part = push(stream, batch, at)
        out = part if out is None or not out.num_rows else pa.concat_tables([out, part.cast(out.schema)])
        judge(case, out)
    part = stream.flush()
    out = part if out is None or not out.num_rows else pa.concat_tables([out, part.cast(out.schema)])
    judge(case, out)
    report = stream.report()
    assert report.pending == report.gate_refused == 0
    assert report.rejected == {}, "a row was refused for its values"
    assert report.rows_in == case.table.num_rows
    assert report.published == out.num_rows


def judge(case: Case, out: pa.Table) -> None:
    """Groups of the published table, with the persons of its rows."""
    persons, values = defaultdict(set), defaultdict(set)
    whose = case.table["pid"].to_pylist() if case.schema.person else case.table["row"].to_pylist()
    rows = out["row"].to_pylist()
    assert len(rows) == len(set(rows)), "a row left twice"
    sensitive = out["s0"].to_pylist() if case.schema.sensitive else [None] * out.num_rows
    for box, row, value in zip(boxes_of(out), rows, sensitive, strict=True):
        persons[box].add(whose[row])
        values[box].add(value)
    assert all(len(found) >= case.policy.k for found in persons.values())
    assert not case.schema.sensitive or all(len(found) >= case.policy.l for found in values.values())
    assert set(sensitive) <= {"u", "v", None}, "a value that was not declared"


@examples(2)
@given(cases(sdgs=False))
def test_no_person_has_more_rows_than_the_ledger_admits(case: Case) -> None:
    assert isinstance(case.policy, cg.Castleguard)
    most = case.policy.rows_per_person
    if most is None:
        return
    case = replace(case, policy=replace(case.policy, window=None))
    out, report = run(case)
    whose = case.table["pid"].to_pylist()
    rows = [whose[row] for row in out["row"].to_pylist()]
    assert all(rows.count(person) <= most for person in set(rows))
    expected = sum(max(0, whose.count(person) - most) for person in set(whose))
    assert report.over_budget == expected


@examples(3)
@given(st.one_of(cases(sdgs=False), cases(sdgs=True)), st.data())
def test_a_snapshot_anywhere_changes_nothing(case: Case, data: st.DataObject) -> None:
    whole, report = run(case)
    batches = case.batches()
    cut = data.draw(st.integers(0, len(batches)))
    stream, out = case.start(), []
    for at, batch in enumerate(batches):
        if at == cut:
            stream = cg.Anonymiser.restore(case.schema, case.policy, stream.snapshot())
        out.append(push(stream, batch, at))
    if cut == len(batches):
        stream = cg.Anonymiser.restore(case.schema, case.policy, stream.snapshot())
    out.append(stream.finish())
    assert pa.concat_tables([table.cast(whole.schema) for table in out]) == whole
    assert stream.report() == report


@examples(3)
@given(st.one_of(cases(sdgs=False), cases(sdgs=True)))
def test_batches_change_nothing(case: Case) -> None:
    """All rows at one moment, in one batch or one by one."""
    out = []
    for size in (1, max(case.table.num_rows, 1)):
        stream = case.start()
        tables = [stream.push(case.table.slice(at, size), now=0.0) for at in range(0, case.table.num_rows, size)]
        tables.append(stream.finish())
        out.append(pa.concat_tables([table.cast(tables[-1].schema) for table in tables]))
    assert out[0] == out[1]


@examples(2)
@given(cases(sdgs=False))
def test_noise_at_the_edge_equals_the_noise_of_the_stream(case: Case) -> None:
    """Under one seed the randomiser and the stream draw the same, so both publish the same."""
    assert isinstance(case.policy, cg.Castleguard)
    whole, _ = run(case)
    noisy = cg.Randomiser(case.schema, epsilon=case.policy.epsilon, seed=case.seed).randomise(case.table)
    there, _ = run(replace(case, table=noisy, policy=replace(case.policy, noise="edge")))
    assert boxes_of(there, hidden=("s0",)) == boxes_of(whole, hidden=("s0",))
    if case.schema.sensitive and case.policy.sample_rate == 1 and case.policy.rows_per_person is None:
        assert there == whole


@examples(3)
@given(cases(sdgs=True))
def test_every_sdgs_row_has_k_rows_like_it_in_its_window(case: Case) -> None:
    assert isinstance(case.policy, cg.Sdgs)
    case = replace(case, policy=replace(case.policy, window_unit="seconds", window=1e9))
    out, report = run(case)
    found: dict[tuple[object, ...], int] = defaultdict(int)
    for cell in boxes_of(out, hidden=()):
        found[cell] += 1
    assert all(count >= case.policy.k for count in found.values())
    assert report.pending == report.gate_refused == 0
    assert report.published == out.num_rows
