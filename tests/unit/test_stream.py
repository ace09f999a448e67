"""Anonymiser from the user's view: kinds of input, calls out of order, and failures without side effects."""

import datetime as dt
import logging
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.algorithms.policy import Policy
from castleguard.errors import PolicyError, SchemaError, UsageError

AGE = cg.Numeric("age", lower=0, upper=100, step=5)
SCHEMA = cg.Schema(person="pid", quasi_identifiers=[AGE], sensitive=["job"], public=["row"])
POLICY = cg.Castle(k=2, delay=5)
SECRET = "S3CRET"


def row(number: int, **changes: object) -> dict[str, object]:
    return {"pid": number, "age": 50, "job": "x", "row": number, **changes}


def started(**policy: Any) -> cg.Anonymiser:
    return cg.Anonymiser(SCHEMA, cg.Castle(**{"k": 2, "delay": 5, **policy}), seed=1)


# -- input -------------------------------------------------------------------------------------------------------------

COLUMNS = {"pid": [1, 2, 3], "age": [50, 51, 52], "job": ["x", "y", "z"], "row": ["a", "b", "c"]}


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(pa.table(COLUMNS), id="table"),
        pytest.param(pa.table(COLUMNS).to_batches()[0], id="record batch"),
        pytest.param(pd.DataFrame(COLUMNS), id="pandas"),
        pytest.param(pd.DataFrame(COLUMNS).astype({"job": "category", "row": "category"}), id="pandas categories"),
        pytest.param(pl.DataFrame(COLUMNS), id="polars"),
        pytest.param(pl.DataFrame(COLUMNS).with_columns(pl.col("row").cast(pl.Categorical)), id="polars categories"),
        pytest.param(pa.table(COLUMNS).to_pylist(), id="list of dicts"),
    ],
)
def test_every_kind_of_table_is_published_with_its_text_columns(batch: object) -> None:
    out = cg.anonymise(batch, SCHEMA, POLICY, seed=1)
    assert out.column_names == ["age_min", "age_max", "job", "row"]
    assert sorted(out["row"].to_pylist()) == ["a", "b", "c"]


TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_text_of_any_arrow_type_can_be_published(kind: pa.DataType) -> None:
    """A type that Arrow cannot take from must not lose rows that are already decided."""
    texts = [b"a", b"b", b"c"] if "binary" in str(kind) else ["a", "b", "c"]
    table = pa.table({**COLUMNS, "row": pa.array(texts, kind)})
    out = cg.anonymise(table, SCHEMA, POLICY, seed=1)
    assert out.num_rows == 3


def test_undeclared_columns_and_the_person_are_dropped() -> None:
    out = cg.anonymise([{**row(number), "address": SECRET} for number in range(3)], SCHEMA, POLICY)
    assert out.column_names == ["age_min", "age_max", "job", "row"]


def test_empty_stream_publishes_an_empty_table() -> None:
    stream = started()
    for out in (stream.push([]), stream.flush(), stream.tick(1.0), stream.flush()):
        assert out.num_rows == 0
        assert out.column_names == ["age_min", "age_max", "job", "row"]
    assert stream.report().rows_in == 0
    assert stream.report().information_loss is None


def test_output_of_many_slices_is_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("castleguard.stream._SLICE", 30)
    count = 100
    ages = [number % 100 for number in range(count)]
    table = pa.table({"pid": range(count), "age": ages, "job": ["x"] * count, "row": range(count)})
    out = cg.anonymise(table, SCHEMA, cg.Castle(k=2, delay=50), seed=1)
    assert sorted(out["row"].to_pylist()) == list(range(count))


NOTED = cg.Schema(person=None, quasi_identifiers=[AGE], public=["note"])


def test_column_without_values_is_published_as_text() -> None:
    out = cg.anonymise([{"age": 50, "note": None}] * 3, NOTED, POLICY)
    assert out.schema.field("note").type == pa.string()
    assert out["note"].to_pylist() == [None] * 3


def test_column_takes_its_type_from_its_first_value_until_a_row_is_published() -> None:
    stream = cg.Anonymiser(NOTED, POLICY)
    assert stream.push([{"age": 50, "note": None}] * 3).num_rows == 0
    stream.push([{"age": 50, "note": 7}])
    assert stream.flush().schema.field("note").type == pa.float64()


@pytest.mark.parametrize("cut", [20, 10, 7, 1])
@pytest.mark.parametrize(("values", "published"), [([250.01, "V45"], 10), (["V45", 250.01], 20), ([1, 2.5], 20)])
def test_batching_does_not_change_the_type(cut: int, values: list[object], published: int) -> None:
    rows = [{"age": 50, "note": value} for value in values for _ in range(10)]
    stream = cg.Anonymiser(NOTED, POLICY, seed=1)
    out = [stream.push(rows[at : at + cut]) for at in range(0, 20, cut)]
    assert sum(table.num_rows for table in [*out, stream.flush()]) == published
    assert stream.report().rejected == ({} if published == 20 else {"note: other type": 10})


@pytest.mark.parametrize("cut", [12, 5, 1])
def test_column_is_text_if_a_row_was_published_before_its_first_value(cut: int) -> None:
    rows = [{"age": 50, "note": note} for note in [None] * 10 + [7, "V45"]]
    stream = cg.Anonymiser(NOTED, POLICY, seed=1)
    out = [stream.push(rows[at : at + cut]) for at in range(0, 12, cut)]
    assert sum(table.num_rows for table in out)
    assert stream.flush().schema.field("note").type == pa.string()
    assert stream.report().rejected == {}


def test_declared_type_holds_from_the_first_row_and_rejects_other_values() -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[AGE], public=[cg.Public("note", type="integer")])
    stream = cg.Anonymiser(schema, POLICY, seed=1)
    types = {stream.push([]).schema.field("note").type}
    out = [stream.push([{"age": 50, "note": note} for note in ("V45", None, "7", 2.5, 2**53 + 1)])]
    assert stream.rejected() == [(0, "note: other type"), (3, "note: other type")]
    out.append(stream.push(pa.table({"age": [50], "note": ["8"]})))
    restored = cg.Anonymiser.restore(schema, POLICY, stream.snapshot())
    out.append(restored.flush())
    types |= {table.schema.field("note").type for table in out}
    assert types == {pa.int64()}
    notes = [note for table in out for note in table["note"].to_pylist()]
    assert sorted(notes, key=str) == sorted([None, 7, 2**53 + 1, 8], key=str)


def test_published_type_survives_a_restore() -> None:
    stream = cg.Anonymiser(NOTED, POLICY)
    types = {stream.push([{"age": 50, "note": None}] * 9).schema.field("note").type}
    assert stream.report().published
    restored = cg.Anonymiser.restore(NOTED, POLICY, stream.snapshot())
    for one in (stream, restored):
        types |= {out.schema.field("note").type for out in (one.push([{"age": 50, "note": 7}] * 9), one.flush())}
    assert types == {pa.string()}


# -- persons -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(pa.array([12]), pa.array(["12"]), id="int and text"),
        pytest.param(pa.array([12]), pa.array([12.0]), id="int and float"),
        pytest.param(pa.array([12], pa.int8()), pa.array([" 012 "]), id="byte and padded text"),
        pytest.param(pa.array(["12"]).dictionary_encode(), pa.array([12], pa.uint64()), id="dictionary and unsigned"),
        pytest.param(pa.array([None]), pa.array([""]), id="null and empty"),
        pytest.param(pa.array([None], pa.int64()), pa.array([float("nan")]), id="null and NaN"),
    ],
)
def test_person_counts_once_for_every_type_of_batch(one: pa.Array, other: pa.Array) -> None:
    stream = started()
    for number, pid in enumerate((one, other)):
        stream.push(pa.table({"pid": pid, "age": [50], "job": ["x"], "row": [number]}))
    assert stream.flush().num_rows == 0
    assert stream.report().suppressed == 2


def test_persons_beyond_float_precision_are_not_counted_twice() -> None:
    """Rounded, the four look different: they may count as the one missing person, but not as more."""
    for first, kind in ((2**53, pa.float64()), (2**24, pa.float32())):
        persons = [first + 2 * number + (kind == pa.float32()) for number in range(4)]
        stream = started(k=6, delay=20)
        for pid in (pa.array(persons), pa.array([float(person) for person in persons], kind)):
            stream.push(pa.table({"pid": pid, "age": [50] * 4, "job": ["x"] * 4, "row": range(4)}))
        assert stream.flush().num_rows == 0, kind


def test_person_with_many_rows_is_never_a_group() -> None:
    stream = started(k=3, delay=10)
    out = [stream.push([row(number, pid=number % 2, age=number % 100)]).num_rows for number in range(300)]
    assert sum(out) + stream.flush().num_rows == 0
    assert stream.report().suppressed == 300


def test_missing_persons_are_one_person() -> None:
    assert cg.anonymise([row(number, pid=None) for number in range(20)], SCHEMA, POLICY).num_rows == 0


# -- failures have no effect ------------------------------------------------------------------------------------------


def fails(stream: cg.Anonymiser, batch: object) -> str:
    with pytest.raises(SchemaError) as caught:
        stream.push(batch)
    return str(caught.value)


def test_failed_batch_leaves_the_books_unchanged() -> None:
    stream = started()
    stream.push([row(0)])
    before = stream.report()
    assert SECRET not in fails(stream, pa.table({**COLUMNS, "row": [[SECRET]] * 3}))
    assert stream.report() == before
    stream.push([row(3)])
    assert sorted(stream.flush()["row"].to_pylist()) == [0, 3]
    assert stream.report().rows_in == 2


def test_failed_batch_does_not_fix_the_types_of_its_columns() -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[AGE], public=["row", "note"])
    stream = cg.Anonymiser(schema, POLICY, seed=1)
    stream.push([{"age": 50, "row": 0}])
    fails(stream, pa.table({"age": [50], "row": [[SECRET]], "note": [1]}))
    stream.push([{"age": 50, "row": 1, "note": "text"}])
    assert sorted(stream.flush()["row"].to_pylist()) == [0, 1]


def test_rejected_row_does_not_fix_the_types_of_its_columns() -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[AGE], public=["row", "note"])
    stream = cg.Anonymiser(schema, POLICY, seed=1)
    stream.push([{"age": 50, "row": 0}])
    stream.push([{"age": 50, "row": SECRET, "note": 1}, {"age": 50, "row": 1}])
    stream.push([{"age": 50, "row": 2, "note": "text"}])
    assert sorted(stream.flush()["row"].to_pylist()) == [0, 1, 2]
    assert stream.report().rejected == {"row: other type": 1}


def test_large_batch_that_fails_late_loses_no_published_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Either no row of the batch was taken in (as here), or published rows are returned."""
    monkeypatch.setattr("castleguard.stream._SLICE", 30)
    count = 100
    stream = started(delay=5)
    stream.push([row(0)])
    table = pa.table({"pid": range(count), "age": [i % 100 for i in range(count)], "job": ["x"] * count})
    lists = pa.array([[]] * (count - 1) + [[SECRET]])
    assert SECRET not in fails(stream, table.append_column("row", lists))
    assert stream.report().rows_in == 1
    assert stream.report().published == 0


def test_persons_that_cannot_be_compared_are_refused_without_side_effects() -> None:
    stream = started()
    assert "cannot be compared" in fails(stream, pa.table({**COLUMNS, "pid": [[1], [2], [3]]}))
    assert stream.report().rows_in == 0


def test_missing_column_is_named() -> None:
    assert "'job'" in fails(started(), pa.table({"pid": [1], "age": [1], "row": [1]}))
    assert "did you mean 'Job'" in fails(started(), pa.table({"pid": [1], "age": [1], "row": [1], "Job": [1]}))


# -- no value in a message ---------------------------------------------------------------------------------------------


def test_date_with_a_time_of_day_is_rejected_and_not_quoted() -> None:
    """Arrow's own message quotes the value."""
    day = cg.Numeric("day", lower=dt.date(2020, 1, 1), upper=dt.date(2021, 1, 1))
    schema = cg.Schema(person=None, quasi_identifiers=[day])
    stream = cg.Anonymiser(schema, POLICY)
    stream.push(pa.table({"day": pa.array([1588636800001], pa.int64()).view(pa.date64())}))
    assert stream.report().rows_in == 1


ODD_BATCHES: dict[str, object] = {
    "text in a number": [row(1, age=SECRET)],
    "mixed persons": [row(1, pid=SECRET), row(2, pid=2)],
    "mixed jobs": [row(1, job=SECRET), row(2, job=2.5)],
    "late text": [row(1, row=SECRET)],
    "nested": [row(1, pid=[SECRET])],
    "struct": pa.table({**COLUMNS, "job": [{"a": SECRET}] * 3}),
    "bytes": [row(1, age=SECRET.encode())],
    "fractions": pa.table({**COLUMNS, "job": [0.25, 0.5, 123456.75]}),
    "no dict": [SECRET],
    "no table": {SECRET: 1},
    "missing column": [{"pid": SECRET}],
}


@pytest.mark.parametrize("batch", ODD_BATCHES.values(), ids=ODD_BATCHES.keys())
def test_no_value_of_a_row_is_in_a_message_or_a_log(batch: object, caplog: pytest.LogCaptureFixture) -> None:
    stream = started(l=2)
    stream.push([row(number, job=number) for number in range(3)])
    message = ""
    with caplog.at_level(logging.DEBUG):
        try:
            stream.push(batch)
            stream.flush()
            stream.snapshot()
        except cg.CastleguardError as exc:
            message = f"{exc!r} {exc.__cause__!r}"
    for text in (message, caplog.text, repr(stream)):
        assert SECRET not in text
        assert "123456" not in text


# -- calls out of order ------------------------------------------------------------------------------------------------


def test_now_is_required_with_max_wait_and_never_goes_back() -> None:
    stream = started(max_wait=3)
    with pytest.raises(UsageError, match="max_wait"):
        stream.push([row(0)])
    stream.push([row(0)], now=5)
    stream.push([row(1)])  # at the same time as before
    with pytest.raises(UsageError, match="must not go back"):
        stream.tick(4.9)
    for now in (float("nan"), float("inf")):
        with pytest.raises(UsageError, match="finite"):
            stream.tick(now)
    assert stream.report().pending == 2
    assert stream.tick(8).num_rows == 2


def test_rows_that_arrive_at_one_time_leave_at_one_time() -> None:
    stream = started(k=3, delay=100, max_wait=2)
    for number in range(50):
        assert stream.push([row(number, age=number * 2)], now=1.0).num_rows == 0
    assert stream.tick(2.9).num_rows == 0
    out = stream.tick(3.0).num_rows
    report = stream.report()
    assert (report.pending, report.published, report.suppressed) == (0, out, 50 - out)
    assert out >= 40


def test_l_without_a_sensitive_column_is_refused() -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[AGE])
    with pytest.raises(PolicyError, match="sensitive"):
        cg.Anonymiser(schema, cg.Castle(k=3, l=2, delay=5))


def test_strict_mode_needs_domains() -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[cg.Numeric("age")])
    with pytest.raises(SchemaError, match="lower and upper"):
        cg.Anonymiser(schema, POLICY)


@pytest.mark.parametrize("max_wait", [np.int64(3), np.float32(3.0)], ids=["int64", "float32"])
def test_policy_with_numpy_numbers_can_be_snapshotted(max_wait: float) -> None:
    policy = cg.Castle(k=2, delay=5, max_wait=max_wait)
    stream = cg.Anonymiser(SCHEMA, policy)
    assert cg.Anonymiser.restore(SCHEMA, policy, stream.snapshot()).report().rows_in == 0


# -- the gate in the stream --------------------------------------------------------------------------------------------


def test_rows_refused_by_the_gate_are_suppressed_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The paper publishes an outlier alone at the root; the gate does not."""
    stream = started(k=2, delay=5, mode="paper", max_clusters=5)
    out = stream.push([row(number, age=number % 2 * 50 if number else 100) for number in range(12)])
    out = pa.concat_tables([out, stream.flush()])
    report = stream.report()
    assert report.gate_refused == report.suppressed == 1
    assert sorted(out["row"].to_pylist()) == list(range(1, 12))
    assert "the gate refused 1 rows" in caplog.text


def test_equal_values_on_an_edge_are_published_as_their_cell() -> None:
    schema = cg.Schema(person="id", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=10)])
    for age, low, high in ((40, 40, 50), (0, 0, 10), (100, 90, 100), (99, 90, 100), (130, 90, 100)):
        out = cg.anonymise([{"id": n, "age": age} for n in range(20)], schema, cg.Castle(k=10, delay=50), seed=1)
        assert out.num_rows == 20
        assert set(zip(out["age_min"].to_pylist(), out["age_max"].to_pylist(), strict=True)) == {(low, high)}


def test_row_on_the_upper_bound_of_a_reusable_box_is_not_published_in_it() -> None:
    schema = cg.Schema(person="id", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=10)], public=["n"])
    stream = cg.Anonymiser(schema, cg.Castle(k=2, delay=2, max_clusters=5), seed=1)
    out = [stream.push([{"id": n, "age": 45, "n": n} for n in range(4)])]
    out.append(
        stream.push([{"id": 9, "age": 50, "n": 9}, {"id": 10, "age": 95, "n": 10}, {"id": 11, "age": 94, "n": 11}])
    )
    out.append(stream.flush())
    boxes = {row["n"]: (row["age_min"], row["age_max"]) for row in pa.concat_tables(out).to_pylist()}
    assert boxes[0] == (40, 50)
    assert boxes.get(9) != (40, 50)
    assert stream.report().gate_refused == 0


def test_grid_that_hides_nothing_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=1)])
    stream = cg.Anonymiser(schema, POLICY)
    for _ in range(3):
        stream.push(pa.table({"age": [number % 100 for number in range(1000)]}))
    assert caplog.text.count("age: a cell of the grid holds a single value of the data") == 1


@pytest.mark.parametrize("failure", [MemoryError, KeyboardInterrupt])
def test_stream_whose_release_failed_publishes_nothing_more(
    monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
) -> None:
    """The gate has passed boxes that were never returned: a row published alone in one would be below k."""
    stream = started()
    before = stream.snapshot()

    def fail(*_: object) -> None:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr("castleguard.release.encode.Encoder.encode", fail)
        with pytest.raises(failure):
            stream.push(pa.table({"pid": [1, 2, 3], "age": [50] * 3, "job": ["x"] * 3, "row": range(3)}))
    for call in (lambda: stream.push([]), lambda: stream.tick(1.0), stream.flush, stream.snapshot):
        with pytest.raises(UsageError, match="snapshot"):
            call()
    assert cg.Anonymiser.restore(SCHEMA, POLICY, before).flush().num_rows == 0


@pytest.mark.parametrize(("first", "second"), [([True, True], [1, 1]), (["1", "1"], [1, 1])])
def test_values_that_look_equal_when_published_count_as_one(first: list[Any], second: list[Any]) -> None:
    """A column is published with its first type, regardless of later batches."""
    schema = cg.Schema(person="p", quasi_identifiers=[cg.Numeric("q", lower=0, upper=9, step=3)], sensitive=["s"])
    stream = cg.Anonymiser(schema, cg.Castle(k=4, l=2, delay=12), seed=1)
    stream.push(pa.table({"p": [1, 2], "q": [4, 5], "s": first}))
    stream.push(pa.table({"p": [3, 4], "q": [4, 5], "s": second}))
    assert stream.flush().num_rows == 0
    assert stream.report().suppressed == 4


# -- counts of an earlier stream ---------------------------------------------------------------------------------------


def test_counts_are_taken_over_only_before_the_first_row() -> None:
    """Later, the hash key would change under pending rows, and a person would count twice."""
    policy = cg.Castleguard(k=2, delay=5, epsilon=1.0, rows_per_person=1)
    schema = cg.Schema(person="pid", quasi_identifiers=[AGE])
    first = cg.Anonymiser(schema, policy)
    first.push([{"pid": 1, "age": 50}])
    first.flush()
    carried = first.carry()
    assert carried is not None
    second = cg.Anonymiser(schema, policy)
    second.push([{"pid": 1, "age": 50}])
    with pytest.raises(UsageError, match="rows have already arrived"):
        second.take_over(carried)


# -- threads -----------------------------------------------------------------------------------------------------------

KINDS = ["x", "y", "z"]
POLICIES: dict[str, Policy] = {
    "castle": cg.Castle(k=3, delay=50),
    "castle in input order": cg.Castle(k=3, delay=50, order="input"),
    "castle, t-closeness": cg.Castle(k=3, delay=50, closeness=cg.Closeness(t=0.4)),
    "castle, entropy": cg.Castle(k=3, l=2, delay=50, diversity="entropy"),
    "castleguard": cg.Castleguard(k=3, delay=50, epsilon=8.0),
    "citadel": cg.Citadel(k=3, l=2, delay=50, diversity="entropy"),
    "sdgs": cg.Sdgs(k=3, sample_rate=0.5, epsilon=1.0, window=60, window_unit="rows"),
}


@pytest.mark.parametrize("name", POLICIES)
def test_gate_in_a_second_thread_publishes_the_same_rows_and_leaves_the_same_state(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = cg.Schema(person="pid", quasi_identifiers=[AGE], sensitive=[cg.Sensitive("job", values=KINDS)])
    random = np.random.default_rng(1)
    ages, jobs = random.integers(0, 100, 600), random.choice(KINDS, 600)
    table = pa.table({"pid": np.arange(600), "age": ages, "job": jobs})
    published, states = [], []
    for parallel in (False, True):
        monkeypatch.setattr("castleguard.stream._SLICE", 40 * (4 if parallel else 1))  # the same slices
        stream = cg.Anonymiser(schema, POLICIES[name], seed=1)
        stream.parallel = parallel
        rows = stream.push(table)
        states.append(stream.snapshot())
        published.append((rows, stream.flush(warn=False), stream.report()))
    assert published[0] == published[1]
    assert states[0] == states[1]
    assert published[0][2].published


def test_failure_of_the_gate_in_a_second_thread_makes_the_stream_unusable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("castleguard.stream._SLICE", 16)
    stream = started()
    stream.parallel = True
    monkeypatch.setattr(stream._gate, "check", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        stream.push([row(number) for number in range(100)])
    with pytest.raises(UsageError, match="unusable"):
        stream.push([row(101)])
