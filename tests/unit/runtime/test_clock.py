"""A stream's time never goes back, never outruns elapsed time, and never stands still."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.runtime.clock import StreamTime, WallClock
from castleguard.testing.manual_clock import ManualClock

START = 1_000_000.0
YEARS = 74 * 365 * 86400.0


def test_new_stream_has_the_time_of_the_clock() -> None:
    clock = ManualClock(START)
    time = StreamTime(clock, -math.inf)
    assert time.now() == START
    clock.advance(7.0)
    assert time.now() == START + 7.0


def test_time_passes_while_the_clock_is_behind(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(START)
    time = StreamTime(clock, START + YEARS)
    assert "the clock is 27,010 days behind" in caplog.text
    clock.advance(7.0)
    assert time.now() == START + YEARS + 7.0


def test_setting_the_clock_back_does_not_stop_the_time() -> None:
    clock = ManualClock(START)
    time = StreamTime(clock, -math.inf)
    clock.set(START - 3600.0)
    clock.advance(7.0)
    assert time.now() == START + 7.0


def test_clock_that_jumps_to_the_right_time_adds_no_elapsed_time() -> None:
    """A machine may boot in 1970 and set its clock later: the jump must not count as elapsed time."""
    clock = ManualClock(0.0)
    time = StreamTime(clock, START)
    clock.advance(5.0)
    assert time.now() == START + 5.0
    clock.set(START + 20.0)
    assert time.now() == START + 20.0


def test_clock_that_jumps_closer_adds_no_elapsed_time() -> None:
    clock = ManualClock(0.0)
    time = StreamTime(clock, START + YEARS)
    clock.set(START)
    clock.advance(5.0)
    assert time.now() == START + YEARS + 5.0


def test_warning_is_repeated_only_after_the_clock_was_right(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(START)
    time = StreamTime(clock, START + 61.0)
    for _ in range(3):
        clock.advance(1.0)
        time.now()
    assert len(caplog.records) == 1
    clock.set(START + 100.0)
    time.now()
    clock.set(START)
    time.now()
    assert len(caplog.records) == 2


def test_lag_of_a_minute_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    StreamTime(ManualClock(START), START + 60.0)
    assert not caplog.records


@given(
    st.floats(-1e9, 1e9),
    st.lists(st.tuples(st.floats(0.0, 1e4), st.none() | st.floats(-1e9, 1e9)), max_size=20),
)
def test_time_never_goes_back_and_never_outruns_clock_and_elapsed_time(
    latest: float, steps: list[tuple[float, float | None]]
) -> None:
    clock = ManualClock(0.0)
    time = StreamTime(clock, latest)
    before = time.now()
    for passed, shown in steps:
        clock.advance(passed)
        if shown is not None:
            clock.set(shown)
        now = time.now()
        assert now >= before + passed - 1e-3
        assert now <= max(clock.now(), before + passed) + 1e-3
        before = now


def test_wall_clock_runs() -> None:
    clock = WallClock()
    before = clock.now(), clock.elapsed()
    clock.sleep(0.01)
    assert clock.now() > before[0]
    assert clock.elapsed() >= before[1] + 0.005
