"""The synthetic stream is fixed by its seed, and has the properties that make real streams hard."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from castleguard.schema.roles import Categorical, Numeric
from castleguard.testing.streams import visits, visits_schema

ROWS = 20_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.concat_tables(visits(ROWS, seed=7)).combine_chunks()


def test_seed_fixes_the_rows_for_any_batch_size(table: pa.Table) -> None:
    assert pa.concat_tables(visits(ROWS, seed=7, batch_rows=777)).combine_chunks().equals(table)
    assert not pa.concat_tables(visits(ROWS, seed=8)).combine_chunks().equals(table)


def test_batches_have_the_requested_size() -> None:
    assert [batch.num_rows for batch in visits(2500, batch_rows=1000)] == [1000, 1000, 500]
    assert list(visits(0)) == []


def test_schema_fits_the_stream(table: pa.Table) -> None:
    schema = visits_schema()
    assert set(schema.columns) == set(table.column_names)
    for role in schema.quasi_identifiers:
        column = table[role.name]
        if isinstance(role, Categorical):
            assert set(column.unique().to_pylist()) <= set(role.hierarchy.leaves)
        elif role.kind == "number":
            assert role.domain is not None
            assert role.domain[0] <= pc.min(column).as_py() <= pc.max(column).as_py() <= role.domain[1]
    assert sum(isinstance(role, Numeric) for role in schema.quasi_identifiers) == 4


def test_records_are_numbered_and_arrive_in_order(table: pa.Table) -> None:
    assert table["record"].to_pylist() == list(range(1, ROWS + 1))
    arrived = table["arrived"].to_numpy()
    assert (np.diff(arrived) >= np.timedelta64(0)).all()
    assert pc.year(pc.max(table["arrived"])).as_py() == 2026


def test_few_persons_have_very_many_visits(table: pa.Table) -> None:
    visits_each = np.sort(np.unique(table["patient"].to_pylist(), return_counts=True)[1])
    assert np.median(visits_each) <= 4
    assert visits_each[-1] > 10 * np.median(visits_each)


def test_arrivals_follow_a_daily_rhythm(table: pa.Table) -> None:
    hours = np.bincount(pc.hour(table["arrived"]).to_numpy(), minlength=24)
    assert hours[9] > 5 * hours[3]


def test_distributions_drift(table: pa.Table) -> None:
    def share_of(name: str, part: pa.Table) -> float:
        return float(pc.mean(pc.cast(pc.equal(part["diagnosis"], name), pa.float64())).as_py())

    winter, summer = table.slice(0, ROWS // 10), table.slice(ROWS // 2, ROWS // 10)
    assert share_of("influenza", winter) > 2 * share_of("influenza", summer)
    assert pc.mean(table.slice(ROWS - 4000)["minutes"]).as_py() > 1.1 * pc.mean(winter["minutes"]).as_py()


def test_one_row_in_a_hundred_is_an_outlier(table: pa.Table) -> None:
    far = pc.sum(pc.and_(pc.greater(table["distance_km"], 60), pc.greater(table["minutes"], 240))).as_py()
    assert 0.005 < far / ROWS < 0.02


def test_flaws_have_the_requested_share() -> None:
    flawed = pa.concat_tables(visits(ROWS, seed=7, flaws=0.1))
    unknown = pc.sum(pc.equal(flawed["district"], "Elsewhere")).as_py()
    assert 0.04 < flawed["age"].null_count / ROWS < 0.06
    assert 0.04 < unknown / ROWS < 0.06
