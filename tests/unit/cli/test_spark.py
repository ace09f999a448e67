"""`castleguard spark`, and what the other commands make of a job for it. No Spark is started here."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from castleguard.connectors.registry import Connector
from castleguard.runtime.stopping import Stop
from castleguard.spark import session as sessions
from castleguard.spark import spark_job as jobs
from castleguard.spark import warming
from castleguard.spark.query_progress import Batch
from castleguard.spark.session import Found
from tests.unit.cli.conftest import Run

JOB = """\
name: trips
source: {type: csv, path: in/, follow: true}
schema:
  person: pid
  quasi_identifiers: [{name: age, lower: 0, upper: 100, step: 5}]
privacy: {algorithm: castle, k: 5, delay: 100, max_wait: 10s}
sink: {type: parquet, path: out/}
checkpoint: {path: state, every: 2s}
spark: {shards: 2}
"""
BOOKS = {"rows_in": 4, "published": 3, "suppressed": 0, "rejected": {"age: null": 1}, "pending": 0, "groups": 1}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sessions, "check_installed", lambda: Found("4.1.0", "17"))
    monkeypatch.setattr(warming, "warm_up", lambda schema, policy: None)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("pid,age\n1,20\n2,30\n")
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "batch.yaml").write_text(JOB.replace(", follow: true", ""))
    return tmp_path


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """In place of Spark: what it was asked for, what it tells, and how it ends."""
    asked = SimpleNamespace(master=None, ran=[], until_idle=None, batches=[], ends="stopped", stop=None)

    @contextmanager
    def opened(prepared: Any, *, master: str | None = None) -> Iterator[tuple[str, None]]:
        asked.master = master
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as Spark does it
        yield "session", None

    def follow(query: Any, prepared: Any, tell: Any, *, stop: Stop, until_idle: bool) -> str:
        asked.until_idle = until_idle
        for batch in asked.batches:
            tell(batch)
        if asked.stop is not None:
            signal.raise_signal(asked.stop)
            assert stop.asked
        return str(asked.ends)

    monkeypatch.setattr(jobs, "opened", opened)
    monkeypatch.setattr(jobs, "start", lambda session, prepared: asked.ran.append("stream"))
    monkeypatch.setattr(jobs, "run_batch", lambda session, prepared, key: asked.ran.append("batch"))
    monkeypatch.setattr(jobs, "follow_query", follow)
    return asked


def test_a_stream_prints_promise_micro_batches_and_end(run: Run, folder: Path, spark: SimpleNamespace) -> None:
    spark.batches = [Batch(0, 1200, 0, 3, 1200, 1.5), Batch(1, 0, 0, 0, 1200, 0.9), Batch(2, 0, 1100, 0, None, 1.25)]
    outcome = run("spark", "job.yaml", "--master", "local[2]")
    assert outcome.code == 0
    assert (spark.ran, spark.master, spark.until_idle) == (["stream"], "local[2]", False)
    first, *lines = outcome.out.splitlines()
    assert first == "trips: 2 shards, a micro-batch every 2 s; published rows go to out/outcome=published."
    assert "Each of the 2 shards keeps this by itself" in " ".join(outcome.out.split())
    after = lines[lines.index("Starting Spark 4.1.0 with Java 17.") + 1 :]
    assert after == [
        "batch 0: 1,200 rows in, 0 published, 3 rejected, 1,200 pending (1.5 s)",
        "batch 2: 0 rows in, 1,100 published (1.2 s)",
        "Stopped; the next `castleguard spark` restores this state.",
        "`castleguard spark job.yaml --committed` lists the published files.",
    ]


def test_quiet_says_nothing(run: Run, folder: Path, spark: SimpleNamespace) -> None:
    spark.batches = [Batch(0, 5, 5, 0, 0, 1.0)]
    outcome = run("spark", "job.yaml", "-q")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def test_a_source_that_ends_is_one_batch(run: Run, folder: Path, spark: SimpleNamespace) -> None:
    outcome = run("spark", "batch.yaml")
    assert spark.ran == ["batch"]
    assert "trips: 2 shards, one batch; " in outcome.out
    assert "The source has ended; all rows that can be published are published." in outcome.out


def test_a_batch_is_never_idle(run: Run, folder: Path, spark: SimpleNamespace) -> None:
    outcome = run("spark", "batch.yaml", "--until-idle")
    assert outcome.code == 2
    assert "--until-idle applies to streams only, and this source ends by itself" in outcome.err
    spark.ends = "idle"
    assert "No rows arrive and none are pending." in run("spark", "job.yaml", "--until-idle").out
    assert spark.until_idle


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_stream(run: Run, folder: Path, spark: SimpleNamespace, number: signal.Signals) -> None:
    spark.stop = number
    outcome = run("spark", "job.yaml", "-q")
    assert outcome.code == 0
    assert ("stopping; press Ctrl-C again to abort" in outcome.err) == (number is signal.SIGINT)


def test_a_signal_aborts_a_batch_and_names_the_unfinished_output(
    run: Run, folder: Path, spark: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []

    def leave(code: int) -> None:
        ended.append(code)
        raise SystemExit(code)

    monkeypatch.setattr("castleguard.cli.os._exit", leave)
    monkeypatch.setattr(jobs, "run_batch", lambda *_: signal.raise_signal(signal.SIGTERM))
    outcome = run("spark", "batch.yaml", "-q")
    assert ended == [143]
    assert "interrupted; nothing is published: delete the unfinished output folder and run the job again" in outcome.err


def test_closing_text_has_the_books_of_all_shards(run: Run, folder: Path, spark: SimpleNamespace) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = folder / "out"
    own = dict.fromkeys(("sampled_out", "over_budget", "at_root", "reused", "gate_refused", "open_clusters"), 0)
    books = json.dumps({**BOOKS, **own, "oldest_wait": 2, "waiting": 0, "information_loss": 0.25, "now": 1.0})
    bad = "malformed: not UTF-8"
    lines = ["v1"]
    for name, rows in (("counts", {"shard": [0, 1], "detail": [books] * 2}), ("rejected", {"detail": [bad]})):
        path = out / f"outcome={name}" / "part-0.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table(rows), path)
        lines.append(json.dumps({"path": path.as_uri(), "action": "add"}))
    monkey = folder / "out" / "_spark_metadata"
    monkey.mkdir()
    (monkey / "0").write_text("\n".join(lines))
    (folder / "state" / "offsets").mkdir(parents=True)
    (folder / "state" / "offsets" / "0").touch()
    from castleguard.jobs.load import load

    prepared = jobs.prepare(load("job.yaml"))
    (folder / "state" / "castleguard.json").write_text(json.dumps(prepared.facts()))
    words = " ".join(run("spark", "job.yaml").out.split())
    assert "rows in 9 published 6 suppressed 0 rejected 3 age: null 2, malformed line 1 groups 2" in words


def test_a_job_that_cannot_start_is_refused_before_spark_is(run: Run, folder: Path, spark: SimpleNamespace) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "mine").touch()
    outcome = run("spark", "job.yaml")
    assert (outcome.code, outcome.out, spark.ran) == (1, "", [])
    assert outcome.err == "castleguard: out is not empty: use a folder for this job only\n"
    assert not (folder / "state").exists()


def test_a_job_without_a_spark_section_is_refused_with_a_remedy(run: Run, folder: Path) -> None:
    (folder / "plain.yaml").write_text(JOB.replace("spark: {shards: 2}\n", ""))
    outcome = run("spark", "plain.yaml")
    assert outcome.code == 2
    assert (
        "plain.yaml  has no spark section: add spark: {shards: 2}, or run the job with `castleguard run`" in outcome.err
    )


@pytest.mark.parametrize("command", ["run", "drain"])
def test_run_and_drain_name_the_spark_command(run: Run, folder: Path, command: str) -> None:
    outcome = run(command, "job.yaml")
    assert outcome.code == 2
    assert "job.yaml:9  spark makes this a job for Apache Spark: run it with `castleguard spark`" in outcome.err


@pytest.mark.parametrize(("command", "said"), [("letters", "outcome=rejected"), ("top", "spark.ui.enabled")])
def test_letters_and_top_name_the_place_in_spark(run: Run, folder: Path, command: str, said: str) -> None:
    outcome = run(command, "job.yaml")
    assert outcome.code == 2
    assert said in outcome.err


def test_published_files_are_listed_for_a_job_or_a_folder(run: Run, folder: Path) -> None:
    (folder / "out" / "outcome=published").mkdir(parents=True)
    (folder / "out" / "outcome=published" / "part-0.parquet").touch()
    refused = run("spark", "job.yaml", "--committed")
    assert refused.code == 1
    assert "Spark has committed nothing there" in refused.err
    (folder / "out" / "_SUCCESS").touch()
    for argument in ("job.yaml", "out"):
        assert run("spark", argument, "--committed").out == "out/outcome=published/part-0.parquet\n"


def test_validate_looks_at_spark_and_states_the_promise_of_all_shards(run: Run, folder: Path) -> None:
    outcome = run("validate", "job.yaml")
    said = " ".join(outcome.out.split())
    assert outcome.code == 0
    assert "✓ spark: pyspark 4.1.0 and Java 17 are installed" in said
    assert "✓ spark: 2 shards, rows distributed by pid" in said
    assert "✓ checkpoint: state can be created" in said
    assert "! checkpoint: holds raw rows and is not encrypted" in said
    assert "Each of the 2 shards keeps this by itself" in said
    assert not (folder / "state").exists()


def test_validate_finds_missing_java_and_max_wait(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from castleguard.errors import UsageError

    def missing() -> Found:
        raise UsageError("Java is not installed. Spark 4 needs Java 17 or later: install it, or set JAVA_HOME")

    monkeypatch.setattr(sessions, "check_installed", missing)
    (folder / "job.yaml").write_text(JOB.replace(", max_wait: 10s", "").replace("shards: 2", "shards: 1"))
    outcome = run("validate", "job.yaml")
    said = " ".join(outcome.out.split())
    assert outcome.code == 1
    assert "✗ spark: Java is not installed." in said
    assert "✗ job.yaml:6 privacy cannot work in Spark: a stream needs max_wait" in said


def test_validate_reports_files_that_spark_skips(run: Run, folder: Path) -> None:
    (folder / "in" / "_b.csv").write_text("pid,age\n1,20\n")
    said = " ".join(run("validate", "job.yaml").out.split())
    assert "! source: 1 file is skipped (_b.csv): Spark streams ignore names that begin with _ or ." in said


def test_files_that_spark_skips_are_reported_at_start_and_end(run: Run, folder: Path, spark: SimpleNamespace) -> None:
    (folder / "in" / "_b.csv").write_text("pid,age\n1,20\n")
    (folder / "in" / "c.csv._COPYING_").write_text("pid,age\n1,20\n")
    rule = "Spark streams ignore names that begin with _ or . or end with ._COPYING_"
    words = f"2 files are skipped (_b.csv and others): {rule}"
    spark.ends = "idle"
    outcome = run("spark", "job.yaml", "--until-idle")
    assert outcome.err == f"castleguard: {words}; rename files that should be read\n"
    assert f"\nBut {words}.\n" in outcome.out
    assert words in run("spark", "job.yaml", "-q").err
    assert run("spark", "batch.yaml").err == ""  # which reads them


def test_validate_refuses_a_finished_batch(run: Run, folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "_SUCCESS").touch()
    outcome = run("validate", "batch.yaml")
    assert outcome.code == 1
    assert "✗ the job would not start: out is complete, and a batch is written once" in " ".join(outcome.out.split())


def test_explain_speaks_of_shards(run: Run, folder: Path) -> None:
    said = " ".join(run("explain", "job.yaml").out.split())
    assert "It runs in Apache Spark (`castleguard spark`), with 2 shards that do not communicate." in said
    assert "Each of the 2 shards keeps this by itself" in said
    assert "outcome=rejected" in said
    assert "with --until-idle the job ends" in said


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_an_audit_reads_files_that_spark_has_committed(folder: Path, ending: str) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    from castleguard.jobs.publication import read_published
    from castleguard.spark.output import OWN

    published = folder / "out" / "outcome=published"
    published.mkdir(parents=True)
    rows = pa.table({"age_min": [20, 20], "age_max": [25, 25], **{name: pa.nulls(2, pa.string()) for name in OWN[1:]}})
    lines = ["v1"]
    for name in ("part-0", "part-1", "torn"):
        path = published / f"{name}.c000.{ending}"
        if ending == "parquet":
            pq.write_table(rows, path)
        elif ending == "csv":
            pyarrow.csv.write_csv(rows, path)
        else:
            path.write_text('{"age_min":20,"age_max":25}\n' * 2)
        lines += [json.dumps({"path": path.as_uri(), "action": "add"})] if name != "torn" else []
    (published / ".part-0.crc").touch()
    (folder / "out" / "_spark_metadata").mkdir()
    (folder / "out" / "_spark_metadata" / "0").write_text("\n".join(lines))
    for path in (folder / "out", published):
        found = read_published(path)
        assert found.rows.column_names == ["age_min", "age_max"]
        assert (found.rows.num_rows, found.unread_lines, found.unread_files) == (4, 0, 1)


@pytest.mark.parametrize(("policy", "mark"), [("castle", "!"), ("castleguard, epsilon: 9", "✗")])
def test_kafka_in_spark_is_a_warning_and_a_problem_for_noise(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, policy: str, mark: str
) -> None:
    monkeypatch.setattr("castleguard.jobs.load.connector_of", lambda _: Connector(exactly_once=True))
    text = JOB.replace("algorithm: castle", f"algorithm: {policy}")
    (folder / "job.yaml").write_text(text.replace("{type: parquet, path: out/}", "{type: kafka, brokers: x, topic: t}"))
    said = " ".join(run("validate", "job.yaml").out.split())
    assert f"{mark} sink: Spark writes to Kafka without transactions, so rows may be published twice" in said
