"""The engine contract; tests/properties/test_castle_agreement.py compares its decisions with CASTLE."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from castleguard.algorithms.castle.engine import CastleEngine
from castleguard.algorithms.castle.policy import STRICT, Castle
from castleguard.errors import PolicyError, SchemaError, SnapshotError
from castleguard.kernels import state as names
from castleguard.schema.coded import NEW, REUSED, ROOT, CodedRows
from castleguard.schema.roles import Numeric, Schema

KEY = np.arange(8, dtype=np.uint32)
SCHEMA = Schema(person="id", quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10)])
POLICY = Castle(k=2, delay=3, max_clusters=2, order="arrival")


def rows(*ages: float, person: int = 0, step: int = 1, to_root: bool = False) -> CodedRows:
    """Rows of consecutive persons from `person` on, or of this person alone if `step` is 0."""
    return CodedRows(
        quasi=np.array(ages, dtype=np.float64).reshape(-1, 1),
        person=person + step * np.arange(len(ages), dtype=np.uint64),
        sensitive=np.empty((len(ages), 0), dtype=np.int64),
        to_root=np.full(len(ages), to_root),
    )


def new_engine(policy: Castle = POLICY) -> CastleEngine:
    return CastleEngine(SCHEMA, policy, key=KEY)


def test_a_row_leaves_when_delay_further_rows_have_arrived() -> None:
    engine = new_engine()
    assert engine.push(rows(11, 12, 52), 0.0).position.size == 0
    assert (engine.arrivals, engine.pending, engine.oldest, engine.open_clusters) == (3, 3, 0, 2)
    decisions = engine.push(rows(13, person=3), 0.0)
    assert 0 in decisions.position
    assert engine.longest_wait == 3


def test_published_bounds_are_on_the_grid_and_the_loss_is_theirs() -> None:
    engine = new_engine(replace(POLICY, max_clusters=1))
    decisions = engine.push(rows(10, 10, 50, 50), 0.0)
    assert decisions.kind.tolist() == [NEW, NEW]
    assert sorted(zip(decisions.lower[:, 0], decisions.upper[:, 0], strict=True)) == [(10, 20), (50, 60)]
    assert decisions.loss.tolist() == [0.1, 0.1]
    assert decisions.event.tolist() == [0, 0]
    assert decisions.kept.all()
    assert engine.threshold == 0.0  # from cell to cell, as for open clusters


def test_a_published_box_is_reused() -> None:
    engine = new_engine(replace(POLICY, max_clusters=1))
    engine.push(rows(11, 19, 18, 17), 0.0)
    decisions = engine.push(rows(15, 99, 98, 97, person=4, step=0), 0.0)
    assert decisions.kind.tolist() == [REUSED]
    assert (decisions.position.tolist(), decisions.group.tolist()) == ([4], [0])
    assert (decisions.lower.tolist(), decisions.upper.tolist(), decisions.loss.tolist()) == ([[10.0]], [[20.0]], [0.1])
    assert decisions.kept.all()


@pytest.mark.parametrize(("containment", "entries"), [("interval", 3), ("generalisation", 1)])
def test_equal_boxes_share_an_entry_unless_their_intervals_differ(
    containment: Literal["interval", "generalisation"], entries: int
) -> None:
    reading = replace(STRICT, containment=containment)
    engine = new_engine(replace(POLICY, max_clusters=1, reading=reading))
    for ages in ((11, 19), (12, 19), (11, 18), (12, 19)):
        engine.push(rows(*ages), 0.0)
        assert engine.flush().kind[0] == NEW
    assert engine.snapshot()["counters"][names.REUSABLE] == entries


def test_a_root_row_takes_other_rows_along_or_is_dropped() -> None:
    engine = new_engine()
    engine.push(rows(0, to_root=True), 0.0)
    alone = engine.flush()
    assert (alone.position.size, alone.dropped.tolist()) == (0, [0])
    engine.push(rows(0, person=1, to_root=True), 0.0)
    engine.push(rows(55, person=2), 0.0)
    opened = engine.flush()
    assert (opened.kind.tolist(), opened.position.tolist(), opened.dropped.size) == ([ROOT], [1, 2], 0)
    assert (opened.lower.tolist(), opened.upper.tolist(), opened.loss.tolist()) == ([[0.0]], [[100.0]], [1.0])
    assert not opened.kept.any()


def test_the_root_takes_every_row_if_helpful_rows_do_not_give_l_persons() -> None:
    """Five rows have three persons and three values, but two values have one person: the sixth row is needed."""
    schema = Schema(person="id", quasi_identifiers=SCHEMA.quasi_identifiers, sensitive=["illness"])
    engine = CastleEngine(schema, replace(POLICY, k=3, l=3, l_per="person", delay=9), key=KEY)
    engine.push(
        CodedRows(
            quasi=np.zeros((7, 1)),
            person=np.array([0, 0, 0, 1, 2, 1, 2], dtype=np.uint64),
            sensitive=np.array([[0], [1], [2], [0], [0], [1], [2]]),
            to_root=np.ones(7, dtype=np.bool_),
        ),
        0.0,
    )
    decisions = engine.flush()
    assert decisions.kind.tolist() == [ROOT, ROOT]
    assert decisions.group.tolist() == [0, 0, 0, 0, 0, 0, 1]


def test_a_tick_releases_only_rows_that_have_waited_max_wait() -> None:
    engine = new_engine(replace(POLICY, delay=100, max_wait=5.0, suppression="drop", reuse="off"))
    engine.push(rows(10), 0.0)
    engine.push(rows(90, person=1), 1.0)
    assert engine.tick(4.9).position.size == 0
    engine.tick(5.0)
    assert engine.pending == 0  # the second row left with the first: they were merged
    engine.push(rows(10), 5.0)
    assert engine.push(rows(50, person=1), 10.0).dropped.tolist() == [2]
    assert engine.pending == 1


def test_an_empty_push_decides_nothing() -> None:
    engine = new_engine()
    decisions = engine.push(rows(), 0.0)
    assert all(array.size == 0 for array in decisions)
    assert (engine.arrivals, engine.pending, engine.oldest) == (0, 0, 0)


def test_rows_may_arrive_after_a_flush() -> None:
    engine = new_engine()
    engine.push(rows(11, 12), 0.0)
    assert engine.flush().position.tolist() == [0, 1]
    assert (engine.pending, engine.open_clusters, engine.oldest) == (0, 0, 2)
    engine.push(rows(55, 56, person=2), 0.0)
    assert engine.flush().position.tolist() == [2, 3]


def test_l_needs_a_sensitive_column() -> None:
    with pytest.raises(PolicyError, match="l=2 needs at least one sensitive column"):
        new_engine(replace(POLICY, l=2))


def test_strict_mode_needs_a_declared_domain() -> None:
    observed = Schema(person="id", quasi_identifiers=[Numeric("age")])
    with pytest.raises(SchemaError, match="column 'age': lower and upper are needed in strict mode"):
        CastleEngine(observed, POLICY, key=KEY)
    CastleEngine(observed, replace(POLICY, mode="paper"), key=KEY)


def test_a_snapshot_is_a_copy() -> None:
    engine = new_engine()
    engine.push(rows(11, 52), 0.0)
    before = engine.snapshot()
    kept = {name: array.copy() for name, array in before.items()}
    engine.push(rows(12, 53, person=2), 0.0)
    assert all(np.array_equal(before[name], kept[name]) for name in kept)


@pytest.mark.parametrize("name", list(new_engine().snapshot()))
def test_a_snapshot_of_another_engine_is_refused(name: str) -> None:
    arrays = new_engine().snapshot()
    for damaged in (None, arrays[name][..., :-1], arrays[name].astype(np.float32)):
        other = {**arrays, name: damaged} if damaged is not None else {n: a for n, a in arrays.items() if n != name}
        if damaged is not None and damaged.size == arrays[name].size == 0:
            continue
        with pytest.raises(SnapshotError, match=f"{name} is missing or has another shape"):
            new_engine().restore(other)


def test_a_refused_snapshot_leaves_the_engine_unchanged() -> None:
    engine = new_engine()
    engine.push(rows(11, 52), 0.0)
    before = engine.snapshot()
    other = new_engine().snapshot()
    del other["words"]
    with pytest.raises(SnapshotError):
        engine.restore(other)
    after = engine.snapshot()
    assert all(np.array_equal(before[name], after[name]) for name in before)
