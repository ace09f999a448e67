"""Re-identification risks on two groups that can be counted by hand."""

import pyarrow as pa
import pytest

from castleguard.judge.attack import linkage
from castleguard.judge.reading.linked import Linked, link
from castleguard.judge.reading.originals import read_originals
from castleguard.schema.roles import Numeric, Schema

AGE = Numeric("age", lower=0, upper=100, step=10)
SCHEMA = Schema(person="pid", quasi_identifiers=[AGE], public=["row"])


@pytest.fixture
def linked() -> Linked:
    """Group 20 to 30: a, b, c and a again. Group 40 to 50: a and d."""
    original = {"row": range(6), "pid": ["a", "b", "c", "a", "a", "d"], "age": [21, 24, 29, 28, 44, 46]}
    published = {"row": range(6), "age_min": [20] * 4 + [40] * 2, "age_max": [30] * 4 + [50] * 2}
    tables = [pa.table({name: list(values) for name, values in table.items()}) for table in (published, original)]
    return link(tables[0], tables[1], SCHEMA, by="row")


def test_prosecutor_risk_is_that_of_the_smallest_group(linked: Linked) -> None:
    risks = linkage.prosecutor(linked, threshold=0.4)
    assert risks.per_person == pytest.approx([1 / 2, 1 / 3, 1 / 3, 1 / 2])
    assert risks.highest == 0.5
    assert risks.mean == pytest.approx(5 / 12)
    assert risks.above == 0.5


def test_share_of_rows_counts_repeated_rows_of_a_person(linked: Linked) -> None:
    # Two of four rows and one of two are a's.
    assert linkage.share_of_rows(linked) == pytest.approx([1 / 2, 1 / 4, 1 / 4, 1 / 2])


def test_marketer_is_right_once_in_every_group(linked: Linked) -> None:
    # Two groups with three and two persons: 2 right of 5.
    assert linkage.marketer(linked) == pytest.approx(2 / 5)


def test_journalist_risk_counts_the_population(linked: Linked) -> None:
    population = pa.table({"pid": ["a", "b", "c", "e", "e", "d"], "age": [21, 24, 29, 20, 25, 46]})
    counts = linkage.population_counts(
        linked.sides, linked.groups, read_originals(population, Schema(person="pid", quasi_identifiers=[AGE]))
    )
    assert counts.tolist() == [4, 1]  # a, b, c, e; and d alone, as a has another age there
    risks = linkage.journalist(linked, counts, threshold=0.4)
    # The second group has two persons, so the population counts at least two.
    assert risks.per_person == pytest.approx([1 / 2, 1 / 4, 1 / 4, 1 / 2])
    assert linkage.marketer_of_population(linked, counts) == pytest.approx((3 / 4 + 2 / 2) / 5)
