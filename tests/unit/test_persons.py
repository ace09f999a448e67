"""What counts as a person in a stream: spelling, type, case, and missing persons."""

import datetime as dt
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.cli.summary import summary
from castleguard.config.schema_file import load_schema
from castleguard.errors import ConfigError, SchemaError
from castleguard.judge.verify.structure import verify
from castleguard.privacy.criteria import Criteria
from castleguard.release.gate import Gate
from castleguard.schema.coded import NO_PERSON, CodedRows

AGE = cg.Numeric("age", lower=0, upper=100, step=10)


def schema(person: str | cg.Person = "pid", sensitive: tuple[str, ...] = ()) -> cg.Schema:
    return cg.Schema(person=person, quasi_identifiers=[AGE], sensitive=sensitive, public=["row"])


def publish(
    batches: list[pa.Array], policy: cg.Castle, whose: cg.Schema | None = None, *, job: str | None = None
) -> int:
    """Return the number of published rows of people of one age."""
    stream = cg.Anonymiser(whose or schema(), policy, seed=1)
    published: int = 0
    row = 0
    for persons in batches:
        count = len(persons)
        columns = {"pid": persons, "age": pa.array([40] * count), "row": pa.array(range(row, row + count))}
        published += stream.push(pa.table(columns)).num_rows
        row += count
    published += stream.flush().num_rows
    assert stream.report().gate_refused == 0
    return published


UUID = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
MIDNIGHT = dt.datetime(2020, 1, 2)
PAIRS = [
    (pa.array(["0"]), pa.array(["-000"])),
    (pa.array([12345678901234567]), pa.array(["12345678901234567.0"])),
    (pa.array(["1e20"]), pa.array(["100000000000000000000"])),
    (pa.array(["12"]), pa.array(["\uff11\uff12"])),
    (pa.array(["Jane"]), pa.array(["\u00a0JANE\u200b"])),
    (pa.array(["jane"]), pa.array([b"jane\0\0\0"])),
    (pa.array([str(UUID).upper()]), pa.ExtensionArray.from_storage(pa.uuid(), pa.array([UUID.bytes], pa.binary(16)))),
    (pa.array([MIDNIGHT.date()]), pa.array([MIDNIGHT], pa.timestamp("ns", "Asia/Tokyo"))),
    (pa.array([MIDNIGHT]), pa.array(["2020-01-02"])),
    (pa.array([dt.time(12)], pa.time32("s")), pa.array([dt.time(12)], pa.time64("ns"))),
    (pa.array([True]), pa.array(["True"])),
    (pa.array([2.0**60]), pa.array([2.0**61])),
]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=str)
def test_two_spellings_of_one_person_count_once(one: pa.Array, other: pa.Array) -> None:
    text = schema(cg.Person("pid", kind="text"))
    assert publish([one, other] * 3, cg.Castle(k=2, delay=10), text) == 0


@pytest.mark.parametrize(
    "missing",
    [
        pa.array([None], pa.string()),
        pa.array([""]),
        pa.array(["\u00a0\u200b"]),
        pa.array(["nan"]),
        pa.array([b"\xff\xfe"]),
        pa.array([float("nan")]),
        pa.array([0.5]),
        pa.array([2.0**53]),
        pa.array([2.0**24], pa.float32()),
    ],
    ids=str,
)
def test_k_minus_one_persons_and_any_number_of_missing_ones_do_not_pass(missing: pa.Array) -> None:
    whose = schema(cg.Person("pid", kind="text"))
    policy = cg.Castle(k=3, delay=10)
    assert publish([pa.array(["a", "b"]), *[missing] * 8], policy, whose) == 0
    # They are published among k others, and do not count in a split either.
    assert publish([pa.array(["a", "b", "c"]), *[missing] * 5], policy, whose) == 8
    assert publish([pa.array(list("abcdefgh")), *[missing] * 2], policy, whose) == 10


@pytest.mark.parametrize("l_per", ["row", "person"])
def test_values_of_missing_persons_do_not_add_to_l(l_per: str) -> None:
    whose = schema(sensitive=("job",))
    policy = cg.Castle(k=2, l=2, delay=20, l_per=l_per)  # type: ignore[arg-type]
    stream = cg.Anonymiser(whose, policy, seed=1)
    persons = ["a", "b", None, None, None]
    jobs = ["cook", "cook", "smith", "baker", "clerk"]
    table = pa.table({"pid": persons, "age": [40] * 5, "job": jobs, "row": list(range(5))})
    assert stream.push(table).num_rows + stream.flush().num_rows == 0
    table = pa.table({"pid": [*persons, "c"], "age": [40] * 6, "job": [*jobs, "smith"], "row": list(range(6))})
    stream = cg.Anonymiser(whose, policy, seed=1)
    assert stream.push(table).num_rows + stream.flush().num_rows == 6


def test_ledger_counts_all_missing_persons_as_one() -> None:
    whose = cg.Schema(person="pid", quasi_identifiers=[AGE])
    policy = cg.Castleguard(k=2, delay=10, epsilon=5.0, rows_per_person=1)
    stream = cg.Anonymiser(whose, policy, seed=1)
    stream.push(pa.table({"pid": ["a", None, None, "b", None], "age": [40] * 5}))
    assert stream.report().over_budget == 2


def test_rows_without_a_person_are_left_out_where_rows_count_as_persons() -> None:
    """SDGS: k - 1 persons and a missing one in each window must not pass as k."""
    whose = cg.Schema(person="pid", quasi_identifiers=[AGE])
    policy = cg.Sdgs(k=3, sample_rate=0.9, epsilon=5.0, window=10, window_unit="rows")
    stream = cg.Anonymiser(whose, policy, seed=1)
    stream.push(pa.table({"pid": ["a", None, None, "b", "a"], "age": [40] * 5}), now=0.0)
    assert stream.report().over_budget == 3


def test_gate_ignores_missing_persons_of_several_sites() -> None:
    gate = Gate(schema(), Criteria(k=3), known=10, on_grid=True)
    rows = CodedRows(np.full((2, 1), 40.0), np.array([1, NO_PERSON]), np.zeros((2, 0), np.int64), np.zeros(2, np.bool_))
    box = (np.array([40.0]), np.array([50.0]))
    none = np.zeros((2, 0), np.int64)
    assert not gate.check_joint(box, rows, np.array([2, NO_PERSON]), none)
    assert gate.check_joint(box, rows, np.array([2, 3], dtype=np.uint64), none)


def test_verify_ignores_missing_persons() -> None:
    original = pa.table({"pid": ["a", "b", None, None], "age": [40] * 4, "row": [0, 1, 2, 3]})
    published = pa.table({"age_min": [40] * 4, "age_max": [50] * 4, "row": [0, 1, 2, 3]})
    verdict = verify(published, original, schema(), k=3, link="row")
    assert verdict.fewest_persons == 2
    assert list(verdict.violations) == ["groups with fewer than 3 persons"]


def test_case_matters_only_if_the_schema_declares_it(tmp_path: Path) -> None:
    rows = [pa.array(["Jane", "JANE", "jane"])]
    policy = cg.Castle(k=3, delay=10)
    assert publish(rows, policy) == 0
    assert publish(rows, policy, schema(cg.Person("pid", case="exact"))) == 3
    path = tmp_path / "schema.yaml"
    path.write_text("person: {name: pid, case: exact}\nquasi_identifiers: [{name: age, lower: 0, upper: 9}]\n")
    assert load_schema(path).person_role == cg.Person("pid", case="exact")
    assert load_schema(path).person == "pid"
    path.write_text("person: {name: pid, case: lower}\nquasi_identifiers: [{name: age, lower: 0, upper: 9}]\n")
    with pytest.raises(ConfigError, match=r"schema.yaml:1.*'fold' or 'exact'"):
        load_schema(path)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (pa.array([1, 2]), pa.array(["3", "hunter2"])),
        (pa.array([1, 2]), pa.array([dt.date(2020, 1, 1)])),
        (pa.array([1.0]), pa.array([True])),
        (pa.array([UUID.bytes], pa.binary(16)), pa.array([str(UUID), "hunter2"])),
        (pa.array([UUID.bytes], pa.binary(16)), pa.array([7])),
    ],
    ids=str,
)
def test_batch_with_another_type_of_persons_is_refused(first: pa.Array, then: pa.Array) -> None:
    stream = cg.Anonymiser(schema(), cg.Castle(k=2, delay=10), seed=1)
    for persons in (pa.nulls(2), first):
        count = len(persons)
        stream.push(pa.table({"pid": persons, "age": [40] * count, "row": list(range(count))}))
    stream = cg.Anonymiser.restore(schema(), cg.Castle(k=2, delay=10), stream.snapshot())
    count = len(then)
    table = pa.table({"pid": then, "age": [40] * count, "row": list(range(count))})
    with pytest.raises(SchemaError, match=r"column 'pid': persons are of kind (number|uuid)") as caught:
        stream.push(table)
    assert "hunter2" not in str(caught.value)
    free = cg.Anonymiser(schema(cg.Person("pid", kind="text")), cg.Castle(k=2, delay=10), seed=1)
    free.push(table)


def test_persons_of_a_type_are_also_read_from_text() -> None:
    for kind, spelt in (("number", ["7", " 1e3 ", None, ""]), ("uuid", [str(UUID), UUID.hex.upper(), None, " "])):
        stream = cg.Anonymiser(schema(cg.Person("pid", kind=kind)), cg.Castle(k=2, delay=10), seed=1)  # type: ignore[arg-type]
        stream.push(pa.table({"pid": spelt, "age": [40] * 4, "row": list(range(4))}))


def test_dicts_are_read_alike_in_any_batching() -> None:
    """As one list or row by row: a row is accepted or rejected independently of the others."""
    ids = [1, "a", 2.0, None, True, b"x", dt.date(2020, 1, 1)]
    rows = [{"pid": one, "age": 40, "row": at} for at, one in enumerate(ids)]
    policy = cg.Castle(k=2, delay=100)
    whole = cg.Anonymiser(schema(), policy, seed=1)
    whole.push(rows)
    single = cg.Anonymiser(schema(), policy, seed=1)
    for row in rows:
        single.push([row])
    assert whole.flush().equals(single.flush())


def test_modified_schema_keeps_the_comparison_of_persons() -> None:
    exact = schema(cg.Person("pid", case="exact"))
    assert replace(exact, public=()).person_role == cg.Person("pid", case="exact")
    assert replace(exact, person="id").person_role == cg.Person("id")
    assert replace(exact, person=None).person_role is None
    assert exact.fingerprint() != schema().fingerprint()


def test_invalid_person_declaration_is_refused() -> None:
    with pytest.raises(SchemaError, match="case must be 'fold' or 'exact', got 'lower'"):
        cg.Person("pid", case="lower")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="kind must be"):
        cg.Person("pid", kind="float")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="person must be the name of a column"):
        cg.Schema(person=7, quasi_identifiers=[AGE])  # type: ignore[arg-type]


# -- clamped values ----------------------------------------------------------------------------------------------------


def test_clamped_values_are_counted_by_column() -> None:
    roles = [AGE, cg.Numeric("height", lower=100, upper=200), cg.Numeric("weight", lower=0, upper=99, outside="reject")]
    whose = cg.Schema(person=None, quasi_identifiers=roles)
    stream = cg.Anonymiser(whose, cg.Castle(k=2, delay=10), seed=1)
    stream.push(pa.table({"age": [40, 101, -3, 500], "height": [150, 90, 200, 90], "weight": [50, 50, 50, 500]}))
    stream = cg.Anonymiser.restore(whose, cg.Castle(k=2, delay=10), stream.snapshot())
    stream.push(pa.table({"age": pa.array([400] * 3).dictionary_encode(), "height": [150] * 3, "weight": [1] * 3}))
    assert stream.report().clamped == {"age": 5, "height": 1}  # the rejected row does not count


def test_summary_shows_clamped_values() -> None:
    stream = cg.Anonymiser(cg.Schema(person=None, quasi_identifiers=[AGE]), cg.Castle(k=2, delay=10), seed=1)
    stream.push(pa.table({"age": [40, 101, 400]}))
    text = summary(stream.report(), stream.guarantee())
    assert "clamped" in text
    assert "values moved to the nearest bound: age 2" in text


def test_clamping_before_noise_is_not_counted() -> None:
    whose = cg.Schema(person=None, quasi_identifiers=[AGE])
    stream = cg.Anonymiser(whose, cg.Castleguard(k=2, delay=10, epsilon=5.0), seed=1)
    stream.push(pa.table({"age": [101, 40]}))
    assert stream.report().clamped == {}


def test_bytes_behind_a_missing_uuid_are_ignored() -> None:
    hidden = pa.Array.from_buffers(pa.binary(16), 5, [pa.py_buffer(b"\x0f"), pa.py_buffer(bytes(range(80)))])
    rows = pa.table({"p": hidden, "a": [42] * 5})
    assert cg.anonymise(rows, ONE_COLUMN, cg.Castle(k=5, delay=50)).num_rows == 0


# -- objects of other libraries ----------------------------------------------------------------------------------------

ONE_COLUMN = cg.Schema(person="p", quasi_identifiers=[cg.Numeric("a", lower=0, upper=100, step=10)])
WITH_VALUES = cg.Schema(person="p", quasi_identifiers=[cg.Numeric("a", lower=0, upper=100, step=10)], sensitive=["s"])


@pytest.mark.parametrize(
    "odd",
    [
        pd.NA,
        pd.NaT,
        np.datetime64("NaT"),
        np.float16(4096),
        np.float32(2**24),
        bytearray(b""),
        memoryview(b""),
        [],
        {},
        (),
        [None],
        1 + 2j,
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("alone", [False, True])
def test_object_without_identity_adds_no_person(odd: object, alone: bool) -> None:
    known = [{"p": number, "a": 42} for number in range(4)]
    batches = [known, [{"p": odd, "a": 42}]] if alone else [[*known, {"p": odd, "a": 42}]]
    stream = cg.Anonymiser(ONE_COLUMN, cg.Castle(k=5, delay=50), seed=1)
    assert sum(stream.push(batch).num_rows for batch in batches) + stream.flush().num_rows == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("7", bytearray(b"7")),
        (7, memoryview(b"7")),
        (np.datetime64("2020-01-02", "ns"), "2020-01-02"),
        (np.datetime64("2020-01-02", "D"), dt.date(2020, 1, 2)),
        (pd.Timestamp("2020-01-02"), np.datetime64("2020-01-02", "s")),
        (np.float32(7), "7"),
    ],
)
def test_objects_of_other_libraries_identify_the_same_person_as_python_values(one: object, other: object) -> None:
    for batches in ([[one, other]], [[one], [other]], [[other], [one]]):
        stream = cg.Anonymiser(ONE_COLUMN, cg.Castle(k=2, delay=50), seed=1)
        pushed = sum(stream.push([{"p": person, "a": 42} for person in batch]).num_rows for batch in batches)
        assert pushed + stream.flush().num_rows == 0


@pytest.mark.parametrize(
    "pair", [(None, pd.NA), ("7", bytearray(b"7")), ("2020-01-02", np.datetime64("2020-01-02", "ns"))]
)
def test_objects_of_other_libraries_add_no_second_value(pair: tuple[object, object]) -> None:
    rows = [{"p": number, "a": 42, "s": pair[number % 2]} for number in range(10)]
    assert cg.anonymise(rows, WITH_VALUES, cg.Castle(k=5, l=2, delay=50)).num_rows == 0


def test_object_without_its_own_text_is_published_as_missing() -> None:
    schema = cg.Schema(person="p", quasi_identifiers=ONE_COLUMN.quasi_identifiers, public=["s"])
    rows = [{"p": number, "a": 42, "s": object()} for number in range(5)]
    assert set(cg.anonymise(rows, schema, cg.Castle(k=5, delay=50))["s"].to_pylist()) == {None}


def test_objects_in_a_polars_column_are_refused() -> None:
    frame = pl.DataFrame({"p": range(2), "a": [42, 42], "s": pl.Series([object(), object()], dtype=pl.Object)})
    with pytest.raises(SchemaError, match="column 's' holds Python objects: convert it to text or numbers"):
        cg.Anonymiser(WITH_VALUES, cg.Castle(k=2, delay=50)).push(frame)
    assert cg.Anonymiser(ONE_COLUMN, cg.Castle(k=2, delay=50)).push(frame).num_rows == 0


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.Table, dict])
def test_class_passed_as_rows_is_named(kind: type) -> None:
    with pytest.raises(SchemaError, match=f"cannot read rows from the class {kind.__name__}: give"):
        cg.Anonymiser(ONE_COLUMN, cg.Castle(k=2, delay=50)).push(kind)
