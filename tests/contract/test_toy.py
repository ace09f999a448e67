"""An algorithm of another package works everywhere an algorithm can be named, and no other file knows it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

import castleguard as cg
from castleguard.algorithms import lookup
from castleguard.cli import main
from castleguard.config.editor_schema import job_schema
from castleguard.errors import PolicyError
from castleguard.jobs.load import Connectors, load, relay_options
from tests.contract.toy import LowGate, OwnGate, Padding, Toy

SCHEMA = cg.Schema(
    person="pid",
    quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5), cg.Numeric("pay", lower=0, upper=5000, step=50)],
    sensitive=["job"],
)
SCHEMA_TEXT = """
person: pid
quasi_identifiers:
  - {name: age, lower: 0, upper: 100, step: 5}
  - {name: pay, lower: 0, upper: 5000, step: 50}
sensitive: [job]
"""
ROWS = [{"pid": n % 40, "age": 20 + n % 30, "pay": 100 * (n % 17), "job": "ab"[n % 2]} for n in range(203)]
"""A person recurs after 40 rows, so that the rows of a group belong to different persons."""
OTHERS = (
    *("own-gate:OwnGate", "low-gate:LowGate", "other-type:OtherType", "silent:Silent"),
    *("seeded:Seeded", "together:Together", "listed:Listed", "lost:Nowhere"),
)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the search path with the metadata of a package that provides the algorithms."""
    site = tmp_path / "site"
    metadata = site / "toys-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n", encoding="utf-8")
    named = ["toy:Toy", *OTHERS]
    entries = [f"{name} = tests.contract.toy:{policy}" for name, _, policy in (each.partition(":") for each in named)]
    text = "\n".join([f"[{lookup.GROUP}]", *entries, ""])
    (metadata / "entry_points.txt").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    return site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """rows.csv and schema.yaml."""
    pyarrow.csv.write_csv(pa.Table.from_pylist(ROWS), tmp_path / "rows.csv")
    (tmp_path / "schema.yaml").write_text(SCHEMA_TEXT, encoding="utf-8")
    return tmp_path


def run(*arguments: str | Path, code: int = 0) -> None:
    """Run a command line in this process."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert int(ended.value.code or 0) == code


def test_toy_is_listed_after_built_in_algorithms() -> None:
    assert lookup.names()[:6] == lookup.built_in()
    assert "toy" in lookup.names()
    assert lookup.find("toy") is Toy


def test_toy_publishes_in_python() -> None:
    table = cg.anonymise(ROWS, SCHEMA, Toy(k=3, together=5, last="drop"))
    assert table.num_rows == 200
    wider = cg.anonymise(ROWS, SCHEMA, Toy(k=3, together=5, last="drop", padding=Padding(cells=1)))
    assert min(table["age_min"].to_pylist()) > min(wider["age_min"].to_pylist())


def test_toy_stream_is_restored_from_a_snapshot() -> None:
    policy = Toy(k=3, together=7)
    whole, broken = cg.Anonymiser(SCHEMA, policy, seed=1), cg.Anonymiser(SCHEMA, policy, seed=1)
    first = broken.push(ROWS[:100])
    rest = cg.Anonymiser.restore(SCHEMA, policy, broken.snapshot())
    together = pa.concat_tables([first, rest.push(ROWS[100:]), rest.flush()])
    assert pa.concat_tables([whole.push(ROWS[:100]), whole.push(ROWS[100:]), whole.flush()]).equals(together)


def test_parameters_out_of_their_bounds_are_refused() -> None:
    with pytest.raises(PolicyError, match="together must be a whole number of at least 1, got 0"):
        Toy(k=3, together=0)
    with pytest.raises(PolicyError, match="together must be at most 1000, got 1001"):
        Toy(k=3, together=1001)
    with pytest.raises(PolicyError, match="last must be 'drop' or 'keep', got 'sell'"):
        Toy(k=3, last="sell")  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="cells must be a whole number of at least 0, got -1"):
        Toy(k=3, padding=Padding(cells=-1))


def test_group_below_k_is_never_published() -> None:
    """The engine decides groups of two rows, and the gate counts them."""
    stream = cg.Anonymiser(SCHEMA, Toy(k=3, together=2))
    assert stream.push(ROWS).num_rows == 0
    assert stream.flush(warn=False).num_rows == 0
    assert stream.report().gate_refused == len(ROWS)


def test_rows_of_one_person_are_not_a_group() -> None:
    stream = cg.Anonymiser(SCHEMA, Toy(k=3, together=5))
    assert stream.push([{**row, "pid": 7} for row in ROWS[:50]]).num_rows == 0
    assert stream.report().gate_refused == 50


def test_custom_gate_is_refused() -> None:
    with pytest.raises(PolicyError, match="must use one of the gates Gate, CellGate, PointGate, got LenientGate"):
        cg.Anonymiser(SCHEMA, OwnGate(k=3, together=1))


def test_gate_weaker_than_the_statement_is_refused() -> None:
    with pytest.raises(PolicyError, match="requires 2 persons or rows per group, the statement promises 3"):
        cg.Anonymiser(SCHEMA, LowGate(k=3, together=5))


def test_toy_publishes_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "out.csv"
    run("anonymise", folder / "rows.csv", "-o", out, "--schema", folder / "schema.yaml",
        "--algorithm", "toy", "--k", "3", "--together", "5", "--last", "drop", "--padding", "2")  # fmt: skip
    assert "Every group has at least 3 persons." in capsys.readouterr().out
    expected = cg.anonymise(ROWS, SCHEMA, Toy(k=3, together=5, last="drop", padding=Padding(cells=2)))
    found = pyarrow.csv.read_csv(out)
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))


def test_help_shows_the_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    run("anonymise", "--algorithm=toy", "--help")
    shown = " ".join(capsys.readouterr().out.split())
    assert "Parameters of toy: --k INTEGER Distinct persons per published group. [required]" in shown
    assert "--together INTEGER Rows of a group (the toy's m). [default: 10]" in shown
    assert "--padding INTEGER Cells that a box is wider on either side. [default: none]" in shown
    assert "--sample-rate" not in shown


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--together", "5"), "--k is missing: toy has no default for it"),
        (("--k", "3", "--epsilon", "2"), "toy has no option --epsilon"),
        (("--k", "3", "--together", "many"), "'many' is not a valid integer"),
        (("--k", "3", "--together", "0"), "together must be a whole number of at least 1, got 0"),
    ],
)
def test_wrong_options_are_named(
    folder: Path, more: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = 1 if message.startswith("together") else 2
    run("anonymise", folder / "rows.csv", "-o", folder / "out.csv", "--schema", folder / "schema.yaml",
        "--algorithm", "toy", *more, code=code)  # fmt: skip
    assert message in capsys.readouterr().err


def test_toy_options_are_unknown_without_its_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("anonymise", folder / "rows.csv", "-o", folder / "out.csv", "--schema", folder / "schema.yaml",
        "--k", "3", "--delay", "9", "--together", "5", code=2)  # fmt: skip
    assert "No such option" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("algorithm", "code", "message"),
    [
        ("lost", 1, "the algorithm 'lost' cannot be loaded"),
        ("other-type", 1, "has a parameter 'delay' whose type differs from that of citadel"),
        ("own-gate", 1, "must use one of the gates"),
        ("seeded", 2, "the parameter seed of seeded clashes with an option of this command: use a job file"),
        ("together", 2, "together is for several sites"),
        ("listed", 2, "listed needs columns, which has no option: use a job file"),
        ("dcastle", 2, "'dcastle' is not one of"),
    ],
)
def test_unusable_algorithm_is_refused_in_one_line(
    folder: Path, algorithm: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run("anonymise", folder / "rows.csv", "-o", folder / "out.csv", "--schema", folder / "schema.yaml",
        "--algorithm", algorithm, "--k", "3", code=code)  # fmt: skip
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown
    assert not (folder / "out.csv").exists()


def write_job(folder: Path, privacy: str) -> Path:
    path = folder / "job.yaml"
    schema = SCHEMA_TEXT.replace("\n", "\n  ")
    path.write_text(
        f"source: {{type: csv, path: rows.csv}}\nsink: {{type: csv, path: out}}\nprivacy: {privacy}\n"
        f"checkpoint: {{path: state.db}}\nschema:{schema}\n",
        encoding="utf-8",
    )
    return path


JOB = "{algorithm: toy, k: 3, together: 5, last: drop, padding: {cells: 1}}"


def test_toy_runs_in_a_job_and_is_audited(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = write_job(folder, JOB)
    assert load(job).policy == Toy(k=3, together=5, last="drop", padding=Padding(cells=1))
    run("validate", job)
    run("run", job, "--quiet")
    published = sum(pyarrow.csv.read_csv(part).num_rows for part in (folder / "out").glob("*.csv"))
    assert published == 200
    capsys.readouterr()
    run("audit", job, "--attack-runs", "5")
    assert "no broken promise was found" in capsys.readouterr().out


def test_published_file_is_audited_by_options(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--schema", folder / "schema.yaml", "--algorithm", "toy", "--together", "5", "--last", "drop")
    run("anonymise", folder / "rows.csv", "-o", folder / "out.csv", *options, "--k", "3")
    run("audit", folder / "rows.csv", folder / "out.csv", *options, "--k", "3", "--attack-runs", "5")
    assert "no broken promise was found" in capsys.readouterr().out
    run("audit", folder / "rows.csv", folder / "out.csv", *options, "--k", "30", "--attack-runs", "0", code=3)
    assert "verdict: BROKEN" in capsys.readouterr().out


def test_explain_describes_the_toy(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("explain", write_job(folder, JOB))
    shown = " ".join(capsys.readouterr().out.split())
    assert "a toy's box" in shown
    assert "A row waits for 5 rows." in shown
    assert "Every group has at least 3 persons." in shown


@pytest.mark.parametrize(
    ("privacy", "message"),
    [
        ("{algorithm: toy, k: 3, togther: 5}", "privacy.togther is not a known key; did you mean together?"),
        ("{algorithm: toy, k: 3, together: 0}", "privacy.together must be a whole number of at least 1, got 0"),
        ("{algorithm: toy, k: 3, padding: {cells: few}}", "privacy.padding.cells must be a whole number, got 'few'"),
        ("{algorithm: toy}", "privacy.k is missing"),
        ("{algorithm: toi, k: 3}", "did you mean toy?"),
        ("{algorithm: lost, k: 3}", "privacy.algorithm cannot be used: the algorithm 'lost' cannot be loaded"),
    ],
)
def test_wrong_job_is_reported_with_its_line(
    folder: Path, privacy: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run("explain", write_job(folder, privacy), code=2)
    assert re.search(rf"job.yaml:3  .*{re.escape(message)}", capsys.readouterr().err)


def test_sweep_varies_the_parameters(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("sweep", folder / "rows.csv", "--schema", folder / "schema.yaml", "-o", folder / "sweep", "--jobs", "1",
        "--algorithm", "toy", "--k", "3", "--together", "5,10,20")  # fmt: skip
    assert "together" in capsys.readouterr().out
    assert len((folder / "sweep" / "results.csv").read_text(encoding="utf-8").splitlines()) == 4


def test_membership_game_runs_against_the_toy(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    run("audit", "dp", "--algorithm", "toy", "--k", "3", "--together", "5", "--claim-epsilon", "0", "--runs", "200",
        "--jobs", "1", "--json", figures)  # fmt: skip
    claims = json.loads(figures.read_text(encoding="utf-8"))["claims"]
    assert [claim["refuted"] for claim in claims] == [True], "a toy is not differentially private"


def test_editor_schema_describes_a_named_plug_in() -> None:
    def privacy(*algorithms: str) -> dict[str, object]:
        nodes = job_schema(Connectors(), relay_options, algorithms)["properties"]["privacy"]["oneOf"]
        return {node["properties"]["algorithm"]["const"]: node["properties"] for node in nodes}

    assert privacy()["toy"] == {"algorithm": {"const": "toy"}}
    described = privacy("toy")["toy"]
    assert isinstance(described, dict)
    assert described["together"]["description"] == "Rows of a group."
    assert described["together"]["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 1000}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other-type", "has a parameter 'delay' whose type differs from that of citadel"),
        ("silent", "does not implement becomes, encoder, fingerprint, guarantee"),
        ("lost", "the algorithm 'lost' cannot be loaded"),
        ("nowhere", "unknown algorithm 'nowhere'"),
    ],
)
def test_object_that_is_not_an_algorithm_is_refused(name: str, message: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(message)):
        lookup.find(name)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["anonymise", "--help"], ["schema"], ["anonymise", "--algorithm", "castle", "--help"]]
)
def test_plug_in_is_loaded_only_if_named(installed: Path, arguments: list[str]) -> None:
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(installed)!r})\n"
        "from castleguard.cli import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit as ended: assert not ended.code\n"
        "print('tests.contract.toy' in sys.modules)\n"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "False"
