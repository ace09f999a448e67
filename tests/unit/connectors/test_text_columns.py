"""Columns as text: rendering by look-up equals a plain cast."""

import pyarrow as pa
import pytest

from castleguard.connectors.text_columns import as_text

COLUMNS = {
    "narrow integers": pa.array([5, 3, None, 3, -2] * 10),
    "wide integers": pa.array([5, 2**62, None]),
    "small integers": pa.array([-128, 127, None] * 100, pa.int8()),
    "no integers": pa.array([None, None], pa.int64()),
    "unsigned integers": pa.array([2**64 - 1, 0], pa.uint64()),
    "repeated floats": pa.array([0.1, 0.30000000000000004, None, 3.0] * 10),
    "distinct floats": pa.array([0.1, 1e300, float("nan")]),
    "dates": pa.array([0, 20000, None] * 5, pa.date32()),
    "booleans": pa.array([True, False, None]),
    "texts": pa.array(["a", None, ""]),
    "empty": pa.array([], pa.float64()),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("chunks", [1, 2])
def test_look_up_equals_a_cast(name: str, chunks: int) -> None:
    column = pa.chunked_array([COLUMNS[name]] * chunks)
    assert as_text(column).to_pylist() == column.cast(pa.string()).to_pylist()


def test_dictionary_is_read_as_its_values() -> None:
    assert as_text(pa.chunked_array([pa.array([3, 4, 3]).dictionary_encode()])).to_pylist() == ["3", "4", "3"]


@pytest.mark.parametrize("count", [1, 10])
def test_time_has_no_zero_fraction(count: int) -> None:
    times = pa.array([0, 1_500_000, None] * count, pa.timestamp("us"))
    assert as_text(times).to_pylist() == ["1970-01-01 00:00:00", "1970-01-01 00:00:01.500000", None] * count
    zoned = as_text(pa.array([0] * count, pa.timestamp("ms", "UTC"))).to_pylist()
    assert zoned == ["1970-01-01 00:00:00Z"] * count
