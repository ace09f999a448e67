"""Delays and throughput of a scripted stream, computed by hand, and of a real one."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.algorithms.castle.policy import Castle
from castleguard.errors import InputError, PolicyError
from castleguard.judge.measure.tempo import Tempo, distribution, measure_tempo
from castleguard.schema.roles import Numeric, Schema
from castleguard.stream import Anonymiser
from castleguard.testing.manual_clock import ManualClock


class Scripted:
    """Stream that publishes scripted rows call by call; pushes take the given seconds, the flush takes one."""

    def __init__(self, clock: ManualClock, script: list[list[int]], seconds: list[float]) -> None:
        self._clock, self._script, self._seconds = clock, list(script), list(seconds)

    def push(self, batch: object, now: float | None = None) -> pa.Table:
        assert now == self._clock.elapsed()
        self._clock.advance(self._seconds.pop(0))
        return self.flush(0.0)

    def flush(self, seconds: float = 1.0) -> pa.Table:
        self._clock.advance(seconds)
        return pa.table({"row": pa.array(self._script.pop(0), pa.int64())})


def run(script: list[list[int]], seconds: list[float], *, rows: int = 5, batch_rows: int = 2) -> Tempo:
    clock = ManualClock()
    table = pa.table({"row": list(range(rows))})
    return measure_tempo(Scripted(clock, script, seconds), table, by="row", batch_rows=batch_rows, clock=clock)


def test_delays_are_arrivals_and_seconds_between_push_and_publication() -> None:
    # Pushed: rows 0 1 (at 0 s, takes 1 s), rows 2 3 (at 1 s, takes 4 s), row 4 (at 5 s, takes 2 s), end (at 7 s, 1 s).
    # Published: 1 by the first push, 0 and 3 by the second, nothing by the third, 2 and 4 at the end.
    tempo = run([[1], [3, 0], [], [4, 2]], [1.0, 4.0, 2.0])
    assert tempo.delays.tolist() == [0, 0, 3, 0, 2]
    assert tempo.arrivals == (5, 1.0, 0.0, 0.0, 3.0, 3.0, 3.0)
    # Row 1: 1 s. Row 3: from 1 to 5. Row 0: from 0 to 5. Row 4: from 5 to 8. Row 2: from 1 to 8.
    assert tempo.waiting == (5, 4.0, 1.0, 4.0, 7.0, 7.0, 7.0)
    # 2 rows in 1 s, 2 in 4 s, 1 in 2 s.
    assert tempo.throughput == (3, 1.0, 0.5, 0.5, 2.0, 2.0, 2.0)
    assert (tempo.rows, tempo.published, tempo.at_end) == (5, 5, 2)
    assert tempo.seconds == 8.0
    assert tempo.rows_per_second == 5 / 8


def test_rows_that_are_never_published_have_no_delay() -> None:
    tempo = run([[], [], [], [4]], [1.0, 1.0, 1.0])
    assert (tempo.published, tempo.at_end) == (1, 1)
    assert tempo.arrivals.largest == 0
    nothing = run([[], [], [], []], [1.0, 1.0, 1.0])
    assert nothing.arrivals.size == 0
    assert math.isnan(nothing.arrivals.p99)


def test_rows_of_another_table_are_left_out() -> None:
    assert run([[77], [1], [], [78]], [1.0, 1.0, 1.0]).delays.tolist() == [2]


def test_batch_that_the_clock_cannot_see_has_no_throughput() -> None:
    assert run([[], [], [], []], [0.0, 1.0, 0.0]).throughput.size == 1


def test_table_without_rows_is_refused() -> None:
    with pytest.raises(InputError, match="no rows"):
        run([[]], [], rows=0)
    with pytest.raises(PolicyError, match="batch_rows"):
        run([[]], [], batch_rows=0)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_percentile_is_the_smallest_number_that_so_many_do_not_exceed(values: list[int]) -> None:
    found = distribution(values)
    for share, number in ((50, found.p50), (90, found.p90), (99, found.p99)):
        assert number in values
        assert 100 * sum(value <= number for value in values) >= share * len(values)
        assert 100 * sum(value < number for value in values) < share * len(values)
    assert (found.smallest, found.largest, found.size) == (min(values), max(values), len(values))
    assert found.mean == pytest.approx(sum(values) / len(values))


def test_no_row_of_a_stream_waits_longer_than_its_delay_allows() -> None:
    schema = Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=100, step=5)], public=["row"])
    ages = np.random.default_rng(1).integers(0, 100, 120)
    table = pa.table({"row": range(120), "age": ages})
    stream = Anonymiser(schema, Castle(k=5, delay=40), seed=1)
    tempo = measure_tempo(stream, table, by="row", batch_rows=1)
    assert tempo.published == stream.report().published > 110
    assert 0 < tempo.arrivals.p50 <= tempo.arrivals.largest <= 40
    assert 0 < tempo.waiting.p50 <= tempo.seconds
    coarse = measure_tempo(Anonymiser(schema, Castle(k=5, delay=40), seed=1), table, by="row", batch_rows=30)
    assert tempo.arrivals.largest <= coarse.arrivals.largest <= 40 + 29
