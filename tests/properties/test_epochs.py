"""Cutting a stream into epochs does not change which rows of a person are admitted."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import given

import castleguard as cg
from castleguard.algorithms.policy import Policy

SCHEMA = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)])


def castleguard(rows: int, window: float | None, unit: Any) -> Policy:
    return cg.Castleguard(k=2, delay=4, epsilon=1.0, rows_per_person=rows, window=window, window_unit=unit)


POLICIES = st.one_of(
    st.builds(castleguard, st.integers(1, 3), st.none() | st.integers(1, 12), st.sampled_from(["rows", "seconds"])),
    st.builds(lambda window: cg.Sdgs(k=2, sample_rate=0.5, epsilon=1.0, window=window), st.integers(2, 12)),
    st.builds(
        lambda window: cg.Sdgs(k=2, sample_rate=0.5, epsilon=1.0, window=window, window_unit="rows"), st.integers(2, 12)
    ),
    st.builds(
        lambda delay, rows: cg.Doca(k=2, delay=delay, epsilon=1.0, rows_per_person=rows),
        st.integers(2, 12),
        st.integers(1, 3),
    ),
    st.builds(
        lambda delay, rows: cg.Doca(mode="paper", delay=delay, epsilon=1.0, rows_per_person=rows),
        st.integers(2, 12),
        st.integers(1, 3),
    ),
)
BATCHES = st.lists(
    st.tuples(st.lists(st.integers(0, 4), max_size=6), st.integers(0, 5), st.booleans()), min_size=1, max_size=10
)
"""Persons of one batch, seconds before it, and whether the epoch ends after it."""


@given(policy=POLICIES, batches=BATCHES)
def test_the_same_rows_are_over_budget_in_one_epoch_or_in_many(
    policy: Policy, batches: list[tuple[list[int], int, bool]]
) -> None:
    whole, part = cg.Anonymiser(SCHEMA, policy), cg.Anonymiser(SCHEMA, policy)
    now, before = 1000.0, 0
    for persons, seconds, ends in batches:
        now += seconds
        rows = [{"pid": person, "age": 10 * person} for person in persons]
        for stream in (whole, part):
            stream.push(rows, now=now)
        assert before + part.report().over_budget == whole.report().over_budget
        if ends:
            part.flush()
            before += part.report().over_budget
            assert part.report().gate_refused == 0
            carried = part.carry()
            assert carried is not None
            part = cg.Anonymiser(SCHEMA, policy)
            assert part.take_over(carried) == []
    part.flush()
    assert part.report().pending == 0
    assert part.report().gate_refused == 0
