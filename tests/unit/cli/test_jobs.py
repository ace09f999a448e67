"""The commands that run a job, as an operator uses them."""

import errno
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from castleguard.checkpoint.store import Checkpoint, Store
from castleguard.errors import ConfigError, InputError, OutputError, SnapshotError, UnavailableError
from castleguard.jobs.assemble import make_job
from castleguard.jobs.load import load
from castleguard.telemetry.metrics import Metrics
from tests.patience import WHOLE_RUN, eventually
from tests.ports import free_port
from tests.unit.cli.conftest import AGES, Run

JOB = f"""
{AGES}
privacy: {{algorithm: castle, k: 5, delay: 50}}
sink: {{type: parquet, path: out}}
checkpoint: {{path: state.db, every: 100ms}}
dead_letter: {{path: rejects.jsonl}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = "".join(f"{n % 90},{n % 71 + 20}\n" for n in range(400))
    (tmp_path / "in.csv").write_text("pid,age\n" + rows + "1,odd\n1,2,3\n")
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def started(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Run the job in a process of its own, which is killed at the end if it is still running."""
    command = [sys.executable, "-m", "castleguard", "run", "job.yaml", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_job_runs_to_the_end_of_its_source_and_accounts_for_every_row(run: Run, folder: Path) -> None:
    outcome = run("run", "job.yaml")
    assert outcome.code == 0
    said = " ".join(outcome.out.split())
    assert "rows in 402 published 400" in said
    assert "rejected 2 age: invalid 1, malformed line 1" in said
    assert "The source has ended" in said
    assert sum(pq.read_table(part).num_rows for part in folder.glob("out/part-*.parquet")) == 400
    reasons = [json.loads(line)["reason"] for line in (folder / "rejects.jsonl").read_text().splitlines()]
    assert sorted(reasons) == ["3 values instead of 2", "age: invalid"]


def test_a_job_that_has_finished_says_that_nothing_was_done(run: Run, folder: Path) -> None:
    first, second = run("run", "job.yaml"), run("run", "job.yaml")
    assert second.code == 0
    assert second.out.splitlines()[:7] == first.out.splitlines()[:7]
    assert "nothing to do" in second.out


def test_a_job_is_the_same_from_wherever_it_is_started(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("run", "job.yaml")
    monkeypatch.chdir(folder.parent)
    outcome = run("run", f"{folder.name}/job.yaml")
    assert outcome.code == 0
    assert "nothing to do" in outcome.out


def test_the_promise_does_not_cover_rows_of_an_earlier_policy(run: Run, folder: Path) -> None:
    run("run", "job.yaml")
    (folder / "job.yaml").write_text(JOB.replace("k: 5", "k: 20"))
    outcome = run("run", "job.yaml")
    assert "at least 20 distinct persons" in outcome.out
    assert "the promise of the job file at that time holds" in outcome.out


def test_the_books_never_stand_among_published_rows(folder: Path) -> None:
    """The books are for the operator, and standard output is the sink."""
    job = JOB.replace("sink: {type: parquet, path: out}", "sink: {type: stdio, format: jsonl}")
    (folder / "job.yaml").write_text(job)
    command = [sys.executable, "-m", "castleguard", "run", "job.yaml"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len([json.loads(line) for line in shown.stdout.splitlines()]) == 400
    assert "rows in" in shown.stderr


def test_a_dry_run_says_that_a_run_would_fail(run: Run, folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB.replace("rejects.jsonl", "rejects.jsonl, max_share: 0.001"))
    for quiet in ((), ("--quiet",)):
        predicted = run("run", "job.yaml", "--dry-run", *quiet)
        assert predicted.code == 1
        assert "`castleguard run` would fail: 0.00498 of the rows are rejected" in predicted.err
        assert ("rows in" in predicted.out) == (not quiet)
    logged = run("run", "job.yaml", "--dry-run", "--log-format", "json")
    assert logged.code == 1
    assert json.loads(logged.err.splitlines()[-1])["level"] == "error"
    outcome = run("run", "job.yaml")
    assert outcome.code == 1
    assert "2 of 402 rows were rejected" in outcome.err
    assert "rows in 402 published 400" in " ".join(outcome.out.split())
    assert sum(pq.read_table(part).num_rows for part in folder.glob("out/part-*.parquet")) == 400


def test_with_json_logs_every_line_is_an_object_even_the_last_one(run: Run, folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB.replace("every: 100ms", "every: 1h"))  # one commit, at the end
    lines = [json.loads(line) for line in run("run", "job.yaml", "--log-format", "json").err.splitlines()]
    assert [line["message"] for line in lines][:1] == ["starting after commit 0"]
    assert lines[-1] == {**lines[-1], "level": "info", "message": "finished after commit 1", "job": "job", "commit": 1}
    (folder / "job.yaml").write_text(JOB.replace("in.csv", "out.csv"))
    outcome = run("run", "job.yaml", "--log-format", "json")
    assert outcome.code == 1
    assert json.loads(outcome.err.splitlines()[-1])["level"] == "error"


def test_a_fatal_error_is_one_json_line_without_messages_of_other_libraries(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def burst(*_: object) -> None:
        raise ValueError("could not convert 'Zoë, room 7'")

    monkeypatch.setattr("castleguard.checkpoint.store.Store.save", burst)
    shown = run("run", "job.yaml", "--log-format", "json")
    assert shown.code != 0
    assert "Zoë" not in shown.out + shown.err
    last = json.loads(shown.err.splitlines()[-1])
    assert last == {**last, "level": "error", "job": "job", "commit": 0}
    assert last["message"].startswith("internal error: ValueError at ")


def test_a_job_that_cannot_be_opened_says_that_it_failed(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    (folder / "state.db").write_text("no checkpoint" * 1000)
    (folder / "job.yaml").write_text(f"{JOB}metrics: {{port: 0}}\n")
    close = Metrics.close

    def watched(metrics: Metrics) -> None:
        told.append((metrics.status.job, metrics.status.state))
        close(metrics)

    monkeypatch.setattr(Metrics, "close", watched)
    assert run("run", "job.yaml").code == 1
    assert told == [("job", "failed")]


def test_a_dry_run_leaves_nothing_behind(run: Run, folder: Path) -> None:
    outcome = run("run", "job.yaml", "--dry-run")
    assert outcome.code == 0
    assert "nothing was written" in outcome.out
    assert sorted(path.name for path in folder.iterdir()) == ["in.csv", "job.yaml"]


def changed(folder: Path, *pairs: tuple[str, str]) -> None:
    text = JOB
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (folder / "job.yaml").write_text(text)


def content(folder: Path) -> dict[str, bytes | None]:
    """All that lies in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def make_sink_a_file(run: Run, folder: Path) -> None:
    (folder / "out").write_text("")


def put_the_sink_into_a_file(run: Run, folder: Path) -> None:
    (folder / "file").write_text("")
    changed(folder, ("path: out", "path: file/out"))


def make_sink_a_place_for_no_files(run: Run, folder: Path) -> None:
    changed(folder, ("path: out", "path: /proc/out"))


def lose_the_checkpoint(run: Run, folder: Path) -> None:
    run("run", "job.yaml")
    (folder / "state.db").unlink()


def go_without_a_checkpoint(run: Run, folder: Path) -> None:
    run("run", "job.yaml")
    changed(folder, ("checkpoint: {path: state.db, every: 100ms}", ""))


def change_the_sink(run: Run, folder: Path) -> None:
    run("run", "job.yaml")
    changed(folder, ("path: out", "path: other"))


def damage_the_checkpoint(run: Run, folder: Path) -> None:
    (folder / "state.db").write_text("not a checkpoint" * 1000)


def put_the_checkpoint_nowhere(run: Run, folder: Path) -> None:
    (folder / "file").write_text("")
    changed(folder, ("path: state.db", "path: file/state.db"))


def make_the_checkpoint_a_folder(run: Run, folder: Path) -> None:
    (folder / "state.db").mkdir()


def write_other_letters(run: Run, folder: Path) -> None:
    (folder / "rejects.jsonl").write_text("not a letter\n")


def cut_the_file_that_is_being_read(run: Run, folder: Path) -> None:
    changed(folder, ("path: in.csv", "path: in.csv, batch_rows: 100"))
    job = make_job(load(folder / "job.yaml"))
    job.turn()
    job.commit()
    job.close()
    (folder / "in.csv").write_text("pid,age\n1,20\n")


STOPS = [
    make_sink_a_file,
    put_the_sink_into_a_file,
    make_sink_a_place_for_no_files,
    lose_the_checkpoint,
    go_without_a_checkpoint,
    change_the_sink,
    damage_the_checkpoint,
    put_the_checkpoint_nowhere,
    make_the_checkpoint_a_folder,
    write_other_letters,
    cut_the_file_that_is_being_read,
]


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.__name__)
def test_a_dry_run_predicts_errors_of_a_run(run: Run, folder: Path, stop: Callable[[Run, Path], None]) -> None:
    stop(run, folder)
    before = content(folder)
    predicted = run("run", "job.yaml", "--dry-run")
    assert content(folder) == before, "a dry run leaves all as it was"
    outcome = run("run", "job.yaml")
    assert outcome.code != 0
    assert predicted.code == outcome.code, predicted.err
    assert "`castleguard run` would fail: " in predicted.err
    assert len(predicted.err.strip().splitlines()) == 1
    assert predicted.out == ""


def test_a_dry_run_predicts_that_the_checkpoint_is_in_use(run: Run, folder: Path) -> None:
    run("run", "job.yaml")
    with Store(folder / "state.db"):
        predicted, outcome = run("run", "job.yaml", "--dry-run"), run("run", "job.yaml")
    assert predicted.code == outcome.code == 75
    assert "`castleguard run` could not start now: " in predicted.err


def test_a_dry_run_predicts_that_a_sink_may_get_noisy_rows_twice(run: Run, folder: Path) -> None:
    noisy = ("algorithm: castle, k: 5, delay: 50", "algorithm: doca, k: 5, delay: 50, epsilon: 1")
    changed(folder, ("sink: {type: parquet, path: out}", "sink: {type: stdio, format: jsonl}"), noisy)
    predicted = run("run", "job.yaml", "--dry-run")
    assert predicted.code == 2
    assert "use another sink, or --allow-duplicates" in predicted.err
    assert run("run", "job.yaml", "--dry-run", "--allow-duplicates").code == 0


def test_a_dry_run_says_where_a_run_would_go_on(run: Run, folder: Path) -> None:
    assert "would go on" not in run("run", "job.yaml", "--dry-run").out
    run("run", "job.yaml")
    again = run("run", "job.yaml", "--dry-run")
    assert again.code == 0
    assert "`castleguard run` would restore commit" in again.out


def test_parts_without_a_checkpoint_section_are_refused_in_words_that_fit(run: Run, folder: Path) -> None:
    go_without_a_checkpoint(run, folder)
    shown = run("run", "job.yaml")
    assert shown.code == 1
    assert "the job has no checkpoint for it" in shown.err
    assert "Use an empty sink" in shown.err


def test_a_dry_run_of_a_source_that_never_ends_says_so(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "job.yaml").write_text(JOB.replace("path: in.csv", "path: in, follow: true"))
    with started("--dry-run") as process:
        assert process.stderr is not None
        assert "the source never ends, so this dry run does not either" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert "Dry run: nothing was written" in process.communicate(timeout=WHOLE_RUN)[0]


def test_a_file_that_is_followed_gets_its_own_remedy_from_validate(run: Run, folder: Path) -> None:
    changed(folder, ("in.csv", "in.csv, follow: true"))
    shown = run("validate", "job.yaml")
    assert shown.code == 1
    assert "-> name its folder or a pattern, or delete follow: true" in shown.out


def test_malformed_lines_are_counted_by_validate(run: Run, folder: Path) -> None:
    said = "! source: 1 malformed line among 401 rows"
    assert said in run("validate", "job.yaml").out
    (folder / "job.yaml").write_text(JOB.replace("rejects.jsonl", "rejects.jsonl, max_share: 0.001"))
    assert f"{said}, above dead_letter.max_share (0.001)" in " ".join(run("validate", "job.yaml").out.split())
    (folder / "in.csv").write_text("pid,age\n1\n2\n")
    shown = run("validate", "job.yaml")
    assert shown.code == 1
    assert "✗ source: all of the 2 lines are malformed" in shown.out


def test_a_job_with_a_mistake_in_its_file_does_not_start(run: Run, folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB.replace("delay", "dely"))
    outcome = run("run", "job.yaml")
    assert outcome.code == 2
    assert "job.yaml:7" in outcome.err
    assert "did you mean delay?" in outcome.err
    assert not (folder / "state.db").exists()


def full_disk() -> OutputError:
    error = OutputError("state.db cannot be written")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    return error


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SnapshotError("the checkpoint is damaged"), 1),
        (InputError("the file shrank"), 1),
        (ConfigError("job.yaml:3  a mistake"), 2),
        (ZeroDivisionError(), 70),
        (UnavailableError("the broker is away"), 75),
        (full_disk(), 75),
    ],
    ids=str,
)
def test_the_exit_code_says_who_has_to_mend_it(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, log_format: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("castleguard.jobs.assemble.make_job", fail)
    with Store(folder / "state.db") as store:
        store.save(Checkpoint(number=1, position=None, snapshot=None))
    assert run("run", "job.yaml", "--log-format", log_format).code == code
    assert run("drain", "job.yaml").code == code


def test_a_checkpoint_in_use_is_a_matter_of_time(run: Run, folder: Path) -> None:
    with Store(folder / "state.db"):
        outcome = run("run", "job.yaml")
    assert outcome.code == 75
    assert "in use by another process" in outcome.err


@pytest.mark.skipif(not hasattr(signal, "SIGTERM"), reason="needs POSIX signals")
def test_another_policy_is_refused_until_the_job_is_drained(run: Run, folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in.csv").rename(folder / "in" / "1.csv")
    job = JOB.replace("path: in.csv", "path: in, follow: true")
    (folder / "job.yaml").write_text(job)
    with started("--quiet") as process:
        eventually(lambda: list(folder.glob("out/part-*")))
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WHOLE_RUN)
    assert process.returncode == 0, err
    (folder / "job.yaml").write_text(job.replace("k: 5", "k: 20"))
    refused = run("drain", "job.yaml")
    assert refused.code == 1
    assert "another policy.k" in refused.err
    assert "Drain the job" in refused.err
    (folder / "job.yaml").write_text(job)
    assert "Drained" in run("drain", "job.yaml").out
    (folder / "job.yaml").write_text(job.replace("k: 5", "k: 20"))
    assert run("drain", "job.yaml").code == 0


SDGS = ("algorithm: castle, k: 5, delay: 50", "algorithm: sdgs, k: 5, sample_rate: 0.6, epsilon: 1, window: {window}")


def test_sdgs_publishes_at_the_end_of_a_window_though_its_source_has_ended(run: Run, folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB.replace(SDGS[0], SDGS[1].format(window="1s")))
    outcome = run("run", "job.yaml")
    assert outcome.code == 0
    assert "The source has ended" in outcome.out
    parts = sorted(folder.glob("out/part-*"))
    assert [part.name for part in parts[:1]] == ["part-000000000001.parquet"]


@pytest.mark.skipif(not hasattr(signal, "SIGTERM"), reason="needs POSIX signals")
def test_a_window_that_has_not_ended_is_kept_or_dropped_and_never_published(run: Run, folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB.replace(SDGS[0], SDGS[1].format(window="3650d")))
    with started() as process:
        eventually((folder / "rejects.jsonl").exists)  # the first commit
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=WHOLE_RUN)
    assert process.returncode == 0
    assert "Stopped; the next `castleguard run` restores this state." in out
    outcome = run("drain", "job.yaml", "--drop-window")
    assert "Drained" in outcome.out
    assert not list(folder.glob("out/part-*"))


def test_a_job_without_a_checkpoint_cannot_be_drained(run: Run, folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB.replace("checkpoint: {path: state.db, every: 100ms}", ""))
    outcome = run("drain", "job.yaml")
    assert outcome.code == 2
    assert "has no checkpoint" in outcome.err


def test_a_job_that_never_ran_has_nothing_to_drain(run: Run, folder: Path) -> None:
    before = sorted(folder.iterdir())
    for arguments in ([], ["--no-key"]):
        outcome = run("drain", "job.yaml", *arguments)
        assert outcome.code == 1
        assert "nothing to drain: state.db holds no commit because the job has not run yet" in outcome.err
        assert outcome.out == ""
    assert sorted(folder.iterdir()) == before


def test_top_reports_that_no_job_runs(run: Run, folder: Path) -> None:
    outcome = run("top", "127.0.0.1:1")
    assert outcome.code == 75
    assert "check that it is running" in outcome.err
    assert run("top", "job.yaml").code == 2


@pytest.mark.skipif(not hasattr(signal, "SIGTERM"), reason="needs POSIX signals")
def test_a_followed_folder_is_watched_until_a_signal_stops_the_job(run: Run, folder: Path) -> None:
    """Everything at once: new files, metrics, top, JSON logs, SIGTERM, and going on afterwards."""
    (folder / "in").mkdir()
    (folder / "in.csv").rename(folder / "in" / "1.csv")
    text = JOB.replace("path: in.csv", "path: in, follow: true").replace("delay: 50", "delay: 50, max_wait: 1s")
    port = free_port()
    (folder / "job.yaml").write_text(f"{text}\nmetrics: {{port: {port}}}\n")
    with started("--log-format", "json") as process:
        eventually(lambda: " 400" in run("top", f"127.0.0.1:{port}", "--once").out)
        rows = "".join(f"{n},{n % 71 + 20}\n" for n in range(300))
        (folder / "in" / ".2.csv").write_text("pid,age\n" + rows)
        (folder / "in" / ".2.csv").rename(folder / "in" / "2.csv")
        eventually(lambda: " 700" in run("top", "job.yaml", "--once").out)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=WHOLE_RUN)
    assert process.returncode == 0, err
    assert "restores this state" in out
    for line in err.splitlines():
        assert json.loads(line)["level"] in ("info", "warning")
    assert sum(pq.read_table(part).num_rows for part in folder.glob("out/part-*.parquet")) == 700


@pytest.mark.skipif(not hasattr(signal, "SIGTERM"), reason="needs POSIX signals")
def test_a_followed_folder_that_is_not_mounted_yet_is_waited_for(folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB.replace("path: in.csv", "path: in, follow: true"))
    with started("--quiet") as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        (folder / "mounted").mkdir()
        (folder / "in.csv").rename(folder / "mounted" / "1.csv")
        (folder / "mounted").rename(folder / "in")
        eventually(lambda: list(folder.glob("out/part-*")))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=WHOLE_RUN) == 0
    assert "the source is unavailable, retrying in 0.1 s: in cannot be read" in said
