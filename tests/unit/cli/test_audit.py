"""The audit on the command line: two files or a job, text or JSON, and an exit code that says whether it is broken."""

import json
from pathlib import Path

import pyarrow.csv
import pytest
from click.testing import CliRunner, Result

from castleguard.cli.audit import audit
from castleguard.errors import CastleguardError, ConfigError, InputError, OutputError, SchemaError
from castleguard.judge.audit import audit_page
from castleguard.judge.report.findings import Audit
from castleguard.testing.streams import visits_schema_text

SCHEMA = """
person: pid
quasi_identifiers:
  - {name: age, lower: 0, upper: 100, step: 10}
sensitive: [illness]
public: [row]
"""
ORIGINAL = """row,pid,age,illness
0,a,21,flu
1,b,24,cold
2,c,27,flu
3,d,41,rash
4,e,45,flu
5,f,49,cold
"""
PUBLISHED = """row,age_min,age_max,illness
0,20,30,flu
2,20,30,flu
1,20,30,cold
4,40,50,flu
3,40,50,rash
5,40,50,cold
"""
JOB = """
source: {type: csv, path: original.csv}
schema: {file: schema.yaml}
privacy: {algorithm: castle, k: 3, delay: 4}
sink: {type: csv, path: out}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in (("schema.yaml", SCHEMA), ("original.csv", ORIGINAL), ("out.csv", PUBLISHED), ("job.yaml", JOB)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def run(place: Path, *arguments: str, published: str = "out.csv") -> Result:
    files = [str(place / "original.csv"), str(place / published), "--schema", str(place / "schema.yaml")]
    return CliRunner().invoke(audit, [*files, "--delay", "4", "--attack-runs", "0", *arguments])


def test_a_kept_promise_ends_with_0_and_a_verdict(place: Path) -> None:
    found = run(place, "--k", "3", "--link", "row")
    assert found.exit_code == 0, found.output
    assert found.output.rstrip().splitlines()[-1].startswith("verdict: no broken promise was found (")
    assert "Each of 2 groups has at least 3 different persons." in found.output
    assert max(map(len, found.output.splitlines())) <= 100


def test_a_broken_promise_ends_with_3_and_is_named(place: Path) -> None:
    found = run(place, "--k", "4", "--link", "row")
    assert found.exit_code == 3
    assert "  FAILED       Does every group have k persons? (fewest-persons)" in found.output
    assert "BROKEN: fewest-persons, prosecutor" in found.output.rstrip().splitlines()[-1]


def test_without_a_link_it_is_refuted_too(place: Path) -> None:
    assert run(place, "--k", "3").exit_code == 0
    found = run(place, "--k", "4")
    assert found.exit_code == 3
    assert "cannot have 4 different persons" in " ".join(found.output.split())


def test_an_undeclared_column_of_the_file_is_found(place: Path) -> None:
    lines = PUBLISHED.splitlines()
    text = "\n".join([lines[0] + ",who", *(line + ",x" for line in lines[1:])]) + "\n"
    (place / "more.csv").write_text(text, encoding="utf-8")
    found = run(place, "--k", "3", published="more.csv")
    assert found.exit_code == 3
    assert "BROKEN: undeclared-columns" in found.output


def test_json_for_programs(place: Path) -> None:
    found = run(place, "--k", "4", "--link", "row", "--json", "-")
    told = json.loads(found.output)
    assert found.exit_code == 3
    assert told["ok"] is False
    assert told["subject"]["rows linked by"] == "row"
    run(place, "--k", "4", "--link", "row", "--json", str(place / "found.json"))
    assert json.loads((place / "found.json").read_text(encoding="utf-8")) == told


def test_a_report_with_pictures_can_be_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[Audit, Path]] = []
    monkeypatch.setattr(audit_page, "write", lambda found, path, *, repeat: written.append((found, path)))
    assert run(place, "--k", "4", "--link", "row", "--html", str(place / "report.html")).exit_code == 3
    [(found, path)] = written
    assert path == place / "report.html"
    assert found.count("failed") == 2


def test_dp_is_a_command_of_its_own() -> None:
    found = CliRunner().invoke(audit, ["dp", "--help"], prog_name="audit")
    assert found.exit_code == 0
    assert found.output.startswith("Usage: audit dp [OPTIONS]")


def test_a_job_says_it_all(place: Path) -> None:
    """Parts are read in the order of their numbers: in another order rows would be late."""
    header, *lines = PUBLISHED.splitlines()
    (place / "out").mkdir()
    for number, some in ((2, lines[:3]), (10, lines[3:])):
        text = "\n".join([header, *some]) + "\n"
        (place / "out" / f"part-{number:012d}.csv").write_text(text, encoding="utf-8")
    found = CliRunner().invoke(audit, [str(place / "job.yaml"), "--link", "row", "--attack-runs", "0"])
    assert found.exit_code == 0, found.output
    assert "policy: castle(k=3, delay=4)" in found.output
    assert "published rows: 6" in found.output


def test_a_population_can_be_given(place: Path) -> None:
    (place / "all.csv").write_text(
        "age\n" + "\n".join(map(str, [*range(20, 29), *range(40, 49), 30, 50])), encoding="utf-8"
    )
    found = run(place, "--k", "3", "--link", "row", "--population", str(place / "all.csv"))
    assert "is 0.111 for the most" in " ".join(found.output.split())  # 1 of 9: 30 and 50 are in the next cells


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["original.csv"], "PUBLISHED is missing: name both files, or a single job file"),
        (["original.csv", "out.csv"], "--schema is missing"),
        (["original.csv", "out.csv", "--schema", "schema.yaml"], "--k is missing"),
        (["job.yaml", "--k", "3"], "--k cannot be combined with a job file"),
        (["job.yaml", "--schema", "schema.yaml"], "--schema cannot be combined with a job file"),
    ],
)
def test_missing_arguments_are_named(place: Path, arguments: list[str], told: str) -> None:
    found = CliRunner().invoke(audit, [str(place / each) if "." in each else each for each in arguments])
    assert found.exit_code == 2
    assert told in found.output


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        ({"original.csv": "row,pid,age\n1,a,20\n"}, SchemaError, "no column 'illness'"),
        ({"out.csv": "row,age,illness\n1,25,flu\n"}, CastleguardError, "does not hold ranges"),
        ({"out.csv": "row,age_min,age_max,illness\n"}, InputError, "has no readable rows"),
    ],
)
def test_files_that_cannot_be_compared_are_errors(
    place: Path, change: dict[str, str], error: type[CastleguardError], told: str
) -> None:
    for name, text in change.items():
        (place / name).write_text(text, encoding="utf-8")
    found = run(place, "--k", "3")
    assert isinstance(found.exception, error)
    assert told in str(found.exception)


def test_a_job_without_files_is_refused(place: Path) -> None:
    (place / "job.yaml").write_text(
        JOB.replace("{type: csv, path: out}", "{type: stdio, format: csv}"), encoding="utf-8"
    )
    found = CliRunner().invoke(audit, [str(place / "job.yaml")])
    assert isinstance(found.exception, ConfigError)
    assert "is not a file: export both to files" in str(found.exception)


@pytest.mark.compiled
def test_output_of_the_command_line_passes(place: Path) -> None:
    from castleguard.cli.anonymise import anonymise
    from castleguard.testing.streams import visits

    pyarrow.csv.write_csv(next(visits(500, seed=1, batch_rows=500, flaws=0.05)), place / "original.csv")
    (place / "schema.yaml").write_text(visits_schema_text(), encoding="utf-8")
    policy = ["--k", "4", "--l", "2", "--delay", "80"]
    files = [str(place / name) for name in ("original.csv", "new.csv", "schema.yaml")]
    made = CliRunner().invoke(anonymise, [files[0], "-o", files[1], "--schema", files[2], *policy, "-q"])
    assert made.exit_code == 0, made.output
    found = CliRunner().invoke(
        audit, [*files[:2], "--schema", files[2], *policy, "--link", "record", "--attack-runs", "5"]
    )
    assert found.exit_code == 0, found.output


def test_malformed_lines_are_reported(place: Path) -> None:
    (place / "more.csv").write_text(PUBLISHED + ORIGINAL.replace("\n", ",and,more\n"), encoding="utf-8")
    found = run(place, "--k", "3", published="more.csv")
    assert found.exit_code == 3
    assert "unread-lines" in found.output.rstrip().splitlines()[-1]


def test_a_json_line_with_a_repeated_key_is_reported(place: Path) -> None:
    lines = ['{"row": 0, "age_min": 21, "age_min": 20, "age_max": 30, "illness": "flu"}\n']
    (place / "more.jsonl").write_text("".join(lines), encoding="utf-8")
    found = run(place, "--k", "3", published="more.jsonl")
    assert "unread-lines" in found.output.rstrip().splitlines()[-1]


def test_parts_whose_numbers_have_other_types_are_read_together(place: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (place / "parts").mkdir()
    rows = pyarrow.csv.read_csv(place / "out.csv")
    pq.write_table(rows.slice(0, 3), place / "parts" / "part-1.parquet")
    wider = rows.slice(3).set_column(1, "age_min", rows.slice(3).column("age_min").cast(pa.float64()))
    pq.write_table(wider, place / "parts" / "part-2.parquet")
    assert run(place, "--k", "3", "--link", "row", published="parts").exit_code == 0


def test_an_unwritable_report_is_refused_before_anything_is_read(place: Path) -> None:
    (place / "original.csv").unlink()
    found = run(place, "--k", "3", "--html", str(place / "missing" / "report.html"))
    assert isinstance(found.exception, OutputError)
    assert "does not exist" in str(found.exception)


def test_the_observer_who_knows_when_is_played_unless_no_rows_are_asked_for(place: Path) -> None:
    played = run(place, "--k", "3", "--json", "-")
    sections = {section["id"]: section["findings"] for section in json.loads(played.output)["sections"]}
    persons = next(each for each in sections["observer"] if each["id"] == "observer-persons")
    assert persons["status"] != "not checked"
    assert persons["figures"]["asked"] == 3
    left_out = run(place, "--k", "3", "--observed-rows", "0")
    assert "What does an observer who knows arrival times learn?" in left_out.output
    assert "The number of observed rows is 0." in left_out.output
    assert run(place, "--k", "3", "--observed-rows", "-1").exit_code == 2
