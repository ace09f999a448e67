"""The books: they balance, or they are not shown."""

import pytest

from castleguard.books import Report


def test_balanced_books_are_shown() -> None:
    rejected = {"age: null": 2}
    report = Report(rows_in=10, published=4, suppressed=1, sampled_out=1, over_budget=1, rejected=rejected, pending=1)
    assert report.rows_in == 10
    assert report.information_loss is None


@pytest.mark.parametrize("published", [3, 5])
def test_a_lost_or_doubled_row_is_no_number(published: int) -> None:
    with pytest.raises(AssertionError, match="5 rows came in"):
        Report(rows_in=5, published=published, suppressed=0, rejected={"age: null": 1})
