"""A stream that published nothing logs a warning with the reason."""

import logging
from dataclasses import replace

import pytest

import castleguard as cg
from castleguard.books import Report
from castleguard.release.emptiness import empty_output

SCHEMA = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)])
POLICY = cg.Castle(k=5, delay=10)


def report(**counts: object) -> Report:
    return Report(**{"published": 0, "suppressed": 0, **counts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("books", "malformed", "found"),
    [
        (report(rows_in=0), 0, "no rows were read"),
        (report(rows_in=0), 7, r"all 7 rows were rejected \(malformed line 7\)"),
        (report(rows_in=3, rejected={"age: not a number": 3}), 0, r"all 3 rows were rejected \(age: not a number 3\)"),
        (report(rows_in=3, rejected={"age: null": 3}), 2, "all 5 rows were rejected"),
        (report(rows_in=4, suppressed=4, gate_refused=4), 0, "the gate refused all 4 rows"),
        (report(rows_in=4, suppressed=4, gate_refused=1), 0, r"from 4 rows \(4 suppressed\): no group had enough"),
        (report(rows_in=4, suppressed=1, sampled_out=3), 0, r"1 suppressed, 3 sampled out"),
        (report(rows_in=9, over_budget=9), 0, r"\(9 over budget\)"),
    ],
)
def test_the_reason_is_named(books: Report, malformed: int, found: str) -> None:
    reason = empty_output(replace(books, malformed=malformed))
    assert reason is not None
    assert "nothing was published" in reason
    assert "\n" not in reason
    with pytest.raises(AssertionError, match=found):
        raise AssertionError(reason)


@pytest.mark.parametrize(
    "books",
    [
        report(rows_in=3, published=1, suppressed=2),
        report(rows_in=3, pending=3),
        report(rows_in=0, received=2),
        report(rows_in=2, handed_over=2),
    ],
)
def test_no_reason_is_given_if_rows_were_published_or_are_pending(books: Report) -> None:
    assert empty_output(replace(books, malformed=5)) is None


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if "nothing was published" in line]


def test_an_empty_output_is_logged_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="castleguard"):
        assert cg.anonymise([{"pid": 1, "age": 30}], SCHEMA, POLICY).num_rows == 0
        assert cg.anonymise([{"pid": 1, "age": "old"}], SCHEMA, POLICY).num_rows == 0
        paper = cg.Castle(k=5, delay=10, mode="paper")
        cg.anonymise([{"pid": at % 4, "age": at} for at in range(20)], SCHEMA, paper)
    suppressed, rejected, refused = warnings_of(caplog)
    assert "no group had enough persons" in suppressed
    assert "all 1 rows were rejected" in rejected
    assert "the gate refused all 20 rows" in refused


def test_no_warning_is_logged_if_rows_were_published_or_none_came_in(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="castleguard"):
        cg.anonymise([{"pid": at, "age": at} for at in range(20)], SCHEMA, POLICY)
        cg.Anonymiser(SCHEMA, POLICY).flush()
        stream = cg.Anonymiser(SCHEMA, POLICY)
        stream.push([{"pid": 1, "age": 30}])
        stream.flush(warn=False)
    assert warnings_of(caplog) == []
