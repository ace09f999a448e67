"""Every batch is validated before its values are used; an odd value of one row does not count as damage."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.errors import InputError
from castleguard.intact import is_intact, validated

SCHEMA = cg.Schema(
    person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=10)], public=["note"]
)  # fmt: skip


def _text(offsets: list[int]) -> pa.Array:
    """Text "a", "b" whose offsets are damaged after Arrow has validated them."""
    good = np.array([0, 1, 2], np.int32)
    array = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(good), pa.py_buffer(b"ab")])
    good[:] = offsets
    return array


def _list(offsets: list[int]) -> pa.Array:
    good = np.array([0, 1, 2], np.int32)
    kind = pa.list_(pa.int64())
    array = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(good)], children=[pa.array([1, 2])])
    good[:] = offsets
    return array


def _codes(codes: list[int]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(["a", "b"]), safe=False)


DAMAGED = {
    "an offset beyond the text": _text([0, 9999, 2]),
    "offsets that go back": _text([0, 2, 1]),
    "an offset below zero": _text([0, -5, 1]),
    "a code without a value": _codes([0, 77]),
    "a code below zero": _codes([0, -3]),
    "a list beyond its values": _list([0, 50, 2]),
    "text within a struct": pa.StructArray.from_arrays([_text([0, 9999, 2])], ["a"]),
}


@pytest.mark.parametrize("column", DAMAGED.values(), ids=DAMAGED)
def test_damaged_batch_is_refused_before_its_values_are_read(column: pa.Array) -> None:
    table = pa.table({"pid": [1, 2], "age": [1, 2], "note": column})
    with pytest.raises(InputError, match=r"the batch is damaged: column 'note'"):
        cg.Anonymiser(SCHEMA, cg.Castle(k=2, delay=3)).push(table)
    with pytest.raises(InputError, match="damaged"):
        cg.Randomiser(SCHEMA, epsilon=1.0).randomise(table)


@pytest.mark.parametrize("column", DAMAGED.values(), ids=DAMAGED)
def test_damaged_person_or_quasi_identifier_is_refused(column: pa.Array) -> None:
    for name in ("pid", "age"):
        columns: dict[str, Any] = {"pid": [1, 2], "age": [1, 2], "note": ["x", "y"], name: column}
        with pytest.raises(InputError, match="is damaged"):
            cg.Anonymiser(SCHEMA, cg.Castle(k=2, delay=3)).push(pa.table(columns))


@pytest.mark.parametrize("column", DAMAGED.values(), ids=DAMAGED)
def test_damaged_column_that_is_not_declared_is_not_read(column: pa.Array) -> None:
    table = pa.table({"pid": [1, 2], "age": [1, 2], "note": ["x", "y"], "other": column})
    cg.Anonymiser(SCHEMA, cg.Castle(k=2, delay=3)).push(table)


LATIN = pa.array([b"gr\xfc\xdfe", b"a"]).view(pa.string())
ODD = {
    "Latin-1": LATIN,
    "Latin-1 in a dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), LATIN),
    "Latin-1 in a list": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), LATIN),
    "Latin-1 in a map": pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["x", "y"]), LATIN),
    "a date with a time of day": pa.array([1, 0], pa.int64()).view(pa.date64()),
    "a time of day beyond midnight": pa.array([86400, 0], pa.int32()).view(pa.time32("s")),
    "too many digits": pa.array([Decimal(12345), Decimal(1)], pa.decimal128(5)).view(pa.binary(16)).view(
        pa.decimal128(2)
    ),
    "a time without a year": pa.array([2**62, 0]).view(pa.timestamp("s")),
}  # fmt: skip


@pytest.mark.parametrize("column", ODD.values(), ids=ODD)
def test_odd_value_rejects_only_its_row(column: pa.Array) -> None:
    assert is_intact(column)
    stream = cg.Anonymiser(SCHEMA, cg.Castle(k=2, delay=3))
    stream.push(pa.table({"pid": [1, 2], "age": [1, 2], "note": column}))
    assert stream.rejected() == [(0, "note: unpublishable")]
    assert stream.report().rejected == {"note: unpublishable": 1}


@pytest.mark.parametrize("column", ODD.values(), ids=ODD)
def test_randomiser_keeps_the_row_and_drops_the_odd_value(column: pa.Array) -> None:
    noisy = cg.Randomiser(SCHEMA, epsilon=1.0).randomise(pa.table({"pid": [1, 2], "age": [1, 2], "note": column}))
    assert noisy.column("note").is_null().to_pylist() == [True, False]
    noisy.validate(full=True)


def test_unpublishable_sensitive_value_rejects_its_row() -> None:
    schema = cg.Schema(
        person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=10)], sensitive=["ill"]
    )
    stream = cg.Anonymiser(schema, cg.Castle(k=2, delay=3))
    stream.push(pa.table({"pid": [1, 2], "age": [1, 2], "ill": LATIN}))
    assert stream.rejected() == [(0, "ill: unpublishable")]


def test_excessive_number_of_rows_without_size_is_refused() -> None:
    batch = pa.table({"a": pa.nulls(1 << 30)})
    with pytest.raises(InputError, match="its row count exceeds its size"):
        validated(batch, "data.arrow")


def test_dates_of_the_whole_calendar_can_be_published() -> None:
    stream = cg.Anonymiser(SCHEMA, cg.Castle(k=2, delay=3))
    days = pa.array([dt.date(1, 1, 2), dt.date(9999, 12, 30)])
    stream.push(pa.table({"pid": [1, 2], "age": [1, 2], "note": days}))
    assert not stream.rejected()
