"""`castleguard anonymise`: what it writes and says, and how it fails."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from castleguard.connectors.formats import open_reader, open_writer
from castleguard.judge.verify.structure import verify
from castleguard.testing.streams import visits_schema
from tests.patience import WHOLE_RUN, eventually
from tests.unit.cli.conftest import Outcome, Run

COLUMNS = [
    *("age_min", "age_max", "arrived_min", "arrived_max", "distance_km_min", "distance_km_max"),
    *("minutes_min", "minutes_max", "district", "occupation", "diagnosis", "clinic", "record"),
]


def read(path: Path, columns: list[str]) -> pa.Table:
    with closing(open_reader(path, columns)) as source:
        return pa.Table.from_batches(list(source))


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"visits.csv", "schema.yaml"}


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".jsonl", ".parquet", ".arrow"])
def test_the_promise_is_kept_in_every_format(anonymise: Run, folder: Path, ending: str) -> None:
    assert anonymise(output=f"out{ending}").code == 0
    lines = (folder / "visits.csv").read_text(encoding="utf-8").splitlines()[:-1]
    (folder / "good.csv").write_text("\n".join(lines), encoding="utf-8")
    original = pyarrow.csv.read_csv(folder / "good.csv")
    found = verify(read(folder / f"out{ending}", COLUMNS), original, visits_schema(), k=5, l=2, link="record")
    assert found.ok, found.sentence
    assert found.rows > 700


def test_every_format_can_be_read(anonymise: Run, folder: Path) -> None:
    """The same rows as CSV, JSON lines, Parquet and Arrow give the same output."""
    outputs = set()
    columns = list(visits_schema().columns)
    table = read(folder / "visits.csv", columns)
    for ending in (".csv", ".jsonl", ".parquet", ".arrow"):
        sink = open_writer(folder / f"in{ending}")
        sink.write(table)
        sink.close()
        assert anonymise("--seed", "1", "--overwrite", input=f"in{ending}").code == 0
        outputs.add((folder / "out.csv").read_bytes())
    assert len(outputs) == 1


def test_the_summary_accounts_for_every_row_and_states_the_promise(anonymise: Run) -> None:
    shown = anonymise()
    table, _, statement = shown.out.partition("\n\n")
    words = {line[:18].strip(): line[18:].split() for line in table.splitlines()}
    count = {name: int(words[name][0].replace(",", "")) for name in ("rows in", "published", "suppressed", "rejected")}
    assert count["rows in"] == 801
    assert count["rows in"] == count["published"] + count["suppressed"] + count["rejected"]
    assert "malformed line 1" in shown.out
    assert "age: null" in shown.out
    assert "district: unknown" in shown.out
    assert {"groups", "information loss", "oldest wait"} <= set(words)
    assert "at least 5 " in " ".join(statement.split())


def test_no_progress_is_shown_without_a_terminal(anonymise: Run) -> None:
    anonymise()
    assert anonymise("--overwrite").err == ""


def test_quiet_says_nothing(anonymise: Run) -> None:
    assert anonymise("--quiet").out == ""


def test_a_seed_gives_the_same_bytes(anonymise: Run, folder: Path) -> None:
    anonymise("--seed", "7", output="one.csv")
    anonymise("--seed", "7", output="two.csv")
    assert (folder / "one.csv").read_bytes() == (folder / "two.csv").read_bytes()


def test_ranges_can_be_written_as_intervals(anonymise: Run, folder: Path) -> None:
    assert anonymise("--numbers", "interval").code == 0
    assert (folder / "out.csv").read_text(encoding="utf-8").startswith("age,arrived,distance_km,minutes,district")


def test_every_option_of_the_policy_is_taken(anonymise: Run) -> None:
    options = "--max-clusters 20 --loss-window 10 --mode paper --reuse off --suppression drop --order input"
    assert anonymise(*options.split()).code == 0


def fails(shown: Outcome, folder: Path, *words: str, code: int = 1) -> None:
    """One line, the exit code, nothing left behind."""
    assert shown.code == code
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("castleguard: ")
    for word in words:
        assert word in lines[0]
    assert left_in(folder) == set()


def test_a_missing_input_is_one_line(anonymise: Run, folder: Path) -> None:
    fails(anonymise(input="missing.csv"), folder, "missing.csv", "no such file")


def test_an_unknown_format_is_one_line(anonymise: Run, folder: Path) -> None:
    fails(anonymise(output="out.xlsx"), folder, "out.xlsx", "known: .csv")


def test_a_missing_schema_is_one_line(anonymise: Run, folder: Path) -> None:
    fails(anonymise("--schema", folder / "other.yaml"), folder, "other.yaml", code=2)


def test_a_bad_schema_is_one_line_with_file_and_line(anonymise: Run, folder: Path) -> None:
    text = (folder / "schema.yaml").read_text(encoding="utf-8")
    (folder / "schema.yaml").write_text(text.replace("name: age, lower: 0", "name: age, lowr: 0"), encoding="utf-8")
    fails(anonymise(), folder, "schema.yaml:", "lowr", code=2)


def test_a_missing_column_is_one_line(anonymise: Run, folder: Path) -> None:
    text = (folder / "schema.yaml").read_text(encoding="utf-8")
    (folder / "schema.yaml").write_text(text.replace("person: patient", "person: patients"), encoding="utf-8")
    fails(anonymise(), folder, "'patients'", "did you mean 'patient'")


@pytest.mark.parametrize("option", [("--k", "1"), ("--l", "9"), ("--delay", "0"), ("--max-clusters", "0")])
def test_a_promise_that_cannot_be_given_is_one_line(anonymise: Run, folder: Path, option: tuple[str, str]) -> None:
    fails(anonymise(*option), folder, option[0][2:].replace("-", "_"), option[1])


def test_an_output_without_a_folder_is_one_line(anonymise: Run, folder: Path) -> None:
    fails(anonymise(output="missing/out.csv"), folder, "no such folder")


def test_an_existing_output_is_replaced_on_request_only(anonymise: Run, folder: Path) -> None:
    (folder / "out.csv").write_text("older")
    shown = anonymise()
    assert shown.code == 1
    assert "already exists" in shown.err
    assert (folder / "out.csv").read_text() == "older"
    assert anonymise("--overwrite").code == 0
    assert (folder / "out.csv").read_text() != "older"


def test_the_input_is_never_overwritten(anonymise: Run, folder: Path) -> None:
    before = (folder / "visits.csv").read_bytes()
    (folder / "alias.csv").symlink_to(folder / "visits.csv")
    for output in ("visits.csv", "alias.csv"):
        shown = anonymise("--overwrite", output=output)
        assert shown.code == 1
        assert "is also the input" in shown.err
    assert (folder / "visits.csv").read_bytes() == before


def test_a_failure_on_the_way_leaves_no_file(anonymise: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("the value of a row")

    monkeypatch.setattr("castleguard.stream.Anonymiser.flush", fail)
    fails(anonymise(), folder, "internal error: ValueError", code=70)


def test_an_unexpected_message_is_not_shown_because_it_may_quote_a_row(
    anonymise: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("the value of a row")

    monkeypatch.setattr("castleguard.stream.Anonymiser.push", fail)
    assert "the value of a row" not in anonymise().err
    monkeypatch.setenv("CASTLEGUARD_DEBUG", "1")
    assert "the value of a row" in anonymise().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_one_line_and_leaves_no_file(folder: Path, number: signal.Signals) -> None:
    os.mkfifo(folder / "slow.csv")
    # Open for both directions, so that neither end waits for the other; less than a pipe holds is written.
    pipe = os.open(folder / "slow.csv", os.O_RDWR)
    os.write(pipe, (folder / "visits.csv").read_bytes()[:30_000])
    command = [sys.executable, "-m", "castleguard", "anonymise", "slow.csv", "-o", "out.csv", "--schema", "schema.yaml"]
    with subprocess.Popen(
        [*command, "--k", "5", "--delay", "200"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background may make them ignore SIGINT; the command would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    ) as process:
        eventually(lambda: list(folder.glob(".out.csv.*.part")) or process.poll() is not None)
        process.send_signal(number)
        _, err = process.communicate(timeout=WHOLE_RUN)
    os.close(pipe)
    assert process.returncode == 128 + number
    assert err.splitlines()[-1].startswith("castleguard: interrupted")
    assert "Traceback" not in err
    assert left_in(folder) == {"slow.csv"}
