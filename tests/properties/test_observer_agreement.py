"""The attack by an observer who knows release times agrees with brute force, and its certain findings are true."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.algorithms.castle.policy import Castle
from castleguard.judge.attack.observer import look_into_cells, work_out
from castleguard.judge.publishing import Timed, publish_timed, quiet
from tests.properties.observed import SCHEMA, Publication, Row, publications, rows, table_of
from tests.properties.streams import examples
from tests.reference import observer as slow

COLUMNS = range(2)


def check_agreement(one: Publication) -> None:
    left, arrived = one.left, one.arrived
    cells = look_into_cells(one.seen)
    assert cells.persons.tolist() == slow.persons_in_cell(left, arrived)
    assert cells.share == pytest.approx([float(share) for share in slow.largest_share(left, arrived)])
    for column in COLUMNS:
        found = cells.values[column]
        tops = slow.top_share(left, column)
        assert found.top == pytest.approx([float(share) for share in tops])
        assert found.certain.tolist() == [share == 1 for share in tops]
        assert (found.kept, found.pinned) == slow.kept_and_pinned(left, arrived, column)
    for delay in (one.delay, None):
        worked_out, by_hand = work_out(one.seen, delay), slow.work_out(left, one.moments, arrived, delay)
        candidates = [by_hand.candidates[each.release, each.box] for each in left]
        assert worked_out.candidates.tolist() == [len(found) for found in candidates]
        persons = [len({arrived[row].person for row in found} - {None}) for found in candidates]
        assert worked_out.persons.tolist() == persons
        assert worked_out.solved.tolist() == [(each.release, each.box) in by_hand.solved for each in left]
        for column in COLUMNS:
            learnt = slow.learnt(left, by_hand, column)
            assert worked_out.learnt[column].tolist() == [each.row in learnt for each in left]


def check_truth(one: Publication) -> None:
    """Check that the rows of a cell are among its candidates, and that those of a solved cell are all of them."""
    left = one.left
    by_hand = slow.work_out(left, one.moments, one.arrived, one.delay)
    for cell, members in slow.cells_of(left).items():
        own = {each.row for each in members}
        assert own <= by_hand.candidates[cell]
        assert cell not in by_hand.solved or own == by_hand.candidates[cell]


@examples(4)
@given(publications())
def test_the_attack_agrees_with_the_reference_on_any_publication(one: Publication) -> None:
    check_agreement(one)
    check_truth(one)


def publication(arrived: list[Row], policy: Castle, timed: Timed) -> Publication:
    """Publication of a stream, with the moments of its releases."""
    place = {int(row): at for at, row in enumerate(timed.accepted)}
    moments = [
        slow.Moment(int(moment), None if ended else int(moment) - 1 - policy.delay)
        for moment, ended in zip(timed.arrived, timed.at_end, strict=True)
    ]
    return Publication(
        rows=[arrived[row] for row in timed.accepted],
        published=timed.published,
        row=[place[int(row)] for row in timed.row],
        release=timed.release.tolist(),
        moments=moments,
        delay=policy.delay,
    )


POLICIES = st.builds(
    Castle,
    k=st.integers(2, 3),
    delay=st.integers(3, 9),
    max_clusters=st.integers(1, 4),
    reuse=st.sampled_from(["paper", "off"]),
    l=st.integers(1, 2),
)


@examples(2)
@given(rows(persons=12), POLICIES, st.integers(0, 5))
def test_the_attack_agrees_with_the_reference_on_castle(arrived: list[Row], policy: Castle, seed: int) -> None:
    with quiet():
        one = publication(arrived, policy, publish_timed(SCHEMA, policy, table_of(arrived), seed=seed))
    check_agreement(one)
    check_truth(one)
    if policy.reuse == "off":
        cells = look_into_cells(one.seen)
        assert (cells.persons >= policy.k).all()
        assert policy.l == 1 or not any(found.certain.any() for found in cells.values)


@examples(2)
@given(rows(persons=12), POLICIES, st.integers(0, 5), st.integers(2, 30))
def test_moments_do_not_depend_on_the_size_of_slices(arrived: list[Row], policy: Castle, seed: int, step: int) -> None:
    table = table_of(arrived)
    with quiet():
        one, many = (publish_timed(SCHEMA, policy, table, seed=seed, step=rows) for rows in (1, step))
    assert one.published.equals(many.published)
    for name in ("row", "release", "arrived", "at_end", "accepted"):
        assert np.array_equal(getattr(one, name), getattr(many, name)), name


@given(rows(persons=12), POLICIES, st.integers(0, 5))
def test_rows_in_input_order_leave_when_they_are_handed_out(arrived: list[Row], policy: Castle, seed: int) -> None:
    in_order = replace(policy, order="input")
    with quiet():
        timed = publish_timed(SCHEMA, in_order, table_of(arrived), seed=seed)
    place = {int(row): at for at, row in enumerate(timed.accepted)}
    places = [place[int(row)] for row in timed.row]
    assert places == sorted(places)
    assert all(at < timed.arrived[release] for at, release in zip(places, timed.release, strict=True))
