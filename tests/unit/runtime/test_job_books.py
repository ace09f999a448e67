"""Books of a job over all its streams, as checkpoints store them."""

import logging

import pytest

from castleguard.books import Books
from castleguard.checkpoint.store import Checkpoint
from castleguard.errors import InputError
from castleguard.runtime.reporting import JobBooks, check_rejects

NOW = Books(rows_in=6, published=4, pending=2, information_loss=0.5, open_clusters=2, threshold=0.25)
BEFORE = Books(
    rows_in=3, published=2, suppressed=1, information_loss=0.2, oldest_wait=9, open_clusters=7, threshold=0.9
)


def checkpoint(books: dict[str, object], *, ended: bool) -> Checkpoint:
    return Checkpoint(number=1, position=None, snapshot=None if ended else b"state", books=books)


def test_earlier_streams_are_added_without_their_gauges() -> None:
    job = JobBooks(checkpoint({**BEFORE.facts(), "bad": 5, "before": {}}, ended=True))
    total = job.total(NOW)
    assert (total.rows_in, total.published, total.suppressed, total.malformed) == (9, 6, 1, 5)
    assert (total.open_clusters, total.threshold, total.oldest_wait) == (2, 0.25, 9)
    assert total.information_loss == pytest.approx((4 * 0.5 + 2 * 0.2) / 6)


def test_books_of_a_running_stream_are_not_counted_twice() -> None:
    first = JobBooks(checkpoint({**BEFORE.facts(), "bad": 5, "before": {}}, ended=True))
    again = JobBooks(checkpoint(first.facts(NOW), ended=False))
    assert again.total(NOW) == first.total(NOW)
    new = JobBooks(Checkpoint(number=0, position=None, snapshot=None))
    assert new.before is None
    assert new.facts(NOW)["before"] == {}


def test_rows_rejected_before_the_start_do_not_count() -> None:
    started = Books(rows_in=100, rejected={"age: null": 100}, malformed=50)
    later = started + Books(rows_in=2000, published=2000)
    check_rejects(later, started, 0.01, at_end=False)
    with pytest.raises(InputError, match="150 of 2,150 rows were rejected"):
        check_rejects(later, Books(), 0.01, at_end=False)


def test_share_of_few_rows_is_checked_only_at_the_end() -> None:
    few = Books(rows_in=4, published=3, rejected={"age: null": 1})
    check_rejects(few, Books(), 0.1, at_end=False)
    with pytest.raises(InputError, match="The source has ended"):
        check_rejects(few, Books(), 0.1, at_end=True)


@pytest.mark.parametrize(
    ("facts", "report", "found"),
    [
        ({"bad": 2}, Books(), "all 2 rows were rejected"),
        ({"bad": 2}, Books(rows_in=1, suppressed=1), "from 1 rows"),
        ({**BEFORE.facts(), "bad": 2}, Books(), ""),
    ],
    ids=["malformed lines", "rows", "rows of a former stream"],
)
def test_empty_output_is_logged(
    facts: dict[str, object], report: Books, found: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="castleguard"):
        JobBooks(checkpoint(facts, ended=True)).warn_if_empty(report)
    assert found in caplog.text
    assert bool(caplog.messages) is bool(found)
