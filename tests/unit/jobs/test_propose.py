"""Guesses for a job file: roles, domains and comments that a person reviews."""

import datetime as dt
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.config.document import read_document
from castleguard.errors import ConfigError
from castleguard.jobs.load import load, load_schema
from castleguard.jobs.propose.domains import nice, number_bins, number_domain, time_domain
from castleguard.jobs.propose.guesses import Guess
from castleguard.jobs.propose.job_text import Subject, proposal, scalar
from castleguard.jobs.propose.profile import Profile
from castleguard.jobs.propose.proposal import propose
from castleguard.schema.roles import Numeric

ROWS = 200


def guess(values: object, name: str = "column") -> Guess:
    """The guess for a column of this name beside one of another."""
    (found,) = propose(pa.table({name: pa.array(values)})).guesses
    return found


@pytest.mark.parametrize(
    ("name", "values", "role"),
    [
        ("patient_id", [f"p{n % 50}" for n in range(ROWS)], "person"),
        ("CustomerNo", list(range(ROWS)), "person"),
        ("user", [f"u{n}" for n in range(ROWS)], "person"),
        ("patient", [f"p{n}" for n in range(ROWS)], "person"),
        ("userid", [n % 50 for n in range(ROWS)], "person"),
        ("id", [f"x{n % 50}" for n in range(ROWS)], "person"),
        ("id", [f"x{n}" for n in range(ROWS)], "dropped"),
        ("rownames", [n * 7 % ROWS for n in range(ROWS)], "dropped"),
        ("movieId", [n % 20 for n in range(ROWS)], "quasi-identifier"),
        ("driver_age", [20 + n % 40 for n in range(ROWS)], "quasi-identifier"),
        ("age", [20 + n % 40 for n in range(ROWS)], "quasi-identifier"),
        ("city", ["Rome", "Oslo"] * (ROWS // 2), "quasi-identifier"),
        ("income", [n * 37 % 1000 for n in range(ROWS)], "sensitive"),
        ("diagnosis", ["flu", "cold"] * (ROWS // 2), "sensitive"),
        ("email", ["a@x", "b@x"] * (ROWS // 2), "dropped"),
        ("last_name", ["Ann", "Bob"] * (ROWS // 2), "dropped"),
        ("note", [f"text {n}" for n in range(ROWS)], "dropped"),
        ("note", [f"text {n % 80}" for n in range(ROWS)], "dropped"),
        ("line", list(range(ROWS)), "dropped"),
        ("constant", ["x"] * ROWS, "dropped"),
        ("empty", [None] * ROWS, "dropped"),
        ("blank", [""] * ROWS, "dropped"),
        ("nested", [{"a": 1}] * ROWS, "dropped"),
        ("zone_id", [n % 5 for n in range(ROWS)], "quasi-identifier"),
        ("zone_id", [n * 7 % 199 for n in range(ROWS)], "dropped"),
    ],
)
def test_roles_go_by_names_and_values(name: str, values: list[object], role: str) -> None:
    assert guess(values, name).role == role


def test_one_column_of_persons_is_chosen_and_other_identifiers_are_dropped() -> None:
    table = pa.table({
        "trip_id": [f"t{n}" for n in range(ROWS)], "age": [n % 60 for n in range(ROWS)],
        "rider_id": [f"r{n % 70}" for n in range(ROWS)],
    })  # fmt: skip
    assert [found.role for found in propose(table).guesses] == ["dropped", "quasi-identifier", "person"]


def test_two_identifiers_that_may_be_the_person_are_both_offered() -> None:
    table = pa.table({
        "id": [f"t{n}" for n in range(ROWS)], "age": [n % 60 for n in range(ROWS)],
        "case_id": [f"r{n % 70}" for n in range(ROWS)],
    })  # fmt: skip
    found = propose(table)
    assert "person" not in [guess.role for guess in found.guesses]
    assert 'person: "?"' in found.text
    assert "# case_id: about 70 values, 2.9 rows each" in found.text
    assert "# id: a different value in almost every row" in found.text
    with pytest.raises(ConfigError, match="is not chosen: name the column"):
        load_schema(found.schema)


def test_an_open_person_is_refused_and_null_is_a_choice(tmp_path: Path) -> None:
    found = propose(pa.table({"age": [n % 60 for n in range(ROWS)]}))
    found.write(tmp_path / "job.yaml")
    text = (tmp_path / "job.yaml").read_text().replace("confirmed: false", "confirmed: true")
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(ConfigError, match="person is not chosen"):
        load(tmp_path / "job.yaml")
    (tmp_path / "job.yaml").write_text(text.replace('person: "?"', "person: null"))
    assert load(tmp_path / "job.yaml").schema.person is None


def test_at_most_six_columns_are_quasi_identifiers_and_known_ones_come_first() -> None:
    draw = np.random.default_rng(0)
    table = pa.table({
        **{f"measure{at}": draw.normal(size=ROWS) for at in range(8)}, "sex": draw.choice(["f", "m"], ROWS),
        "birth_year": draw.integers(1920, 2000, ROWS), "city": draw.choice(["Rome", "Oslo", "Bern", "Bonn"], ROWS),
    })  # fmt: skip
    roles = {found.column: found.role for found in propose(table).guesses}
    assert sum(role == "quasi-identifier" for role in roles.values()) == 6
    assert roles["birth_year"] == roles["city"] == "quasi-identifier"


def test_few_rows_are_rejected() -> None:
    values = [None if n % 25 == 0 else 20 + n % 40 for n in range(ROWS)]
    few = [None if n % 50 == 0 else n % 90 for n in range(ROWS)]
    text = propose(pa.table({"height": values, "weight": few})).text
    assert "null: root, invalid: root}" in text.partition("name: weight")[0]
    assert "null: reject}" in text.partition("name: weight")[2]


def test_a_column_that_is_often_empty_is_no_quasi_identifier() -> None:
    values = [None if n % 4 == 0 else 20 + n % 40 for n in range(ROWS)]
    found = propose(pa.table({"height": values, "weight": [n % 90 for n in range(ROWS)]}))
    assert (found.guesses[0].role, found.guesses[0].reason) == ("dropped", "has no readable value in 25 % of the rows")


def test_the_delay_is_long_where_rows_of_few_persons_arrive_together() -> None:
    rows = 50_000
    table = pa.table({"user_id": [f"u{n // 100}" for n in range(rows)], "age": [n % 70 for n in range(rows)]})
    assert "delay: 10000  # GUESS: rows that may arrive before a row must be published; long" in propose(table).text
    mixed = table.take(np.random.default_rng(0).permutation(rows))
    assert "delay: 1000  # GUESS: rows that may arrive before a row must be published; more" in propose(mixed).text


def test_l_is_left_out_where_rows_with_equal_values_arrive_together() -> None:
    rows = 60_000
    columns = {"diagnosis": ["flu"] * (rows // 2) + ["cold"] * (rows // 2), "age": [n % 70 for n in range(rows)]}
    table = pa.table(columns)
    text = propose(table).text
    assert "# l: 2  # left out: rows with equal diagnosis arrive together" in text
    assert "  l: 2  # GUESS" not in text
    mixed = table.take(np.random.default_rng(0).permutation(rows))
    assert "  l: 2  # GUESS" in propose(mixed).text


def test_the_whole_file_is_read_and_not_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("patient_id,weight\n" + "".join(f"p{n % 3000},{n // 300}\n" for n in range(60_000)))
    found = propose(path)
    assert found.rows == 60_000
    assert found.schema["quasi_identifiers"][0]["upper"] >= 200
    assert "about 3,000 values, 20.0 rows each" in found.text


def test_codes_are_labels_and_postcodes_are_not_numbers() -> None:
    assert guess([n % 3 for n in range(ROWS)], "payment_type").labels == ("0", "1", "2")
    assert guess(["01067", "10115"] * (ROWS // 2), "zip").labels == ("01067", "10115")


def test_rare_labels_are_not_repeated() -> None:
    found = guess(["Rome"] * 100 + ["Oslo"] * 100 + ["Atlantis"], "city")
    assert (found.labels, found.rare) == (("Oslo", "Rome"), 1)
    text = proposal(Subject("x.csv", "x.csv", "csv", 201), [found])
    assert "Atlantis" not in text
    assert "unknown: root" in text


@pytest.mark.parametrize(
    ("column", "values", "comment"),
    [
        (
            "days",
            [None] * 2 + [1, 7, 3] * 51,
            "2 rows of the sample have no value here: null: reject rejects them",
        ),
        (
            "income",
            [None] * 5 + [1, 7, 3] * 50,
            "5 rows of the sample have no value here: together they count as",
        ),
        ("patient_id", [None] * 5 + ["a", "b", "c"] * 50, "they count as one person together"),
    ],
)
def test_missing_values_are_explained(column: str, values: list[object], comment: str, tmp_path: Path) -> None:
    others = pa.table({column: pa.array(values), "weight": pa.array(([1.5, 2.5, 7.5, 9.0, 4.0] * 31)[: len(values)])})
    text = propose(others).text
    assert comment in text
    assert ("null: reject}" in text) == (column == "days")
    (tmp_path / "in.yaml").write_text(text)
    assert read_document(tmp_path / "in.yaml").data


def test_without_missing_values_there_is_no_comment() -> None:
    text = propose(pa.table({"column": [1, 7, 3] * 50, "person": [f"p{n}" for n in range(150)]})).text
    assert "null" not in text
    assert "no value" not in text


@pytest.mark.parametrize(
    ("name", "good", "comment"),
    [
        (
            "weight",
            [str(n) for n in range(96)],
            "# 96 % of the values are numbers; the rest is published without detail in any column",
        ),
        (
            "seen",
            [f"2026-01-{n % 28 + 1:02}" for n in range(96)],
            "# 96 % of the values are dates; the rest is published without detail in any column",
        ),
        (
            "income",
            [str(n * 37 % 101) for n in range(96)],
            "# 96 % of the values are numbers; the rest counts as one additional",
        ),
    ],
)
def test_a_column_with_some_mess_in_it_is_still_one_of_numbers_or_dates(
    name: str, good: list[str], comment: str
) -> None:
    text = propose(pa.table({name: [*good, "?", "none", "n/a", "x"] * 5})).text
    assert comment in text
    assert "different texts" not in text
    assert "values are" not in propose(pa.table({name: good})).text


def test_candidates_for_the_person_column_are_named_if_none_is_found() -> None:
    columns = {"who": [f"w{n % 70}" for n in range(ROWS)], "age": [str(n % 15) for n in range(ROWS)]}
    assert "# who: about 70 values, 2.9 rows each" in propose(pa.table(columns)).text
    columns["patient_id"] = [f"p{n % 70}" for n in range(ROWS)]
    assert "# who" not in propose(pa.table(columns)).text


def test_dates_and_timestamps_are_recognised_as_text_and_as_types() -> None:
    days = [dt.date(2026, 1, 1) + dt.timedelta(days=n) for n in range(ROWS)]
    for values in (days, [day.isoformat() for day in days]):
        domain = guess(values).domain
        assert domain is not None
        assert (domain.lower, domain.upper, domain.step) == ("2025-12-01", "2026-09-01", "7")
    moments = [f"2026-03-01T{n % 24:02}:15:30" for n in range(ROWS)]
    domain = guess(moments).domain
    assert domain is not None
    assert (domain.lower, domain.upper) == ("2026-02-28 00:00:00", "2026-03-03 00:00:00")


def test_an_age_has_the_domain_that_everybody_knows() -> None:
    domain = guess([18 + n % 60 for n in range(ROWS)], "age").domain
    assert domain == ("0", "120", "5")


def profile(values: list[float], kind: str = "number") -> Profile:
    return Profile("x", len(values), kind, Counter(map(str, values)), np.array(values, dtype=np.float64))  # type: ignore[arg-type]


@given(values=st.lists(st.floats(-1e12, 1e12).map(lambda x: round(x, 3)) | st.integers(-(10**9), 10**9), min_size=1))
def test_bounds_of_numbers_leave_room_differ_from_values_and_can_be_declared(values: list[float]) -> None:
    found = profile(values)
    lower, upper, step = map(float, number_domain(found)[0])
    if step == 1 and (lower, upper) == (min(values), max(values) + 1):
        assert len(set(values)) <= 20  # each is a cell
        return
    room = (max(values) - min(values)) / 10
    assert upper >= max(values) + 0.99 * room
    assert lower <= min(values) - 0.99 * room or lower == 0 <= min(values)
    assert Numeric("x", lower=lower, upper=upper, step=step).edges.size >= 2


@given(values=st.lists(st.integers(-700_000, 2_900_000).map(float), min_size=1))
def test_bounds_of_dates_leave_room_and_can_be_declared(values: list[float]) -> None:
    lower, upper, step = time_domain(profile(values, "date"))
    low, high = dt.date.fromisoformat(lower), dt.date.fromisoformat(upper)
    day = dt.timedelta(days=1)
    epoch = dt.date(1970, 1, 1)
    assert low <= max(epoch + min(values) * day - day, dt.date(1, 1, 2))
    assert high >= min(epoch + max(values) * day + day, dt.date(9999, 1, 1))
    assert Numeric("x", lower=low, upper=high, step=int(step)).edges.size >= 2


@given(values=st.lists(st.floats(-1e12, 1e12), min_size=1))
def test_bins_are_sorted_and_never_empty(values: list[float]) -> None:
    edges = [float(edge) for edge in number_bins(profile(values))]
    assert edges == sorted(set(edges))
    assert edges


def test_nice_numbers() -> None:
    assert [nice(Decimal(text)) for text in ("9", "4", "1", "0.07")] == [5, 2, 1, Decimal("0.05")]


@given(text=st.text(min_size=1))
def test_a_text_comes_back_from_yaml_as_it_was(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    if "\0" in text or any(0xD800 <= ord(character) < 0xE000 for character in text):
        return
    path = tmp_path_factory.mktemp("yaml") / "x.yaml"
    path.write_text(f"a: [{scalar(text)}]\n", encoding="utf-8")
    assert read_document(path).data == {"a": [text]}
