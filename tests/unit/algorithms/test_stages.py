"""Intake of each policy, through the public names."""

import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.algorithms.policy import Policy
from castleguard.algorithms.stages import make_keys
from castleguard.errors import UsageError

SCHEMA = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100)])


def sdgs(**changed: object) -> cg.Sdgs:
    given = {"k": 2, "sample_rate": 0.5, "epsilon": 1.0, "window": 60, **changed}
    return cg.Sdgs(**given)  # type: ignore[arg-type]


def over_budget(policy: cg.Sdgs | cg.Castleguard, arrivals: list[tuple[float, int]]) -> int:
    """Number of rows (time, person) that the cap leaves out."""
    stream = cg.Anonymiser(SCHEMA, policy)
    for now, person in arrivals:
        stream.push([{"pid": person, "age": 30}], now=now)
    stream.flush()
    report = stream.report()
    assert report.published + report.suppressed + report.sampled_out + report.over_budget == len(arrivals)
    return report.over_budget


def test_sdgs_admits_one_row_per_person_and_window_regardless_of_the_coin() -> None:
    assert over_budget(sdgs(), [(0, 1), (0, 1), (0, 2), (30, 1), (59, 2), (59, 3)]) == 3


def test_sdgs_windows_start_at_fixed_times() -> None:
    """A sliding window would refuse the second row, and its refusals would depend on earlier rows."""
    assert over_budget(sdgs(), [(59, 1), (61, 1), (119, 1), (120, 1)]) == 1


def test_a_flushed_window_still_counts_its_persons() -> None:
    stream = cg.Anonymiser(SCHEMA, sdgs())
    stream.push([{"pid": 1, "age": 30}], now=0.0)
    stream.flush()
    stream.push([{"pid": 1, "age": 30}], now=1.0)
    assert stream.report().over_budget == 1


def ages(*tables: pa.Table) -> list[tuple[object, ...]]:
    """The published rows."""
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def crowd(first: int) -> list[dict[str, int]]:
    return [{"pid": first + at, "age": 30} for at in range(40)]


def test_a_flush_publishes_no_rows_of_an_unfinished_window_of_seconds(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise its time would be visible, and later rows would be a second release of the window."""
    stream = cg.Anonymiser(SCHEMA, sdgs(), seed=1)
    stream.push(crowd(0), now=100.0)
    pending = stream.report().pending
    assert pending > 2
    assert stream.flush().num_rows == 0
    assert f"{pending} rows of a window that has not ended were dropped" in caplog.text
    assert stream.report().suppressed == pending
    stream.push(crowd(40), now=110.0)
    taking_part = stream.report().pending
    assert stream.tick(120.0).num_rows == taking_part > 2
    caplog.clear()
    assert stream.flush().num_rows == 0
    assert not caplog.records, "an empty window is dropped in silence"


def test_a_complete_input_ends_with_its_window() -> None:
    flushed, finished = (cg.Anonymiser(SCHEMA, sdgs(), seed=1) for _ in range(2))
    for stream in (flushed, finished):
        stream.push(crowd(0), now=100.0)
    assert ages(finished.finish()) == ages(flushed.tick(120.0), flushed.flush())
    assert finished.report().published > 2
    assert finished.now == 120.0
    with pytest.raises(UsageError, match="must not go back"):
        finished.push(crowd(40), now=119.0)


def test_a_table_is_published_whole_with_windows_of_seconds() -> None:
    assert cg.anonymise(crowd(0), SCHEMA, sdgs(), seed=1).num_rows > 2


def test_a_flush_publishes_windows_of_rows() -> None:
    stream = cg.Anonymiser(SCHEMA, sdgs(window=100, window_unit="rows"), seed=1)
    stream.push(crowd(0))
    pending = stream.report().pending
    assert stream.flush().num_rows == pending > 2
    assert stream.finish().num_rows == 0


def test_windows_of_rows_are_counted_in_arrivals() -> None:
    assert over_budget(sdgs(window=3, window_unit="rows"), [(0, 1), (0, 1), (0, 1), (0, 1), (0, 2), (0, 1)]) == 3


def test_persons_are_not_capped_if_the_unit_is_a_row() -> None:
    assert over_budget(sdgs(unit="row"), [(0, 1)] * 5) == 0


@pytest.mark.parametrize(("window", "left_out"), [(60.0, 1), (2.0, 0), (None, 2)])
def test_the_castleguard_ledger_uses_a_sliding_window(window: float | None, left_out: int) -> None:
    policy = cg.Castleguard(k=2, delay=9, epsilon=1.0, rows_per_person=1, window=window)
    assert over_budget(policy, [(59, 1), (61, 1), (119, 1)]) == left_out


def test_a_stream_whose_intake_failed_midway_accepts_no_more_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cap has counted rows that the engine never saw, so their windows would differ."""
    stream = cg.Anonymiser(SCHEMA, sdgs(window=3, window_unit="rows"))

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("castleguard.privacy.noise.Noise.sample", fail)
        with pytest.raises(MemoryError):
            stream.push([{"pid": 1, "age": 30}])
    with pytest.raises(UsageError, match="snapshot"):
        stream.push([{"pid": 1, "age": 30}])


@pytest.mark.parametrize(
    ("policy", "cells"),
    [
        (cg.Castle(k=2, delay=5), True),
        (cg.Castle(k=2, delay=5, mode="paper"), False),
        (cg.Castleguard(k=2, delay=5, epsilon=1.0), False),
        (cg.Castleguard(k=2, delay=5, epsilon=1.0, noise="edge"), True),
        (Dcastle(sites=2, k=2, delay=5), True),
        (cg.Sdgs(k=2, sample_rate=0.5, epsilon=1.0, window=5, window_unit="rows"), True),
        (cg.Doca(k=2, delay=5, epsilon=1.0), False),
    ],
)
def test_rows_are_decoded_as_cells_if_only_cells_are_published(policy: Policy, cells: bool) -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=30)])
    rows = policy.stages(schema, make_keys(seed=0)).decoder.decode(pa.table({"age": [41.0]})).rows
    assert rows.quasi.tolist() == [[30.0 if cells else 41.0]]
