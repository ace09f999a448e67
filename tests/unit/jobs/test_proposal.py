"""A proposed job, as a value."""

import json
import stat
from pathlib import Path

import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.errors import NoRowsError, OutputError
from castleguard.jobs.load import load

ROWS = [
    {"patient_id": f"p{n % 30}", "age": 20 + n % 50, "seen": f"2026-0{1 + n % 9}-11", "city": ("Oslo", "Bern")[n % 2]}
    for n in range(200)
]


@pytest.mark.parametrize("kind", [list, pa.Table.from_pylist])
def test_a_frame_is_proposed_for(kind: type) -> None:
    found = cg.propose(kind(ROWS))
    assert {guess.column: guess.role for guess in found.guesses} == {
        "patient_id": "person",
        "age": "quasi-identifier",
        "seen": "quasi-identifier",
        "city": "quasi-identifier",
    }
    assert cg.load_schema(found.schema).columns == ("patient_id", "age", "seen", "city")
    assert "GUESS: name the file or broker" in found.text


def test_the_json_form_survives_a_round_trip_and_its_schema_can_be_loaded() -> None:
    found = cg.propose(ROWS)
    data = json.loads(json.dumps(found.as_json()))
    assert data["job"] == str(found)
    assert data["rows"] == 200
    assert data["guesses"][1]["domain"] == {"lower": "0", "upper": "120", "step": "5"}
    assert data["doubts"]["headless"] is False
    assert cg.load_schema(data["schema"]).fingerprint() == cg.load_schema(found.schema).fingerprint()


def test_the_repr_shows_no_value_of_a_row() -> None:
    found = cg.propose(ROWS)
    for shown in (repr(found), repr(found.guesses), repr(found.data)):
        assert "Oslo" not in shown
        assert "2026" not in shown


def test_a_written_proposal_names_its_source_from_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "jobs").mkdir()
    header = "patient_id,age,city\n"
    rows = "".join(f"p{n % 30},{20 + n % 50},{('Oslo', 'Bern')[n % 2]}\n" for n in range(200))
    (tmp_path / "data" / "visits.csv").write_text(header + rows)
    found = cg.propose(tmp_path / "data" / "visits.csv")
    path = tmp_path / "jobs" / "job.yaml"
    found.write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert 'path: "../data/visits.csv"' in path.read_text()
    path.write_text(path.read_text().replace("confirmed: false", ""))
    assert load(path).source.options.path.resolve() == tmp_path / "data" / "visits.csv"
    with pytest.raises(OutputError, match="already exists"):
        found.write(path)
    found.write(path, overwrite=True)


def test_no_rows_are_an_error_of_their_own() -> None:
    with pytest.raises(NoRowsError):
        cg.propose([])
