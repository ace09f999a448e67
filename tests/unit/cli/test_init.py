"""`castleguard init`: guesses are marked, have margins, and are refused until they are confirmed."""

import io
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from castleguard.config.document import read_document
from castleguard.config.job_model import JobFile
from castleguard.errors import ConfigError
from castleguard.jobs.load import load
from tests.unit.cli.conftest import Run
from tests.unit.fake_connectors import install

ROWS = 200


def test_a_proposal_is_refused_until_it_is_confirmed_and_works_then(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    shown = run("init", folder / "visits.csv", "-o", folder / "job.yaml")
    assert shown.code == 0
    assert "castleguard validate" in shown.out
    with pytest.raises(ConfigError, match=r"job\.yaml:4  confirmed is false: check the guesses"):
        load(folder / "job.yaml")
    text = (folder / "job.yaml").read_text(encoding="utf-8")
    (folder / "job.yaml").write_text(text.replace("confirmed: false", "confirmed: true"), encoding="utf-8")
    job = load(folder / "job.yaml")
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
    assert any(line.startswith("  algorithm: citadel  # GUESS: narrow groups of true ranges") for line in guessed)


@pytest.mark.parametrize("name", ["visits.parquet", "visits.arrow", "visits.jsonl"])
def test_other_formats_give_the_same_roles(run: Run, folder: Path, name: str) -> None:
    from castleguard.connectors.file_sample import read_sample
    from castleguard.connectors.formats import open_writer

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
    assert "already exists: choose another name, or replace it with --overwrite" in shown.err
    assert run("init", folder / "visits.csv", "-o", folder / "job.yaml", "--overwrite").code == 0


def test_unreadable_input_or_unwritable_output_is_one_clear_line(run: Run, folder: Path) -> None:
    assert "no such file" in run("init", folder / "absent.csv", "-o", folder / "x.yaml").err
    assert "cannot be written" in run("init", folder / "visits.csv", "-o", folder / "no" / "x.yaml").err
    assert not (folder / "x.yaml").exists()


def test_a_longest_wait_is_proposed_and_can_be_read(run: Run, folder: Path) -> None:
    run("init", folder / "visits.csv", "-o", folder / "job.yaml")
    text = (folder / "job.yaml").read_text(encoding="utf-8")
    (folder / "job.yaml").write_text(text.replace("# max_wait", "max_wait"), encoding="utf-8")
    assert confirmed(folder / "job.yaml").policy.fingerprint()["max_wait"] == 30.0


@pytest.mark.parametrize("first", ["zoe@example.org,Rome", "17,Rome", "2026-01-02,Rome", "zoe,Oslo"])
def test_a_file_without_a_header_is_reported_and_its_first_row_not_shown(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.chdir(tmp_path)  # a number in the name of the folder would look like one of the row
    rows = "".join(f"{'abc'[n % 3]},{('Oslo', 'Bern')[n % 2]}\n" for n in range(ROWS))
    (tmp_path / "x.csv").write_text(f"{first}\n{rows}")
    shown = run("init", "x.csv", "-o", "job.yaml")
    assert "the first line of the file looks like a row" in shown.err
    assert not any(value in shown.out + shown.err for value in first.split(","))


def test_a_file_with_a_header_is_not_doubted(run: Run, folder: Path) -> None:
    shown = run("init", folder / "visits.csv", "-o", folder / "job.yaml")
    assert "looks like a row" not in shown.err
    assert "castleguard: 1 malformed line was skipped" in shown.err


def test_a_row_in_place_of_the_header_is_told_by_its_numbers(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"{n % 9},{('Oslo', 'Bern')[n % 2]}\n" for n in range(ROWS))
    (tmp_path / "x.csv").write_text(f"17,Rome\n{rows}")
    shown = run("init", tmp_path / "x.csv", "-o", tmp_path / "job.yaml")
    assert "looks like a row" not in shown.err
    text = (tmp_path / "job.yaml").read_text()
    assert "csv: {header: false}" in text
    assert "column_1" in text
    assert "Rome" not in text


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_other_encodings_are_found_out(run: Run, tmp_path: Path, encoding: str) -> None:
    rows = "".join(f"{n % 9};{('Zürich', 'Bern')[n % 2]};1,5\n" for n in range(ROWS))
    (tmp_path / "x.csv").write_bytes(f"days;city;größe\n{rows}".encode(encoding))
    shown = run("init", tmp_path / "x.csv", "-o", tmp_path / "job.yaml")
    assert shown.err == ""
    text = (tmp_path / "job.yaml").read_text()
    assert 'separator: ";", ' in text
    assert 'decimal: ","' in text
    assert "Zürich" in text


def confirmed(path: Path) -> JobFile:
    path.write_text(path.read_text(encoding="utf-8").replace("confirmed: false", ""), encoding="utf-8")
    return load(path)


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
    assert "has no data file: file names must end in one of .csv, " in shown.err


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


def test_a_person_is_chosen_on_the_command_line(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"{n % 90},w{n % 70}\n" for n in range(ROWS))
    (tmp_path / "x.csv").write_text(f"age,who\n{rows}")
    assert "where the file says OPEN" in run("init", tmp_path / "x.csv", "-o", tmp_path / "open.yaml").out
    assert "OPEN" not in run("init", tmp_path / "x.csv", "-o", tmp_path / "who.yaml", "--person", "who").out
    assert "person: who  # GUESS" in (tmp_path / "who.yaml").read_text()
    run("init", tmp_path / "x.csv", "-o", tmp_path / "none.yaml", "--person", "none")
    assert "person: null  # every row is a person of its own" in (tmp_path / "none.yaml").read_text()
    assert (
        "the data has no column" in run("init", tmp_path / "x.csv", "-o", tmp_path / "y.yaml", "--person", "whom").err
    )


@pytest.mark.parametrize(("answer", "line"), [("who\n", "person: who"), ("none\n", "null"), ("\n", 'person: "?"')])
def test_init_asks_in_a_terminal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, line: str
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(answer))
    rows = "".join(f"{n % 90},w{n % 70}\n" for n in range(ROWS))
    (tmp_path / "x.csv").write_text(f"age,who\n{rows}")
    shown = run("init", tmp_path / "x.csv", "-o", tmp_path / "job.yaml")
    assert "who: about 70 values" in shown.out
    assert line in (tmp_path / "job.yaml").read_text()
