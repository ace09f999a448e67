"""The decoder: every row is coded or rejected for a stated reason, and batches do not matter."""

import datetime as dt
import traceback
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from castleguard.errors import SchemaError
from castleguard.schema.coded import REASONS, Decoded
from castleguard.schema.decode import Decoder
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.person import Person
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive
from castleguard.schema.table import to_table

KEY = np.array([1, 2], dtype=np.uint64)
SEX = Hierarchy.flat(["f", "m"])
AGE = Numeric("age", lower=0, upper=100)
SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[AGE, Categorical("sex", hierarchy=SEX)],
    sensitive=["job", Sensitive("fare", bins=[10, 20])],
    public=["vendor"],
)
ROW: dict[str, object] = {"pid": 1, "age": 30, "sex": "m", "job": "cook", "fare": 15.0, "vendor": "v"}


def decode(rows: list[dict[str, object]], schema: Schema = SCHEMA, **options: bool) -> Decoded:
    return Decoder(schema, key=KEY, **options).decode(to_table(rows, columns=schema.columns, person=schema.person))


def only(role: Numeric | Categorical) -> Schema:
    return Schema(person=None, quasi_identifiers=[role])


def test_a_row_is_coded_column_by_column() -> None:
    decoded = decode([ROW, ROW | {"pid": "1", "age": "31", "sex": " f ", "fare": None}])
    rows = decoded.rows
    assert rows.quasi.tolist() == [[30.0, 1.0], [31.0, 0.0]]
    assert rows.person[0] == rows.person[1]
    assert rows.sensitive[0, 0] == rows.sensitive[1, 0]
    assert rows.sensitive[:, 1].tolist() == [1, 3]
    assert rows.to_root.tolist() == [False, False]
    assert decoded.rejected.index.size == 0
    assert decoded.rejected.counts == {}


def test_arrays_have_the_types_and_layout_that_kernels_are_compiled_for() -> None:
    for rows in (decode([ROW]).rows, decode([ROW, ROW | {"age": None}]).rows, decode([]).rows):
        assert rows.quasi.dtype == np.float64
        assert rows.person.dtype == np.uint64
        assert rows.sensitive.dtype == np.int64
        assert rows.to_root.dtype == np.bool_
        assert rows.quasi.shape == (len(rows.person), 2)
        assert rows.sensitive.shape == (len(rows.person), 2)
        for array in rows:
            assert array.flags.c_contiguous
            assert array.flags.writeable


def test_the_payload_is_the_raw_sensitive_then_public_columns_of_accepted_rows() -> None:
    table = pa.table(
        {
            "vendor": pa.array(["v", "w"]).dictionary_encode(),
            "pid": [1, 2], "age": [None, 5], "sex": ["m", "f"], "fare": pa.array([1.5, 2.5], pa.float32()),
            "job": [" cook ", "cook"], "secret": ["x", "y"],
        }
    )  # fmt: skip
    payload = Decoder(SCHEMA, key=KEY).decode(table).payload
    assert payload.column_names == ["job", "fare", "vendor"]
    assert payload.to_pylist() == [{"job": "cook", "fare": 2.5, "vendor": "w"}]
    assert payload.schema.field("fare").type == pa.float32()
    assert payload.schema.field("vendor").type == pa.string()  # a dictionary would hold the values of other rows


@pytest.mark.parametrize("ages", [[1, 2], [1, None], [None, None]])
def test_the_payload_counts_rows_even_without_columns(ages: list[int | None]) -> None:
    decoded = decode([{"age": age} for age in ages], only(AGE))
    assert decoded.payload.num_rows == len(decoded.rows.person) == sum(age is not None for age in ages)


def test_the_input_is_never_written_to() -> None:
    table = pa.table({"age": np.array([5.0, 500.0]), "sex": ["m", "x"]})
    roles: list[Numeric | Categorical] = [AGE, Categorical("sex", hierarchy=SEX, unknown="root")]
    rows = Decoder(Schema(person=None, quasi_identifiers=roles), key=KEY).decode(table).rows
    rows.quasi[:] = -1
    assert table.column("age").to_pylist() == [5.0, 500.0]


ANSWERS: list[tuple[Numeric | Categorical, object, str]] = [
    (Numeric("a", lower=0, upper=9), None, "reject null"),
    (Numeric("a", lower=0, upper=9), "", "reject null"),
    (Numeric("a", lower=0, upper=9, null="root"), None, "root"),
    (Numeric("a", lower=0, upper=9, null="root"), "", "root"),
    (Numeric("a", lower=0, upper=9), "x", "reject invalid"),
    (Numeric("a", lower=0, upper=9), float("nan"), "reject invalid"),
    (Numeric("a", lower=0, upper=9), float("inf"), "reject invalid"),
    (Numeric("a", lower=0, upper=9), True, "reject invalid"),
    (Numeric("a", lower=0, upper=9, invalid="root"), "x", "root"),
    (Numeric("a", lower=0, upper=9, invalid="root"), float("nan"), "root"),
    (Numeric("a", lower=0, upper=9), 10, "9"),
    (Numeric("a", lower=0, upper=9), -1, "0"),
    (Numeric("a", lower=0, upper=9, outside="reject"), 10, "reject outside"),
    (Numeric("a", lower=0, upper=9, outside="root"), 10, "root"),
    (Numeric("a", lower=0, upper=9, outside="reject"), 9, "9"),
    (Numeric("a", lower=dt.date(1970, 1, 1), upper=dt.date(1970, 1, 9)), dt.date(1970, 1, 4), "3"),
    (Numeric("a", lower=dt.date(1970, 1, 1), upper=dt.date(1970, 1, 9)), dt.date(2020, 1, 4), "8"),
    (Numeric("a", lower=dt.date(1970, 1, 1), upper=dt.date(1970, 1, 9)), 3, "reject invalid"),
    (Numeric("a", lower=dt.datetime(1970, 1, 1), upper=dt.datetime(1970, 1, 2)), "1970-01-01T00:00:01Z", "1000000"),
    (Categorical("a", hierarchy=SEX), "m", "1"),
    (Categorical("a", hierarchy=SEX), None, "reject null"),
    (Categorical("a", hierarchy=SEX), " ", "reject null"),
    (Categorical("a", hierarchy=SEX, null="root"), None, "root"),
    (Categorical("a", hierarchy=SEX), "x", "reject unknown"),
    (Categorical("a", hierarchy=SEX), "*", "reject unknown"),
    (Categorical("a", hierarchy=SEX, unknown="root"), "x", "root"),
]


@pytest.mark.parametrize(("role", "value", "expected"), ANSWERS)
def test_a_bad_value_is_handled_as_its_role_says(role: Numeric | Categorical, value: object, expected: str) -> None:
    decoded = decode([{"a": value}], only(role))
    if expected.startswith("reject"):
        reason = expected.split()[1]
        assert len(decoded.rows.person) == 0
        assert decoded.rejected.index.tolist() == [0]
        assert REASONS[decoded.rejected.reason[0]] == reason
        assert decoded.rejected.counts == {f"a: {reason}": 1}
    else:
        assert decoded.rejected.counts == {}
        assert decoded.rows.to_root.tolist() == [expected == "root"]
        assert decoded.rows.quasi.tolist() == [[0.0 if expected == "root" else float(expected)]]


def test_a_reject_overrides_the_root_and_names_the_first_column() -> None:
    schema = Schema(
        person=None,
        quasi_identifiers=[
            Numeric("a", lower=0, upper=9, null="root"),
            Numeric("b", lower=0, upper=9, outside="reject"),
            Categorical("c", hierarchy=SEX),
        ],
    )
    rows: list[dict[str, object]] = [
        {"a": None, "b": 5, "c": "x"},
        {"a": None, "b": 50, "c": "x"},
        {"a": None, "b": 5, "c": "m"},
        {"a": 1, "b": None, "c": "m"},
        {"a": 1, "b": 5, "c": "m"},
        {"a": 1, "b": 55, "c": None},
    ]
    decoded = decode(rows, schema)
    assert decoded.rejected.index.tolist() == [0, 1, 3, 5]
    assert [REASONS[reason] for reason in decoded.rejected.reason] == ["unknown", "outside", "null", "outside"]
    assert decoded.rejected.column.tolist() == [2, 1, 1, 1]
    assert decoded.rejected.counts == {"b: null": 1, "b: outside": 2, "c: unknown": 1}
    assert list(decoded.rejected.counts) == ["b: null", "b: outside", "c: unknown"]
    assert decoded.rows.to_root.tolist() == [True, False]
    assert decoded.rows.quasi.tolist() == [[0, 0, 0], [1, 5, 1]]


def test_without_a_person_column_accepted_rows_are_numbered() -> None:
    decoder = Decoder(only(AGE), key=KEY)
    first = decoder.decode(pa.table({"age": [1, None, 3]}))
    second = decoder.decode(pa.table({"age": [4]}))
    assert first.rows.person.tolist() == [0, 1]
    assert second.rows.person.tolist() == [2]
    assert decoder.counter == 3
    decoder.counter = 2**63
    assert decoder.decode(pa.table({"age": [4]})).rows.person.tolist() == [2**63]


def test_a_batch_that_fails_uses_no_numbers() -> None:
    schema = Schema(person=None, quasi_identifiers=[AGE], sensitive=["job"])
    decoder = Decoder(schema, key=KEY)
    with pytest.raises(SchemaError):
        decoder.decode(pa.table({"age": [1], "job": [["list"]]}))
    assert decoder.counter == 0


def test_bins_count_the_edges_at_or_below_a_value() -> None:
    schema = Schema(person=None, quasi_identifiers=[AGE], sensitive=[Sensitive("fare", bins=[0, 10, 20])])
    fares = [-1, 0, 9.99, 10, 20, 1e9, None, float("nan"), "x", "15", float("inf")]
    decoded = decode([{"age": 1, "fare": fare} for fare in fares], schema)
    assert decoded.rows.sensitive[:, 0].tolist() == [0, 1, 1, 2, 3, 3, 4, 4, 4, 2, 4]


def test_bins_of_dates_are_bins_of_days() -> None:
    schema = Schema(person=None, quasi_identifiers=[AGE], sensitive=[Sensitive("seen", bins=[dt.date(2020, 1, 1)])])
    seen: list[object] = [dt.date(2019, 12, 31), dt.date(2020, 1, 1), None]
    assert decode([{"age": 1, "seen": day} for day in seen], schema).rows.sensitive[:, 0].tolist() == [0, 1, 2]


def test_missing_sensitive_values_count_as_one_value() -> None:
    schema = Schema(person=None, quasi_identifiers=[AGE], sensitive=["job"])
    jobs = [None, "", "cook", None, "0"]
    codes = decode([{"age": 1, "job": job} for job in jobs], schema).rows.sensitive[:, 0].tolist()
    assert codes[0] == codes[1] == codes[3]
    assert len(set(codes)) == 3


FARES = Schema(person=None, quasi_identifiers=[AGE], sensitive=["fare"])


def count_values(fares: pa.Array, *, strict: bool = True, diverse: bool = True) -> int:
    """Number of distinct values in a batch of fares."""
    table = pa.table({"age": pa.array([30] * len(fares)), "fare": fares})
    decoder = Decoder(FARES, key=KEY, strict=strict, diverse=diverse)
    return len(set(decoder.decode(table).rows.sensitive[:, 0].tolist()))


def test_where_diversity_is_promised_a_number_that_is_not_declared_counts_by_its_whole_part() -> None:
    fares = pa.array([10.25, 10.75, 11.5, 0.5, -0.5])
    for array in (fares, fares.cast(pa.decimal128(5, 2)), fares.cast(pa.string()), fares.cast(pa.float32())):
        assert count_values(array) == 3  # 10, 11 and 0
        assert count_values(array, diverse=False) == count_values(array, strict=False) == 5


def test_equality_of_values_does_not_depend_on_other_rows() -> None:
    """Codes of diseases are read the same in any type, whether all of them look like numbers or not."""
    decoder = Decoder(FARES, key=KEY, diverse=True)
    codes = ["250.00", "250.01", "V58.1", "401.9", "3", None]
    table = pa.table({"age": pa.array([30] * 6), "fare": pa.array(codes)})
    whole = decoder.decode(table).rows.sensitive.tolist()
    alone = [decoder.decode(table.slice(at, 1)).rows.sensitive.tolist()[0] for at in range(6)]
    assert whole == alone
    assert len({code for (code,) in whole}) == 5
    for other in (pa.array([3.0, None]), pa.array([3, None]), pa.array([3.7, float("nan")])):
        row = pa.table({"age": pa.array([30, 30]), "fare": other})
        assert decoder.decode(row).rows.sensitive.tolist() == whole[4:]


def test_strict_needs_a_domain_and_paper_does_not() -> None:
    schema = only(Numeric("age"))
    with pytest.raises(SchemaError, match="column 'age' needs lower and upper"):
        Decoder(schema, key=KEY, strict=True)
    rows = Decoder(schema, key=KEY, strict=False).decode(pa.table({"age": [1e300, -5.0]})).rows
    assert rows.quasi.tolist() == [[1e300], [-5.0]]


def test_a_missing_column_is_named_with_a_suggestion() -> None:
    with pytest.raises(SchemaError, match="column 'age' is declared but not in the data; did you mean 'Age'"):
        Decoder(only(AGE), key=KEY).decode(pa.table({"Age": [1]}))
    with pytest.raises(SchemaError, match=r"column 'age' is declared but not in the data \(it has x, y\)"):
        Decoder(only(AGE), key=KEY).decode(pa.table({"x": [1], "y": [1]}))
    with pytest.raises(SchemaError, match=r"\(it has none\)"):
        Decoder(only(AGE), key=KEY).decode(pa.table({}))


def test_a_duplicate_column_is_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["age", "age"])
    with pytest.raises(SchemaError, match="column 'age' is in the data 2 times"):
        Decoder(only(AGE), key=KEY).decode(table)


def test_a_person_that_is_a_list_is_refused_by_name_and_type() -> None:
    table = pa.table({"p": [["secret"]], "age": [1]})
    with pytest.raises(SchemaError, match=r"column 'p': values of type list<.*> cannot be compared"):
        Decoder(Schema(person="p", quasi_identifiers=[AGE]), key=KEY).decode(table)


BROKEN: list[Callable[[], object]] = [
    lambda: Decoder(SCHEMA, key=KEY).decode(pa.Table.from_pylist([ROW | {"pid": ["hunter2"]}])),
    lambda: Decoder(SCHEMA, key=KEY).decode(pa.Table.from_pylist([ROW | {"job": {"k": "hunter2"}}])),
    lambda: decode([ROW, "hunter2"]),  # type: ignore[list-item]
    lambda: Decoder(SCHEMA, key=KEY).decode(pa.table({"pid": ["hunter2"]})),
    lambda: Decoder(Schema(person=Person("p", kind="number"), quasi_identifiers=[AGE]), key=KEY).decode(
        pa.table({"p": ["1234", "hunter2"], "age": [1, 2]})
    ),
]


@pytest.mark.parametrize("act", BROKEN)
def test_no_error_or_cause_of_it_shows_a_value(act: Callable[[], object]) -> None:
    with pytest.raises(SchemaError) as caught:
        act()
    error: BaseException | None = caught.value
    while error is not None:
        shown = "".join(traceback.format_exception_only(error))
        assert "hunter2" not in shown
        assert "1234" not in shown
        error = error.__cause__ or error.__context__


def test_bad_values_never_raise() -> None:
    odd = [
        None,
        "",
        "x",
        "hunter2",
        True,
        float("nan"),
        float("inf"),
        2**80,
        b"\xff",
        [1],
        {"a": 1},
        dt.date(2020, 1, 1),
    ]
    for value in odd:
        decoded = decode([ROW | {"age": value}, ROW | {"sex": value}, ROW | {"fare": value}, ROW | {"vendor": value}])
        assert len(decoded.rows.person) + decoded.rejected.index.size == 4


def test_dictionaries_are_read_like_plain_columns() -> None:
    plain = pa.table(
        {
            "pid": ["a", "b", None, "a", "a"], "age": ["1", "x", None, "400", "1"], "sex": ["m", "f", "q", None, "m"],
            "job": ["j", None, "j", "k", "j"], "fare": ["5", "15", "x", None, "5"], "vendor": ["v"] * 5,
        }
    )  # fmt: skip
    schema = Schema(
        person="pid",
        quasi_identifiers=[Numeric("age", lower=0, upper=100, null="root", invalid="root"),
                           Categorical("sex", hierarchy=SEX, unknown="root")],
        sensitive=["job", Sensitive("fare", bins=[10, 20])],
        public=["vendor"],
    )  # fmt: skip
    encoded = pa.table({name: plain.column(name).dictionary_encode() for name in plain.column_names})
    chunked = pa.concat_tables([encoded.slice(0, 2), encoded.slice(2, 1), encoded.slice(3)])
    expected = Decoder(schema, key=KEY).decode(plain)
    for table in (encoded, chunked, encoded.slice(0)):
        assert_same(Decoder(schema, key=KEY).decode(table), expected)


def assert_same(one: Decoded, other: Decoded) -> None:
    for left, right in zip(one.rows, other.rows, strict=True):
        assert np.array_equal(left, right)
    assert one.rejected.index.tolist() == other.rejected.index.tolist()
    assert one.rejected.reason.tolist() == other.rejected.reason.tolist()
    assert one.rejected.counts == other.rejected.counts


def values_of(*usual: Any) -> st.SearchStrategy[Any]:
    odd = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.dates(), st.datetimes(),
        st.binary(max_size=2), st.decimals(), st.decimals(-9, 9, places=2),
    )  # fmt: skip
    return st.one_of(st.sampled_from(usual), odd)


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "pid": values_of(1, "1", 2.0),
            "age": values_of(5, "5", 50.5, 500),
            "sex": values_of("m", "f", " m", 3, 3.0, Decimal("3.00"), 2.5, Decimal("2.50")),
            "job": values_of("cook", 3, 3.0),
            "fare": values_of(5, 15.5, "25"),
            "vendor": st.just("v"),
        }
    ),
    max_size=6,
)


@given(ROWS)
def test_one_batch_or_many_give_the_same_codes(rows: list[dict[str, object]]) -> None:
    schema = Schema(
        person="pid",
        quasi_identifiers=[AGE, Categorical("sex", hierarchy=Hierarchy.flat(["f", "m", "3", "2.5", "true"]))],
        sensitive=SCHEMA.sensitive,
        public=SCHEMA.public,
    )
    whole = decode(rows, schema)
    parts = [decode([row], schema) for row in rows]
    assert len(whole.rows.person) + whole.rejected.index.size == len(rows)
    assert whole.payload.num_rows == len(whole.rows.person)
    for at, array in enumerate(whole.rows):
        assert array.tolist() == [value for part in parts for value in part.rows[at].tolist()]
    assert whole.rejected.reason.tolist() == [reason for part in parts for reason in part.rejected.reason.tolist()]
    refused = [number for number, part in enumerate(parts) if part.rejected.index.size]
    assert whole.rejected.index.tolist() == refused
    assert sum(whole.rejected.counts.values()) == len(refused)
    assert np.all((whole.rows.quasi >= 0) & (whole.rows.quasi <= [100, 4]))


@pytest.mark.parametrize("sealed", [False, True])
def test_a_row_is_rejected_if_the_sink_cannot_take_a_published_value(sealed: bool) -> None:
    """A sealed sensitive value is not published, and rejecting its row would reveal something about it."""
    schema = Schema(
        person="pid",
        quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10, outside="reject")],
        sensitive=[Sensitive("illness", values=["flu", "bad"])],
        public=["note"],
    )
    table = pa.table(
        {
            "pid": [1, 2, 3, 4],
            "age": [10, 20, 300, 40],
            "illness": ["bad", "flu", "bad", "flu"],
            "note": [*"xy", *["bad"] * 2],
        }
    )

    def unfit(column: pa.ChunkedArray) -> NDArray[np.bool_] | None:
        found = np.array([value == "bad" for value in column.to_pylist()])
        return found if found.any() else None

    decoded = Decoder(schema, key=np.zeros(2, np.uint64), sealed=sealed).decode(table, unfit)
    expected = {"age: outside": 1, "note: unpublishable": 1}
    assert decoded.rejected.counts == (expected if sealed else {**expected, "illness: unpublishable": 1})
    assert decoded.rows.person.size == 4 - sum(decoded.rejected.counts.values())
    assert decoded.payload.num_rows == decoded.rows.person.size


def test_with_cells_a_number_is_the_lower_edge_of_its_cell_and_only_the_sample_has_its_value() -> None:
    schema = Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=100, step=30, null="root")])
    table = pa.table({"age": [0.0, 29.9, 30.0, 90.0, 100.0, 130.0, None]})
    decoded = Decoder(schema, key=KEY, cells=True).decode(table)
    assert decoded.rows.quasi[:, 0].tolist() == [0, 0, 30, 90, 90, 90, 0]
    assert decoded.rows.to_root.tolist() == [False] * 6 + [True]
    assert decoded.sample[:, 0].tolist() == [0, 29.9, 30, 90, 100, 100]
    assert Decoder(schema, key=KEY).decode(table).rows.quasi[:6, 0].tolist() == [0, 29.9, 30, 90, 100, 100]
