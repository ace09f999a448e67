"""Power-on hours: the credible values."""

from pathlib import Path

import pytest

from castleguard.lab import backblaze
from castleguard.schema.roles import Numeric


def test_impossible_hours_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(f"2013-04-10,S{hours},M,{hours}\n" for hours in (9, 66_413, 66_414, 255_111, 7))
    content = f"date,serial_number,model,smart_9_raw\n{lines}".encode()
    assert backblaze.credible(content).tolist() == [9, 66_413, 7]
    monkeypatch.setattr(backblaze, "read", lambda file: content)
    assert backblaze.hours().tolist() == [9, 66_413, 7]


def test_row_number_is_published_only_on_request() -> None:
    assert backblaze.schema(numbered=True).public == ("row",)
    plain = backblaze.schema(numbered=False)
    assert plain.public == ()
    assert plain.person is None
    (hours,) = plain.quasi_identifiers
    assert isinstance(hours, Numeric)
    assert hours.domain == backblaze.DOMAIN
    assert hours.step == 1


def test_the_real_file_has_the_values_that_are_named_in_the_pages(data_folder: Path) -> None:
    values = backblaze.hours()
    assert (values.size, values.min(), values.max()) == (868_484, *backblaze.DOMAIN)
