"""Upper bounds on the persons of groups, without a link."""

import numpy as np
import pyarrow as pa
import pytest

from castleguard.judge.reading.boxes import group_numbers, read_boxes
from castleguard.judge.reading.linked import distinct_per_group
from castleguard.judge.reading.originals import read_originals
from castleguard.judge.verify.unlinked import Bounded, bound_groups, kept_values
from castleguard.schema.roles import Numeric, Schema

SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10, null="root")],
    sensitive=["illness"],
)
ORIGINAL = {
    "pid": ["a", "b", "c", "d", "d", "e"],
    "age": [21, 24, 29, 44, 46, None],
    "illness": ["flu", "cold", "flu", "flu", "rash", "flu"],
}
PUBLISHED = {
    "age_min": [20, 20, 20, 40, 40, 0],
    "age_max": [30, 30, 30, 50, 50, 100],
    "illness": ["flu", "cold", "flu", "flu", "rash", "flu"],
}


def bounded(most_pairs: int = 10**9, **columns: list[object]) -> tuple[int, Bounded]:
    published, original = pa.table(PUBLISHED | columns), pa.table(ORIGINAL)
    sides, originals = read_boxes(published, SCHEMA), read_originals(original, SCHEMA)
    kept = kept_values(published, original, SCHEMA, columns=["illness"], usable=~originals.rejected)
    return kept.too_many, bound_groups(sides, group_numbers(sides), originals, kept, most_pairs=most_pairs)


def test_persons_are_bounded_by_rows_and_by_candidates() -> None:
    too_many, found = bounded()
    # The groups by their lower bound: the root with one row, 20 to 30 with three, 40 to 50 with two rows of d.
    assert (too_many, found.impossible.tolist()) == (0, [0, 0, 0])
    assert found.most_persons.tolist() == [1, 3, 1]


def test_row_without_a_matching_original_is_counted() -> None:
    # No row between 20 and 30 has a rash, and only two have flu instead of three.
    too_many, found = bounded(illness=["flu", "cold", "rash", "flu", "flu", "flu"])
    assert too_many == 0
    assert found.impossible.tolist() == [0, 1, 1]
    # A range without original rows.
    assert bounded(age_min=[20, 20, 60, 40, 40, 0], age_max=[30, 30, 70, 50, 50, 100])[1].impossible.sum() == 1


def test_value_without_a_range_is_at_the_root_only() -> None:
    # The last row has no age. If it were published between 20 and 30, a third flu would be missing there.
    found = bounded(age_min=[20, 20, 20, 40, 40, 20], age_max=[30, 30, 30, 50, 50, 30])[1]
    assert found.impossible.tolist() == [1, 0]


def test_value_for_the_root_matches_only_the_root() -> None:
    """An age outside the domain is clamped to its end, but such a row is published at the root only."""
    schema = Schema(person="pid", quasi_identifiers=[Numeric("age", lower=0, upper=100, outside="root")])
    original = pa.table({"pid": ["a", "b", "c"], "age": [100, 95, 130]})
    for lower, most, impossible in ((90, 2, 1), (0, 3, 0)):
        published = pa.table({"age_min": [lower] * 3, "age_max": [100] * 3})
        sides, originals = read_boxes(published, schema), read_originals(original, schema)
        kept = kept_values(published, original, schema, columns=[], usable=~originals.rejected)
        found = bound_groups(sides, group_numbers(sides), originals, kept)
        assert (found.most_persons.tolist(), found.impossible.tolist()) == ([most], [impossible])


def test_combinations_cannot_occur_more_often_than_in_the_original() -> None:
    assert bounded(illness=["flu", "flu", "flu", "flu", "flu", "flu"])[0] == 2
    assert bounded(illness=["flu", "cold", "flu", "gone", "rash", "flu"])[0] == 1


def test_too_many_groups_are_sampled() -> None:
    found = bounded(most_pairs=7)[1]
    assert found.sampled
    assert found.groups.tolist() == [0, 2]
    assert not bounded()[1].sampled


@pytest.mark.parametrize("seed", range(5))
def test_true_publication_is_never_refuted(seed: int) -> None:
    """For random rows in random groups with boxes around them, the bounds are never below the true counts."""
    draw = np.random.default_rng(seed)
    count = 60
    ages, persons = draw.integers(0, 101, count), draw.integers(0, 25, count)
    original = pa.table({"pid": persons, "age": ages, "illness": draw.choice(["flu", "cold", "rash"], count)})
    row, group = draw.permutation(count)[:45], draw.integers(0, 9, 45)
    bounds = {g: (ages[row[group == g]].min(), ages[row[group == g]].max()) for g in np.unique(group)}
    lower, upper = np.array([bounds[g] for g in group]).T
    published = pa.table({"age_min": lower, "age_max": upper, "illness": original["illness"].take(pa.array(row))})
    sides, originals = read_boxes(published, SCHEMA, closed=True), read_originals(original, SCHEMA)
    numbers = group_numbers(sides)
    kept = kept_values(published, original, SCHEMA, columns=["illness"], usable=~originals.rejected)
    found = bound_groups(sides, numbers, originals, kept)
    assert kept.too_many == 0
    assert found.impossible.sum() == 0
    assert np.all(found.most_persons >= distinct_per_group(numbers, persons[row], found.all_groups))
