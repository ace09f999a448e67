"""With reuse off every release stands by itself: each of its boxes has k persons and l values, the root's too."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import castleguard as cg
from castleguard.algorithms.castle.engine import CastleEngine
from castleguard.algorithms.castle.policy import Reuse
from castleguard.algorithms.castle.stages import group_gate
from castleguard.release.gate import Gate
from castleguard.schema.coded import NO_PERSON, CodedRows, Decisions
from tests.properties.streams import Step, Stream, examples, joined, one_by_one, shaped_streams, streams


def played(stream: Stream, steps: Sequence[Step]) -> list[Decisions]:
    """The decisions of every call, the flush at the end included."""
    engine, found, at = CastleEngine(stream.schema, stream.policy, key=stream.key), [], 0
    for step in steps:
        rows = stream.engine_rows.take(slice(at, at + step.rows))
        found.append(engine.push(rows, step.now) if step.rows else engine.tick(step.now))
        at += step.rows
    return [*found, engine.flush()]


def check_releases(stream: Stream, decided: Decisions) -> None:
    """Check that every box of a release (one event) has k persons and l values in this release."""
    members: defaultdict[tuple[int, bytes, bytes], list[int]] = defaultdict(list)
    for position, group in zip(decided.position.tolist(), decided.group.tolist(), strict=True):
        box = decided.lower[group].tobytes(), decided.upper[group].tobytes()
        members[int(decided.event[group]), *box].append(position)
    for positions in members.values():
        rows: CodedRows = stream.rows.take(np.array(positions))
        rows = rows.take(np.flatnonzero(rows.person != NO_PERSON))  # counts for neither k nor l
        assert len(set(rows.person.tolist())) >= stream.policy.k
        for column in rows.sensitive.T:
            assert len(set(column.tolist())) >= stream.policy.l


def off(stream: Stream) -> Stream:
    return replace(stream, policy=replace(stream.policy, reuse="off"))


@examples(8)
@given(streams(mode="strict") | shaped_streams(mode="strict") | streams(mode="strict", diverse=True))
def test_every_box_of_every_release_has_k_persons(drawn: Stream) -> None:
    """In any batches, with root-only rows, by arrivals, by time and at the end."""
    stream = off(drawn)
    for steps in (stream.steps, one_by_one(stream.steps), joined(stream.steps)):
        for decided in played(stream, steps):
            check_releases(stream, decided)


@examples(4)
@given(streams(mode="paper"))
def test_the_gate_suppresses_every_group_that_does_not_pass_by_itself(drawn: Stream) -> None:
    """In paper mode the engine publishes rows alone at the root; with reuse off the gate suppresses all of them."""
    stream = off(drawn)
    gate = group_gate(stream.policy, stream.schema)
    assert isinstance(gate, Gate)
    for decided in played(stream, stream.steps):
        passed = gate.check(decided, stream.engine_rows.take(decided.position))
        kept = passed[decided.group]
        check_releases(stream, decided._replace(position=decided.position[kept], group=decided.group[kept]))


SCHEMA = cg.Schema(
    person="pid",
    quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=10, null="root")],
    public=["who"],
)


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 100)), max_size=60), st.integers(1, 7))
def test_root_only_rows_are_published_with_k_persons_or_not_at_all(
    drawn: list[tuple[int, int | None]], size: int
) -> None:
    """As a black box: the rows that one call publishes under one box are of k persons."""
    rows = [{"pid": person, "age": age, "who": person} for person, age in drawn]
    stream = cg.Anonymiser(SCHEMA, cg.Castle(k=4, delay=12, reuse="off"))
    tables = [stream.push(rows[at : at + 1]) for at in range(len(rows))]
    for table in (*tables, stream.flush()):
        persons: defaultdict[tuple[object, ...], set[int]] = defaultdict(set)
        for *box, who in zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True):
            persons[tuple(box)].add(who)
        assert all(len(found) >= 4 for found in persons.values())
    assert stream.report().gate_refused == 0
    whole = cg.Anonymiser(SCHEMA, cg.Castle(k=4, delay=12, reuse="off"))
    batches = [whole.push(rows[at : at + size]) for at in range(0, len(rows), size)]
    published = sum(table.num_rows for table in (*batches, whole.flush()))
    assert published == stream.report().published


@pytest.mark.parametrize("reuse", ["paper", "off"])
def test_a_root_row_is_published_with_the_oldest_pending_rows(reuse: Reuse) -> None:
    """With reuse on, the second root row leaves alone; with reuse off, each leaves with the oldest pending rows."""
    stream = cg.Anonymiser(SCHEMA, cg.Castle(k=3, delay=5, reuse=reuse, order="arrival"), seed=1)
    ages = [None, 11, 55, 12, 56, 13, None, 57, 14, 58, 15, 59, 16, 61, 17]
    released: list[pa.Table] = [stream.push([{"pid": at, "age": age, "who": at}]) for at, age in enumerate(ages)]
    at_root = [
        [row["who"] for row in table.to_pylist() if (row["age_min"], row["age_max"]) == (0, 100)] for table in released
    ]
    assert at_root[5] == [0, 1, 2]
    assert (len(at_root[11]) == 1) == (reuse == "paper")
    assert 6 in at_root[11]
