"""A job file in Spark: checks before the start, and monitoring of a query. No Spark is started."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from castleguard.config.job_model import JobFile
from castleguard.errors import (
    CastleguardError,
    ConfigError,
    InputError,
    OutputError,
    SchemaError,
    SnapshotError,
    UnavailableError,
)
from castleguard.jobs.load import load
from castleguard.runtime.stopping import Stop
from castleguard.spark import spark_job as module
from castleguard.spark.job_folder import KEY, PLAN
from castleguard.spark.query_progress import Batch
from castleguard.spark.reading import FileRead
from castleguard.spark.spark_job import Prepared, check_inputs, check_kept, follow_query, opened, prepare
from tests.unit.spark.test_query_progress import batch

JOB = """\
source: {type: csv, path: in/, follow: true}
schema:
  person: pid
  quasi_identifiers: [{name: age, lower: 0, upper: 100, step: 5}]
  sensitive: [{name: illness, values: [flu, cold]}]
privacy: {algorithm: castle, k: 5, delay: 100, max_wait: 10s}
sink: {type: parquet, path: out/}
checkpoint: {path: state, every: 2s}
spark: {shards: 2}
"""

Change = Callable[..., JobFile]


@pytest.fixture
def job(tmp_path: Path) -> Change:
    """Load the job file, with some of its text replaced."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("pid,age,illness\n1,20,flu\n")

    def changed(*changes: tuple[str, str]) -> JobFile:
        text = JOB
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        (tmp_path / "job.yaml").write_text(text)
        return load(tmp_path / "job.yaml")

    return changed


@pytest.fixture(autouse=True)
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Record the arguments of sessions instead of starting them."""
    started: list[tuple[Any, ...]] = []

    def start(settings: dict[str, str], shards: int, master: str | None, *, name: str) -> Any:
        started.append((settings, shards, master, name))
        return SimpleNamespace(stop=lambda: started.append(("stopped",)))

    monkeypatch.setattr(module, "session", start)
    return started


BATCH = (", follow: true", "")


def test_places_are_the_default_positions(job: Change) -> None:
    found = prepare(job())
    assert found.streaming
    assert found.every == 2.0
    assert found.plan.position == ("_file", "_row")
    assert found.reading.columns.names == ["pid", "age", "illness"]
    assert "Each of the 2 shards keeps this by itself" in found.guarantee.promise


def test_position_columns_of_the_file_are_read(job: Change) -> None:
    found = prepare(job(("shards: 2", "shards: 2, position: [at]")))
    assert found.plan.position == ("at",)
    assert found.reading.columns.names == ["pid", "age", "illness", "at"]
    assert prepare(job(("shards: 2", "shards: 2, position: []"))).plan.position == ()


def test_job_without_a_spark_section_is_refused_with_a_remedy(job: Change) -> None:
    plain = job(("spark: {shards: 2}\n", ""))
    with pytest.raises(ConfigError, match=r"has no spark section: add spark: \{shards: 2\}, or run the job with"):
        prepare(plain)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ((", max_wait: 10s", ""), "job.yaml:6  privacy cannot work in Spark: a stream needs max_wait"),
        (("k: 5", "k: 5, order: input"), "job.yaml:6  privacy cannot work in Spark: order='input' cannot be kept"),
        (
            ("shards: 2", "shards: 2, position: [age]"),
            "job.yaml:2  schema cannot work in Spark: column 'age' is declared",
        ),
        (
            ("name: age", "name: _ROW"),
            "job.yaml:2  schema cannot have a column '_ROW' in Spark: the name is reserved for the place of a row",
        ),
        (("person: pid", "person: _offset"), "job.yaml:2  schema cannot have a column '_offset' in Spark"),
        (("shards: 2", "shards: 2, position: [_Bad]"), "job.yaml:9  spark.position cannot have '_Bad': it is reserved"),
        (("path: out/", "path: state/out"), "job.yaml:7  sink.path is inside checkpoint.path: use a separate"),
        (
            ("path: state", "path: out/a/state"),
            "job.yaml:8  checkpoint.path is inside sink.path: use a separate folder",
        ),
        (("path: out/", "path: in/out"), "job.yaml:7  sink.path is inside the folder that is read"),
        (("path: state", "path: in/a/state"), "job.yaml:8  checkpoint.path is inside the folder that is read"),
        (
            ("type: parquet, path: out/", 'type: kafka, brokers: "b:1", topic: t'),
            "job.yaml:7  sink.type kafka may receive rows twice, because Spark writes to it without transactions: use",
        ),
    ],
)
def test_job_without_a_guarantee_is_refused_with_its_line(job: Change, changes: tuple[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        prepare(job(changes))
    assert message in str(caught.value)


def test_limits_of_a_micro_batch_are_refused_where_presence_is_hidden(job: Change) -> None:
    sdgs = (
        "algorithm: castle, k: 5, delay: 100, max_wait: 10s",
        "algorithm: sdgs, k: 5, sample_rate: 0.5, epsilon: 1, window: 60s, window_unit: seconds",
    )
    assert prepare(job(sdgs)).plan.shards == 2
    topic = ("type: csv, path: in/, follow: true", 'type: kafka, brokers: "b:1", topic: t')
    for limit, source in (("max_files: 3", ("", "")), ("max_offsets: 3", topic)):
        with pytest.raises(
            ConfigError, match=r"job\.yaml:9  spark\.max_\w+ cannot be used with this policy, which hides"
        ):
            prepare(job(sdgs, source, ("shards: 2", f"shards: 2, {limit}")))


def test_duplicates_can_be_allowed_for_kafka(job: Change) -> None:
    topic = job(("type: parquet, path: out/", 'type: kafka, brokers: "b:1", topic: t'))
    assert prepare(topic, allow_duplicates=True).job.sink.type == "kafka"


def test_locality_takes_its_cuts_from_the_domain_or_from_a_file(job: Change, tmp_path: Path) -> None:
    from castleguard.shards.cuts import cut_domain
    from castleguard.shards.cuts_file import write_cuts

    even = prepare(job(("shards: 2", "shards: 2, route: locality")))
    assert "age" in even.plan.route.columns
    write_cuts(cut_domain(even.job.schema, 3), even.job.schema, tmp_path / "cuts.json")
    three = job(("shards: 2", "shards: 3, route: locality, cuts: cuts.json"))
    assert prepare(three).plan.shards == 3
    with pytest.raises(ConfigError, match=r"spark.shards is 2, but .*cuts.json cuts the domain into 3"):
        prepare(job(("shards: 2", "shards: 2, route: locality, cuts: cuts.json")))
    with pytest.raises(ConfigError, match="cannot be read"):
        prepare(job(("shards: 2", "shards: 2, route: locality, cuts: gone.json")))


def test_stream_stores_its_plan_before_a_session_is_started(
    job: Change, tmp_path: Path, sessions: list[tuple[Any, ...]]
) -> None:
    settings = ("shards: 2", "shards: 2, settings: {spark.executor.cores: 3}")
    with opened(prepare(job(settings)), master="local[1]") as (_, key):
        assert key is None
        assert sessions == [({"spark.executor.cores": "3"}, 2, "local[1]", "castleguard job")]
        assert (tmp_path / "state" / PLAN).stat().st_size
        with pytest.raises(UnavailableError, match="is in use by another process"), opened(prepare(job())):
            pass
    assert sessions[-1] == ("stopped",)
    assert check_kept(prepare(job()))


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (("k: 5", "k: 6"), "privacy.k"),
        (("shards: 2", "shards: 3"), "route.shards"),
        (("upper: 100", "upper: 90"), "schema.quasi_identifiers.age"),
        (("path: out/", "path: other/"), "sink.where"),
        (("shards: 2", "shards: 2, position: []"), "position"),
    ],
)
def test_another_plan_is_refused_before_a_session_is_started(
    job: Change, sessions: list[tuple[Any, ...]], change: tuple[str, str], differs: str
) -> None:
    with opened(prepare(job())):
        pass
    started = len(sessions)
    other = prepare(job(change))
    for attempt in (lambda: check_kept(other), lambda: opened(other).__enter__()):
        with pytest.raises(SnapshotError, match=f"with another .*{differs}"):
            attempt()
    assert len(sessions) == started


def kafka(brokers: str = "a:1,b:1", reading: str = "format: csv, columns: [pid, age, illness]") -> tuple[str, str]:
    """The change of the job file that reads from Kafka."""
    return "type: csv, path: in/, follow: true", f'type: kafka, brokers: "{brokers}", topic: t, {reading}'


@pytest.mark.parametrize(
    ("source", "differs"),
    [
        (kafka(reading="format: csv, columns: [pid, illness, age]"), "source.columns"),
        (
            kafka(reading="format: csv, columns: [age, illness], key_column: pid"),
            "source.columns and another source.key_column",
        ),
        (kafka(reading="format: json"), "source.columns and another source.format"),
        (kafka(brokers="c:1"), "source.brokers"),
    ],
)
def test_changed_reading_of_messages_is_refused(job: Change, source: tuple[str, str], differs: str) -> None:
    with opened(prepare(job(kafka()))):
        pass
    assert check_kept(prepare(job(kafka(brokers="b:1, a:1"))))
    with pytest.raises(SnapshotError, match=f"with another {differs}. To change that: run the unchanged job"):
        check_kept(prepare(job(source)))


def test_files_of_another_type_are_refused(job: Change, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    parquet = ("type: csv, path: in/", 'type: parquet, path: "in/*.parquet"')
    columns = {"pid": [1], "age": [20], "illness": ["flu"]}
    pq.write_table(pa.table(columns), tmp_path / "in" / "b.parquet")
    with opened(prepare(job(parquet))):
        pass
    assert check_kept(prepare(job(parquet)))
    pq.write_table(pa.table({**columns, "age": ["20"]}), tmp_path / "in" / "a.parquet")
    with pytest.raises(SnapshotError, match=r"with another source\.read\.age\.type\. To change that"):
        check_kept(prepare(job(parquet)))


def test_stored_plan_is_not_written_again(job: Change, tmp_path: Path) -> None:
    with opened(prepare(job())):
        pass
    before = (tmp_path / "state" / PLAN).stat()
    with opened(prepare(job())):
        pass
    after = (tmp_path / "state" / PLAN).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_folder_of_a_stream_has_a_manifest(job: Change, tmp_path: Path) -> None:
    found = prepare(job())
    with opened(found):
        pass
    manifest = json.loads((tmp_path / "out" / "_castleguard.json").read_text())
    (statement,) = manifest["statements"].values()
    assert statement["statement"] == found.guarantee.sentence
    assert statement["policy"]["k"] == 5
    before = (tmp_path / "out" / "_castleguard.json").stat()
    with opened(prepare(job())):
        pass
    after = (tmp_path / "out" / "_castleguard.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_manifest_does_not_count_as_a_skipped_file(job: Change, tmp_path: Path) -> None:
    (tmp_path / "in" / "_castleguard.json").write_text("{}")
    (tmp_path / "in" / "_b.csv").write_text("pid,age,illness\n1,20,flu\n")
    reading = prepare(job()).reading
    assert isinstance(reading, FileRead)
    assert reading.left_out() == ["_b.csv"]


def test_batch_whose_files_changed_is_not_complete(job: Change, tmp_path: Path) -> None:
    found = prepare(job(BATCH))
    assert [name for name, _, _ in found.inputs] == ["a.csv"]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "_SUCCESS").touch()
    check_inputs(found)
    assert (tmp_path / "out" / "_SUCCESS").exists()
    (tmp_path / "in" / "a.csv").write_text("pid,age,illness\n1,20,flu\n2,20,flu\n")
    with pytest.raises(InputError, match=r"^a\.csv changed while it was read: .*out must not be used; delete it"):
        check_inputs(found)
    assert not (tmp_path / "out" / "_SUCCESS").exists()


def test_interval_and_settings_may_change(job: Change) -> None:
    with opened(prepare(job())):
        pass
    later = prepare(job(("every: 2s", "every: 3s"), ("shards: 2", "shards: 2, max_files: 5")))
    assert check_kept(later)


def test_output_of_another_stream_is_refused(job: Change, tmp_path: Path, sessions: list[tuple[Any, ...]]) -> None:
    (tmp_path / "out" / "_spark_metadata").mkdir(parents=True)
    (tmp_path / "out" / "_spark_metadata" / "0").write_text("v1")
    with pytest.raises(OutputError, match="whose checkpoint is not in"):
        check_kept(prepare(job()))
    with pytest.raises(OutputError, match="whose checkpoint is not in"), opened(prepare(job())):
        pass
    assert sessions == []


def test_checkpoint_of_castleguard_run_is_refused(job: Change, tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    for changes in ((), (BATCH,)):
        with pytest.raises(OutputError, match=r"is a file, but in Spark checkpoint\.path is a folder"):
            check_kept(prepare(job(*changes)))


def test_batch_with_a_folder_has_a_key(job: Change, tmp_path: Path) -> None:
    with opened(prepare(job(BATCH))) as (_, first):
        assert first is not None
        assert (tmp_path / "state" / KEY).exists()
    with opened(prepare(job(BATCH))) as (_, again):
        assert again == first
    with opened(prepare(job(BATCH, ("checkpoint: {path: state, every: 2s}\n", "")))) as (_, none):
        assert none is None
    assert not check_kept(prepare(job(BATCH)))


def test_written_batch_is_not_written_again(job: Change, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert not check_kept(prepare(job(BATCH)))
    assert (tmp_path / "out").exists()  # a check only
    (tmp_path / "out" / "_SUCCESS").touch()
    with pytest.raises(OutputError, match="is complete, and a batch is written once"):
        check_kept(prepare(job(BATCH)))


class Query:
    """A query with scripted progress."""

    def __init__(self, *batches: Any, fails: Exception | None = None) -> None:
        self._batches = list(batches)
        self._fails = fails
        self.recentProgress: list[Any] = []
        self.stopped = False

    @property
    def isActive(self) -> bool:  # noqa: N802
        if self._batches:
            self.recentProgress.append(self._batches.pop(0))
            return True
        return self._fails is None

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        return self.recentProgress[-1] if self.recentProgress else None

    def exception(self) -> Exception | None:
        return self._fails

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def prepared(job: Change, monkeypatch: pytest.MonkeyPatch) -> Prepared:
    monkeypatch.setattr(module, "_POLL", 0.0)
    monkeypatch.setattr(module, "_IDLE_TRIGGERS", 0)
    return prepare(job((", max_wait: 10s", ", max_wait: 1ms")))


def test_query_is_reported_until_it_is_asked_to_stop(prepared: Prepared) -> None:
    query, stop, reported = Query(batch(0, rows=3), batch(1, published=3)), Stop(), list[Batch]()

    def report(one: Batch) -> None:
        reported.append(one)
        if one.published:
            stop.ask()

    assert follow_query(query, prepared, report, stop=stop) == "stopped"
    assert [(one.number, one.rows, one.published) for one in reported] == [(0, 3, 0), (1, 0, 3)]
    assert query.stopped


def test_idle_stream_ends_with_until_idle(prepared: Prepared) -> None:
    query = Query(batch(0, rows=3, pending_0=3), batch(1, published=3, pending_0=0), batch(2, at=9.0))
    reported: list[Batch] = []
    assert follow_query(query, prepared, reported.append, stop=Stop(), until_idle=True) == "idle"
    assert sum(one.published for one in reported) == 3
    assert query.stopped


def test_failed_query_is_reported_in_one_line_without_values(prepared: Prepared) -> None:
    ours = Query(fails=RuntimeError("... castleguard.errors.SchemaError: a.csv has no column 'age'\n\tat java"))
    with pytest.raises(SchemaError, match=r"^a\.csv has no column 'age'$"):
        follow_query(ours, prepared, lambda _: None, stop=Stop())
    theirs = Query(fails=RuntimeError("[PERSON_FAILED] could not convert 'Ann Miller'"))
    with pytest.raises(CastleguardError) as caught:
        follow_query(theirs, prepared, lambda _: None, stop=Stop())
    assert "Spark stopped the query: RuntimeError" in str(caught.value)
    assert "Ann" not in str(caught.value)


def test_java_stopped_by_the_same_signal_counts_as_stopped(prepared: Prepared) -> None:
    stop = Stop()
    query = Query(batch(0, rows=1), fails=RuntimeError("SparkContext was shut down"))
    assert follow_query(query, prepared, lambda _: stop.ask(), stop=stop) == "stopped"
