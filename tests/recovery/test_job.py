"""A job may die at any step of any commit: its successors publish every row once, in groups of k."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import castleguard as cg
from castleguard.algorithms.policy import Policy
from castleguard.checkpoint.dead_letters import DeadLetters
from castleguard.checkpoint.store import Store
from castleguard.errors import InputError, OutputError, SnapshotError, UnavailableError
from castleguard.job import Job, Pace, Parts
from castleguard.telemetry.metrics import Status
from castleguard.testing.crash import CrashError, ScriptedCrash
from castleguard.testing.manual_clock import ManualClock
from tests.recovery.fakes import Shelf, Topic

SCHEMA = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)], public=["row"])
K = 3
POLICIES: dict[str, Policy] = {
    "citadel": cg.Citadel(k=K, delay=12),
    "castle": cg.Castle(k=K, delay=12),
    "castleguard": cg.Castleguard(k=K, delay=12, epsilon=4.0),
    "input order": cg.Castle(k=K, delay=12, order="input"),
}
PACE = Pace(every=1.0, poll=0.5)


class World:
    """Everything that outlives a process: topic, shelf, disk and time."""

    def __init__(self, folder: Path, policy: Policy, *, rows: int = 100, endless: bool = False) -> None:
        self.folder, self.policy, self.clock = folder, policy, ManualClock()
        people: list[dict[str, object] | None] = [
            {"pid": at % 40, "age": None if at % 23 == 5 else at * 7 % 100, "row": at} for at in range(rows)
        ]
        people[11::29] = [None] * len(people[11::29])
        self.topic, self.shelf = Topic(people, endless=endless), Shelf()

    def job(
        self,
        step: Callable[[int], None] = lambda _: None,
        watch: Callable[[Status], None] = lambda _: None,
        **changed: object,
    ) -> Job:
        """Start the next process."""
        parts = Parts(
            open_source=self.topic.source,
            make_stream=self.stream,
            sink=self.shelf,
            store=Store(self.folder / "state.db"),
            letters=DeadLetters(self.folder / "letters.jsonl"),
            identity={"source": "topic", "sink": "shelf"},
        )
        parts = replace(parts, **changed)  # type: ignore[arg-type]
        try:
            return Job(parts, clock=Ticking(self.clock), pace=PACE, step=step, watch=watch)
        except BaseException:
            assert parts.store is not None
            parts.store.close()
            raise

    def stream(self, snapshot: bytes | None) -> cg.Anonymiser:
        if snapshot is None:
            return cg.Anonymiser(SCHEMA, self.policy)
        return cg.Anonymiser.restore(SCHEMA, self.policy, snapshot)

    def die(self, step: Callable[[int], None]) -> bool:
        """Run a process that may die; return whether it did."""
        store: list[Store] = []
        try:
            job = self.job(step)
            store += [job._store] if job._store is not None else []
            job.run()
        except CrashError:
            return True
        finally:
            for one in store:
                one.close()  # the system releases the locks of a dead process
        return False

    def check(self) -> None:
        """Check that every row is published once or a dead letter once, and that every group has k persons."""
        out = self.shelf.table()
        letters = [json.loads(line) for line in (self.folder / "letters.jsonl").read_text().splitlines()]
        places = [letter["place"] for letter in letters]
        assert len(places) == len(set(places))
        rejected = {int(place.removeprefix("row ")) for place in places}
        published = out["row"].to_pylist()
        assert len(published) == len(set(published))
        assert rejected.isdisjoint(published)
        with Store(self.folder / "state.db") as store:
            latest = store.load()
        assert latest is not None
        missing = set(range(len(self.topic.rows))) - {*published, *rejected}
        assert len(missing) == latest.books["suppressed"]
        assert latest.books["rows_in"] + latest.books["bad"] == len(self.topic.rows)
        persons: dict[tuple[int, int], set[int]] = {}
        for row in out.to_pylist():
            persons.setdefault((row["age_min"], row["age_max"]), set()).add(row["row"] % 40)
        if type(self.policy) in (cg.Castle, cg.Citadel):
            assert min(map(len, persons.values())) >= K


class Ticking:
    """A manual clock that also advances a little at every reading, as clocks do."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def now(self) -> float:
        self._clock.advance(0.13)
        return self._clock.now()

    def elapsed(self) -> float:
        return self._clock.elapsed()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)


@pytest.fixture(params=POLICIES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(tmp_path, POLICIES[request.param])


def test_undisturbed_job_publishes_everything(world: World) -> None:
    assert world.job().run() == "finished"
    assert len(world.shelf.segments) > 3
    world.check()
    assert world.topic.acknowledged == {"at": 100}


def test_closed_job_keeps_its_last_status_and_does_not_call_the_source(world: World) -> None:
    job = world.job()
    assert job.status().lag == 100
    job.run()
    assert (job.status().state, job.status().lag) == ("finished", 0)


def test_delivered_segment_is_not_repeated_when_its_dead_letters_fail(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = DeadLetters.append
    failed: list[int] = []

    def fails_once(letters: DeadLetters, lines: bytes, at: int) -> None:
        if not failed and world.shelf.segments:
            failed.append(max(world.shelf.segments))
            raise OSError("no space left on device")
        append(letters, lines, at)

    monkeypatch.setattr(DeadLetters, "append", fails_once)
    job = world.job()
    with pytest.raises(OSError, match="no space left"):
        turn_for_ever(job)
    assert failed == [job._delivery.segments + 1], "the segment has arrived, and its commit is not done"
    assert job.run() == "finished"
    world.check()


def turn_for_ever(job: Job) -> None:
    """Run turns until one fails."""
    while True:
        job.turn()


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("commit", [1, 2, 4])
def test_crash_at_any_step_of_a_commit_changes_nothing(world: World, step: int, commit: int) -> None:
    crash = ScriptedCrash(commit=commit, step=step)
    assert world.die(crash)
    assert not world.die(crash)
    world.check()


def test_job_that_dies_at_every_commit_still_finishes(world: World) -> None:
    world, deaths = World(world.folder, world.policy, rows=500), 0
    while world.die(ScriptedCrash(commit=2, step=1 + deaths % 5)):
        deaths += 1
        assert deaths < 200
    assert deaths > 5
    world.check()


def test_segment_is_redelivered_byte_for_byte(tmp_path: Path) -> None:
    """A row that may have been seen must keep its noise."""
    world = World(tmp_path, POLICIES["castleguard"])
    assert world.die(ScriptedCrash(commit=2, step=4))
    seen = dict(world.shelf.segments)
    last = max(seen)
    del world.shelf.segments[last]  # the sink lost the unconfirmed segment
    assert not world.die(lambda _: None)
    assert world.shelf.segments[last].equals(seen[last])
    world.check()


def test_stopped_job_keeps_its_pending_rows(world: World) -> None:
    job = world.job()
    stop_after(job, 40)
    assert job.run() == "stopped"
    before = sum(table.num_rows for table in world.shelf.segments.values())
    assert before < 40
    assert world.job().run() == "finished"
    world.check()


def stop_after(job: Job, rows: int) -> None:
    """Stop a job after so many input rows."""
    push = job.stream.push

    def counted(*given: object) -> object:
        out = push(*given)  # type: ignore[arg-type]
        if job.stream.report().rows_in >= rows:
            job.stop()
        return out

    job.stream.push = counted  # type: ignore[method-assign, assignment]


def test_finished_job_has_nothing_to_do(world: World) -> None:
    world.job().run()
    segments = dict(world.shelf.segments)
    assert world.job().run() == "finished"
    assert world.shelf.segments == segments


def test_drained_job_may_run_with_another_policy(tmp_path: Path) -> None:
    world = World(tmp_path, POLICIES["castle"])
    job = world.job()
    stop_after(job, 40)
    job.run()
    world.policy = cg.Castle(k=K, delay=20)
    with pytest.raises(SnapshotError, match=r"another policy\.delay"):
        world.job()
    world.policy = POLICIES["castle"]
    assert world.job().drain() == "drained"
    world.policy = cg.Castle(k=K, delay=20)
    assert world.job().run() == "finished"
    world.check()


def test_second_process_is_refused(world: World) -> None:
    first = world.job()
    with pytest.raises(UnavailableError, match="in use by another process"):
        world.job()
    first.close()
    world.job().close()


def test_checkpoint_of_another_job_is_refused(world: World) -> None:
    job = world.job()
    stop_after(job, 40)
    job.run()
    with pytest.raises(SnapshotError, match="another source"):
        world.job(identity={"source": "other", "sink": "shelf"})


def test_old_copy_of_the_checkpoint_is_refused(world: World) -> None:
    job = world.job()
    stop_after(job, 40)
    job.run()
    old = (world.folder / "state.db").read_bytes()
    world.job().run()
    (world.folder / "state.db").write_bytes(old)
    with pytest.raises(OutputError, match="publish rows twice"):
        world.job()
    (world.folder / "state.db").unlink()
    with pytest.raises(OutputError, match="the checkpoint has none"):
        world.job()


def test_unavailable_source_or_sink_is_retried(world: World) -> None:
    world.topic.outages = [True, True, False, True, False, False, True]
    world.shelf.outages = [True, False, True, True, True, False, True]
    assert world.job().run() == "finished"
    assert world.clock.slept > 0.1 + 0.2
    world.check()


def test_stop_does_not_wait_for_an_unavailable_sink(world: World) -> None:
    job = world.job()
    world.shelf.outages = [True] * 1000
    sleep = world.clock.sleep

    def interrupted(seconds: float) -> None:
        sleep(seconds)
        job.stop()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.clock, "sleep", interrupted)
        with pytest.raises(UnavailableError):
            job.run()
    assert len(world.shelf.outages) > 990
    world.shelf.outages = []
    assert world.job().run() == "finished"
    world.check()


@pytest.mark.parametrize("what", ["store", "sink", "letters"])
def test_full_disk_stops_the_job_and_loses_nothing(world: World, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job = world.job()
    full = OutputError("no space left on device")
    calls = 0

    def fail_the_third_time(*given: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise full
        return before(*given)

    kind, name = {"store": (Store, "save"), "sink": (Shelf, "deliver"), "letters": (DeadLetters, "append")}[what]
    before = getattr(kind, name)
    with monkeypatch.context() as patch:
        patch.setattr(kind, name, fail_the_third_time)
        with pytest.raises(OutputError, match="no space left"):
            job.run()
    assert world.job().run() == "finished"
    world.check()


@pytest.mark.parametrize("deaf", [False, True], ids=["watcher", "failing watcher"])
def test_failed_job_reports_its_failure_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaf: bool
) -> None:
    """The watcher may fail as well, and must not hide the error."""
    world, statuses = World(tmp_path, POLICIES["castle"]), []

    def watch(status: Status) -> None:
        statuses.append(status)
        if deaf and status.state == "failed":
            raise RuntimeError("the port is gone")

    def fail(*_: object) -> None:
        raise OutputError("no space left on device")

    job = world.job(watch=watch)
    monkeypatch.setattr(Store, "save", fail)
    with pytest.raises(OutputError, match="no space left"):
        job.run()
    assert [status.state for status in statuses][-2:] == ["running", "failed"]
    assert statuses[-1].books.pending > 0


def test_too_many_rejected_rows_stop_the_job(tmp_path: Path) -> None:
    world = World(tmp_path, POLICIES["castle"], rows=1200)  # the share is checked from a thousand rows on
    with pytest.raises(InputError, match=r"more than the allowed share of 0\.01"):
        world.job(max_reject_share=0.01).run()
    assert world.job(max_reject_share=0.5).run() == "finished"
    world.check()


def test_too_many_rejected_of_few_rows_are_reported_at_the_end(tmp_path: Path) -> None:
    world, statuses = World(tmp_path, POLICIES["castle"]), list[Status]()
    with pytest.raises(InputError, match=r"9 of 100 rows were rejected.*\. The source has ended; all other rows are"):
        world.job(max_reject_share=0.08, watch=statuses.append).run()
    assert statuses[-1].state == "failed"
    world.check()
    assert world.job(max_reject_share=0.08).run() == "finished"


def test_allowed_share_of_rejected_rows_is_allowed_at_the_end(tmp_path: Path) -> None:
    assert World(tmp_path, POLICIES["castle"]).job(max_reject_share=0.09).run() == "finished"


def test_few_rows_do_not_stop_a_running_job(tmp_path: Path) -> None:
    """The share is always far above the limit, but the source has not ended."""
    world = World(tmp_path, POLICIES["castle"], endless=True)
    job = world.job(max_reject_share=0.01)
    stop_after(job, 90)
    assert job.run() == "stopped"


FOREVER = 74 * 365 * 86400.0


def run_in_the_far_future(world: World) -> float:
    """Run a process whose clock shows the year 2100; the right time."""
    right = world.clock.now()
    world.clock.set(right + FOREVER)
    job = world.job()
    stop_after(job, 30)
    job.run()
    return right


def check_pending_leave(job: Job, seconds: Callable[[], float]) -> None:
    """Make the job check that rows leave within 70 seconds, and stop after 100."""
    began, read = seconds(), job._reading.read

    def watched(*given: Any) -> object:
        if seconds() > began + 100:
            job.stop()
        elif job.stream.report().pending:
            assert seconds() < began + 70
        return read(*given)

    job._reading.read = watched  # type: ignore[method-assign, assignment]


def test_pending_rows_leave_even_if_the_clock_was_far_ahead_before_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The clock of the first process shows the year 2100; that of the second is right."""
    world = World(tmp_path, cg.Castle(k=K, delay=1000, max_wait=60.0), rows=100, endless=True)
    right = run_in_the_far_future(world)
    assert "behind the stream's time" not in caplog.text
    world.clock.set(right)
    job = world.job()
    assert "the clock is 27,010 days behind the stream's time" in caplog.text
    check_pending_leave(job, world.clock.elapsed)
    assert job.run() == "stopped"
    assert job.stream.report().rows_in > 30
    world.check()


def test_new_stream_after_a_drain_has_the_time_of_the_clock(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path, POLICIES["castle"], endless=True)
    right = run_in_the_far_future(world)
    world.clock.set(right)
    world.job().drain()
    caplog.clear()
    job = world.job()
    stop_after(job, 30)
    job.run()
    assert job.stream.now < right + 1000
    assert "behind the stream's time" not in caplog.text


def test_pending_rows_leave_while_the_source_is_silent(tmp_path: Path) -> None:
    world = World(tmp_path, cg.Castle(k=K, delay=1000, max_wait=60.0), rows=30, endless=True)
    job = world.job()
    check_pending_leave(job, world.clock.now)
    assert job.run() == "stopped"
    world.check()
