"""`castleguard init`: guesses that are marked, rounded out, and refused until somebody has looked at them."""

import datetime as dt
import stat
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.config.document import read_document
from castleguard.config.job_model import JobFile
from castleguard.errors import ConfigError
from castleguard.jobs import assemble
from castleguard.jobs.propose.domains import nice, number_bins, number_domain, time_domain
from castleguard.jobs.propose.doubts import find_doubts
from castleguard.jobs.propose.guesses import Guess, guess_roles
from castleguard.jobs.propose.job_text import Subject, proposal, scalar
from castleguard.jobs.propose.profile import Profile
from castleguard.schema.roles import Numeric
from tests.unit.cli.conftest import Run
from tests.unit.fake_connectors import install

ROWS = 200
RANDOM = np.random.default_rng(1)


def guess(values: object, name: str = "column") -> Guess:
    """The guess for a column of this name beside one of another."""
    (found,) = guess_roles(pa.table({name: pa.array(values)}))
    return found


def test_a_proposal_is_refused_until_it_is_confirmed_and_works_then(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    shown = run("init", folder / "visits.csv", "-o", folder / "job.yaml")
    assert shown.code == 0
    assert "castleguard validate" in shown.out
    with pytest.raises(ConfigError, match=r"job\.yaml:4  confirmed is false: look at the guesses"):
        assemble.load(folder / "job.yaml")
    text = (folder / "job.yaml").read_text(encoding="utf-8")
    (folder / "job.yaml").write_text(text.replace("confirmed: false", "confirmed: true"), encoding="utf-8")
    job = assemble.load(folder / "job.yaml")
    assert job.schema.person == "patient"
    assert [role.name for role in job.schema.sensitive] == ["diagnosis"]
    assert "record" not in job.schema.columns
    assert {"age", "arrived", "district"} <= set(job.schema.columns)
    assert job.source.options.path == folder / "visits.csv"
    assert run("validate", folder / "job.yaml").code == 0


def test_every_guess_is_marked_as_one(run: Run, folder: Path) -> None:
    run("init", folder / "visits.csv", "-o", folder / "job.yaml")
    lines = (folder / "job.yaml").read_text(encoding="utf-8").splitlines()
    guessed = [
        line for line in lines if line.startswith(("  person", "    - ", "  k:", "  l:", "  delay:", "  algorithm:"))
    ]
    assert len(guessed) >= 10
    assert all("# GUESS: " in line for line in guessed)


@pytest.mark.parametrize("name", ["visits.parquet", "visits.arrow", "visits.jsonl"])
def test_other_formats_give_the_same_roles(run: Run, folder: Path, name: str) -> None:
    from castleguard.connectors.formats import open_writer
    from castleguard.connectors.sample import read_sample

    table = read_sample(folder / "visits.csv", 10_000).rows
    writer = open_writer(folder / name)
    writer.write(table)
    writer.close()
    run("init", folder / "visits.csv", "-o", folder / "one.yaml")
    run("init", folder / name, "-o", folder / "other.yaml")
    one, other = (read_document(folder / file).data for file in ("one.yaml", "other.yaml"))
    assert isinstance(one, dict)
    assert isinstance(other, dict)
    assert one["schema"] == other["schema"]
    assert other["source"]["type"] == name.partition(".")[2]


def test_the_file_is_for_its_owner_and_does_not_replace_another(run: Run, folder: Path) -> None:
    assert run("init", folder / "visits.csv", "-o", folder / "job.yaml").code == 0
    assert stat.S_IMODE((folder / "job.yaml").stat().st_mode) == 0o600
    shown = run("init", folder / "visits.csv", "-o", folder / "job.yaml")
    assert shown.code == 1
    assert "exists already: choose another name, or replace it with --overwrite" in shown.err
    assert run("init", folder / "visits.csv", "-o", folder / "job.yaml", "--overwrite").code == 0


def test_what_cannot_be_read_or_written_is_one_clear_line(run: Run, folder: Path) -> None:
    assert "there is no such file" in run("init", folder / "absent.csv", "-o", folder / "x.yaml").err
    assert "cannot be written" in run("init", folder / "visits.csv", "-o", folder / "no" / "x.yaml").err
    assert not (folder / "x.yaml").exists()


@pytest.mark.parametrize(
    ("name", "values", "role"),
    [
        ("patient_id", [f"p{n % 50}" for n in range(ROWS)], "person"),
        ("CustomerNo", list(range(ROWS)), "person"),
        ("user", [f"u{n}" for n in range(ROWS)], "person"),
        ("id", [f"x{n}" for n in range(ROWS)], "person"),
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
    assert [found.role for found in guess_roles(table)] == ["dropped", "quasi-identifier", "person"]


def test_codes_are_labels_and_postcodes_are_no_numbers() -> None:
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
            [None] * 5 + [1, 7, 3] * 50,
            "5 rows of the sample have no value here: null: reject refuses such a row",
        ),
        (
            "income",
            [None] * 5 + [1, 7, 3] * 50,
            "5 rows of the sample have no value here: all of them together count as",
        ),
        ("patient_id", [None] * 5 + ["a", "b", "c"] * 50, "all of them together count as one person"),
    ],
)
def test_where_values_are_missing_it_is_said_what_can_become_of_them(
    column: str, values: list[object], comment: str, tmp_path: Path
) -> None:
    others = pa.table({column: pa.array(values), "weight": pa.array([1.5, 2.5, 7.5, 9.0, 4.0] * 31)})
    text = proposal(Subject("x.csv", "x.csv", "csv", 155), guess_roles(others))
    assert comment in text
    assert ("null: reject}" in text) == (column == "days")
    (tmp_path / "in.yaml").write_text(text)
    assert read_document(tmp_path / "in.yaml").data


def test_where_nothing_is_missing_nothing_is_said() -> None:
    text = proposal(Subject("x.csv", "x.csv", "csv", 150), [guess([1, 7, 3] * 50)])
    assert "null" not in text.replace("person: null", "")
    assert "no value" not in text


def doubtful(table: pa.Table) -> str:
    """The job file that is proposed for a table, as if it were a CSV file."""
    guesses = guess_roles(table)
    return proposal(Subject("x.csv", "x.csv", "csv", table.num_rows), guesses, find_doubts(table, guesses, csv=True))


@pytest.mark.parametrize(
    ("name", "good", "comment"),
    [
        ("weight", [str(n) for n in range(96)], "# 96 % of the values are numbers; the rest is rejected (or published"),
        (
            "seen",
            [f"2026-01-{n % 28 + 1:02}" for n in range(96)],
            "# 96 % of the values are dates; the rest is rejected",
        ),
        (
            "income",
            [str(n * 37 % 101) for n in range(96)],
            "# 96 % of the values are numbers; the rest counts as one more",
        ),
    ],
)
def test_a_column_with_some_mess_in_it_is_still_one_of_numbers_or_dates(
    name: str, good: list[str], comment: str
) -> None:
    text = doubtful(pa.table({name: [*good, "?", "none", "n/a", "x"] * 5}))
    assert comment in text
    assert "different texts" not in text
    assert "values are" not in doubtful(pa.table({name: good}))


def test_columns_that_may_say_whose_row_it_is_are_named_where_none_is_found() -> None:
    columns = {"who": [f"w{n % 70}" for n in range(ROWS)], "age": [str(n % 15) for n in range(ROWS)]}
    assert "# values that come again are in who: is it one of them?" in doubtful(pa.table(columns))
    columns["patient_id"] = [f"p{n % 70}" for n in range(ROWS)]
    assert "is it one of them?" not in doubtful(pa.table(columns))


def test_a_longest_wait_is_proposed_and_can_be_read(run: Run, folder: Path) -> None:
    run("init", folder / "visits.csv", "-o", folder / "job.yaml")
    text = (folder / "job.yaml").read_text(encoding="utf-8")
    (folder / "job.yaml").write_text(text.replace("# max_wait", "max_wait"), encoding="utf-8")
    assert confirmed(folder / "job.yaml").policy.fingerprint()["max_wait"] == 30.0


@pytest.mark.parametrize("first", ["zoe@example.org,Rome", "17,Rome", "2026-01-02,Rome", "zoe,Oslo"])
def test_a_file_without_a_header_is_told_and_its_first_row_not_shown(run: Run, tmp_path: Path, first: str) -> None:
    rows = "".join(f"{n % 9},{('Oslo', 'Bern')[n % 2]}\n" for n in range(ROWS))
    (tmp_path / "x.csv").write_text(f"{first}\n{rows}")
    shown = run("init", tmp_path / "x.csv", "-o", tmp_path / "job.yaml")
    assert "the first line of the file looks like a row" in shown.err
    assert not any(value in shown.out + shown.err for value in first.split(","))


def test_a_file_with_a_header_is_not_doubted(run: Run, folder: Path) -> None:
    shown = run("init", folder / "visits.csv", "-o", folder / "job.yaml")
    assert "looks like a row" not in shown.err
    assert "castleguard: 1 line is no row, and was left out" in shown.err


def test_lines_in_another_encoding_are_counted(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"{n % 9},{('Zürich', 'Bern')[n % 2]}\n" for n in range(ROWS))
    (tmp_path / "x.csv").write_bytes(f"days,city\n{rows}".encode("latin-1"))
    shown = run("init", tmp_path / "x.csv", "-o", tmp_path / "job.yaml")
    assert f"{ROWS // 2} lines are no rows, and were left out" in shown.err
    assert "which must be UTF-8" in shown.err


def confirmed(path: Path) -> JobFile:
    path.write_text(path.read_text(encoding="utf-8").replace("confirmed: false", ""), encoding="utf-8")
    return assemble.load(path)


@pytest.mark.parametrize(
    ("data", "path", "name"),
    [("in", "in", "in"), ("in/", "in", "in"), ("in/visits-*.csv", "in/visits-*.csv", "visits")],
)
def test_a_folder_or_a_pattern_is_looked_at_by_its_first_file_and_read_as_a_whole(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, data: str, path: str, name: str
) -> None:
    monkeypatch.chdir(folder)
    (folder / "in").mkdir()
    (folder / "in" / ".hidden.csv").write_text("half a fi")
    (folder / "in" / "visits-2.csv").write_text("patient\nlater\n")
    (folder / "visits.csv").rename(folder / "in" / "visits-1.csv")
    assert run("init", data).code == 0
    assert "rows of visits-1.csv, the first file of" in (folder / "job.yaml").read_text().replace('"', "")
    job = confirmed(folder / "job.yaml")
    assert (job.name, job.source.type, job.source.options.path) == (name, "csv", folder / path)
    assert job.schema.person == "patient"


def test_a_folder_with_files_of_other_types_becomes_a_pattern(run: Run, folder: Path) -> None:
    assert run("init", folder, "-o", folder / "job.yaml").code == 0
    assert confirmed(folder / "job.yaml").source.options.path == folder / "*.csv"
    assert run("validate", folder / "job.yaml").code == 0


def test_a_folder_without_data_is_one_clear_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "README").write_text("nothing")
    shown = run("init", tmp_path, "-o", tmp_path / "job.yaml")
    assert shown.code == 1
    assert "holds no file to look at: a name has to end in one of .csv, " in shown.err


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
def test_bounds_of_numbers_leave_room_are_no_values_and_can_be_declared(values: list[float]) -> None:
    found = profile(values)
    lower, upper, step = map(float, number_domain(found))
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


def test_a_hostile_table_still_gives_yaml_that_can_be_read(run: Run, tmp_path: Path) -> None:
    labels = ["a: b", "# x", "{", "no", "5", "\t", "é", "'", '"', "a\nb", "😀"]
    names = ["x: y", "- z", "*a", "q", " lead"]
    table = pa.table({name: [labels[n % len(labels)] for n in range(ROWS)] for name in names})
    pq.write_table(table, tmp_path / "t #1.parquet")
    assert run("init", tmp_path / "t #1.parquet", "-o", tmp_path / "job.yaml").code == 0
    data = read_document(tmp_path / "job.yaml").data
    assert isinstance(data, dict)
    assert [entry["name"] for entry in data["schema"]["quasi_identifiers"]] == names
    assert data["source"]["path"] == "t #1.parquet"
