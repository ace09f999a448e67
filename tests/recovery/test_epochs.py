"""Epochs of a job: rows of a person are counted on over finish and drain, or the statement says what that costs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import castleguard as cg
from castleguard.algorithms.base import Policy
from castleguard.checkpoint.cipher import Cipher
from castleguard.checkpoint.store import Checkpoint, Store
from castleguard.errors import SnapshotError
from castleguard.job import Job, Pace, Parts
from castleguard.testing.crash import CrashError, ScriptedCrash
from castleguard.testing.manual_clock import ManualClock
from tests.recovery.fakes import Shelf, Topic

SCHEMA = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)])
LEDGER = cg.Castleguard(k=2, delay=10, epsilon=1.0, rows_per_person=1, dp_delta=0.0)
PEOPLE = 20


class World:
    """All that outlives a process, and a source that grows."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, ManualClock(1_000_000.0)
        self.topic, self.shelf = Topic([]), Shelf()

    def grow(self, count: int = PEOPLE, first: int = 0) -> None:
        """One row more of each of `count` persons."""
        self.topic.rows += [{"pid": first + at, "age": at * 7 % 100, "row": at} for at in range(count)]

    def job(self, policy: Policy, step: Callable[[int], None] = lambda _: None, schema: cg.Schema = SCHEMA) -> Job:
        """The next process."""

        def stream(snapshot: bytes | None) -> cg.Anonymiser:
            if snapshot is None:
                return cg.Anonymiser(schema, policy)
            return cg.Anonymiser.restore(schema, policy, snapshot)

        parts = Parts(
            open_source=self.topic.source,
            make_stream=stream,
            sink=self.shelf,
            store=Store(self.folder / "state.db"),
            identity={"source": "topic", "sink": "shelf"},
        )
        return Job(parts, clock=self.clock, pace=Pace(every=0.0, poll=0.5), step=step)


def admitted(job: Job) -> int:
    """Rows that the ledger let pass, in all epochs; a few of them may be suppressed at the end of each."""
    books = job.books()
    return books.published + books.suppressed


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def run(world: World, policy: Policy, schema: cg.Schema = SCHEMA, *, ended: str = "finished") -> Job:
    job = world.job(policy, schema=schema)
    if ended == "drained":
        while not job._source.finished:
            job.turn()
        job.drain(drop_window=True)  # before the end of a window of seconds
    else:
        job.run()
    return job


@pytest.mark.parametrize("ended", ["finished", "drained"])
def test_three_runs_of_a_growing_source_publish_one_row_of_a_person(world: World, ended: str) -> None:
    for _ in range(3):
        world.grow()
        last = run(world, LEDGER, ended=ended)
    assert admitted(last) == PEOPLE
    assert last.books().over_budget == 2 * PEOPLE
    assert sum(table.num_rows for table in world.shelf.segments.values()) <= PEOPLE
    assert "epochs" not in str(last.guarantee())


def test_new_persons_still_have_their_rows(world: World) -> None:
    for at in range(3):
        world.grow(first=10 * at)
        job = run(world, LEDGER)
    assert admitted(job) == 2 * PEOPLE


def test_a_restart_in_the_middle_of_a_later_epoch_counts_on(world: World) -> None:
    world.grow()
    run(world, LEDGER)
    world.grow()
    job = world.job(LEDGER)
    job.turn()
    job.commit()
    job.close()
    assert admitted(run(world, LEDGER)) == PEOPLE


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("commit", [1, 2, 3])
def test_a_crash_at_any_step_of_any_epoch_admits_nobody_twice(world: World, commit: int, step: int) -> None:
    for _ in range(3):
        world.grow()
        job = world.job(LEDGER, ScriptedCrash(commit=commit, step=step))
        try:
            job.run()
        except CrashError:
            assert job._store is not None
            job._store.close()  # what the system does with the locks of a process that is gone
        last = run(world, LEDGER)
    assert admitted(last) == PEOPLE
    assert sum(table.num_rows for table in world.shelf.segments.values()) <= PEOPLE


def test_a_window_of_seconds_goes_on_over_a_drain(world: World) -> None:
    policy = replace(LEDGER, window=100.0)
    world.grow()
    run(world, policy, ended="drained")
    world.clock.advance(50.0)
    world.grow()
    assert admitted(run(world, policy, ended="drained")) == PEOPLE
    world.clock.advance(60.0)
    world.grow()
    assert admitted(run(world, policy)) == 2 * PEOPLE


def test_a_window_of_rows_goes_on_over_a_drain(world: World) -> None:
    policy = replace(LEDGER, window=30, window_unit="rows")
    for expected in (20, 20, 40):  # a person may come again 30 arrivals after the last time
        world.grow()
        assert admitted(run(world, policy)) == expected


def test_windows_of_rows_of_doca_are_those_of_a_stream_that_never_ended(world: World) -> None:
    """A bound of one row in a window is one for the engine's windows: their edges do not move with a drain."""
    policy = cg.Doca(epsilon=1.0, k=2, delay=30, rows_per_person=1)
    for _ in range(6):
        world.grow(5)
        world.grow(5)
        job = run(world, policy)
    assert job.books().gate_refused == 0
    assert job.books().published + job.books().over_budget + job.books().suppressed == 60
    assert job.books().over_budget == 60 - 10  # 5 persons in each of the windows [0, 30) and [30, 60)


def test_sdgs_counts_a_window_of_time_on_over_a_drain(world: World) -> None:
    policy = cg.Sdgs(k=2, sample_rate=0.6, epsilon=1.0, window=1000.0)
    world.clock.set(1_000_000.0)
    for _ in range(3):
        world.grow()
        job = run(world, policy, ended="drained")
        world.clock.set(1_000_100.0)
    assert job.books().over_budget == 2 * PEOPLE


def test_sdgs_counts_a_window_of_rows_on_over_a_drain(world: World) -> None:
    policy = cg.Sdgs(k=2, sample_rate=0.6, epsilon=1.0, window=50, window_unit="rows")
    for _ in range(3):
        world.grow()
        job = run(world, policy)
    assert job.books().over_budget == 20 + 10  # the second window begins after the 50th row
    assert job.books().gate_refused == 0


def test_a_clock_that_was_set_back_does_not_open_a_window_again(world: World) -> None:
    policy = replace(LEDGER, window=100.0)
    world.grow()
    run(world, policy)
    world.clock.set(world.clock.now() - 1_000.0)
    world.grow()
    assert admitted(run(world, policy)) == PEOPLE


@pytest.mark.parametrize(
    ("change", "total"),
    [
        ({"epsilon": 2.0}, "(3, 0)"),
        ({"rows_per_person": 2}, "(3, 0)"),
        ({"window": 60.0}, "(2, 0)"),
    ],
    ids=["epsilon", "rows per person", "window"],
)
def test_another_policy_names_the_sum(world: World, change: dict[str, object], total: str) -> None:
    world.grow()
    run(world, LEDGER, ended="drained")
    world.grow()
    job = run(world, replace(LEDGER, **change))  # type: ignore[arg-type]
    assert "All epochs together promise" in str(job.guarantee())
    assert f"{total}-differential privacy of all rows of one person" in str(job.guarantee())


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (60.0, None, "no bound for a person"),  # the epoch before had any number of windows
        (60.0, 120.0, "no bound for a person"),
        (120.0, 60.0, "(2, 0)-differential privacy of all rows of one person"),
    ],
)
def test_a_sum_is_named_only_where_windows_let_it_hold(
    world: World, before: float, after: float | None, said: str
) -> None:
    world.grow()
    run(world, replace(LEDGER, window=before), ended="drained")
    world.grow()
    assert said in str(run(world, replace(LEDGER, window=after)).guarantee())


def test_another_person_column_names_the_sum_and_counts_from_the_beginning(world: World) -> None:
    world.grow()
    run(world, LEDGER, ended="drained")
    world.grow()
    by_row = replace(SCHEMA, person="row")
    job = run(world, LEDGER, by_row, ended="drained")
    assert admitted(job) == 2 * PEOPLE
    assert "(2, 0)-differential privacy of all rows of one person" in str(job.guarantee())
    world.grow()
    again = run(world, LEDGER, by_row)
    assert admitted(again) == 2 * PEOPLE
    assert "(2, 0)-differential privacy of all rows of one person" in str(again.guarantee())
    world.grow()
    back = run(world, LEDGER)
    assert "(3, 0)-differential privacy of all rows of one person" in str(back.guarantee())


def test_another_canonical_form_names_the_sum(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.grow()
    run(world, LEDGER)
    monkeypatch.setattr("castleguard.runtime.epochs.CANONICAL_FORM", 1_000)
    world.grow()
    job = run(world, LEDGER)
    assert admitted(job) == 2 * PEOPLE
    assert "(2, 0)-differential privacy of all rows of one person" in str(job.guarantee())


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (cg.Castle(k=2, delay=10), "some of them made no such claim: all epochs together promise none"),
        (cg.Castleguard(k=2, delay=10, epsilon=1.0), "all epochs together promise no bound for a person"),
    ],
    ids=["no claim", "a claim for rows"],
)
def test_an_epoch_without_a_bound_for_persons_is_told(world: World, before: Policy, said: str) -> None:
    world.grow()
    run(world, before, ended="drained")
    world.grow()
    assert said in str(run(world, LEDGER).guarantee())


def test_a_snapshot_of_another_canonical_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who is pending would come again under another hash, and count as two."""
    stream = cg.Anonymiser(SCHEMA, LEDGER)
    snapshot = stream.snapshot()
    cg.Anonymiser.restore(SCHEMA, LEDGER, snapshot)
    monkeypatch.setattr("castleguard.runtime.epochs.CANONICAL_FORM", 1_000)
    with pytest.raises(SnapshotError, match=r"with another canonical_form.*Drain the job"):
        cg.Anonymiser.restore(SCHEMA, LEDGER, snapshot)


def test_another_policy_after_a_drain_is_told_whatever_the_sink(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.grow()
    run(world, LEDGER, ended="drained")
    world.grow()
    run(world, LEDGER, ended="drained")
    assert "another policy" not in caplog.text
    world.grow()
    run(world, replace(LEDGER, k=3))
    assert "published with another policy.k: use another sink to keep them apart" in caplog.text


def test_a_policy_without_a_ledger_says_what_it_always_said(world: World) -> None:
    policy = cg.Castle(k=2, delay=10)
    for _ in range(2):
        world.grow()
        job = run(world, policy)
    assert str(job.guarantee()) == str(policy.guarantee(SCHEMA, seeded=False))
    assert admitted(job) == 2 * PEOPLE


def test_what_is_carried_is_wiped_without_a_key_and_kept_under_a_new_one(tmp_path: Path) -> None:
    secret = b"who spent what"
    ended = Checkpoint(number=1, position=None, snapshot=None, delivered=True, ended="drained", carried=secret)
    for after in (Cipher(bytes(range(32))), None):
        path = tmp_path / f"state-{after is None}.db"
        with Store(path, cipher=Cipher(bytes(32))) as store:
            store.save(ended)
            store.change_key(after)
            latest = store.load()
        assert latest is not None
        assert latest.carried == (None if after is None else secret)
        assert secret not in path.read_bytes()
