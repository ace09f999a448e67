"""`castleguard validate`: the checklist, its marks and its exit codes."""

import os
import shutil
import socket
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from castleguard.checkpoint.cipher import Cipher
from castleguard.checkpoint.store import Checkpoint, Store
from castleguard.connectors.registry import Connector, Finding
from castleguard.errors import OutputError
from castleguard.jobs.assemble import make_job, make_stream
from castleguard.jobs.identity import identity_of
from castleguard.jobs.load import load
from tests.unit.cli.conftest import Outcome, Run
from tests.unit.fake_connectors import install

Validate = Callable[..., Outcome]

SECTIONS = {
    "source": "{type: csv, path: visits.csv}",
    "schema": "{file: schema.yaml}",
    "privacy": "{algorithm: castle, k: 5, l: 2, delay: 100}",
    "sink": "{type: parquet, path: out}",
    "checkpoint": "{path: state/job.db}",
}
ALL = "{type: csv, path: '*.csv'}"
BELOW = "{type: csv, path: 'in/**/x*'}"
FOLLOWED = "{type: csv, path: in, follow: true}"
NOISY = "{algorithm: castleguard, k: 5, delay: 100, epsilon: 4}"


@pytest.fixture
def validate(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Validate:
    """Validate a job with a section in another way; None leaves one out."""
    install(monkeypatch)
    (folder / "state").mkdir(mode=0o700)

    def validate(**sections: str | None) -> Outcome:
        chosen = {**SECTIONS, **sections}
        text = "".join(f"{key}: {value}\n" for key, value in chosen.items() if value is not None)
        (folder / "job.yaml").write_text(text, encoding="utf-8")
        return run("validate", folder / "job.yaml")

    return validate


def marked(shown: Outcome, mark: str) -> list[str]:
    """The lines with this mark, on one line each."""
    entries = shown.out.replace("\n  ", " ").splitlines()
    return [line[2:] for line in entries if line.startswith(mark)]


def test_a_good_job_passes_and_its_promise_is_stated(validate: Validate) -> None:
    shown = validate()
    assert shown.code == 0
    assert marked(shown, "✗") == []
    for what in ("job.yaml is valid", "schema: persons by patient", "privacy: castle", "source: 1 file readable",
                 "source: has all columns of the schema", "sink:", "checkpoint:"):  # fmt: skip
        assert any(line.startswith(what) for line in marked(shown, "✓")), what
    assert "Every published group of equal quasi-identifiers has at least 5 distinct persons" in shown.out


def test_rows_of_the_sample_that_would_be_rejected_are_counted_and_not_shown(validate: Validate) -> None:
    (line,) = [line for line in marked(validate(), "!") if line.startswith("source:")]
    assert "of the 800 rows would be rejected (age: null" in line
    assert "Elsewhere" not in line


def test_values_of_another_type_than_declared_are_counted(validate: Validate, folder: Path) -> None:
    (folder / "fares.csv").write_text("patient,age,fare\n" + "1,30,2.50\n" * 9 + "2,40,free\n")
    age, fare = "{name: age, lower: 0, upper: 100}", "{name: fare, type: number}"
    schema = f"{{person: patient, quasi_identifiers: [{age}], public: [{fare}]}}"
    source, privacy = "{type: csv, path: fares.csv}", "{algorithm: castle, k: 5, delay: 100}"
    (line,) = [
        line for line in marked(validate(source=source, schema=schema, privacy=privacy), "!") if "rejected" in line
    ]
    assert "1 of the 10 rows would be rejected (fare: other type 1)" in line


def test_problems_of_the_file_are_listed_each_with_its_line(validate: Validate) -> None:
    shown = validate(privacy="{algorithm: castle, k: 1, delay: 100}", checkpont="{}")
    assert shown.code == 2
    assert len(marked(shown, "✗")) == 2
    assert "2 problems" in shown.out
    assert "job.yaml:3 privacy.k must be a whole number of at least 2" in " ".join(shown.out.split())


@pytest.mark.parametrize(
    ("sections", "message", "remedy"),
    [
        ({"source": "{type: csv, path: absent.csv}"}, "does not exist", "correct source.path"),
        ({"source": "{type: csv, path: 'no/*.csv'}"}, "does not exist", "correct source.path"),
        ({"source": "{type: csv, path: schema.yaml}"}, "source: ", "correct the schema or the input"),
        ({"sink": "{type: csv, path: out.csv}"}, "is a single file, which cannot be restored", "name a folder (out/)"),
        ({"sink": "{type: csv, path: visits.csv/x}"}, "visits.csv is a file, not a folder", "choose another"),
        ({"checkpoint": "{path: visits.csv/state.db}"}, "visits.csv is a file, not a folder", "choose another"),
        ({"dead_letter": "{path: visits.csv/x.jsonl}"}, "visits.csv is a file, not a folder", "choose another"),
        ({"sink": "{type: kafka, servers: x, topic: absent}"}, "sink: the topic is there", "make the topic"),
    ],
)  # fmt: skip
def test_conditions_that_would_stop_the_job_are_problems(
    validate: Validate, sections: dict[str, str], message: str, remedy: str
) -> None:
    shown = validate(**sections)
    assert shown.code == 1
    (line,) = marked(shown, "✗")
    assert message in line
    assert remedy in shown.out


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"sink": "{type: csv, path: .}", "source": ALL}, "sink.path is the source folder"),
        ({"dead_letter": "{path: state/../state/job.db}"}, "dead_letter.path is the same file as the checkpoint"),
        ({"dead_letter": "{path: visits.csv}"}, "dead_letter.path is the same file as the source"),
        ({"dead_letter": "{path: job.yaml}"}, "dead_letter.path is the same file as the job file"),
        ({"dead_letter": "{path: out}"}, "dead_letter.path is the same file as the sink"),
        ({"checkpoint": "{path: visits.csv}"}, "checkpoint.path is the same file as the source"),
        ({"checkpoint": "{path: in/x.db}", "source": FOLLOWED}, "checkpoint.path is in the source folder"),
        ({"dead_letter": "{path: in/a/x}", "source": BELOW}, "dead_letter.path is in the source folder"),
    ],
)
def test_colliding_files_are_refused_before_anything_is_written(
    run: Run, validate: Validate, folder: Path, sections: dict[str, str], message: str
) -> None:
    shown = validate(**sections)
    assert shown.code == 2
    (line,) = marked(shown, "✗")
    assert message in line
    before = {path: path.stat().st_mode for path in folder.rglob("*")}
    data = (folder / "visits.csv").read_bytes()
    for command in ("run", "drain"):
        shown = run(command, folder / "job.yaml")
        assert shown.code != 0
        assert command == "drain" or message in shown.err
    assert {path: path.stat().st_mode for path in folder.rglob("*")} == before
    assert (folder / "visits.csv").read_bytes() == data


def test_files_that_do_not_match_the_source_pattern_are_accepted(validate: Validate) -> None:
    assert validate(source=ALL, checkpoint="{path: x.db}", sink="{type: csv, path: out}").code == 0
    assert validate(source=ALL, sink="{type: parquet, path: .}").code == 0


KEY = f"{'A' * 43}="
OTHER_KEY = f"{'B' * 42}A="


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"privacy": "{algorithm: castle, k: 6, l: 2, delay: 100}"}, "another policy.k"),
        ({"checkpoint": f"{{path: state/job.db, key: {OTHER_KEY}}}"}, "cannot be opened: wrong key"),
        ({"checkpoint": "{path: state/job.db}"}, "is encrypted: give its key"),
        ({"name": "another"}, "a job with another name"),
        ({"dead_letter": "{path: schema.yaml}"}, "schema.yaml does not hold dead letters"),
        ({"checkpoint": "{path: schema.yaml}"}, "schema.yaml is not a checkpoint, or it is damaged"),
    ],
)
def test_a_checkpoint_or_letters_that_run_would_refuse_are_a_problem(
    run: Run, validate: Validate, folder: Path, sections: dict[str, str], message: str
) -> None:
    """Every message is also what `run` says then."""
    mine = {"checkpoint": f"{{path: state/job.db, key: {KEY}}}"}
    validate(**mine)
    job = load(folder / "job.yaml")
    stream = make_stream(job)
    with Store(folder / "state" / "job.db", cipher=Cipher(bytes(32))) as store:
        store.save(Checkpoint(number=1, position=None, snapshot=stream.snapshot(), delivered=True,
                              books={"before": {}}, identity=identity_of(job)))  # fmt: skip
    (folder / "schema.yaml").chmod(0o600)
    shown = validate(**mine)
    assert shown.code == 0, shown.out
    assert "the next run can restore the stored state" in shown.out
    shown = validate(**{**mine, **sections})
    assert shown.code == 1
    (line,) = marked(shown, "✗")
    assert message in line
    assert message in run("run", folder / "job.yaml").err


def test_a_job_that_is_running_is_left_alone(validate: Validate, folder: Path) -> None:
    with Store(folder / "state" / "job.db"):
        shown = validate()
    assert shown.code == 0
    assert any("in use by another process: the job is running" in line for line in marked(shown, "!"))


@pytest.mark.parametrize("key", ["checkpoint", "dead_letter"])
def test_folders_that_validate_says_can_be_made_are_made(validate: Validate, folder: Path, key: str) -> None:
    shown = validate(**{key: "{path: no/dir/x}"})
    assert shown.code == 0
    assert any(line.startswith(f"{key}: ") and line.endswith("can be created") for line in marked(shown, "✓"))
    make_job(load(folder / "job.yaml")).close()
    assert (folder / "no" / "dir" / "x").exists()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_file_system_that_keeps_no_files_is_a_problem(validate: Validate) -> None:
    shown = validate(sink="{type: parquet, path: /proc/nope}")
    assert shown.code == 1
    assert marked(shown, "✗")[0].startswith("sink: /proc")


def test_an_unavailable_broker_is_temporary(validate: Validate) -> None:
    shown = validate(sink="{type: kafka, servers: x, topic: far}")
    assert shown.code == 75
    (line,) = marked(shown, "✗")
    assert line.startswith("sink: the broker does not answer")
    assert "check that it is running" in shown.out
    assert validate(sink="{type: kafka, servers: x, topic: far}", source="{type: csv, path: absent.csv}").code == 1


def test_a_policy_that_cannot_promise_anything_is_a_mistake_in_the_file(validate: Validate) -> None:
    shown = validate(privacy="{algorithm: doca, epsilon: 1, k: 5, delay: 50}")
    assert shown.code == 2
    assert "strict DOCA cannot publish" in " ".join(shown.out.split())


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"checkpoint": None}, "checkpoint: not set, so a stopped job starts from the beginning"),
        ({}, "checkpoint: holds raw rows and is not encrypted"),
        ({"checkpoint": f"{{path: state/x, key: {'A' * 43}=}}"}, "checkpoint: the key is written in the job file"),
        ({"checkpoint": "{path: x.db}"}, "checkpoint: other users can open"),
        ({"privacy": "{algorithm: castle, mode: paper, k: 5, delay: 100}"}, "privacy: paper mode is for experiments"),
    ],
)
def test_warnings_are_not_problems(
    validate: Validate, folder: Path, sections: dict[str, str | None], message: str
) -> None:
    folder.chmod(0o755)
    shown = validate(**sections)
    assert shown.code == 0
    assert any(line.startswith(message) for line in marked(shown, "!"))


def test_a_permanent_error_of_a_connector_is_not_temporary(validate: Validate, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> list[Finding]:
        raise OutputError("there is no stream 'x'; `nats stream add` makes one")

    monkeypatch.setattr("castleguard.jobs.load.connector_of", lambda _: Connector(check=refuse))
    shown = validate()
    assert shown.code == 1
    assert "check that it is running" not in shown.out


def test_rows_without_persons_are_a_warning(validate: Validate) -> None:
    schema = "{person: null, quasi_identifiers: [{name: age, lower: 0, upper: 120, step: 5}]}"
    shown = validate(schema=schema, privacy="{algorithm: castle, k: 5, delay: 100}")
    said = "schema: every row counts as its own person, 1 quasi-identifier, 0 sensitive, 0 public"
    assert said in " ".join(marked(shown, "!"))


def test_a_followed_folder_may_still_be_empty(validate: Validate, folder: Path) -> None:
    (folder / "in").mkdir()
    shown = validate(source="{type: csv, path: in, follow: true}")
    assert shown.code == 0
    assert "has no file yet" in shown.out


def test_a_sink_that_is_not_exactly_once_is_refused_for_noise_only(validate: Validate, folder: Path) -> None:
    assert validate(sink="{type: stdio}").code == 0
    shown = validate(sink="{type: stdio}", privacy=NOISY)
    assert shown.code == 1
    assert "stdio cannot tell which rows it has, so rows may be published twice after a crash" in " ".join(
        shown.out.split()
    )


def test_without_a_checkpoint_noise_would_be_spent_again(validate: Validate) -> None:
    assert "adds new noise to the same rows" in " ".join(validate(checkpoint=None, privacy=NOISY).out.split())


def test_a_reachable_topic_passes(validate: Validate) -> None:
    shown = validate(sink="{type: kafka, servers: x, topic: there}")
    assert shown.code == 0
    assert "sink: the topic is there" in marked(shown, "✓")


def test_a_checkpoint_that_others_can_read_is_a_problem(validate: Validate, folder: Path) -> None:
    (folder / "state" / "job.db").touch(mode=0o644)
    shown = validate()
    assert shown.code == 1
    assert "chmod 600" in shown.out


def test_a_nearly_full_disk_is_a_warning(validate: Validate, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2 << 30, 1 << 30, 100 << 20))
    shown = validate()
    assert shown.code == 0
    assert "sink: only 100 MiB are free" in shown.out


def test_a_port_in_use_is_a_warning(validate: Validate) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        shown = validate(metrics=f"{{port: {server.getsockname()[1]}}}")
        assert "cannot listen on" in " ".join(shown.out.split())
    assert shown.code == 0
    assert "a free port" in validate(metrics="{port: 0}").out


def test_a_grid_as_fine_as_the_data_is_a_warning(validate: Validate, folder: Path) -> None:
    text = (folder / "schema.yaml").read_text().replace("upper: 110, step: 5", "upper: 110, step: 1")
    (folder / "schema.yaml").write_text(text)
    assert "schema: age: a grid cell holds a single value of the data, so published bounds reveal it" in " ".join(
        validate().out.split()
    )


def test_nothing_outside_is_changed(validate: Validate, folder: Path) -> None:
    validate()
    before = sorted(os.listdir(folder))
    validate(dead_letter="{path: new/x.jsonl}", sink="{type: parquet, path: deep/er/out}")
    assert sorted(os.listdir(folder)) == before


def test_values_from_the_environment_are_not_shown(
    validate: Validate, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIDDEN_FOLDER", "very-secret-place")
    for path in ("'${HIDDEN_FOLDER}'", "'${HIDDEN_FOLDER}/x.csv'"):
        shown = validate(source=f"{{type: csv, path: {path}}}", sink=f"{{type: csv, path: {path}}}")
        assert shown.code in (1, 2)
        assert "very-secret" not in shown.out + shown.err


def test_a_missing_job_file_is_one_problem(run: Run, tmp_path: Path) -> None:
    shown = run("validate", tmp_path / "absent.yaml")
    assert shown.code == 2
    assert "absent.yaml cannot be read: No such file or directory" in " ".join(shown.out.split())


def test_wrong_usage_exits_with_two(run: Run) -> None:
    assert run("validate").code == 2
