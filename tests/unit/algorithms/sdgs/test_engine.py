"""Windows of the SDGS engine; tests/properties/test_sdgs_agreement.py compares its decisions with its twin."""

from dataclasses import replace

import numpy as np
import pytest

from castleguard.algorithms.engine import Engine
from castleguard.algorithms.sdgs.engine import SdgsEngine
from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.errors import SchemaError, SnapshotError
from castleguard.schema.coded import NEW, ROOT, CodedRows
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.sensitive import Sensitive

SCHEMA = Schema(
    person="id",
    quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10)],
    sensitive=[Sensitive("job", values=["cook", "clerk"])],
)
POLICY = Sdgs(k=2, sample_rate=0.5, epsilon=1, window=10, start_cells=2)


def rows(*ages: float, job: int = 0, to_root: bool = False) -> CodedRows:
    return CodedRows(
        quasi=np.array(ages, dtype=np.float64).reshape(-1, 1),
        person=np.arange(len(ages), dtype=np.uint64),
        sensitive=np.full((len(ages), 1), job, dtype=np.int64),
        to_root=np.full(len(ages), to_root),
    )


def new_engine(policy: Sdgs = POLICY) -> SdgsEngine:
    engine: Engine = SdgsEngine(SCHEMA, policy)
    assert isinstance(engine, SdgsEngine)
    return engine


def test_a_window_is_published_when_its_end_has_passed() -> None:
    engine = new_engine()
    assert engine.push(rows(10, 20, 60), 3.0).position.size == 0
    assert engine.tick(9.9).position.size == 0
    assert (engine.pending, engine.oldest) == (3, 0)
    decisions = engine.tick(10.0)
    assert (decisions.position.tolist(), decisions.dropped.tolist()) == ([0, 1], [2])
    assert (decisions.lower.tolist(), decisions.upper.tolist(), decisions.loss.tolist()) == ([[0]], [[50]], [0.5])
    assert decisions.kind.tolist() == [NEW]
    assert (engine.pending, engine.oldest, engine.arrivals, engine.longest_wait) == (0, 3, 3, 2)


def test_rows_belong_to_the_window_after_those_that_they_close() -> None:
    engine = new_engine()
    engine.push(rows(10, 20), 5.0)
    assert engine.push(rows(15, 25), 15.0).position.tolist() == [0, 1]
    assert engine.tick(20.0).position.tolist() == [2, 3]


def test_a_window_of_rows_is_published_by_the_row_that_fills_it() -> None:
    engine = new_engine(replace(POLICY, window=3, window_unit="rows"))
    decisions = engine.push(rows(10, 20, 30, 10, 20, 30, 40), -np.inf)
    assert decisions.position.tolist() == [0, 1, 2, 3, 4, 5]
    assert decisions.event[decisions.group].tolist() == [0, 0, 0, 1, 1, 1]
    assert engine.pending == 1
    assert engine.tick(-np.inf).position.size == 0


def test_absent_rows_get_a_position_and_fill_a_window_but_are_never_decided() -> None:
    engine = new_engine(replace(POLICY, window=3, window_unit="rows"))
    decisions = engine.push(rows(10, 20, 30), 0.0, np.array([True, False, True]))
    assert (decisions.position.tolist(), decisions.dropped.tolist()) == ([0, 2], [])
    decisions = engine.push(rows(10, 20, 30), 0.0, np.array([False, False, True]))
    assert (decisions.position.tolist(), decisions.dropped.tolist()) == ([], [5])


def test_cells_differ_by_sensitive_values_and_are_sorted() -> None:
    engine = new_engine()
    engine.push(rows(60, 10, job=1), 0.0)
    engine.push(rows(70, 80), 0.0)
    engine.push(rows(90, 20, job=1), 0.0)
    engine.push(rows(10), 0.0)
    decisions = engine.tick(10.0)
    assert decisions.position.tolist() == [1, 5, 2, 3, 0, 4]
    assert decisions.dropped.tolist() == [6]
    assert decisions.lower[decisions.group, 0].tolist() == [0, 0, 50, 50, 50, 50]


def test_a_box_without_l_released_values_is_dropped_whole() -> None:
    engine = new_engine(replace(POLICY, l=2))
    engine.push(rows(10, 20, 60, 70), 0.0)
    engine.push(rows(60, 70, 10, job=1), 0.0)
    decisions = engine.tick(10.0)
    assert decisions.position.tolist() == [2, 3, 4, 5]
    assert decisions.dropped.tolist() == [0, 1, 6]


def test_a_further_check_sees_released_counts_per_box_and_value_and_can_refuse() -> None:
    seen = []

    def refuse_the_first(column: int, counts: np.ndarray) -> np.ndarray:
        seen.append((column, counts.tolist()))
        return np.array([False, True])

    engine = SdgsEngine(SCHEMA, POLICY, checks=(refuse_the_first,))
    engine.push(rows(10, 20, 20, 60, 70), 0.0)
    engine.push(rows(60, 70, 10, job=1), 0.0)
    assert engine.tick(10.0).position.tolist() == [3, 4, 5, 6]
    assert seen == [(0, [[3, 0, 0], [2, 2, 0]])]


def test_root_rows_form_a_group_of_their_own() -> None:
    engine = new_engine()
    engine.push(rows(0, 0, to_root=True), 0.0)
    engine.push(rows(0, 10), 0.0)
    decisions = engine.tick(10.0)
    assert decisions.position.tolist() == [0, 1, 2, 3]
    assert (decisions.lower[:, 0].tolist(), decisions.upper[:, 0].tolist()) == ([0, 0], [100, 50])
    assert decisions.kind.tolist() == [ROOT, NEW]


def test_root_rows_join_the_only_box() -> None:
    engine = new_engine(replace(POLICY, start_cells=1))
    engine.push(rows(0, to_root=True), 0.0)
    engine.push(rows(60), 0.0)
    decisions = engine.tick(10.0)
    assert decisions.position.tolist() == [0, 1]
    assert decisions.kind.tolist() == [ROOT]


def test_one_tick_over_a_thousand_windows_equals_a_thousand_ticks() -> None:
    one, many = new_engine(replace(POLICY, start_cells=8)), new_engine(replace(POLICY, start_cells=8))
    one.push(rows(10, 20), 0.0)
    many.push(rows(10, 20), 0.0)
    one.tick(10_000.0)
    for window in range(1, 1001):
        many.tick(10.0 * window)
    assert all(np.array_equal(array, many.snapshot()[name]) for name, array in one.snapshot().items())
    assert one.open_clusters == 1


def test_a_gap_of_years_takes_no_time() -> None:
    engine = new_engine()
    engine.tick(0.0)
    engine.tick(1e12)
    assert engine.snapshot()["counters"][1] == 10**11


def test_a_flush_drops_a_window_of_seconds_that_has_not_ended() -> None:
    """Dropped rows leave no trace: rows that arrive later are the only release of the window."""
    engine, never = new_engine(replace(POLICY, start_cells=1)), new_engine(replace(POLICY, start_cells=1))
    engine.push(rows(*[10.0] * 40), 0.0)
    never.push(rows(*[10.0] * 40), 0.0, np.zeros(40, dtype=np.bool_))
    flushed = engine.flush()
    assert flushed.position.size == 0
    assert flushed.dropped.tolist() == list(range(40))
    for each in (engine, never):
        each.push(rows(60, 70), 5.0)
    assert engine.tick(10.0).position.tolist() == never.tick(10.0).position.tolist() == [40, 41]
    assert engine.grid.same_as(never.grid)


def test_a_flushed_window_of_rows_adapts_the_grid_once() -> None:
    """Rows that arrive after the flush must not change how often the grid adapts."""
    by_rows = replace(POLICY, start_cells=1, window=50, window_unit="rows")
    quiet, busy = new_engine(by_rows), new_engine(by_rows)
    for engine in (quiet, busy):
        engine.push(rows(*[10.0] * 40), 0.0)
        assert engine.flush().position.size == 40
        assert engine.open_clusters == 2
    busy.push(rows(60), 5.0)
    busy.flush()
    quiet.push(rows(60), 5.0)
    for engine in (quiet, busy):
        engine.push(rows(*[60.0] * 9), 5.0, np.zeros(9, dtype=np.bool_))
    assert busy.grid.same_as(quiet.grid)


def test_a_flush_without_pending_rows_changes_nothing() -> None:
    assert new_engine().flush().position.size == 0
    engine = new_engine(replace(POLICY, window=4, window_unit="rows", start_cells=8))
    engine.push(rows(10, 20, 30, 40), 0.0)
    before = engine.grid
    assert engine.flush().position.size == 0
    assert engine.grid is before


def test_a_grid_that_does_not_adapt_stays() -> None:
    engine = new_engine(replace(POLICY, adapt=False))
    engine.push(rows(*[10.0] * 400), 0.0)
    engine.tick(1e9)
    assert engine.open_clusters == 2


def test_the_engine_holds_no_value_of_a_pending_row() -> None:
    engine = new_engine(replace(POLICY, start_cells=1))
    engine.push(rows(12.5, 37.5), 0.0)
    held = [array for name, array in engine.snapshot().items() if name.startswith("held")]
    assert all(array.dtype == np.int64 for array in held)
    assert engine.threshold == 1.0


def test_many_small_pushes_are_kept_in_few_pieces() -> None:
    engine = new_engine()
    for _ in range(1000):
        engine.push(rows(10), 0.0)
    assert len(engine._held) <= 10
    assert engine.pending == 1000


@pytest.mark.parametrize("broken", ["held_codes", "grid_first", "counters", "held_position", "grid_parent"])
def test_a_snapshot_that_does_not_fit_is_refused_as_a_whole(broken: str) -> None:
    engine = new_engine()
    engine.push(rows(10, 20), 0.0)
    arrays = engine.snapshot()
    other = new_engine()
    for change in ({}, {broken: arrays[broken][:1]}, {broken: arrays[broken].astype(np.float32)}):
        wrong = {name: array for name, array in arrays.items() if name != broken} | change
        with pytest.raises(SnapshotError, match="is missing or has another shape"):
            other.restore(wrong)
    assert other.pending == 0


def test_a_schema_that_would_break_the_claim_is_refused() -> None:
    with pytest.raises(SchemaError, match="SDGS cannot publish clinic unchanged"):
        SdgsEngine(Schema(person="id", quasi_identifiers=SCHEMA.quasi_identifiers, public=["clinic"]), POLICY)
