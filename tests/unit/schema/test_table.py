"""Tables from all accepted inputs, and the effect of one odd value on its column."""

import datetime as dt
import subprocess
import sys
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.errors import SchemaError
from castleguard.schema.column import as_text
from castleguard.schema.table import to_table

ROWS = [{"age": 1, "sex": "f"}, {"age": 2, "sex": None}]


def test_arrow_data_is_not_copied() -> None:
    table = pa.Table.from_pylist(ROWS)
    assert to_table(table) is table
    assert to_table(table.to_batches()[0]).equals(table)


@pytest.mark.parametrize("data", [pd.DataFrame(ROWS), pl.DataFrame(ROWS), ROWS, tuple(ROWS)])
def test_frames_and_dicts_become_the_same_rows(data: object) -> None:
    assert to_table(data).to_pylist() == ROWS


def test_dicts_are_read_where_neither_pandas_nor_polars_is_installed() -> None:
    code = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in ("pandas", "polars"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from castleguard.schema.table import to_table
from castleguard.schema.column import as_text
sys.exit(to_table([{"a": 1}]).num_rows != 1)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("data", [5, "text", {"a": [1]}, None, iter(ROWS)])
def test_an_object_without_rows_is_refused_by_its_type(data: object) -> None:
    with pytest.raises(SchemaError, match=f"cannot read rows from {type(data).__name__}: give a pyarrow Table"):
        to_table(data)


def test_a_list_of_other_than_dicts_is_refused_without_quoting_values() -> None:
    with pytest.raises(SchemaError, match="row 1 of the list is a str") as caught:
        to_table([{"a": 1}, "secret"])
    assert "secret" not in str(caught.value)


def test_missing_keys_are_nulls() -> None:
    assert to_table([{"a": 1}, {"b": 2}]).to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": 2}]


def test_declared_columns_exist_even_if_no_row_has_them() -> None:
    table = to_table([{"a": 1, "extra": object()}], columns=("a", "b"))
    assert table.to_pylist() == [{"a": 1, "b": None}]
    assert to_table([], columns=("a", "b")).column_names == ["a", "b"]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1, "x", None], ["1", "x", None]),
        ([True, 1], ["true", "1"]),
        ([1.5, True], ["1.5", "true"]),
        ([1, 2.0, "x"], ["1", "2", "x"]),
        ([2**70, 1], [str(2**70), "1"]),
        ([2**53, 0.5], [str(2**53), "0.5"]),
        ([1e300, "x"], ["1e+300", "x"]),
        ([dt.date(2020, 1, 2), 1], ["2020-01-02", "1"]),
        ([dt.date(2020, 1, 2), dt.datetime(2020, 1, 2, 3)], ["2020-01-02", "2020-01-02 03:00:00"]),
        ([dt.datetime(2020, 1, 2, 3, 4, 5, 500000), "x"], ["2020-01-02 03:04:05.5", "x"]),
        ([dt.datetime(2020, 1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=2))), "x"], ["2020-01-02 01:00:00", "x"]),
        ([b"caf\xc3\xa9", "x"], ["café", "x"]),
        ([b"\xff", "x"], ["\ufffd", "x"]),
        (["\ud800", "x"], ["?", "x"]),
        ([[1], "x"], ["[1]", "x"]),
        ([uuid.UUID(int=5)], ["00000000-0000-0000-0000-000000000005"]),
        ([Decimal("1.50"), Decimal("3.00"), "x"], ["1.5", "3", "x"]),
        ([Decimal("-0.10"), Decimal("1E+2"), 5], ["-0.1", "100", "5"]),
        ([np.int64(5), "x"], ["5", "x"]),
    ],
)
def test_a_column_of_mixed_types_becomes_text(values: list[object], texts: list[str | None]) -> None:
    rows = [{"a": value} for value in values]
    assert to_table(rows).column("a").to_pylist() == texts
    assert to_table(pd.DataFrame({"a": pd.Series(values, dtype=object)})).column("a").to_pylist() == texts


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, None], pa.int64()),
        ([1, 2.5], pa.float64()),
        ([np.int32(1), np.float64(2.5)], pa.float64()),
        ([True, False], pa.bool_()),
        (["x", None], pa.string()),
        ([dt.date(2020, 1, 1)], pa.date32()),
        ([dt.datetime(2020, 1, 1)], pa.timestamp("us")),
        ([Decimal("1.5")], pa.decimal128(2, 1)),
        ([None], pa.null()),
    ],
)
def test_a_column_of_one_type_keeps_it(values: list[object], kind: pa.DataType) -> None:
    assert to_table([{"a": value} for value in values]).column("a").type == kind


def test_the_index_of_a_pandas_frame_is_dropped_and_nan_is_null() -> None:
    frame = pd.DataFrame({"a": [1.0, float("nan")], 5: ["x", "y"]}, index=["p", "q"])
    assert to_table(frame).to_pylist() == [{"a": 1.0, "5": "x"}, {"a": None, "5": "y"}]


def test_a_pandas_column_that_arrow_cannot_hold_becomes_text() -> None:
    frame = pd.DataFrame({"a": np.array([1 + 2j, 3j])})
    assert to_table(frame).column("a").to_pylist() == ["(1+2j)", "3j"]


def test_pandas_categories_stay_dictionaries() -> None:
    frame = pd.DataFrame({"a": pd.Categorical(["x", None, "y"])})
    column = to_table(frame).column("a")
    assert pa.types.is_dictionary(column.type)
    assert column.to_pylist() == ["x", None, "y"]


def test_a_float_reads_the_same_beside_texts_and_alone() -> None:
    """Otherwise the value of one row would change how another is read."""
    numbers = [1e-05, 0.5, 3.0, 1e-300, 123456.789]
    alone = to_table([{"x": number} for number in numbers], ["x"])["x"].combine_chunks()
    mixed = to_table([{"x": number} for number in [*numbers, "n/a"]], ["x"])["x"].to_pylist()
    expected = as_text(alone)
    assert expected is not None
    assert mixed[:-1] == expected.to_pylist()


@pytest.mark.parametrize(
    "odd",
    [10**5000, dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-5))), np.longdouble(1.5)],
    ids=["digits", "time", "long double"],
)
def test_one_odd_value_does_not_stop_the_others(odd: object) -> None:
    table = to_table([{"x": odd}, {"x": "text"}, {"x": 5}], ["x"])
    assert table["x"].to_pylist()[1:] == ["text", "5"]
    assert to_table([{"x": odd}], ["x"]).num_rows == 1


def test_lists_of_text_from_polars_are_published_as_lists() -> None:
    """Polars delivers them as lists of views, and Arrow cannot select rows of those."""
    schema = cg.Schema(
        person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=10)], public=["tags"]
    )
    frame = pl.DataFrame({"pid": range(4), "age": [1, 2, 3, None], "tags": [["a", "b"], [], None, ["z"]]})
    published = cg.anonymise(frame, schema, cg.Castle(k=2, delay=3))
    assert published.schema.field("tags").type == pa.large_list(pa.large_string())
    assert sorted(map(str, published["tags"].to_pylist())) == ["None", "['a', 'b']", "[]"]


@pytest.mark.parametrize(
    "series", [pd.Series([1, 2], name="age"), pl.Series("age", [1, 2])], ids=["pandas", "polars"]
)  # fmt: skip
def test_a_series_is_refused_in_one_sentence(series: object) -> None:
    with pytest.raises(SchemaError, match=r"^cannot read rows from Series: give a pyarrow Table.*$"):
        to_table(series)
