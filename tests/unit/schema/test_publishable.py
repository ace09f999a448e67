"""Published columns contain the values of their rows and nothing else."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import castleguard as cg
from castleguard.errors import SchemaError
from castleguard.schema.publishable import plain, plain_type

SECRET = "ZQXJZQXJ"
NUMBER = int.from_bytes(SECRET.encode(), "little")
SCHEMA = cg.Schema(
    person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=10, outside="reject")], public=["note"]
)
ROWS = 6  # the first four are published; the last two are rejected and contain the secret


def _under_null(values: pa.Array, mask: list[bool]) -> pa.Array:
    """The same array with some values masked by nulls, whose bytes remain."""
    nulls = pa.array(~np.array(mask)).buffers()[1]
    buffers = values.buffers()
    if isinstance(values, pa.StructArray):
        children = [values.field(at) for at in range(values.type.num_fields)]
        return pa.Array.from_buffers(values.type, len(values), [nulls], children=children)
    if isinstance(values, pa.ListArray):
        return pa.Array.from_buffers(values.type, len(values), [nulls, buffers[1]], children=[values.values])
    if isinstance(values, pa.FixedSizeListArray):
        return pa.Array.from_buffers(values.type, len(values), [nulls], children=[values.values])
    return pa.Array.from_buffers(values.type, len(values), [nulls, *buffers[1:]])


TEXTS = pa.array(["a", "b", "c", "d", SECRET, SECRET])
CODED = TEXTS.dictionary_encode()
OFFSETS = pa.array(range(ROWS + 1), pa.int32())
HIDDEN = [False, False, False, True, True, True]
SECRETS = pa.array([SECRET] * ROWS)
NUMBERS = pa.array([NUMBER] * ROWS)
# A field of a struct is null where its struct is, and text and numbers keep their bytes under a null.
COLUMNS: dict[str, pa.Array] = {
    "a dictionary": CODED,
    "a list of a dictionary": pa.ListArray.from_arrays(OFFSETS, CODED),
    "a long list of a dictionary": pa.LargeListArray.from_arrays(OFFSETS.cast(pa.int64()), CODED),
    "a fixed list of a dictionary": pa.FixedSizeListArray.from_arrays(CODED, 1),
    "a struct of a dictionary": pa.StructArray.from_arrays([CODED], ["x"]),
    "a map to a dictionary": pa.MapArray.from_arrays(OFFSETS, pa.array(list("uvwxyz")), CODED),
    "a list of structs of lists": pa.ListArray.from_arrays(
        OFFSETS, pa.StructArray.from_arrays([pa.ListArray.from_arrays(OFFSETS, CODED)], ["x"])
    ),
    "a dictionary of structs": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 0, 1, 2, 2], pa.int8()), pa.array([{"x": "a"}, {"x": "b"}, {"x": SECRET}])
    ),
    "text under nulls": _under_null(SECRETS, [True] * ROWS),
    "numbers under nulls": _under_null(NUMBERS, [True] * ROWS),
    "bytes under nulls": _under_null(pa.array([SECRET.encode()] * ROWS, pa.binary(8)), [True] * ROWS),
    "a struct under nulls": _under_null(pa.StructArray.from_arrays([SECRETS, NUMBERS], ["t", "n"]), [True] * ROWS),
    "a list under nulls": _under_null(pa.ListArray.from_arrays(OFFSETS, SECRETS), [True] * ROWS),
    "a fixed list under nulls": _under_null(pa.FixedSizeListArray.from_arrays(NUMBERS, 1), [True] * ROWS),
    "a struct under nulls in a list": pa.ListArray.from_arrays(
        OFFSETS, _under_null(pa.StructArray.from_arrays([SECRETS], ["x"]), [True] * ROWS)
    ),
    "a struct under nulls in a fixed list": pa.FixedSizeListArray.from_arrays(
        _under_null(pa.StructArray.from_arrays([NUMBERS], ["x"]), [True] * ROWS), 1
    ),
    "views": TEXTS.cast(pa.string_view()),
    "a list of views": pa.ListArray.from_arrays(OFFSETS, TEXTS.cast(pa.string_view())),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([4, 6], pa.int32()), pa.array(["a", SECRET])),
}


def _at_rest(table: pa.Table) -> list[bytes]:
    """Bytes of the table as Arrow and as Parquet."""
    arrow, parquet = io.BytesIO(), io.BytesIO()
    with pa.ipc.new_stream(arrow, table.schema) as writer:
        writer.write_table(table)
    pq.write_table(table, parquet, compression="none")
    return [arrow.getvalue(), parquet.getvalue()]


def _batch(note: Any, first: int = 0) -> pa.Table:
    ages = [1, 2, 3, 4, 999, 999]
    return pa.table({"pid": range(first, first + ROWS), "age": ages[: len(note)], "note": note})


@pytest.mark.parametrize("note", COLUMNS.values(), ids=COLUMNS)
def test_no_value_of_another_row_is_published(note: pa.Array) -> None:
    stream = cg.Anonymiser(SCHEMA, cg.Castle(k=2, delay=3))
    tables = [stream.push(_batch(note)), stream.push(_batch(note, 10)), stream.flush()]
    published = pa.concat_tables([table for table in tables if table.num_rows])
    assert published.num_rows == 8
    published.validate(full=True)
    for raw in _at_rest(published):
        assert SECRET[:4].encode() not in raw
    expected = [value for value in note.slice(0, 4).to_pylist() for _ in range(2)]
    assert sorted(map(str, published["note"].to_pylist())) == sorted(map(str, expected))


@pytest.mark.parametrize("note", COLUMNS.values(), ids=COLUMNS)
def test_a_snapshot_holds_plain_columns_too(note: pa.Array) -> None:
    stream = cg.Anonymiser(SCHEMA, cg.Castle(k=5, delay=9))
    stream.push(_batch(note))
    assert SECRET[:4].encode() not in stream.snapshot()


@pytest.mark.parametrize("note", COLUMNS.values(), ids=COLUMNS)
def test_the_randomiser_passes_on_values_only(note: pa.Array) -> None:
    schema = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100)], public=["note"])
    noisy = cg.Randomiser(schema, epsilon=1.0).randomise(_batch(note).slice(0, 4))
    for raw in _at_rest(noisy):
        assert SECRET[:4].encode() not in raw


def _marked(kind: pa.DataType) -> pa.Field:
    return pa.field("note", kind, metadata={"origin": SECRET})


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.list_(pa.field("item", pa.string(), metadata={"origin": SECRET})),
        pa.struct([pa.field("x", pa.string(), metadata={"origin": SECRET})]),
    ],
)
def test_no_metadata_of_the_input_is_published(kind: pa.DataType) -> None:
    value: dict[str, object] = {"string": "a", "list": ["a"], "struct": {"x": "a"}}
    notes = pa.array([value[str(kind).partition("<")[0]]] * ROWS, kind)
    fields = [pa.field("pid", pa.int64(), metadata={"m": SECRET}), pa.field("age", pa.int64()), _marked(kind)]
    stream = cg.Anonymiser(SCHEMA, cg.Castle(k=2, delay=3))
    for first in (0, 10, 20):
        batch = _batch(notes, first)
        marked = pa.table(batch.columns, schema=pa.schema(fields, metadata={"pandas": SECRET}))
        for raw in _at_rest(stream.push(marked)):
            assert SECRET.encode() not in raw
    assert SECRET.encode() not in stream.snapshot()


def test_an_extension_is_published_as_its_values() -> None:
    column = pa.chunked_array([pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1", "2"]))])
    assert plain(column).type == pa.string()
    assert plain(column).to_pylist() == ["1", "2"]


def test_a_union_is_refused_by_its_type() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    with pytest.raises(SchemaError, match=r"column 'note': cannot publish values of type sparse_union"):
        cg.Anonymiser(SCHEMA, cg.Castle(k=2, delay=3)).push(pa.table({"pid": [1, 2], "age": [1, 2], "note": union}))


@pytest.mark.parametrize("note", COLUMNS.values(), ids=COLUMNS)
def test_a_slice_of_a_column_becomes_plain_too(note: pa.Array) -> None:
    whole = plain(pa.chunked_array([note]))
    assert whole.type == plain_type(note.type)
    part = plain(pa.chunked_array([note.slice(1, 3), note.slice(2, 1)]))
    part.validate(full=True)
    assert part.to_pylist() == [*whole.to_pylist()[1:4], whole.to_pylist()[2]]
