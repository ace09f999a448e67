"""Cut points are public, balanced, and go through few published boxes."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import castleguard as cg
from castleguard.errors import InputError, SchemaError
from castleguard.release.encode import Numbers
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.shards.cuts import cut_domain, cut_published, shares
from castleguard.shards.routing import HashRoute, LocalityRoute
from castleguard.shards.tree import Cut, Cuts

AGE = Numeric("age", lower=0, upper=100, step=10)
PAY = Numeric("pay", lower=0, upper=1000, step=100)
TREE = Hierarchy.from_mapping(
    {"Any": {"School": ["Junior", "Senior"], "University": ["Bachelor", "Master", "Doctor"], "None": None}}
)
EDUCATION = Categorical("education", hierarchy=TREE)
BOTH = Schema(person="id", quasi_identifiers=[AGE, PAY])
ONE = Schema(person=None, quasi_identifiers=[AGE])


def boxes(*rows: tuple[int, int, int, int, int]) -> pa.Table:
    """(age_min, age_max, pay_min, pay_max, rows) per box."""
    repeated = [row[:4] for row in rows for _ in range(row[4])]
    names = ("age_min", "age_max", "pay_min", "pay_max")
    return pa.table({name: [row[at] for row in repeated] for at, name in enumerate(names)})


def test_the_domain_is_halved_axis_by_axis() -> None:
    # First the age, as the first of two equally wide sides; then the pay, which is wider than what is left of it.
    below, above = Cut("pay", 500.0, 0, 1), Cut("pay", 500.0, 2, 3)
    assert cut_domain(BOTH, 4) == Cuts(Cut("age", 50.0, below, above))


def test_three_shards_have_a_third_each() -> None:
    # Of ten cells three lie below 30, and 3.5 would be half of the seven above: 60 is as near as 70, and comes first.
    assert cut_domain(ONE, 3) == Cuts(Cut("age", 30.0, 0, Cut("age", 60.0, 1, 2)))


def test_one_shard_is_not_cut() -> None:
    assert cut_domain(BOTH, 1) == Cuts(0)


def test_categories_are_cut_between_children_of_one_node() -> None:
    schema = Schema(person=None, quasi_identifiers=[EDUCATION])
    # Leaves: Junior Senior | Bachelor Master Doctor | None. Half of six is 3, inside the University: 2 is nearest.
    assert cut_domain(schema, 2) == Cuts(Cut("education", 2.0, 0, 1))
    # As many shards as leaves: every leaf has its own.
    cuts = cut_domain(schema, 6)
    shards = LocalityRoute(schema, cuts).shard_of(pa.table({"education": list(TREE.leaves)}))
    assert shards.tolist() == [0, 1, 2, 3, 4, 5]


def test_more_shards_than_cells_are_refused() -> None:
    with pytest.raises(SchemaError, match="have 10 cells together, too few for 11 shards"):
        cut_domain(ONE, 11)
    assert cut_domain(ONE, 10).shards == 10


@pytest.mark.parametrize("shards", [0, -3, True])
def test_a_number_of_shards_that_is_none_is_refused(shards: int) -> None:
    with pytest.raises(SchemaError, match="shards must be a whole number"):
        cut_domain(ONE, shards)


def test_a_number_without_a_domain_cannot_be_cut() -> None:
    schema = Schema(person=None, quasi_identifiers=[AGE, Numeric("pay")])
    words = "column 'pay' needs lower and upper to be cut"
    with pytest.raises(SchemaError, match=words):
        cut_domain(schema, 2)
    with pytest.raises(SchemaError, match=words):
        cut_published(boxes((0, 10, 0, 10, 1)), schema, 2)
    assert cut_domain(schema, 2, columns=["age"]).columns == ("age",)


def test_timestamps_are_cut_only_by_name_or_alone() -> None:
    came = Numeric("came", lower=dt.datetime(2026, 1, 1), upper=dt.datetime(2027, 1, 1), step=86_400)
    schema = Schema(person=None, quasi_identifiers=[came, AGE])
    assert cut_domain(schema, 8).columns == ("age",)
    assert cut_domain(schema, 2, columns=["came"]).columns == ("came",)
    assert cut_domain(Schema(person=None, quasi_identifiers=[came]), 2).columns == ("came",)


def test_a_column_that_is_not_a_quasi_identifier_cannot_be_cut() -> None:
    with pytest.raises(SchemaError, match=r"'id' is not a quasi-identifier .*age, pay"):
        cut_domain(BOTH, 2, columns=["id"])


def test_published_rows_are_parted_evenly() -> None:
    # Three quarters of the rows are young: the middle row is at 20, far from the middle of the domain.
    table = boxes((0, 10, 0, 1000, 40), (10, 20, 0, 1000, 10), (20, 30, 0, 1000, 25), (60, 70, 0, 1000, 25))
    cuts = cut_published(table, BOTH, 2)
    assert cuts == Cuts(Cut("age", 20.0, 0, 1))
    assert shares(cuts, table, BOTH) == (0.5, 0.5)


def test_a_cut_goes_through_few_boxes() -> None:
    # At age 50 the cut would halve the rows as well, but through the box of all of them; at pay 500 through none.
    table = boxes((0, 100, 0, 400, 30), (0, 100, 600, 1000, 30))
    cuts = cut_published(table, BOTH, 2)
    assert [cut.column for cut in cuts.walk()] == ["pay"]
    assert 400 <= next(cuts.walk()).at <= 600


def test_evenness_counts_more_than_boxes() -> None:
    # A cut at pay 900 goes through no box, and leaves 2 of 100 rows above it.
    table = boxes((0, 50, 0, 900, 49), (50, 100, 0, 900, 49), (0, 100, 900, 1000, 2))
    assert cut_published(table, BOTH, 2).columns == ("age",)


def test_a_box_that_is_cut_counts_on_both_sides() -> None:
    table = boxes((0, 40, 0, 1000, 8), (40, 60, 0, 1000, 4), (60, 100, 0, 1000, 8))
    # Half of the 4 rows lie below 50; of the first 8 a quarter below 10.
    assert shares(Cuts(Cut("age", 50.0, 0, 1)), table, BOTH) == (0.5, 0.5)
    assert shares(Cuts(Cut("age", 10.0, 0, 1)), table, BOTH) == (0.1, 0.9)


def test_nulls_and_roots_say_nothing() -> None:
    table = boxes((0, 10, 0, 100, 10), (10, 20, 0, 100, 10), (0, 100, 0, 1000, 500))
    nulls = pa.table({name: pa.nulls(500, pa.int64()) for name in table.column_names})
    cuts = cut_published(pa.concat_tables([table, nulls]), BOTH, 2)
    assert cuts == Cuts(Cut("age", 10.0, 0, 1))


def test_nothing_said_is_refused() -> None:
    with pytest.raises(InputError, match="say nothing"):
        cut_published(boxes((0, 100, 0, 1000, 5)), BOTH, 2)


def test_where_nothing_was_published_the_domain_is_halved() -> None:
    # All rows are in one cell of the age: the other shards have to be somewhere.
    cuts = cut_published(boxes((0, 10, 0, 100, 50)), BOTH, 4)
    assert cuts.shards == 4
    assert max(shares(cuts, boxes((0, 10, 0, 100, 50)), BOTH)) == 1.0


def test_inner_nodes_are_read_as_their_leaves() -> None:
    schema = Schema(person=None, quasi_identifiers=[EDUCATION])
    labels = ["School"] * 50 + ["University"] * 30 + ["Master"] * 10 + ["None"] * 10 + ["Any"] * 99
    table = pa.table({"education": pa.array(labels).dictionary_encode()})
    cuts = cut_published(table, schema, 2)
    assert cuts == Cuts(Cut("education", 2.0, 0, 1))
    assert shares(cuts, table, schema) == (0.5, 0.5)


@pytest.mark.parametrize("numbers", ["bounds", "interval", "midpoint"])
def test_every_published_form_is_read(numbers: Numbers) -> None:
    born = Numeric("born", lower=dt.date(1920, 1, 1), upper=dt.date(2020, 1, 1), step=366)
    schema = Schema(person="id", quasi_identifiers=[born, EDUCATION])
    days = [dt.date(1930 + 60 * (n % 2), 1 + n % 12, 1) for n in range(120)]
    rows = pa.table({"id": range(120), "born": days, "education": [TREE.leaves[n % 2] for n in range(120)]})
    published = cg.anonymise(rows, schema, cg.Castle(k=3, delay=30), seed=1, numbers=numbers)
    cuts = cut_published(published, schema, 2, numbers=numbers, columns=["born"])
    # Half of the persons were born in 1930, half in 1990.
    between = [(dt.date(year, 1, 1) - dt.date(1970, 1, 1)).days for year in (1931, 1990)]
    assert between[0] - 366 <= next(cuts.walk()).at <= between[1] + 366
    assert max(shares(cuts, published, schema, numbers=numbers)) < 0.6


def test_text_is_read_as_it_stands_in_a_file() -> None:
    table = boxes((0, 10, 0, 100, 10), (50, 60, 0, 100, 10))
    texts = table.cast(pa.schema([(name, pa.string()) for name in table.column_names]))
    assert cut_published(texts, BOTH, 2) == cut_published(table, BOTH, 2)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pa.table({"id": [1], "age_min": [1], "age_max": [2], "pay_min": [1], "pay_max": [2]}), "'id' of persons"),
        (pa.table({"age": [1], "pay": [2]}), "no column 'age_min': give what was published"),
        (
            pa.table({"age_min": ["a"], "age_max": ["2"], "pay_min": [1], "pay_max": [2]}),
            "'age' has a bound that is no",
        ),
    ],
)
def test_what_was_not_published_is_refused(table: pa.Table, words: str) -> None:
    with pytest.raises(InputError, match=words):
        cut_published(table, BOTH, 2)


def test_a_label_of_no_tree_is_refused_without_showing_it() -> None:
    schema = Schema(person=None, quasi_identifiers=[EDUCATION])
    with pytest.raises(InputError, match="no node of its hierarchy") as refused:
        cut_published(pa.table({"education": ["Kindergarten"]}), schema, 2)
    assert "Kindergarten" not in str(refused.value)


def test_a_form_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SchemaError, match="numbers must be"):
        cut_published(boxes((0, 10, 0, 10, 1)), BOTH, 2, numbers="middle")  # type: ignore[arg-type]


@given(
    shards=st.integers(1, 40),
    corners=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9)), max_size=12),
)
def test_any_number_of_shards_fits_any_rows(shards: int, corners: list[tuple[int, int, int]]) -> None:
    rows = [(10 * a, 10 * a + 10, 100 * p, min(100 * p + 200, 1000), n) for a, p, n in corners]
    cuts = [cut_domain(BOTH, shards), *([cut_published(boxes(*rows), BOTH, shards)] if rows else [])]
    for each in cuts:
        LocalityRoute(BOTH, each)  # which refuses cut points that are not public
        assert each.shards == shards
        cells = {"age": np.repeat(np.arange(0.0, 100, 10), 10), "pay": np.tile(np.arange(0.0, 1000, 100), 10)}
        assert set(each.shard_of(cells, rows=100).tolist()) == set(range(shards))


@pytest.mark.compiled
def test_similar_rows_in_one_shard_lose_less_than_rows_at_random() -> None:
    # With cells as wide as a cluster of rows, one cell would be all that any group loses.
    quasi = [Numeric("age", lower=0, upper=100, step=1), Numeric("pay", lower=0, upper=1000, step=10)]
    fine = Schema(person="id", quasi_identifiers=quasi)
    draw = np.random.default_rng(0)
    centre = draw.integers(0, 4, 6000)
    age, pay = 15 + 20 * centre + draw.integers(0, 10, 6000), 100 + 200 * (3 - centre) + draw.integers(0, 100, 6000)
    rows = pa.table({"id": np.arange(6000), "age": age, "pay": pay})
    earlier, later = rows.slice(0, 2000), rows.slice(2000)
    published = cg.anonymise(earlier, fine, cg.Castle(k=10, delay=400), seed=0)

    def loss(place: NDArray[np.int32], delay: int) -> float:
        total = 0.0
        for shard in range(place.max() + 1):
            stream = cg.Anonymiser(fine, cg.Castle(k=10, delay=delay), seed=0)
            stream.push(later.filter(pa.array(place == shard)))
            stream.flush()
            report = stream.report()
            total += (report.information_loss or 0.0) * report.published + report.suppressed
        return total / len(later)

    alone = loss(np.zeros(later.num_rows, dtype=np.int32), 400)
    by_value = loss(LocalityRoute(fine, cut_published(published, fine, 4)).shard_of(later), 100)
    by_person = loss(HashRoute(fine, 4).shard_of(later), 100)
    assert by_value < 1.1 * alone < by_person
