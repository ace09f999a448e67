"""`_castleguard.json`: which parts were published under which policy, and when it is written."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

import castleguard as cg
from castleguard.algorithms.policy import Policy
from castleguard.checkpoint.store import Store
from castleguard.connectors.file_sink import FileSink
from castleguard.connectors.formats import open_writer
from castleguard.connectors.manifest import Manifest
from castleguard.errors import InputError, OutputError
from castleguard.job import Job, Pace, Parts
from castleguard.testing.crash import ScriptedCrash
from castleguard.testing.manual_clock import ManualClock
from tests.recovery.fakes import Topic, run_until_crash, stream_maker

SCHEMA = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)])
K2, K3 = cg.Castle(k=2, delay=10), cg.Castle(k=3, delay=10)


class World:
    """Everything that outlives a process: topic, folder of parts, disk and time."""

    def __init__(self, folder: Path, *, stored: bool = True) -> None:
        self.folder, self.out, self.stored = folder, folder / "out", stored
        self.max_reject_share = 1.0
        self.clock, self.topic = ManualClock(), Topic([])

    def grow(self, count: int = 40) -> None:
        self.topic.rows += [{"pid": at, "age": at * 7 % 100, "row": at} for at in range(count)]

    def job(self, policy: Policy, step: Callable[[int], None] = lambda _: None) -> Job:
        parts = Parts(
            open_source=self.topic.source,
            make_stream=stream_maker(SCHEMA, policy),
            sink=FileSink(self.out, "csv", lambda path: open_writer(path, format="csv")),
            store=Store(self.folder / "state.db") if self.stored else None,
            identity={"source": "topic", "sink": "folder"},
            manifest=Manifest(self.out),
            max_reject_share=self.max_reject_share,
        )
        return Job(parts, clock=self.clock, pace=Pace(every=0.0, poll=0.5), step=step)

    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / "_castleguard.json").read_text())
        return found

    def policies(self) -> list[tuple[int, list[int | None], str | None]]:
        """Return k, parts and end of every epoch."""
        found = self.manifest()
        return [
            (found["statements"][epoch["statement"]]["policy"]["k"], epoch["parts"], epoch["ended"])
            for epoch in found["epochs"]
        ]

    def numbers(self) -> list[int]:
        return sorted(int(path.name[5:17]) for path in self.out.glob("part-*"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_manifest_maps_parts_to_their_guarantee(world: World) -> None:
    world.grow()
    job = world.job(K2)
    job.run()
    found = world.manifest()
    ((k, parts, ended),) = world.policies()
    assert (k, parts, ended) == (2, [1, world.numbers()[-1]], "finished")
    (statement,) = found["statements"].values()
    assert statement["statement"] == str(job.guarantee())
    assert statement["version"] == cg.__version__
    assert len(statement["schema"]) == 32
    assert statement["policy"] == json.loads(json.dumps(K2.fingerprint(), default=str))


def test_parts_of_another_policy_are_distinguished(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.grow()
    world.job(K2).drain()
    job = world.job(K2)
    job.run()
    first = world.numbers()[-1]
    world.grow()
    assert "another policy" not in caplog.text
    world.job(K3).run()
    last = world.numbers()[-1]
    assert world.policies() == [(2, [1, first], "finished"), (3, [first + 1, last], "finished")]
    assert f"parts 1 to {first} published with another policy.k" in caplog.text


def test_manifest_is_written_at_the_start_and_end_of_an_epoch_and_never_at_a_commit(world: World) -> None:
    world.grow(200)
    seen: list[bytes] = []
    commits: list[int] = []

    def step(number: int) -> None:
        commits.append(number)
        path = world.out / "_castleguard.json"
        now = path.read_bytes() + str(path.stat().st_mtime_ns).encode()
        if now not in seen:
            seen.append(now)

    job = world.job(K2, step)
    job.run()
    assert commits.count(1) > 5
    assert len(seen) == 1
    assert world.policies()[0][2] == "finished"


def test_restart_within_an_epoch_leaves_the_manifest_unchanged(world: World) -> None:
    world.grow()
    job = world.job(K2)
    job._statement.write()
    job.turn()
    job.commit()
    job.close()
    before = (world.out / "_castleguard.json").stat()
    again = world.job(K2)
    again.stop()
    again.run()
    after = (world.out / "_castleguard.json").stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("commit", [1, 2, 3, 6])
def test_next_start_writes_the_manifest_of_a_process_that_died(world: World, commit: int, step: int) -> None:
    world.grow()
    run_until_crash(world.job(K2, ScriptedCrash(commit=commit, step=step)))
    world.job(K2).run()
    numbers = world.numbers()
    assert world.policies() == [(2, [1, numbers[-1]], "finished")]
    world.grow()
    world.job(K3).run()
    assert world.policies()[1] == (3, [numbers[-1] + 1, world.numbers()[-1]], "finished")


def test_crash_between_the_end_and_the_manifest_is_repaired(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.grow()
    job = world.job(K2)
    written: list[object] = []

    def fail_at_the_end(self: Manifest, content: object) -> None:
        written.append(content)
        if len(written) > 1:
            raise OutputError("no space left on device")
        real(self, content)  # type: ignore[arg-type]

    real = Manifest.write
    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "write", fail_at_the_end)
        with pytest.raises(OutputError):
            job.run()
    assert world.policies()[0][2] is None
    world.job(K2).run()  # no new rows
    assert world.policies() == [(2, [1, world.numbers()[-1]], "finished")]


def test_policy_that_never_published_leaves_no_trace(world: World) -> None:
    world.grow()
    world.job(K2).run()
    world.topic.endless = True
    started = world.job(K3)
    started._statement.write()
    started.close()
    assert world.policies()[-1][2] is None
    world.topic.endless = False
    world.job(K2).run()
    assert [k for k, _, _ in world.policies()] == [2]


def test_damaged_or_deleted_manifest_is_rewritten(world: World) -> None:
    world.grow()
    world.job(K2).run()
    before = world.manifest()
    for damage in (b"", b"{", b'{"statements": 1, "epochs": 2}', b"[]", None):
        path = world.out / "_castleguard.json"
        path.unlink() if damage is None else path.write_bytes(damage)
        world.job(K2).run()
        assert world.manifest() == before


def test_job_without_a_checkpoint_writes_a_manifest(tmp_path: Path) -> None:
    world = World(tmp_path, stored=False)
    world.grow()
    world.job(K2).run()
    assert world.policies() == [(2, [1, world.numbers()[-1]], "finished")]


def test_readers_of_data_sets_skip_the_manifest(world: World) -> None:
    world.grow()
    world.job(K2).run()
    found = pyarrow.dataset.dataset(world.out, format="csv").to_table()
    assert found.num_rows == 40 - world.job(K2).books().suppressed


def test_manifest_does_not_depend_on_unpublished_rows(tmp_path: Path) -> None:
    """One more row that is rejected, suppressed or pending: the same bytes."""
    contents = []
    for more in (0, 1):
        (tmp_path / str(more)).mkdir()
        world = World(tmp_path / str(more))
        world.grow(1 + more)  # below k: nothing is published
        world.job(replace(K3, suppression="drop")).run()
        contents.append((world.out / "_castleguard.json").read_bytes())
    assert contents[0] == contents[1]


def test_job_that_rejects_too_many_rows_at_its_end_still_ends_the_epoch(world: World) -> None:
    world.grow()
    world.topic.rows += [{"pid": 1, "age": None, "row": at} for at in range(40)]
    world.max_reject_share = 0.1
    with pytest.raises(InputError, match="were rejected"):
        world.job(K2).run()
    assert [ended for _, _, ended in world.policies()] == ["finished"]


def test_failure_to_close_one_part_leaves_no_other_open(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job = world.job(K2)

    def fail(_: FileSink) -> None:
        raise OutputError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(FileSink, "close", fail)
        with pytest.raises(OutputError, match="the disk is gone"):
            job.close()
    world.job(K2).close()  # the lock on the checkpoint is released
