"""Books balance or raise, add up, and round-trip as JSON."""

import json
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import castleguard as cg
from castleguard.books import OUTCOMES, Books, Tally

_COUNT = st.integers(0, 9)


@st.composite
def books(draw: st.DrawFn) -> Books:
    """Balanced books."""
    counts: dict[str, Any] = {name: draw(_COUNT) for name in (*OUTCOMES, "pending")}
    rejected = draw(st.dictionaries(st.sampled_from(["age: null", "job: unknown"]), _COUNT))
    more: dict[str, Any] = {
        name: draw(_COUNT) for name in ("received", "groups", "oldest_wait", "open_clusters", "malformed")
    }
    rows = counts["published"] + more["received"]
    return Books(
        **counts,
        **more,
        rows_in=sum(counts.values()) + sum(rejected.values()),
        rejected=rejected,
        information_loss=draw(st.floats(0, 1)) if rows else None,
        threshold=draw(st.floats(0, 1)),
    )


def test_balanced_books_are_accepted() -> None:
    rejected = {"age: null": 2}
    found = Books(rows_in=10, published=4, suppressed=1, sampled_out=1, over_budget=1, rejected=rejected, pending=1)
    assert found.rows_in == 10
    assert found.information_loss is None


@pytest.mark.parametrize("published", [3, 5])
def test_lost_or_doubled_row_raises(published: int) -> None:
    with pytest.raises(AssertionError, match="5 rows came in"):
        Books(rows_in=5, published=published, suppressed=0, rejected={"age: null": 1})


@given(st.lists(books(), min_size=1, max_size=4))
def test_total_equals_repeated_addition(every: list[Books]) -> None:
    one_by_one, at_once = reduce(add, every), Books.total(every)
    if at_once.information_loss is not None:
        assert one_by_one.information_loss == pytest.approx(at_once.information_loss)
    assert replace(one_by_one, information_loss=None) == replace(at_once, information_loss=None)
    assert at_once.rows_in == sum(one.rows_in for one in every)
    assert at_once.malformed == sum(one.malformed for one in every)
    assert at_once.oldest_wait == max(one.oldest_wait for one in every)


def test_loss_is_averaged_over_published_rows() -> None:
    few = Books(rows_in=1, published=1, received=1, information_loss=0.8)
    many = Books(rows_in=6, published=6, information_loss=0.4)
    assert (few + many).information_loss == pytest.approx((2 * 0.8 + 6 * 0.4) / 8)
    assert (few + Books(rows_in=3, pending=3)).information_loss == pytest.approx(0.8)
    assert Books.total([]) == Books()


@given(books())
def test_books_round_trip_as_json(found: Books) -> None:
    assert Books.load(json.loads(json.dumps(found.facts()))) == replace(found, malformed=0)


def test_books_of_an_earlier_version_with_fewer_counts_are_read() -> None:
    facts = {"rows_in": 3, "published": 2, "suppressed": 1, "rejected": {}, "bad": 4, "before": {}}
    assert Books.load(facts) == Books(rows_in=3, published=2, suppressed=1)


def test_tally_is_restored_from_its_facts() -> None:
    tally = Tally()
    tally.published, tally.longest_wait, tally.loss = 3, 5, 1.5
    tally.enter(4, 0, 0, {"age: null": 1}, {"age": 2})
    tally.enter(1, 1, 0, {}, {"age": 1})
    again = Tally()
    again.restore(json.loads(json.dumps(tally.facts())))
    assert vars(again) == vars(tally)
    found = again.books(pending=0, waiting=2, open_clusters=1, threshold=0.5)
    assert (found.rows_in, found.over_budget, found.rejected, found.clamped) == (5, 1, {"age: null": 1}, {"age": 3})
    assert (found.information_loss, found.oldest_wait, found.open_clusters) == (0.5, 5, 1)


def test_report_is_the_public_name_of_books() -> None:
    assert cg.Report is Books
