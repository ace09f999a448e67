"""Rows that repeat are rendered once; the bytes are those of rendering every row."""

import datetime as dt
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from castleguard.connectors import csv, repeated_rows
from castleguard.connectors.csv_options import CsvOutput

ROWS = 4096
GROUPS = 40


def groups(**payload: pa.Array) -> pa.Table:
    """Boxes of all kinds of columns, 40 of them, and a payload."""
    group = np.random.default_rng(1).integers(0, GROUPS, ROWS)
    day = dt.date(2020, 1, 1)
    boxes = {
        "age_min": pa.array(group % 7),
        "age_max": pa.array((group * 3).astype(np.float64) / 2 - 1),
        "since": pa.array([day + dt.timedelta(days=int(at)) for at in group]),
        "town": pa.array([("Rome", 'the "Hague"', "Paris, France", "=1")[at % 4] for at in group]),
        "at": pa.array(group.astype("datetime64[us]")),
    }
    return pa.table(boxes | payload)


def payloads() -> list[dict[str, pa.Array]]:
    random = np.random.default_rng(2)
    many = random.integers(0, 2**40, ROWS)
    texts = [f"{number}, {number % 7}" for number in many]
    some = [None if number % 5 == 0 else number % 3 for number in many.tolist()]
    return [
        {},
        {"many": pa.array(many)},
        {"text": pa.array(texts)},
        {"few": pa.array(some), "long": pa.array(texts, pa.large_string()), "yes": pa.array(many % 2 == 0)},
        {"code": pa.array(many % 3), "many": pa.array(random.random(ROWS)), "other": pa.array(many % 2)},
    ]


@pytest.mark.parametrize("payload", payloads(), ids=lambda payload: "+".join(payload) or "none")
@pytest.mark.parametrize("formulas", ["keep", "escape"])
def test_bytes_are_those_of_every_row_by_itself(payload: dict[str, pa.Array], formulas: str) -> None:
    table, options = groups(**payload), CsvOutput(formulas=formulas)  # type: ignore[arg-type]
    assert repeated_rows.find_repeated(table) is not None
    found = csv.render(table, options).to_pybytes()
    with mock.patch.object(csv, "find_repeated", return_value=None):
        assert found == csv.render(table, options).to_pybytes()
    assert found == b"".join(bytes(csv.render(table.slice(at, 500), options)) for at in range(0, ROWS, 500))


def test_all_boxes_repeat_beside_a_payload_that_does_not() -> None:
    found = repeated_rows.find_repeated(groups(many=pa.array(np.arange(ROWS))))
    assert found is not None
    assert found.columns == {0, 1, 2, 3, 4}
    assert len(found.first) == GROUPS


def test_rows_that_hardly_repeat_are_not_looked_up() -> None:
    assert repeated_rows.find_repeated(pa.table({"a": np.arange(ROWS), "b": np.arange(ROWS) * 0.5})) is None
    assert repeated_rows.find_repeated(groups().slice(0, 100)) is None


@pytest.mark.parametrize("factor", [0, 1, 2**63])
def test_different_rows_never_share_their_text(factor: int) -> None:
    """Even where many different rows are mixed into one number."""
    table = groups()
    expected = csv.render(table).to_pybytes()
    with mock.patch.object(repeated_rows, "_ODD", np.uint64(factor)):
        assert csv.render(table).to_pybytes() == expected
