"""The commands for jobs of several sites: who is refused, what is checked and said, and the simulation."""

import base64
from pathlib import Path

import pyarrow.csv
import pytest

from castleguard.errors import SnapshotError
from castleguard.jobs.assemble import make_job
from castleguard.jobs.load import load
from castleguard.jobs.stored_state import check_stored
from tests.integration.broker_nats import running_broker
from tests.unit.cli.conftest import Run

JOB = """
name: trips
source: {{type: csv, path: "in/${{SITE}}.csv"}}
schema:
  person: pid
  quasi_identifiers:
    - {{name: age, lower: 0, upper: 100, step: 5}}
privacy: {{algorithm: dcastle, k: 5, delay: 400, max_wait: 90s}}
sink: {{type: parquet, path: "out/${{SITE}}"}}
checkpoint: {{path: "${{SITE}}.db", every: 100ms}}
sites:
  names: [berlin, paris]
  relay: {{servers: "{url}", user: ann, password: hunter2, timeout: 1s}}
  key: ${{SITES_KEY}}
"""
NO_PERSON = "nats://127.0.0.1:1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SITES_KEY", base64.b64encode(bytes(32)).decode())
    (tmp_path / "in").mkdir()
    for site, name in enumerate(("berlin", "paris")):
        rows = "".join(f"{n % 90 + site},{n * 7 % 71 + 20},{n}\n" for n in range(400))
        (tmp_path / "in" / f"{name}.csv").write_text("pid,age,row\n" + rows)
    (tmp_path / "job.yaml").write_text(JOB.format(url=NO_PERSON))
    return tmp_path


@pytest.mark.parametrize("command", ["run", "validate", "explain", "drain", "letters", "top"])
def test_a_job_with_sites_is_refused_without_a_site_name(run: Run, folder: Path, command: str) -> None:
    outcome = run(command, "job.yaml")
    assert outcome.code == 2
    said = " ".join((outcome.out + outcome.err).split())
    assert "sites needs the name of a site: run each site with `castleguard site JOB --name SITE`" in said


def test_an_unknown_site_is_refused_by_name(run: Run, folder: Path) -> None:
    outcome = run("site", "job.yaml", "--name", "pairs")
    assert outcome.code == 2
    assert "sites.names does not have 'pairs'; did you mean paris?" in outcome.err


def told_about_paris(run: Run, command: str, *, code: int) -> str:
    """The output of a command without line breaks; it never shows the password of the relay."""
    outcome = run(command, "job.yaml", "--name", "paris")
    assert outcome.code == code
    assert "hunter2" not in outcome.out
    return " ".join(outcome.out.split())


def test_validate_looks_for_the_relay(run: Run, folder: Path) -> None:
    said = told_about_paris(run, "validate", code=75)
    assert "✗ sites: the NATS server at nats://127.0.0.1:1 cannot be reached" in said
    assert "✓ sites: paris is one of 2 sites" in said
    assert "✓ sites: the key comes from the environment and has the right length" in said


@pytest.mark.integration
def test_validate_finds_the_relay_and_changes_nothing_there(run: Run, folder: Path) -> None:
    with running_broker(folder) as broker:
        text = JOB.format(url=broker.url).replace("user: ann, password: hunter2, ", "")
        (folder / "job.yaml").write_text(text.replace('path: "${SITE}.db"', "path: state.db"))
        found = run("validate", "job.yaml", "--name", "paris")
        assert broker.ask("STREAM.NAMES")["streams"] is None
    said = " ".join(found.out.split())
    assert found.code == 0
    assert "✓ sites: the server can be reached; the first site will create the bucket castleguard-trips" in said
    assert "! sites: checkpoint has the same name at all sites" in said
    assert "In the output of all sites together: Every published group" in said


def test_explain_names_data_that_leaves_the_site(run: Run, folder: Path) -> None:
    said = told_about_paris(run, "explain", code=0)
    assert "This is site paris; it publishes together with berlin, through nats (servers nats://127.0.0.1:1" in said
    assert "No quasi-identifier and no person leaves a site" in said
    assert "Rows take part from 75% of the delay on. The source is read 12 rows at a time" in said


def test_a_site_without_its_relay_publishes_alone(run: Run, folder: Path) -> None:
    outcome = run("site", "job.yaml", "--name", "paris")
    assert outcome.code == 0, outcome.err
    assert "the relay cannot be reached, retrying" in outcome.err
    said = " ".join(outcome.out.split())
    assert "rows in 400 published 400" in said
    assert "undecided" not in said
    assert len(list((folder / "out" / "paris").glob("part-*.parquet"))) > 0


def test_a_checkpoint_of_another_key_is_refused(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("site", "job.yaml", "--name", "paris", "-q").code == 0
    monkeypatch.setenv("SITES_KEY", base64.b64encode(bytes(range(32))).decode())
    outcome = run("site", "job.yaml", "--name", "paris", "-q")
    assert outcome.code == 1
    assert "the checkpoint belongs to a job with another sites.key" in outcome.err


SCHEMA = """
person: pid
quasi_identifiers:
  - {name: age, lower: 0, upper: 100, step: 5}
public: [row]
"""


def simulate(run: Run, folder: Path, *more: str) -> list[str]:
    (folder / "schema.yaml").write_text(SCHEMA)
    outcome = run("simulate", "--sites", "3", folder / "in" / "paris.csv", "--schema", folder / "schema.yaml", *more)
    assert outcome.code == 0, outcome.err
    return outcome.out.splitlines()


def test_a_simulation_shows_four_ways_to_publish_the_same_rows(run: Run, folder: Path) -> None:
    first, _, titles, *lines = simulate(run, folder, "--k", "6", "--delay", "60", "-o", str(folder / "all.csv"))
    assert first.startswith("400 rows (")
    assert first.endswith("distributed to 3 sites")
    assert titles.split() == ["information", "loss", "published", "suppressed", "messages", "bytes"]
    ways = {line.split(maxsplit=5)[5]: line.replace(",", "").split() for line in lines if line.strip()[0] != "("}
    assert list(ways) == [
        "together, strict, boxes shared from 6 persons on",
        "together, strict, boxes shared from 2 persons on",
        "one site has all rows",
        "each site by itself",
    ]
    for cells in ways.values():
        assert int(cells[1]) + int(cells[2]) == 400
        assert 0.0 < float(cells[0]) < 1.0
    assert all(int(cells[3]) > 0 for way, cells in ways.items() if way.startswith("together"))
    assert all(int(cells[3]) == 0 for way, cells in ways.items() if not way.startswith("together"))
    published = pyarrow.csv.read_csv(folder / "all.csv")
    assert published.num_rows == int(ways["together, strict, boxes shared from 6 persons on"][1])
    assert published.column_names == ["age_min", "age_max", "row"]
    assert sorted(published["row"].to_pylist()) == list(range(400))


def test_a_simulation_is_the_same_when_it_is_repeated(run: Run, folder: Path) -> None:
    assert simulate(run, folder, "--k", "6", "--delay", "60") == simulate(run, folder, "--k", "6", "--delay", "60")


def test_a_simulation_needs_k_and_delay(run: Run, folder: Path) -> None:
    (folder / "schema.yaml").write_text(SCHEMA)
    outcome = run("simulate", "--sites", "3", "in/paris.csv", "--schema", "schema.yaml", "--k", "6")
    assert outcome.code == 2
    assert "--delay is missing" in outcome.err


def test_validate_takes_the_checkpoint_of_a_site_and_refuses_it_for_another_policy(run: Run, folder: Path) -> None:
    path = folder / "job.yaml"
    job = make_job(load(path, site="paris"))
    job.turn()
    job.commit()
    job.close()
    check_stored(load(path, site="paris"))
    path.write_text(path.read_text().replace("k: 5", "k: 6"))
    with pytest.raises(SnapshotError, match="policy"):
        check_stored(load(path, site="paris"))
