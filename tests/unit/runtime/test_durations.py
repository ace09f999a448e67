"""Parsing of durations."""

import pytest

from castleguard.runtime.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("5m", 300), ("2h", 7200), ("1d", 86400), ("1.5 h", 5400), ("7", 7), (7, 7)],
)  # fmt: skip
def test_units_are_converted_to_seconds(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


def test_integer_stays_an_integer() -> None:
    assert isinstance(parse_duration(10), int)


@pytest.mark.parametrize(
    "wrong", ["", "s", "5 weeks", "-5s", "5s5", "5e3s", "٣s", "1" * 200, True, None, -1, float("nan"), float("inf"), []]
)
def test_invalid_duration_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="must be a duration such as"):
        parse_duration(wrong)
