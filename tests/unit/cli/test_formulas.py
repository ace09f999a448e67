"""Formulas in CSV, on the command line and in jobs: escaped, rejected or kept; judges of the output undo it."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run

SCHEMA = """
person: pid
quasi_identifiers:
  - {name: age, lower: -50, upper: 100, step: 10}
  - name: city
    hierarchy: {"@world": {"-north": ["=Oslo", "=Bergen"], "south": ["Rome", "'=Rome"]}}
sensitive: [illness]
public: [row, note]
"""
CITIES = ("=Oslo", "=Bergen", "Rome", "'=Rome")
NOTES = ("-7.5", "=1+1", "'=1+1", "x", "\t@a,b")
JOB = """
source: {{type: csv, path: original.csv}}
schema: {{file: schema.yaml}}
privacy: {{algorithm: castle, k: 3, delay: 20}}
sink: {{type: csv, path: out, csv: {{formulas: {formulas}}}}}
dead_letter: {{path: letters.jsonl}}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """120 rows of 60 persons; every city, illness and note has the rows for k=3."""
    lines = ["row,pid,age,city,illness,note"]
    for row in range(120):
        note = NOTES[row % 5]
        quoted = f'"{note}"' if "," in note else note
        lines.append(f"{row},p{row % 60},{row % 3 * 10 - 20},{CITIES[row % 4]},{('=flu', 'cold')[row % 2]},{quoted}")
    (tmp_path / "original.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


def plain_schema(place: Path) -> None:
    """A schema without formulas among its labels."""
    text = SCHEMA.replace("@world", "world").replace("-north", "north").replace('"=Oslo", "=Bergen"', "Oslo, Bergen")
    (place / "schema.yaml").write_text(text, encoding="utf-8")
    rows = (
        (place / "original.csv").read_text(encoding="utf-8").replace(",=Oslo", ",Oslo").replace(",=Bergen", ",Bergen")
    )
    (place / "original.csv").write_text(rows, encoding="utf-8")


def anonymised(run: Run, place: Path, *more: str, output: str = "out.csv") -> str:
    options = ["--schema", place / "schema.yaml", "--k", "3", "--delay", "20", "--seed", "1", "--overwrite", *more]
    found = run("anonymise", place / "original.csv", "-o", place / output, *options)
    assert found.code == 0, found.err
    return (place / output).read_text(encoding="utf-8")


def judged(run: Run, command: str, place: Path, *more: str | Path) -> dict[str, object]:
    policy = ["--k", "3", "--delay", "20", "--attack-runs", "0"] if command == "audit" else ["--queries", "100"]
    as_json = ["--json", "-"] if command == "audit" else ["--json"]
    files = [place / "original.csv", *more[:1], "--schema", place / "schema.yaml", "--link", "row"]
    found = run(command, *files, *policy, *as_json, *more[1:])
    if not found.out:
        return {"refused": found.err}
    told: dict[str, object] = json.loads(found.out)
    told.pop("subject", None)
    return told


def test_text_is_escaped_and_numbers_stay(run: Run, place: Path) -> None:
    text = anonymised(run, place)
    for written in (",'=flu,", ",'=1+1\n", ",''=1+1\n", ",-7.5\n", ',"\'\t@a,b"\n', "\n-20,"):
        assert written in text
    assert not any(cell.strip('"')[:1] in ("=", "@", "\t") for line in text.splitlines() for cell in line.split(","))


def test_it_can_be_kept(run: Run, place: Path) -> None:
    assert ",=flu," in anonymised(run, place, "--formulas", "keep")


@pytest.mark.parametrize("command", ["audit", "measure"])
def test_audit_and_measure_undo_escaping(run: Run, place: Path, command: str) -> None:
    anonymised(run, place)
    anonymised(run, place, output="out.jsonl")
    told = judged(run, command, place, place / "out.csv")
    assert told == judged(run, command, place, place / "out.jsonl"), "as if nothing had been escaped"
    assert told != judged(run, command, place, place / "out.csv", "--formulas", "keep")
    anonymised(run, place, "--formulas", "keep")
    assert told == judged(run, command, place, place / "out.csv", "--formulas", "keep")
    if command == "audit":
        assert told != judged(run, command, place, place / "out.csv"), "a text that was '=1+1 is another one then"


def test_cuts_undo_it(run: Run, place: Path) -> None:
    anonymised(run, place)
    options = ["--schema", place / "schema.yaml", "--shards", "2", "-o", place / "cuts.json", "--overwrite"]
    assert run("cuts", place / "out.csv", *options).code == 0
    kept = run("cuts", place / "out.csv", *options, "--formulas", "keep")
    assert "has a label that is not in its hierarchy" in kept.err


def test_rows_with_formulas_can_be_rejected(run: Run, place: Path) -> None:
    plain_schema(place)
    options = ["--schema", place / "schema.yaml", "--k", "3", "--delay", "20", "--formulas", "refuse"]
    found = run("anonymise", place / "original.csv", "-o", place / "out.csv", *options)
    assert found.code == 0, found.err
    assert "illness: unpublishable" in found.out
    assert "note: unpublishable" in found.out
    text = (place / "out.csv").read_text(encoding="utf-8")
    assert "'=1+1" in text, "an apostrophe is not a formula"
    assert ",=" not in text


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("@world", "@world"), "the label '@world' of 'city'"),
        (("public: [row, note]", "public: [row, =note]"), "the name of column '=note'"),
    ],
)
def test_a_schema_with_formulas_is_refused_at_the_start(
    run: Run, place: Path, change: tuple[str, str], told: str
) -> None:
    (place / "schema.yaml").write_text(SCHEMA.replace(*change), encoding="utf-8")
    (place / "job.yaml").write_text(JOB.format(formulas="refuse"), encoding="utf-8")
    options = ["--schema", place / "schema.yaml", "--k", "3", "--delay", "20", "--formulas", "refuse"]
    for found in (
        run("anonymise", place / "original.csv", "-o", place / "out.csv", *options),
        run("run", place / "job.yaml"),
        run("validate", place / "job.yaml"),
    ):
        assert found.code != 0
        assert told in " ".join((found.out + found.err).split())
    assert not (place / "out.csv").exists()


def test_a_job_rejects_them_into_the_dead_letters(run: Run, place: Path) -> None:
    plain_schema(place)
    (place / "job.yaml").write_text(JOB.format(formulas="refuse"), encoding="utf-8")
    checked = run("validate", place / "job.yaml")
    assert "rows would be rejected (illness: unpublishable 60" in checked.out
    assert run("run", place / "job.yaml").code == 0
    letters = [json.loads(line) for line in (place / "letters.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {letter["reason"] for letter in letters} == {"illness: unpublishable", "note: unpublishable"}
    parts = "".join(path.read_text(encoding="utf-8") for path in (place / "out").glob("part-*.csv"))
    assert parts
    assert ",=" not in parts


def test_a_job_escapes_and_its_audit_undoes_it(run: Run, place: Path) -> None:
    for formulas in ("escape", "keep"):
        job = JOB.format(formulas=formulas).replace("path: out,", f"path: {formulas},")
        (place / "job.yaml").write_text(job, encoding="utf-8")
        assert run("run", place / "job.yaml").code == 0
        found = run("audit", place / "job.yaml", "--link", "row", "--attack-runs", "0")
        assert found.code == 0, found.out
        refused = run("audit", place / "job.yaml", "--formulas", "keep")
        assert "--formulas cannot be combined with a job file" in refused.err


def test_another_choice_makes_another_job(run: Run, place: Path) -> None:
    """Equal groups must look equal in all parts."""
    job = JOB + "checkpoint: {{path: state.db}}\n"
    (place / "job.yaml").write_text(job.format(formulas="escape"), encoding="utf-8")
    assert run("run", place / "job.yaml").code == 0
    (place / "job.yaml").write_text(job.format(formulas="keep"), encoding="utf-8")
    found = run("run", place / "job.yaml")
    assert found.code == 1
    assert "sink.csv" in found.err


def test_explain_describes_the_treatment_of_formulas(run: Run, place: Path) -> None:
    for formulas, told in (("escape", "apostrophe"), ("keep", "as they are"), ("refuse", "rejected")):
        plain_schema(place)
        (place / "job.yaml").write_text(JOB.format(formulas=formulas), encoding="utf-8")
        assert told in run("explain", place / "job.yaml").out


def test_formulas_are_a_matter_of_csv(run: Run, place: Path) -> None:
    options = ["--schema", place / "schema.yaml", "--k", "3", "--delay", "20", "--formulas", "keep"]
    found = run("anonymise", place / "original.csv", "-o", place / "out.jsonl", *options)
    assert found.code == 2
    assert "--formulas applies to CSV only" in found.err


@pytest.mark.parametrize("formulas", ["escape", "keep", "refuse"])
def test_randomise_writes_csv_by_the_same_rules(run: Run, place: Path, formulas: str) -> None:
    schema = SCHEMA.replace("sensitive: [illness]", "sensitive: [{name: illness, values: [cold]}]")
    (place / "schema.yaml").write_text(schema, encoding="utf-8")
    options = ["--schema", place / "schema.yaml", "--epsilon", "4", "--formulas", formulas]
    found = run("randomise", place / "original.csv", "-o", place / "noisy.csv", *options)
    assert (found.code == 0) == (formulas != "refuse")
    if formulas == "refuse":
        assert "a spreadsheet would take for a formula" in found.err
        assert not (place / "noisy.csv").exists()
    else:
        assert (",''=1+1\n" in (place / "noisy.csv").read_text(encoding="utf-8")) == (formulas == "escape")
