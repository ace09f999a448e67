"""Local noise: values become levels, levels become values, and nothing else passes."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import castleguard as cg
from castleguard.intake.local import LocalNoise, mechanisms
from castleguard.schema.coded import CodedRows
from castleguard.schema.levels import numeric_levels
from tests.reference.local import Grid

KEY = np.arange(8, dtype=np.uint32)
TREE = cg.Hierarchy.from_mapping({"any": {"a": ["x", "y"], "b": ["z"]}})
SCHEMA = cg.Schema(
    person="p",
    quasi_identifiers=[
        cg.Numeric("n", lower=0.0, upper=1.0, step=0.3),
        cg.Numeric("one", lower=5, upper=5),
        cg.Categorical("c", hierarchy=TREE),
    ],
    sensitive=[cg.Sensitive("s", values=["u", "v"])],
)


def rows(count: int) -> CodedRows:
    draw = np.random.default_rng(count)
    return CodedRows(
        quasi=np.stack([draw.uniform(0, 1, count), np.full(count, 5.0), draw.integers(0, 3, count)], axis=1),
        person=np.arange(count, dtype=np.uint64),
        sensitive=draw.integers(0, 3, (count, 1)),
        to_root=np.zeros(count, dtype=np.bool_),
    )


def noise(epsilon: str) -> LocalNoise:
    return LocalNoise(SCHEMA, dict.fromkeys(SCHEMA.described, Fraction(epsilon)), key=KEY)


@given(st.integers(-5, 5), st.integers(1, 40), st.sampled_from([1, 3, 7, 0.5, 2.5]), st.data())
def test_a_number_becomes_the_nearest_grid_point(lower: int, cells: int, step: float, data: st.DataObject) -> None:
    width = cells * step
    role = cg.Numeric("x", lower=lower, upper=lower + width, step=step)
    grid = Grid(lower, lower + width, step)
    values = data.draw(st.lists(st.floats(lower, lower + width), min_size=1, max_size=20))
    levels = numeric_levels(role, np.array(values))
    assert levels.tolist() == [grid.level(value) for value in values]
    assert role.edges.size - 1 == grid.top


def test_values_in_a_shorter_last_cell_go_to_its_nearer_edge() -> None:
    role = cg.Numeric("x", lower=0, upper=9, step=4)  # 0, 4, 8, 9
    assert numeric_levels(role, np.array([0.0, 1.9, 2.0, 6.0, 8.4, 8.5, 9.0, 1e300])).tolist() == [
        0,
        0,
        1,
        2,
        2,
        3,
        3,
        3,
    ]


def test_an_overflow_beyond_the_domain_raises_no_warning() -> None:
    role = cg.Numeric("x", lower=-(2.0**53), upper=2.0**53)
    levels = numeric_levels(role, np.array([-1e308, 1e308])).tolist()
    assert levels == [0, role.edges.size - 1]


def test_every_column_has_the_mechanism_of_its_public_domain() -> None:
    shares = dict.fromkeys(SCHEMA.described, Fraction(1))
    assert [mechanism.top for mechanism in mechanisms(SCHEMA, shares)] == [4, 0, 2, 2]


def test_with_almost_no_noise_values_are_the_nearest_grid_points() -> None:
    given_rows = rows(500)
    noisy = noise("100000").apply(given_rows, 0, np.ones(500, dtype=np.bool_))
    edges = np.array([0.0, 0.3, 0.6, 0.9, 1.0])
    role = SCHEMA.quasi_identifiers[0]
    assert isinstance(role, cg.Numeric)
    assert np.array_equal(noisy.quasi[:, 0], edges[numeric_levels(role, given_rows.quasi[:, 0])])
    assert np.array_equal(noisy.quasi[:, 1:], given_rows.quasi[:, 1:])
    assert np.array_equal(noisy.sensitive, given_rows.sensitive)


def test_noisy_values_are_public_values_and_persons_are_unchanged() -> None:
    given_rows = rows(2000)
    noisy = noise("0.1").apply(given_rows, 0, np.ones(2000, dtype=np.bool_))
    assert set(noisy.quasi[:, 0].tolist()) == {0.0, 0.3, 0.6, 0.9, 1.0}
    assert set(noisy.quasi[:, 1].tolist()) == {5.0}
    assert set(noisy.quasi[:, 2].tolist()) == {0.0, 1.0, 2.0}
    assert set(noisy.sensitive[:, 0].tolist()) == {0, 1, 2}
    assert np.array_equal(noisy.person, given_rows.person)
    assert not np.array_equal(noisy.sensitive, given_rows.sensitive)


def test_the_values_of_a_row_that_is_left_out_are_erased() -> None:
    present = np.arange(100) % 2 == 0
    noisy = noise("100000").apply(rows(100), 0, present)
    assert np.all(noisy.sensitive[~present] == 0)
    assert np.all(noisy.quasi[~present] == np.array([0.0, 5.0, 0.0]))


@pytest.mark.parametrize("cut", [1, 7, 16, 99])
def test_batches_and_snapshots_change_no_noise(cut: int) -> None:
    given_rows, every = rows(100), np.ones(100, dtype=np.bool_)
    whole = noise("1").apply(given_rows, 3, every)
    first = noise("1")
    head = first.apply(given_rows.take(slice(0, cut)), 3, every[:cut])
    second = noise("1")
    second.restore(first.snapshot())
    tail = second.apply(given_rows.take(slice(cut, 100)), 3 + cut, every[cut:])
    assert np.array_equal(np.concatenate([head.quasi, tail.quasi]), whole.quasi)
    assert np.array_equal(np.concatenate([head.sensitive, tail.sensitive]), whole.sensitive)


def test_shares_of_epsilon_follow_the_names_of_columns() -> None:
    shares = {"n": Fraction(1), "one": Fraction(2), "c": Fraction(3), "s": Fraction(4)}
    assert [mechanism.epsilon for mechanism in mechanisms(SCHEMA, shares)] == [1, 2, 3, 4]


def test_with_cells_a_noisy_number_is_the_start_of_the_cell_that_it_lies_in() -> None:
    shares = dict.fromkeys(SCHEMA.described, Fraction(1))
    given, present = rows(300), np.ones(300, dtype=np.bool_)
    points = LocalNoise(SCHEMA, shares, key=KEY).apply(given, 0, present)
    cells = LocalNoise(SCHEMA, shares, key=KEY, cells=True).apply(given, 0, present)
    assert set(points.quasi[:, 0]) == {0.0, 0.3, 0.6, 0.9, 1.0}
    assert set(cells.quasi[:, 0]) == {0.0, 0.3, 0.6, 0.9}
    expected = np.where(points.quasi[:, 0] == 1.0, 0.9, points.quasi[:, 0])  # the last point lies in the last cell
    assert cells.quasi[:, 0].tolist() == expected.tolist()
    assert cells.quasi[:, 1:].tolist() == points.quasi[:, 1:].tolist()
    assert cells.sensitive.tolist() == points.sensitive.tolist()
