"""FADS: neighbours and reuse by hand, and properties of every group."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import castleguard as cg
from castleguard.judge.verify.structure import verify
from castleguard.lab.baselines.coded_boxes import NOWHERE, published, read
from castleguard.lab.baselines.fads import Nearness, fads
from tests.unit.lab.baselines.made_up import PERSONS, make_rows

LINE = cg.Schema(person=None, quasi_identifiers=[cg.Numeric("x", lower=0, upper=10)], public=["row"])


def _line(*x: float) -> pa.Table:
    return pa.table({"x": x, "row": np.arange(len(x))})


def _table(pid: list[int], x: list[float], illness: list[str] | None = None) -> pa.Table:
    return pa.table(
        {
            "pid": pid,
            "x": x,
            "education": ["Junior"] * len(x),
            "illness": illness or ["a"] * len(x),
            "row": np.arange(len(x)),
        }
    )


def test_expiring_row_leaves_with_its_nearest_rows() -> None:
    # Delay 2: when row 2 arrives, row 0 at 1 leaves, with row 2 at 2 and not with row 1 at 8. When row 3 arrives,
    # row 1 leaves with it.
    coded = read(_line(1, 8, 2, 9), LINE)
    boxed = fads(coded, k=2, delay=2, reuse_age=0)
    assert boxed.box.tolist() == [0, 1, 0, 1]
    assert boxed.released.tolist() == [3, 4, 3, 4]
    assert published(coded, boxed).to_pylist()[1] == {"x_min": 8, "x_max": 9, "row": 1}


def test_row_leaves_alone_in_a_recent_cluster_that_covers_it() -> None:
    # As above. When row 6 arrives, row 4 at 1.5 has to leave. With row 6 it would lose 0.35; the cluster 1 to 2, made
    # when row 2 arrived, loses 0.1, and 4 rows have arrived since. At the end row 5 leaves with row 6.
    coded = read(_line(1, 8, 2, 9, 1.5, 9.5, 5), LINE)
    boxed = fads(coded, k=2, delay=2, reuse_age=5)
    assert boxed.box.tolist() == [0, 1, 0, 1, 0, 2, 2]
    assert boxed.released.tolist() == [3, 4, 3, 4, 7, 7, 7]


def test_old_cluster_is_not_reused() -> None:
    # One row less: row 4 takes row 6 along, and row 5, alone and covered by nothing, is not published.
    boxed = fads(read(_line(1, 8, 2, 9, 1.5, 9.5, 5), LINE), k=2, delay=2, reuse_age=4)
    assert boxed.box.tolist() == [0, 1, 0, 1, 2, NOWHERE, 2]


def test_a_new_cluster_that_loses_less_is_preferred() -> None:
    # 0 to 6 covers row 2 at 3, but with row 3 at 3.5 it loses 0.05 only.
    coded = read(_line(0, 6, 3, 3.5), LINE)
    assert fads(coded, k=2, delay=1, reuse_age=9).box.tolist() == [0, 0, 1, 1]
    assert fads(coded, k=2, delay=1, reuse_age=9, reuse="always").box.tolist() == [0, 0, 0, 0]


def test_covering_cluster_with_the_smallest_loss_is_reused() -> None:
    # 0 to 8, then 4 to 6. Row 4 at 5 is in both, and with row 5 at 10 it would lose 0.5.
    coded = read(_line(0, 8, 4, 6, 5, 10), LINE)
    assert fads(coded, k=2, delay=1, reuse_age=9).box.tolist() == [0, 0, 1, 1, 1, NOWHERE]


def test_neighbours_are_of_other_persons() -> None:
    # Row 0 is nearest to row 1, of the same person, and to row 2 and 3 of another: one row of each of two others.
    boxed = fads(read(_table([1, 1, 2, 2, 3], [5, 5, 6, 7, 9]), PERSONS), k=3, delay=4, reuse_age=0)
    assert boxed.box.tolist() == [0, NOWHERE, 0, NOWHERE, 0]


def test_further_rows_are_added_up_to_l_values() -> None:
    table = _table([1, 2, 3, 4], [5, 6, 7, 8], ["a", "a", "a", "b"])
    assert fads(read(table, PERSONS), k=2, delay=3, reuse_age=0).box.tolist() == [0, 0, 1, 1]
    assert fads(read(table, PERSONS), k=2, l=2, delay=3, reuse_age=0).box.tolist() == [0, 0, NOWHERE, 0]
    table = _table([1, 2, 3, 4], [5, 6, 7, 8], ["a", "b", "c", "a"])
    assert fads(read(table, PERSONS), k=2, l=2, delay=3, reuse_age=0).box.tolist() == [0, 0, 1, 1]


def test_distance_of_categories_is_the_loss_of_their_common_node() -> None:
    table = pa.table(
        {
            "pid": [1, 2, 3, 4],
            "x": [0, 0, 1, 0],
            "education": ["Junior", "Senior", "Junior", "Master"],
            "illness": ["a"] * 4,
            "row": range(4),
        }
    )
    # School has 2 of 4 leaves: (2 - 1) / (4 - 1).
    away = Nearness(read(table, PERSONS))(0, np.array([1, 2, 3]))
    assert away.tolist() == pytest.approx([1 / 3, 0.1, 1.0])


def test_fewer_rows_than_k_are_not_published() -> None:
    assert fads(read(_line(1, 2), LINE), k=3, delay=5).box.tolist() == [NOWHERE, NOWHERE]


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 3), st.integers(0, 60), st.integers(0, 30))
def test_every_group_has_k_persons_and_l_values_in_time(seed: int, k: int, l: int, rows: int, delay: int) -> None:
    table = make_rows(seed, rows)
    coded = read(table, PERSONS)
    boxed = fads(coded, k=k, l=l, delay=delay, reuse_age=delay)
    found = verify(published(coded, boxed), table, PERSONS, k=k, l=l, link="row", closed=True)
    assert found.ok, found.sentence
    waits = (boxed.released - 1 - np.arange(rows))[boxed.box != NOWHERE]
    assert waits.min(initial=0) >= 0
    assert waits.max(initial=0) <= delay
