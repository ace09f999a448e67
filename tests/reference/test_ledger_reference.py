"""Contribution caps hold in every window."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.ledger import AlignedLedger, SlidingLedger

arrivals = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), max_size=40)  # person, time since the last row


def timed(rows: list[tuple[str, int]]) -> list[tuple[str, int]]:
    now, out = 0, []
    for person, passed in rows:
        now += passed
        out.append((person, now))
    return out


def test_a_row_counts_until_a_window_has_passed() -> None:
    ledger = SlidingLedger(1, 10)
    assert [ledger.accepts("a", at) for at in (5, 5, 14, 15, 24, 25)] == [True, False, False, True, False, True]


def test_a_refused_row_does_not_count() -> None:
    ledger = SlidingLedger(2, 10)
    assert [ledger.accepts("a", at) for at in (0, 1, 9, 10, 10, 11)] == [True, True, False, True, False, True]


def test_persons_are_counted_separately() -> None:
    ledger = SlidingLedger(1, 10)
    assert [ledger.accepts(person, 0) for person in "aba"] == [True, True, False]


def test_a_window_of_none_is_for_ever() -> None:
    ledger = SlidingLedger(2, None)
    assert [ledger.accepts("a", at) for at in (0, 1, 10**9)] == [True, True, False]


def test_a_sliding_ledger_refuses_time_that_goes_back() -> None:
    ledger = SlidingLedger(1, 10)
    ledger.accepts("a", 5)
    with pytest.raises(ValueError, match="in order of time"):
        ledger.accepts("b", 4)


def test_aligned_windows_restart_at_multiples() -> None:
    ledger = AlignedLedger(1, 10)
    assert [ledger.accepts("a", at) for at in (0, 9, 10, 10, 19, 20, -1)] == [
        True,
        False,
        True,
        False,
        False,
        True,
        True,
    ]


def test_an_aligned_window_ends_exactly() -> None:
    ledger = AlignedLedger(1, 0.1)  # as a float64, a little more than a tenth: 1.0 is still in the tenth window
    assert [ledger.accepts("a", at) for at in (0.95, 1.0, 1.01)] == [True, False, True]


@given(arrivals, st.integers(1, 3), st.integers(1, 8))
def test_no_window_anywhere_holds_more_than_the_cap(rows: list[tuple[str, int]], cap: int, window: int) -> None:
    ledger = SlidingLedger(cap, window)
    kept = [(person, at) for person, at in timed(rows) if ledger.accepts(person, at)]
    for person in "ab":
        own = [at for who, at in kept if who == person]
        assert all(own[i + cap] - own[i] >= window for i in range(len(own) - cap))


@given(arrivals, st.integers(1, 3), st.integers(1, 8))
def test_a_row_is_refused_only_if_its_window_is_full(rows: list[tuple[str, int]], cap: int, window: int) -> None:
    ledger = SlidingLedger(cap, window)
    kept: list[tuple[str, int]] = []
    for person, at in timed(rows):
        if ledger.accepts(person, at):
            kept.append((person, at))
        else:
            assert sum(who == person and at - window < when for who, when in kept) == cap


@given(arrivals, st.integers(1, 3), st.integers(1, 8))
def test_every_aligned_window_holds_the_cap_or_all_rows(rows: list[tuple[str, int]], cap: int, window: int) -> None:
    ledger = AlignedLedger(cap, window)
    came = Counter((person, at // window) for person, at in timed(rows))
    kept = Counter((person, at // window) for person, at in timed(rows) if ledger.accepts(person, at))
    assert kept == Counter({cell: min(count, cap) for cell, count in came.items()})
