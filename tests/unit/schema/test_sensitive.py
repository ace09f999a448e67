"""Sensitive columns with declared values, and their codes."""

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.errors import SchemaError
from castleguard.release.encode import sensitive_labels
from castleguard.schema.coded import Decoded
from castleguard.schema.decode import Decoder
from castleguard.schema.table import to_table

AGE = cg.Numeric("age", lower=0, upper=100, outside="reject", default=20)
TREE = cg.Hierarchy.from_mapping({"any": {"ill": ["flu", "cold"], "fine": ["well"]}})
SEX = cg.Categorical("sex", hierarchy=cg.Hierarchy.flat(["f", "m", "unknown"]), null="root", default="unknown")


def decode(sensitive: cg.Sensitive, values: list[object], **options: bool) -> Decoded:
    schema = cg.Schema(person=None, quasi_identifiers=[AGE, SEX], sensitive=[sensitive], public=["note"])
    rows = [{"age": 5, "sex": "f", sensitive.name: value, "note": "n"} for value in values]
    return Decoder(schema, key=np.arange(2, dtype=np.uint64), **options).decode(to_table(rows, schema.columns))


@pytest.mark.parametrize(
    ("sensitive", "values", "codes"),
    [
        (cg.Sensitive("s", values=["b", "a"]), ["a", " b ", "c", None, ""], [1, 0, 2, 2, 2]),
        (cg.Sensitive("s", values=[3, 1]), [1, 3, 2, None], [1, 0, 2, 2]),
        (cg.Sensitive("s", values=[3, 1]), ["1", "3", "x"], [1, 0, 2]),
        (cg.Sensitive("s", hierarchy=TREE), ["cold", "flu", "well", "ill"], [1, 0, 2, 3]),
        (cg.Sensitive("s", bins=[10, 20]), [5, 10, 25, None], [0, 1, 2, 3]),
    ],
)
def test_a_declared_value_is_coded_by_its_index_and_any_other_as_missing(
    sensitive: cg.Sensitive, values: list[object], codes: list[int]
) -> None:
    assert decode(sensitive, values).rows.sensitive[:, 0].tolist() == codes


@pytest.mark.parametrize(
    ("sensitive", "labels"),
    [
        (cg.Sensitive("s", values=["b", "a"]), ["b", "a", None]),
        (cg.Sensitive("s", values=np.array([3, 1])), [3, 1, None]),  # type: ignore[arg-type]
        (cg.Sensitive("s", hierarchy=TREE), ["flu", "cold", "well", None]),
        (cg.Sensitive("s", bins=[10, 20]), ["< 10", "[10, 20)", ">= 20", None]),
        (cg.Sensitive("s", bins=[dt.date(2020, 1, 1)]), ["< 2020-01-01", ">= 2020-01-01", None]),
    ],
)
def test_codes_are_published_as_labels_and_missing_as_null(sensitive: cg.Sensitive, labels: list[object]) -> None:
    assert sensitive_labels(sensitive).to_pylist() == labels


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bins": [1], "values": ["a"]}, "give only one of bins and values"),
        ({"values": []}, "values must be strings or whole numbers, at least one"),
        ({"values": [1.5]}, "values must be strings or whole numbers"),
        ({"values": [True]}, "values must be strings or whole numbers"),
        ({"values": "abc"}, "values must be a list"),
        ({"values": [1, "1"]}, "values contains the same value twice"),
        ({"hierarchy": "tree.csv"}, "hierarchy must be a Hierarchy"),
    ],
)
def test_an_invalid_declaration_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        cg.Sensitive("s", **given)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cg.Numeric("a", lower=0, upper=1, default=2), "default must lie between lower and upper, got 2"),
        (lambda: cg.Numeric("a", default=2), "default needs lower and upper"),
        (lambda: cg.Numeric("a", lower=0, upper=1, default=dt.date(2020, 1, 1)), "default must be a number"),
        (lambda: cg.Categorical("a", hierarchy=TREE, default="ill"), "default must be a leaf of the hierarchy"),
    ],
)
def test_a_default_must_be_a_value_of_its_column(make: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        make()


def test_a_total_decoder_rejects_no_row_and_sends_none_to_the_root() -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[AGE, SEX])
    raw = [(200, "f"), (-1, "m"), (None, None), ("x", "other"), (30, "f")]
    rows = [{"age": age if age is None else str(age), "sex": sex} for age, sex in raw]
    decoded = Decoder(schema, key=np.arange(2, dtype=np.uint64), total=True).decode(to_table(rows, schema.columns))
    assert decoded.rejected.counts == {}
    assert not decoded.rows.to_root.any()
    assert decoded.rows.quasi.tolist() == [[100.0, 0.0], [0.0, 1.0], [20.0, 2.0], [20.0, 2.0], [30.0, 0.0]]


def test_a_sealed_decoder_lets_no_raw_sensitive_value_into_the_payload() -> None:
    sensitive = cg.Sensitive("s", values=["a"])
    payload = decode(sensitive, ["a", "secret"], sealed=True).payload
    assert payload.column_names == ["s", "note"]
    assert payload.schema.field("s").type == pa.null()
    assert payload["note"].to_pylist() == ["n", "n"]


def test_declared_values_are_part_of_the_fingerprint() -> None:
    found = [
        cg.Schema(person=None, quasi_identifiers=[AGE], sensitive=[sensitive]).fingerprint()
        for sensitive in (
            cg.Sensitive("s"),
            cg.Sensitive("s", values=["a", "b"]),
            cg.Sensitive("s", values=["b", "a"]),
            cg.Sensitive("s", hierarchy=TREE),
            cg.Sensitive("s", bins=[1]),
        )
    ]
    assert all(one != other for at, one in enumerate(found) for other in found[:at])
