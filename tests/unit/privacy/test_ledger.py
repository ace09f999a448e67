"""The ledger admits the rows of its definition, in any batches, with a snapshot at any row."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.privacy.ledger import Ledger
from tests.reference.ledger import AlignedLedger, SlidingLedger

Row = tuple[int, int]  # person, time since the row before


@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=120),
    most=st.integers(1, 3),
    window=st.sampled_from([1.0, 2.0, 5.0, 40.0, math.inf]),
    aligned=st.booleans(),
    batch=st.integers(1, 50),
    cut=st.integers(0, 5),
)
def test_admitted_rows_are_those_of_the_definition(
    rows: list[Row], most: int, window: float, aligned: bool, batch: int, cut: int
) -> None:
    aligned = aligned and window < math.inf
    person = np.array([who for who, _ in rows], dtype=np.uint64)
    when = np.cumsum([wait for _, wait in rows], dtype=np.float64)
    ledger = Ledger(rows_per_person=most, window=window, aligned=aligned)
    admitted: list[bool] = []
    for number, at in enumerate(range(0, len(rows), batch)):
        if number == cut:
            copy = ledger.snapshot()
            ledger = Ledger(rows_per_person=most, window=window, aligned=aligned)
            ledger.restore(copy)
        admitted += ledger.admit(person[at : at + batch], when[at : at + batch]).tolist()
    twin: AlignedLedger | SlidingLedger
    twin = AlignedLedger(most, window) if aligned else SlidingLedger(most, None if window == math.inf else window)
    assert admitted == [twin.accepts(int(who), float(at)) for who, at in zip(person, when, strict=True)]


@pytest.mark.parametrize("window", [10.0, math.inf])
def test_memory_grows_with_the_rows_of_a_window_only(window: float) -> None:
    ledger = Ledger(rows_per_person=2, window=window)
    sizes = []
    for at in range(0, 2000, 100):
        ledger.admit(np.arange(at, at + 100, dtype=np.uint64), np.arange(at, at + 100, dtype=np.float64))
        sizes.append(ledger.snapshot()["table"].shape[0])
    assert sizes[-1] == (10 if window == 10.0 else 2000)
    assert ledger._books.person.size <= 400
