"""Epochs of a job: rows per person are counted across finish and drain, or the statement names the sum."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import castleguard as cg
from castleguard.algorithms.policy import Policy
from castleguard.checkpoint.cipher import Cipher
from castleguard.checkpoint.store import Checkpoint, Store
from castleguard.errors import SnapshotError
from castleguard.job import Job, Pace, Parts
from castleguard.testing.crash import ScriptedCrash
from castleguard.testing.manual_clock import ManualClock
from tests.recovery.fakes import Shelf, Topic, run_until_crash, stream_maker

SCHEMA = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)])
LEDGER = cg.Castleguard(k=2, delay=10, epsilon=1.0, rows_per_person=1, dp_delta=0.0)
PEOPLE = 20


class World:
    """Everything that outlives a process, and a growing source."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, ManualClock(1_000_000.0)
        self.topic, self.shelf = Topic([]), Shelf()

    def grow(self, count: int = PEOPLE, first: int = 0) -> None:
        """Add one row of each of `count` persons."""
        self.topic.rows += [{"pid": first + at, "age": at * 7 % 100, "row": at} for at in range(count)]

    def job(self, policy: Policy, step: Callable[[int], None] = lambda _: None, schema: cg.Schema = SCHEMA) -> Job:
        """Start the next process."""
        parts = Parts(
            open_source=self.topic.source,
            make_stream=stream_maker(schema, policy),
            sink=self.shelf,
            store=Store(self.folder / "state.db"),
            identity={"source": "topic", "sink": "shelf"},
        )
        return Job(parts, clock=self.clock, pace=Pace(every=0.0, poll=0.5), step=step)


def admitted(job: Job) -> int:
    """Rows admitted by the ledger in all epochs; a few may be suppressed at the end of each."""
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
        job.drain(drop_window=True)  # before the end of a window in seconds
    else:
        job.run()
    return job


@pytest.mark.parametrize("ended", ["finished", "drained"])
def test_three_runs_of_a_growing_source_publish_one_row_per_person(world: World, ended: str) -> None:
    for _ in range(3):
        world.grow()
        last = run(world, LEDGER, ended=ended)
    assert admitted(last) == PEOPLE
    assert last.books().over_budget == 2 * PEOPLE
    assert sum(table.num_rows for table in world.shelf.segments.values()) <= PEOPLE
    assert "epochs" not in str(last.guarantee())


def test_rows_of_new_persons_are_published(world: World) -> None:
    for at in range(3):
        world.grow(first=10 * at)
        job = run(world, LEDGER)
    assert admitted(job) == 2 * PEOPLE


def test_restart_within_a_later_epoch_keeps_the_counts(world: World) -> None:
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
def test_crash_at_any_step_of_any_epoch_admits_no_person_twice(world: World, commit: int, step: int) -> None:
    for _ in range(3):
        world.grow()
        run_until_crash(world.job(LEDGER, ScriptedCrash(commit=commit, step=step)))
        last = run(world, LEDGER)
    assert admitted(last) == PEOPLE
    assert sum(table.num_rows for table in world.shelf.segments.values()) <= PEOPLE


def test_window_of_seconds_continues_across_a_drain(world: World) -> None:
    policy = replace(LEDGER, window=100.0)
    world.grow()
    run(world, policy, ended="drained")
    world.clock.advance(50.0)
    world.grow()
    assert admitted(run(world, policy, ended="drained")) == PEOPLE
    world.clock.advance(60.0)
    world.grow()
    assert admitted(run(world, policy)) == 2 * PEOPLE


def test_window_of_rows_continues_across_a_drain(world: World) -> None:
    policy = replace(LEDGER, window=30, window_unit="rows")
    for expected in (20, 20, 40):  # a person may have another row 30 arrivals after the last
        world.grow()
        assert admitted(run(world, policy)) == expected


def test_doca_windows_of_rows_equal_those_of_an_uninterrupted_stream(world: World) -> None:
    """The bound of one row per window holds for the engine's windows: a drain does not move their edges."""
    policy = cg.Doca(epsilon=1.0, k=2, delay=30, rows_per_person=1)
    for _ in range(6):
        world.grow(5)
        world.grow(5)
        job = run(world, policy)
    assert job.books().gate_refused == 0
    assert job.books().published + job.books().over_budget + job.books().suppressed == 60
    assert job.books().over_budget == 60 - 10  # 5 persons in each of the windows [0, 30) and [30, 60)


def test_sdgs_counts_a_window_of_seconds_across_a_drain(world: World) -> None:
    policy = cg.Sdgs(k=2, sample_rate=0.6, epsilon=1.0, window=1000.0)
    world.clock.set(1_000_000.0)
    for _ in range(3):
        world.grow()
        job = run(world, policy, ended="drained")
        world.clock.set(1_000_100.0)
    assert job.books().over_budget == 2 * PEOPLE


def test_sdgs_counts_a_window_of_rows_across_a_drain(world: World) -> None:
    policy = cg.Sdgs(k=2, sample_rate=0.6, epsilon=1.0, window=50, window_unit="rows")
    for _ in range(3):
        world.grow()
        job = run(world, policy)
    assert job.books().over_budget == 20 + 10  # the second window begins after the 50th row
    assert job.books().gate_refused == 0


def test_setting_the_clock_back_does_not_reopen_a_window(world: World) -> None:
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
def test_statement_of_another_policy_names_the_sum(world: World, change: dict[str, object], total: str) -> None:
    world.grow()
    run(world, LEDGER, ended="drained")
    world.grow()
    job = run(world, replace(LEDGER, **change))  # type: ignore[arg-type]
    assert "All epochs together promise" in str(job.guarantee())
    assert f"{total}-differential privacy of all rows of one person" in str(job.guarantee())


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (60.0, None, "no bound for a person"),  # the previous epoch had any number of windows
        (60.0, 120.0, "no bound for a person"),
        (120.0, 60.0, "(2, 0)-differential privacy of all rows of one person"),
    ],
)
def test_sum_is_named_only_where_the_windows_allow_it(
    world: World, before: float, after: float | None, sentence: str
) -> None:
    world.grow()
    run(world, replace(LEDGER, window=before), ended="drained")
    world.grow()
    assert sentence in str(run(world, replace(LEDGER, window=after)).guarantee())


def test_another_person_column_names_the_sum_and_restarts_the_counts(world: World) -> None:
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
    ("before", "sentence"),
    [
        (cg.Castle(k=2, delay=10), "some of them made no such claim: all epochs together promise none"),
        (cg.Castleguard(k=2, delay=10, epsilon=1.0), "all epochs together promise no bound for a person"),
    ],
    ids=["no claim", "a claim for rows"],
)
def test_statement_mentions_an_epoch_without_a_bound_per_person(world: World, before: Policy, sentence: str) -> None:
    world.grow()
    run(world, before, ended="drained")
    world.grow()
    assert sentence in str(run(world, LEDGER).guarantee())


def test_snapshot_of_another_canonical_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person with pending rows would get another hash, and count twice."""
    stream = cg.Anonymiser(SCHEMA, LEDGER)
    snapshot = stream.snapshot()
    cg.Anonymiser.restore(SCHEMA, LEDGER, snapshot)
    monkeypatch.setattr("castleguard.runtime.epochs.CANONICAL_FORM", 1_000)
    with pytest.raises(SnapshotError, match=r"with another canonical_form.*Drain the job"):
        cg.Anonymiser.restore(SCHEMA, LEDGER, snapshot)


def test_another_policy_after_a_drain_is_logged_for_every_sink(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.grow()
    run(world, LEDGER, ended="drained")
    world.grow()
    run(world, LEDGER, ended="drained")
    assert "another policy" not in caplog.text
    world.grow()
    run(world, replace(LEDGER, k=3))
    assert "published with another policy.k: use another sink to keep them apart" in caplog.text


def test_statement_without_a_ledger_is_unchanged(world: World) -> None:
    policy = cg.Castle(k=2, delay=10)
    for _ in range(2):
        world.grow()
        job = run(world, policy)
    assert str(job.guarantee()) == str(policy.guarantee(SCHEMA, seeded=False))
    assert admitted(job) == 2 * PEOPLE


def test_carried_counts_are_wiped_without_a_key_and_kept_under_a_new_one(tmp_path: Path) -> None:
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
