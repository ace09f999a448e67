"""The cut into batches decides nothing: the same rows are published, or the same error is raised, in any batches."""

import random
from itertools import pairwise

import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.errors import CastleguardError
from tests.soak import effort

CODES = ["250.00", "250.01", "V58.1", "401.9", "3", "3.0", None, "", "E11", "1e3", "flu", "Flu", "007"]
NUMBERS: list[float | int | None] = [1, 2.0, 3, None, 2.5, 7, 1e3, 2**53 + 2]
PERSONS = ["7", "07", "x", "X", None, " 7 ", "y", "z", "12", "1.2e1", "v", "w"]


def outcome(rows: list[pa.Table], policy: cg.Castle, schema: cg.Schema) -> pa.Table | str:
    """The published rows, or the error that ends the stream."""
    stream = cg.Anonymiser(schema, policy, seed=3)
    try:
        out = [*(stream.push(row) for row in rows), stream.flush()]
    except CastleguardError as exc:
        return str(exc)
    return pa.concat_tables([table.cast(out[-1].schema) for table in out])


@pytest.mark.parametrize("seed", range(effort(12, 1000)))
@pytest.mark.soak
def test_any_cut_gives_the_same_result_or_the_same_error(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randrange(10, 60)
    kind = draw.choice((pa.string(), pa.float64(), pa.decimal128(30, 2)))
    pool = CODES if kind == pa.string() else [None if n is None else float(n) for n in NUMBERS]
    codes = pa.array([draw.choice(pool) for _ in range(count)], None if kind == pa.decimal128(30, 2) else kind)
    table = pa.table(
        {
            "pid": [draw.choice(PERSONS) for _ in range(count)],
            "age": [draw.choice((20, 41, 42, 300, None)) for _ in range(count)],
            "code": codes.cast(kind),
        }
    )
    schema = cg.Schema(
        person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=20)], sensitive=["code"]
    )
    policy = cg.Castle(k=2, l=2, delay=draw.randrange(4, 30))
    whole = outcome([table], policy, schema)
    assert isinstance(whole, pa.Table)
    for _ in range(3):
        cuts = sorted({0, count, *(draw.randrange(count) for _ in range(draw.randrange(count)))})
        parts = [table.slice(low, high - low) for low, high in pairwise(cuts)]
        assert whole.equals(outcome(parts, policy, schema))
    assert whole.equals(outcome([table.slice(at, 1) for at in range(count)], policy, schema))


def test_whole_floats_and_then_integers_are_the_same_values() -> None:
    schema = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100)], sensitive=["code"])
    batches = [pa.array([1.0, None, 2.0]), pa.array([1, 2, 3]), pa.array([4.0, 5.0, 6.0])]
    tables = [
        pa.table({"pid": [f"p{at}{n}" for n in range(3)], "age": [40] * 3, "code": codes})
        for at, codes in enumerate(batches)
    ]
    found = outcome(tables, cg.Castle(k=3, l=3, delay=20), schema)
    assert isinstance(found, pa.Table)
    assert found.num_rows == 9


@pytest.mark.parametrize("role", ["sensitive", "public"])
@pytest.mark.parametrize("values", [[1, 2, 2.5, 3], ["a", 1, 2, "b"], [1, "a", 2, 3], [True, 5, False, None]])
def test_a_value_of_another_type_rejects_its_own_row_only(role: str, values: list[object]) -> None:
    schema = cg.Schema(
        person="pid",
        quasi_identifiers=[cg.Numeric("age", lower=0, upper=100)],
        **{role: ["x"]},  # type: ignore[arg-type]
    )
    stream = cg.Anonymiser(schema, cg.Castle(k=2, delay=20), seed=3)
    first = [{"pid": f"first{n}", "age": 40, "x": values[0]} for n in range(2)]
    out = [stream.push(first)]
    misfits = 0
    for at, value in enumerate(values):
        out.append(stream.push([{"pid": str(at), "age": 40, "x": value}]))
        misfits += len(stream.rejected())
        assert all(reason == "x: other type" for _, reason in stream.rejected())
    out.append(stream.flush())
    report = stream.report()
    assert report.rejected == ({"x: other type": misfits} if misfits else {})
    assert sum(table.num_rows for table in out) == 2 + len(values) - misfits
