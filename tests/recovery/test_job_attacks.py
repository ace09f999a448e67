"""Attempts to make a job lose a row, publish one twice, hang, or reveal its content."""

import json
import os
import socket
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import castleguard as cg
from castleguard.checkpoint.dead_letters import DeadLetters
from castleguard.checkpoint.store import Checkpoint, Store
from castleguard.cli import commands
from castleguard.connectors.base import Position, Read
from castleguard.errors import CastleguardError, ConfigError, OutputError, SnapshotError, UnavailableError
from castleguard.job import Job, Pace, Parts
from castleguard.jobs.assemble import make_job
from castleguard.jobs.load import load
from castleguard.testing.manual_clock import ManualClock
from tests.recovery.fakes import Shelf, TopicSource
from tests.recovery.test_job import POLICIES, SCHEMA, K, World, stop_after

CASTLE = POLICIES["castle"]
HERE = {"source": {"topic": "a"}, "sink": {"topic": "b"}}


# Rows published twice: the job of a checkpoint


def drained_world(folder: Path) -> World:
    """A job that was drained before the end of its source."""
    world = World(folder, CASTLE)
    job = world.job(identity=HERE)
    stop_after(job, 40)
    job.run()
    world.job(identity=HERE).drain()
    return world


def test_another_sink_after_a_drain_does_not_read_the_source_again(tmp_path: Path) -> None:
    world = drained_world(tmp_path)
    before, world.shelf = world.shelf, Shelf()
    world.job(identity={**HERE, "sink": {"topic": "c"}}).run()
    first, second = set(before.table()["row"].to_pylist()), set(world.shelf.table()["row"].to_pylist())
    assert first
    assert second
    assert first.isdisjoint(second)


def test_another_source_after_a_drain_is_read_from_its_beginning_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, CASTLE)
    world.job(identity=HERE).run()
    world.job(identity=HERE).drain()
    world.topic = World(tmp_path, CASTLE, rows=50).topic
    assert world.job(identity={**HERE, "source": {"topic": "c"}}).run() == "finished"
    assert world.topic.acknowledged == {"at": 50}
    assert "rows that both sources contain are published again" in caplog.text


def test_sink_of_another_job_is_refused_after_a_drain(tmp_path: Path) -> None:
    world = drained_world(tmp_path)
    world.shelf = Shelf({1: pa.table({"row": [1]})})
    with pytest.raises(OutputError, match="use an empty sink"):
        world.job(identity={**HERE, "sink": {"topic": "c"}})


JOB = """\
name: trips
source: {{type: csv, path: {path}{more}}}
schema:
  person: pid
  quasi_identifiers: [{{name: age, lower: 0, upper: 100}}]
privacy: {{algorithm: castle, k: 3, delay: 12}}
sink: {{type: csv, path: {out}}}
checkpoint: {{path: state.db}}
dead_letter: {{path: letters.jsonl}}
"""


def write_job(folder: Path, *, path: str = "in.csv", more: str = "", out: str = "out") -> Path:
    folder.mkdir(exist_ok=True)
    lines = [f"{at % 40},{at * 7 % 100}" for at in range(60)]
    for name in ("in.csv", "other.csv"):
        (folder / name).write_text("pid,age\n" + "".join(f"{line}\n" for line in lines))
    (folder / "job.yaml").write_text(JOB.format(path=path, more=more, out=out))
    return folder / "job.yaml"


def run_file(path: Path) -> Job:
    job = make_job(load(path))
    job.run()
    return job


def drained(path: Path) -> None:
    make_job(load(path)).drain()


def test_identity_of_a_job_does_not_depend_on_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_job(tmp_path / "job")
    rows = run_file(path).books().rows_in
    drained(path)
    monkeypatch.chdir(tmp_path / "job")
    assert run_file(Path("job.yaml")).books().rows_in == rows
    monkeypatch.chdir(tmp_path)
    assert run_file(Path("job/../job/job.yaml")).books().rows_in == rows


def test_job_whose_folder_was_moved_is_restored(tmp_path: Path) -> None:
    rows = run_file(write_job(tmp_path / "job")).books().rows_in
    (tmp_path / "job").rename(tmp_path / "moved")
    assert run_file(tmp_path / "moved" / "job.yaml").books().rows_in == rows


def test_identity_of_a_job_does_not_depend_on_the_batch_size(tmp_path: Path) -> None:
    rows = run_file(write_job(tmp_path / "job")).books().rows_in
    path = write_job(tmp_path / "job", more=", batch_rows: 7")
    assert run_file(path).books().rows_in == rows
    drained(path)
    assert run_file(write_job(tmp_path / "job", more=", batch_rows: 8")).books().rows_in == rows


def test_path_from_the_environment_is_part_of_the_identity_of_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWS", "in.csv")
    path = write_job(tmp_path / "job", path="'${ROWS}'")
    run_file(path)
    monkeypatch.setenv("ROWS", "other.csv")
    with pytest.raises(SnapshotError, match=r"another source\.path"):
        run_file(path)
    with sqlite3.connect(tmp_path / "job" / "state.db") as database:
        facts = database.execute("SELECT facts FROM latest").fetchone()[0]
    assert b"in.csv" not in json.dumps(json.loads(facts)["identity"]).encode()


def test_second_process_does_not_touch_files_of_the_first(tmp_path: Path) -> None:
    path = write_job(tmp_path / "job")
    first = make_job(load(path))
    half = tmp_path / "job" / "out" / ".part-000000000001.csv.01234567.part"
    half.write_text("half a part")
    with pytest.raises(UnavailableError, match="in use by another process"):
        make_job(load(path))
    assert half.exists()
    first.close()


def test_dead_letters_cannot_share_the_file_of_the_checkpoint(tmp_path: Path) -> None:
    path = write_job(tmp_path / "job")
    path.write_text(path.read_text().replace("letters.jsonl", "../job/state.db"))
    with pytest.raises(ConfigError, match=r"job\.yaml:9  dead_letter\.path is the same file as the checkpoint"):
        run_file(path)


def test_dry_run_leaves_the_metrics_port_to_the_running_job(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        path = write_job(tmp_path / "job")
        path.write_text(f"{path.read_text()}metrics: {{port: {taken.getsockname()[1]}}}\n")
        assert CliRunner().invoke(commands, ["run", str(path), "--dry-run"], catch_exceptions=False).exit_code == 0


def test_job_that_allows_duplicates_can_be_drained(tmp_path: Path) -> None:
    path = write_job(tmp_path / "job")
    text = path.read_text().replace("type: csv, path: out", "type: stdio, format: csv")
    path.write_text(text.replace("algorithm: castle, k: 3, delay: 12", "algorithm: doca, k: 3, delay: 12, epsilon: 1"))
    with pytest.raises(ConfigError, match="--allow-duplicates"):
        drained(path)
    for command in ("run", "drain"):
        arguments = [command, str(path), "--allow-duplicates"]
        assert CliRunner().invoke(commands, arguments, catch_exceptions=False).exit_code == 0


# Lost dead letters


def test_dead_letters_of_another_writer_are_never_truncated(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "letters.jsonl")
    mine, theirs, mine_too = (b'{"place": "", "reason": "%d"}\n' % number for number in range(3))
    letters.append(mine, 0)
    at = letters.length()
    DeadLetters(tmp_path / "letters.jsonl").append(theirs, at)
    letters.append(mine_too, at)
    assert [line + b"\n" for line in letters.read()] == [mine, theirs, mine_too]


def test_dead_letters_zeroed_by_a_power_cut_are_rewritten(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "letters.jsonl")
    with (tmp_path / "letters.jsonl").open("ab") as half:
        half.write(b"sec" + bytes(5))
    letters.append(b"second\nthird\n", 0)
    assert letters.read() == [b"second", b"third"]


def test_dead_letters_are_not_written_twice(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "letters.jsonl")
    letters.append(b"one\n", 0)
    letters.append(b"one\n", 0)
    assert letters.read() == [b"one"]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners here")
def test_dead_letters_are_private_to_their_owner(tmp_path: Path) -> None:
    path = tmp_path / "letters.jsonl"
    path.touch()
    path.chmod(0o644)
    letters = DeadLetters(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.rename(tmp_path / "old.jsonl")
    path.touch()
    path.chmod(0o666)
    letters.append(b"one\n", 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_undelivered_dead_letters_are_not_dropped_with_their_section(tmp_path: Path) -> None:
    world = World(tmp_path, CASTLE)

    def die_with_letters(step: int) -> None:
        if step == 3:
            raise UnavailableError("gone")

    job = world.job(die_with_letters)
    stop_after(job, 40)
    with pytest.raises(UnavailableError):
        job.run()
    with pytest.raises(OutputError, match="dead_letter"):
        world.job(letters=None)
    assert world.job().run() == "finished"
    world.check()


# Jobs that hang, or end too early


def test_failed_acknowledgement_does_not_stop_a_job(tmp_path: Path) -> None:
    world = World(tmp_path, CASTLE)
    job = world.job()

    def away(_: Position) -> None:
        raise UnavailableError("the broker is away")

    job._source.acknowledge = away  # type: ignore[method-assign, assignment]
    assert job.run() == "finished"
    world.check()


def test_job_waits_for_a_source_that_is_unavailable_at_the_start(tmp_path: Path) -> None:
    world = World(tmp_path, CASTLE)
    away = [True, True]
    opened = world.topic.source

    def open_source(position: Position | None) -> TopicSource:
        if away:
            away.pop()
            raise UnavailableError("the broker is away")
        return opened(position)

    assert world.job(open_source=open_source).run() == "finished"
    world.check()


def test_rows_leave_in_time_while_the_source_is_unavailable(tmp_path: Path) -> None:
    world = World(tmp_path, cg.Castle(k=K, delay=1000, max_wait=60.0), rows=30, endless=True)
    job = world.job()
    started, read = world.clock.now(), job._source.read

    def away_for_long(timeout: float) -> Read | None:
        if job.stream.report().rows_in < 30 - 1:
            return read(timeout)
        if world.clock.now() > started + 300:
            job.stop()
        raise UnavailableError("the broker is away")

    job._source.read = away_for_long  # type: ignore[method-assign]
    shown: list[float] = []
    deliver = world.shelf.deliver

    def watched(number: int, table: pa.Table) -> None:
        shown.append(world.clock.now())
        deliver(number, table)

    world.shelf.deliver = watched  # type: ignore[method-assign]
    assert job.run() == "stopped"
    assert shown[0] < started + 75
    world.check()


def test_stop_while_the_source_is_unavailable_commits(tmp_path: Path) -> None:
    world = World(tmp_path, CASTLE)
    job = world.job()
    stop_after(job, 40)
    read = job._source.read

    def away_at_last(timeout: float) -> Read | None:
        if job.stream.report().rows_in >= 35:
            job.stop()
            raise UnavailableError("the broker is away")
        return read(timeout)

    job._source.read = away_at_last  # type: ignore[method-assign]
    assert job.run() == "stopped"
    assert world.job().run() == "finished"
    world.check()


def test_setting_the_clock_back_does_not_delay_commits(tmp_path: Path) -> None:
    world = World(tmp_path, CASTLE, rows=300)
    job = world.job()
    world.clock.advance(-86400.0)
    stop_after(job, 250)
    commits = 0
    commit = job.commit

    def counted(**given: object) -> None:
        nonlocal commits
        commits += 1
        commit(**given)  # type: ignore[arg-type]

    job.commit = counted  # type: ignore[method-assign]
    assert job.run() == "stopped"
    assert commits > 2
    assert world.job().run() == "finished"
    world.check()


def test_rows_rejected_before_a_drain_do_not_stop_the_next_run(tmp_path: Path) -> None:
    world = World(tmp_path, CASTLE, rows=2000)
    world.topic.rows[:1500] = [None] * 1500
    job = world.job()
    stop_after(job, 100)
    job.run()
    world.job().drain()
    world.topic.rows[1600:] = [row or {"pid": 1, "age": 5, "row": 9999} for row in world.topic.rows[1600:]]
    world.topic.rows += [{"pid": at % 40, "age": at % 100, "row": 10_000 + at} for at in range(1500)]
    assert world.job(max_reject_share=0.5).run() == "finished"


def test_fixed_job_runs_again(tmp_path: Path) -> None:
    world = World(tmp_path, CASTLE, rows=1500)
    world.topic.rows[:1400] = [None] * 1400
    with pytest.raises(CastleguardError, match="fix the source, or drain"):
        world.job(max_reject_share=0.1).run()
    world.topic.rows[:] = [row or {"pid": 1, "age": 5, "row": 9999} for row in world.topic.rows]
    assert world.job(max_reject_share=0.1).run() == "finished"


def test_many_rejected_rows_are_committed_early(tmp_path: Path) -> None:
    """Otherwise memory grows until the next commit is due."""
    world = World(tmp_path, CASTLE, rows=100)
    world.topic.rows[:] = [None] * 100
    job = world.job()
    job._rhythm.pace = Pace(every=1e9, most_bytes=1000)
    most = 0
    take = job._flow.take

    def watched(read: Read | None) -> None:
        nonlocal most
        take(read)
        most = max(most, len(job._flow.segment.letters))

    job._flow.take = watched  # type: ignore[method-assign]
    job.run()
    assert most < 30


# The position of a source before its first row


class FromNow:
    """A source that resolves its start, the current end, at the first read."""

    def __init__(self, inner: TopicSource) -> None:
        self._inner, self._at = inner, -1
        self.finished, self.lag, self.close, self.acknowledge = False, inner.lag, inner.close, inner.acknowledge

    def read(self, timeout: float) -> Read | None:
        if self._at < 0:
            self._inner._at = len(self._inner._topic.rows)
        self._at = 0
        return self._inner.read(timeout)

    def position(self) -> Position:
        return {} if self._at < 0 else self._inner.position()


def test_rows_after_a_start_from_now_survive_a_crash_before_the_first_row(tmp_path: Path) -> None:
    world = World(tmp_path, CASTLE, rows=30, endless=True)
    first = world.job(open_source=lambda position: FromNow(world.topic.source(position)))
    for _ in range(20):
        first.turn()
    first.close()
    world.topic.rows += [{"pid": at, "age": at, "row": at} for at in range(30, 60)]
    second = world.job()
    assert second._source.position() == {"at": 30}
    second.close()


# Commits that fail half-way


def test_undelivered_commit_is_not_replaced_by_the_next(tmp_path: Path) -> None:
    world = World(tmp_path, CASTLE)
    job = world.job()
    full, deliver = [True], world.shelf.deliver

    def once_full(number: int, table: pa.Table) -> None:
        if full:
            full.pop()
            raise OutputError("no space left on device")
        deliver(number, table)

    world.shelf.deliver = once_full  # type: ignore[method-assign]
    for _ in range(4):
        job._flow.take(job._source.read(0.0))
    with pytest.raises(OutputError):
        job.commit()
    assert job.run() == "finished"
    world.check()


def test_snapshot_that_is_too_large_is_reported(tmp_path: Path) -> None:
    with Store(tmp_path / "state.db") as store:
        store.save(Checkpoint(number=1, position={}, snapshot=b"small"))
        store._database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
        with pytest.raises(OutputError, match="exceeds the limit of a checkpoint"):
            store.save(Checkpoint(number=2, position={}, snapshot=bytes(2000)))
        latest = store.load()
        assert latest is not None
        assert latest.number == 1


def test_no_raw_row_remains_on_disk_after_delivery(tmp_path: Path) -> None:
    raw = b"the patient in room 7" * 500
    with Store(tmp_path / "state.db") as store:
        one = Checkpoint(number=1, position={}, snapshot=None, segment=raw, letters=raw)
        store.save(one)
        store.mark_delivered(one)
        for path in tmp_path.iterdir():
            assert b"the patient in room 7" not in path.read_bytes()


# Values that cannot be printed


def test_rejected_row_with_values_beyond_python_becomes_a_dead_letter(tmp_path: Path) -> None:
    no_text = pa.StringArray.from_buffers(1, pa.py_buffer(bytes([0, 0, 0, 0, 2, 0, 0, 0])), pa.py_buffer(b"\xff\xfe"))
    row = pa.RecordBatch.from_pydict(
        {
            "pid": pa.array([1]),
            "age": pa.array([float("nan")]),
            "row": pa.array([2**62], pa.timestamp("s")),
            "word": no_text,
        }
    )
    schema = replace(SCHEMA, public=("row", "word"))
    letters = DeadLetters(tmp_path / "letters.jsonl")
    reads = [Read(row, lambda at: f"row {at}")]

    class Once:
        finished = property(lambda _: not reads)

        def read(self, timeout: float) -> Read | None:
            return reads.pop() if reads else None

        def position(self) -> Position:
            return {}

        def acknowledge(self, position: Position) -> None: ...

        def lag(self) -> int | None:
            return None

        def close(self) -> None: ...

    parts = Parts(
        open_source=lambda _: Once(),
        make_stream=lambda _: cg.Anonymiser(schema, CASTLE),
        sink=Shelf(),
        letters=letters,
    )
    assert Job(parts, clock=ManualClock()).run() == "finished"
    (letter,) = letters.read()
    found = json.loads(letter, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert "4611686018427387904" in found["row"]["row"]
    assert found["row"]["age"] == "nan"
    assert found["row"]["word"] == "\\xff\\xfe"
