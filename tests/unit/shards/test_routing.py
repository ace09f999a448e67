"""Routes are functions of the row alone: the same in every batch, type and process; and they spread rows evenly."""

import datetime as dt
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.errors import SchemaError
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.shards.cuts import cut_domain
from castleguard.shards.plan import Route
from castleguard.shards.routing import HashRoute, LocalityRoute
from castleguard.shards.tree import Cut, Cuts

AGE = Numeric("age", lower=0, upper=100, step=10)
TREE = Hierarchy.from_mapping({"Any": {"School": ["Junior", "Senior"], "University": ["Bachelor", "Master"]}})
EDUCATION = Categorical("education", hierarchy=TREE)
BORN = Numeric("born", lower=dt.date(1900, 1, 1), upper=dt.date(2020, 1, 1), step=365)
PERSONS = Schema(person="id", quasi_identifiers=[AGE, EDUCATION], sensitive=["ill"], public=["seen"])
NOBODY = Schema(person=None, quasi_identifiers=[AGE, EDUCATION], sensitive=["ill"], public=["seen"])
CUTS = Cuts(Cut("age", 40.0, 0, Cut("education", 2.0, 1, 2)))


def rows(**columns: object) -> pa.Table:
    return pa.table(columns)


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([12, 5, None]),
        pa.array([12.0, 5.0, None]),
        pa.array(["12", "5", None]),
        pa.array([" 12 ", "05", ""]),
        pa.array(["1.2e1", "+5", None]).dictionary_encode(),
        pa.array([Decimal("12.00"), Decimal("5.00"), None]),
        pa.array([b"12", b"5", None]),
    ],
    ids=lambda ids: str(ids.type),
)
def test_a_person_has_one_shard_in_whatever_type_it_comes(ids: pa.Array) -> None:
    route = HashRoute(PERSONS, 1000)
    assert route.shard_of(rows(id=ids)).tolist() == route.shard_of(rows(id=[12, 5, None])).tolist()


def test_shards_of_persons_never_change() -> None:
    # Written down once: another release that sent rows elsewhere would break every state that is kept.
    assert HashRoute(PERSONS, 1000).shard_of(rows(id=["a", "b", "12", None])).tolist() == [77, 602, 148, 615]


@pytest.mark.compiled
@pytest.mark.parametrize("shards", [2, 3, 7, 16, 100])
def test_persons_spread_evenly(shards: int) -> None:
    many = 20_000
    counts = np.bincount(HashRoute(PERSONS, shards).shard_of(rows(id=np.arange(many))), minlength=shards)
    # Seven standard deviations of a fair draw.
    assert np.abs(counts - many / shards).max() < 7 * np.sqrt(many / shards)
    assert counts.size == shards


def test_positions_spread_evenly_and_take_the_place_of_persons() -> None:
    route = HashRoute(NOBODY, 5, ("partition", "offset"))
    assert route.columns == ("partition", "offset")
    places = rows(partition=np.repeat([0, 1, 2], 1000), offset=np.tile(np.arange(1000), 3))
    counts = np.bincount(route.shard_of(places), minlength=5)
    assert np.abs(counts - 600).max() < 7 * np.sqrt(600)
    swapped = rows(partition=places["offset"], offset=places["partition"])
    assert np.any(route.shard_of(places) != route.shard_of(swapped))


def test_a_person_counts_more_than_a_position() -> None:
    assert HashRoute(PERSONS, 5, ("offset",)).columns == ("id",)


def test_without_person_and_position_only_quasi_identifiers_decide() -> None:
    route = HashRoute(NOBODY, 64)
    assert route.columns == ("age", "education")
    values = {"age": list(range(100)), "education": ["Junior", "Master"] * 50}
    shards = route.shard_of(rows(**values))
    assert len(set(shards.tolist())) > 14  # of the 20 combinations of a cell and a leaf
    as_text = rows(age=[f" {age}.0" for age in range(100)], education=pa.array(values["education"]).dictionary_encode())
    assert route.shard_of(as_text).tolist() == shards.tolist()


def test_two_values_of_a_cell_have_one_shard() -> None:
    """Readers see the shard of a row: it must not say more about a number than what is published."""
    schema = Schema(person=None, quasi_identifiers=[AGE])
    route = HashRoute(schema, 1000)
    first, *same = route.shard_of(rows(age=[40.0, 41.0, 49.99, 44.0])).tolist()
    assert same == [first] * 3
    edges = route.shard_of(rows(age=[30.0, 40.0, 50.0, 90.0, 100.0, 130.0])).tolist()
    assert edges[1] == first
    assert len(set(edges)) == 4
    assert edges[3] == edges[4] == edges[5]  # the last cell, and what is clamped to it
    coarser = HashRoute(Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=100, step=20)]), 1000)
    assert route.fingerprint() != coarser.fingerprint()


def test_a_day_has_one_shard_as_date_as_moment_and_as_text() -> None:
    route = HashRoute(Schema(person=None, quasi_identifiers=[BORN]), 1000)
    days = [dt.date(1950, 1, 1) + dt.timedelta(days=365 * day) for day in range(50)]
    found = route.shard_of(rows(born=days)).tolist()
    assert len(set(found)) > 30
    moments = pa.array([dt.datetime(day.year, day.month, day.day, 7) for day in days], pa.timestamp("s"))
    for column in (moments, [day.isoformat() for day in days]):
        assert route.shard_of(rows(born=column)).tolist() == found


def test_a_column_that_cannot_be_read_goes_somewhere() -> None:
    lists = pa.array([[1], [2]])
    shards = HashRoute(NOBODY, 3).shard_of(rows(age=lists, education=["Junior", "Junior"]))
    assert set(shards.tolist()) <= {0, 1, 2}
    born = HashRoute(Schema(person=None, quasi_identifiers=[BORN]), 3)
    assert set(born.shard_of(rows(born=["soon", None])).tolist()) <= {0, 1, 2}


def test_persons_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(SchemaError, match="column 'id': values of type list"):
        HashRoute(PERSONS, 3).shard_of(rows(id=pa.array([[1]])))


def test_one_shard_needs_no_column() -> None:
    assert HashRoute(PERSONS, 1).shard_of(rows(other=[1, 2])).tolist() == [0, 0]
    assert LocalityRoute(PERSONS, Cuts(0)).shard_of(rows(other=[1, 2])).tolist() == [0, 0]
    assert HashRoute(PERSONS, 1).fingerprint() == LocalityRoute(PERSONS, Cuts(0)).fingerprint()


@pytest.mark.parametrize("shards", [0, -1, True, 2.0])
def test_a_number_of_shards_that_is_none_is_refused(shards: int) -> None:
    with pytest.raises(SchemaError, match="shards must be a whole number of at least 1"):
        HashRoute(PERSONS, shards)


def test_a_position_is_a_list() -> None:
    with pytest.raises(SchemaError, match="position must be a list of columns"):
        HashRoute(PERSONS, 2, "offset")  # type: ignore[arg-type]


def test_a_missing_column_is_named() -> None:
    with pytest.raises(SchemaError, match="column 'id' is needed to route a row"):
        HashRoute(PERSONS, 2).shard_of(rows(age=[1]))


def test_rows_go_where_the_cut_points_say() -> None:
    table = rows(
        id=[1, 2, 3, 4, 5, 6],
        age=[0, 39, 40, 99, -5, 400],
        education=["Master", "Junior", "Senior", "Bachelor", "Junior", "Master"],
    )
    # Below 40; then School (leaves 0 and 1) or University; outside the domain is beside its nearest bound.
    assert LocalityRoute(PERSONS, CUTS).shard_of(table).tolist() == [0, 0, 1, 2, 0, 2]


@pytest.mark.parametrize("kind", [pa.int16(), pa.float32(), pa.float64(), pa.string(), pa.decimal128(21, 2)])
def test_cut_points_ask_the_same_of_every_type(kind: pa.DataType) -> None:
    ages = pa.array([5, 39, 40, 41, 90]).cast(kind)
    table = rows(id=[1, 2, 3, 4, 5], age=ages, education=["Junior"] * 5)
    assert LocalityRoute(PERSONS, CUTS).shard_of(table).tolist() == [0, 0, 1, 1, 1]


def test_a_row_that_cannot_be_read_goes_by_its_person() -> None:
    ids = list(range(40))
    ages: list[str | None] = ["old", None, "nan", "12"] * 10
    table = rows(id=ids, age=ages, education=["Junior"] * 40)
    shards = LocalityRoute(PERSONS, CUTS).shard_of(table)
    hashed = HashRoute(PERSONS, 3).shard_of(table)
    unread = np.arange(40) % 4 != 3
    assert shards[unread].tolist() == hashed[unread].tolist()
    assert set(shards[~unread].tolist()) == {0}


def test_a_row_that_cannot_be_read_goes_to_the_first_shard_if_it_has_no_person() -> None:
    table = rows(age=[None] * 30 + [50], education=["Junior", "Master", "Senior"] * 10 + ["Master"])
    route = LocalityRoute(NOBODY, CUTS)
    assert route.shard_of(table).tolist() == [0] * 30 + [2]
    assert set(route.columns) == {"age", "education"}


def test_a_label_that_is_no_leaf_goes_by_its_person() -> None:
    table = rows(id=list(range(30)), age=[50] * 30, education=["University"] * 30)
    shards = LocalityRoute(PERSONS, CUTS).shard_of(table)
    assert shards.tolist() == HashRoute(PERSONS, 3).shard_of(table).tolist()


def test_no_route_reads_a_sensitive_or_public_column() -> None:
    for schema in (PERSONS, NOBODY):
        for route in (HashRoute(schema, 3), LocalityRoute(schema, CUTS)):
            assert not {"ill", "seen"} & set(route.columns)


@pytest.mark.parametrize(
    ("cuts", "words"),
    [
        (Cuts(Cut("height", 1.0, 0, 1)), "'height' is not a quasi-identifier"),
        (Cuts(Cut("age", 37.0, 0, 1)), "no edge of the public grid"),
        (Cuts(Cut("age", 0.0, 0, 1)), "no edge of the public grid inside the domain"),
        (Cuts(Cut("age", 100.0, 0, 1)), "no edge of the public grid inside the domain"),
        (Cuts(Cut("education", 1.5, 0, 1)), "between no two leaves"),
        (Cuts(Cut("education", 4.0, 0, 1)), "between no two leaves"),
    ],
)
def test_cut_points_that_are_not_public_are_refused(cuts: Cuts, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        LocalityRoute(PERSONS, cuts)


ROUTES: list[Route] = [
    HashRoute(PERSONS, 5),
    HashRoute(NOBODY, 5),
    HashRoute(NOBODY, 5, ("seen",)),
    LocalityRoute(PERSONS, CUTS),
    LocalityRoute(NOBODY, CUTS),
]


@pytest.mark.parametrize("route", ROUTES)
def test_a_route_survives_a_journey_to_a_worker(route: Route) -> None:
    table = rows(id=[3, 1, 4], age=[15, 92, None], education=["Junior", "Master", "Senior"], seen=[6, 5, 3])
    before = route.shard_of(table)
    there = pickle.loads(pickle.dumps(route))
    assert there == route
    assert there.shard_of(table).tolist() == before.tolist()
    assert there.fingerprint() == route.fingerprint()


def test_fingerprints_tell_routes_apart() -> None:
    others = [
        *ROUTES,
        HashRoute(PERSONS, 6),
        LocalityRoute(PERSONS, Cuts(Cut("age", 50.0, 0, Cut("education", 2.0, 1, 2)))),
        LocalityRoute(PERSONS, Cuts(Cut("age", 40.0, 1, Cut("education", 2.0, 0, 2)))),
    ]
    found = [str(route.fingerprint()) for route in others]
    assert len(set(found)) == len(found)
    assert HashRoute(PERSONS, 5, ("seen",)).fingerprint() == HashRoute(PERSONS, 5).fingerprint()


@given(
    ages=st.lists(st.one_of(st.none(), st.integers(-20, 120)), max_size=30),
    parts=st.integers(1, 12),
    shards=st.integers(1, 9),
)
def test_however_rows_are_batched_they_go_to_the_same_shards(ages: list[int | None], parts: int, shards: int) -> None:
    many = len(ages)
    table = rows(
        id=pa.array(range(many), pa.int64()),
        age=pa.array(ages, pa.int64()),
        education=pa.array([TREE.leaves[n % 4] for n in range(many)], pa.string()),
    )
    for route in (
        HashRoute(PERSONS, shards),
        HashRoute(NOBODY, shards),
        LocalityRoute(PERSONS, cut_domain(PERSONS, shards)),
    ):
        whole = route.shard_of(table)
        assert whole.dtype == np.int32
        assert whole.size == many
        cut = [route.shard_of(table.slice(at, parts)) for at in range(0, many + 1, parts)]
        assert np.concatenate(cut).tolist() == whole.tolist()
        assert many == 0 or (whole.min() >= 0 and whole.max() < shards)
