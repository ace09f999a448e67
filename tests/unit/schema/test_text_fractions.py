"""Fractions that arrive as text are refused as sensitive values to be counted, like those that arrive as floats."""

import numpy as np
import pyarrow as pa
import pytest

from castleguard.errors import SchemaError
from castleguard.schema.decode import Decoder
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.sensitive import Sensitive

KEY = np.arange(2, dtype=np.uint64)


def decode(values: list[str | None], *, bins: list[int] | None = None) -> int:
    schema = Schema(
        person=None,
        quasi_identifiers=[Numeric("age", lower=0, upper=100)],
        sensitive=[Sensitive("fare", bins=bins)],
    )
    table = pa.table({"age": pa.array([30] * len(values)), "fare": pa.array(values, pa.string())})
    return int(Decoder(schema, key=KEY, needs_bins=True).decode(table).rows.person.size)


@pytest.mark.parametrize("values", [["10.00", "10.01"], ["3", None, " 2.5 "], ["1e3", "-.5"]])
def test_fractions_as_text_need_bins(values: list[str | None]) -> None:
    with pytest.raises(SchemaError, match="give bins"):
        decode(values)
    assert decode(values, bins=[5]) == len(values)


@pytest.mark.parametrize("values", [["10", "11"], ["10.0", "11.00"], ["flu", "1.5"], [None, None], []])
def test_whole_numbers_and_words_as_text_are_counted_as_they_are(values: list[str | None]) -> None:
    assert decode(values) == len(values)
