"""Groups of a person have k persons each, and may have only that person in common."""

import pyarrow as pa

from castleguard.judge.attack.longitudinal import by_groups, by_values
from castleguard.judge.reading.linked import Linked, link
from castleguard.schema.roles import Numeric, Schema

SCHEMA = Schema(person="pid", quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10)], public=["row"])


def linked(persons: str, ages: list[int], lower: list[int], upper: list[int]) -> Linked:
    rows = list(range(len(persons)))
    original = pa.table({"row": rows, "pid": list(persons), "age": ages})
    return link(pa.table({"row": rows, "age_min": lower, "age_max": upper}), original, SCHEMA, by="row")


TWO_GROUPS = linked(
    "abcadebc", [21, 22, 23, 41, 42, 43, 24, 25], [20] * 3 + [40] * 3 + [20] * 2, [30] * 3 + [50] * 3 + [30] * 2
)
"""Group 20 to 30: a, b, c and b, c again. Group 40 to 50: a, d, e."""


def test_intersecting_groups_leaves_fewer_than_k() -> None:
    found = by_groups(TWO_GROUPS)
    # a is alone in both groups; b and c come twice in the same group of three. d and e have one row.
    assert found.sizes.tolist() == [1, 3, 3]
    assert found.followed == 3
    assert found.alone == 1 / 3
    assert found.below(3) == 1 / 3
    assert found.percentiles() == {"5 %": 1, "25 %": 1, "50 %": 3, "75 %": 3}


def test_knowing_values_leaves_more_candidates_than_knowing_groups() -> None:
    # A third group overlaps the first: for the rows of a, b and c between 20 and 30 its persons f and g count too.
    more = linked(
        "abcadebcfg",
        [21, 22, 23, 41, 42, 43, 24, 25, 29, 48],
        [20] * 3 + [40] * 3 + [20] * 4,
        [30] * 3 + [50] * 3 + [30] * 2 + [50] * 2,
    )
    assert by_groups(more).sizes.tolist() == [1, 3, 3]
    # a: {a, b, c, f, g} and {a, d, e, f, g}, so a, f and g are left; b and c: {a, b, c, f, g} twice.
    assert by_values(more).sizes.tolist() == [3, 5, 5]


def test_sample_limits_the_attacked_persons() -> None:
    assert by_groups(TWO_GROUPS, most=2).sizes.size == 2
    assert by_values(TWO_GROUPS, most=1).sizes.size == 1
    assert by_groups(TWO_GROUPS, most=2).followed == 3


def test_person_with_one_row_is_not_attacked() -> None:
    found = by_groups(linked("abc", [21, 22, 23], [20] * 3, [30] * 3))
    assert found.sizes.size == 0
    assert (found.alone, found.below(2), found.percentiles()) == (0.0, 0.0, {})
