"""A row that is never released leaves no trace at the sink: not in names, numbers, sizes, contents or times."""

import random
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.checkpoint.store import Store
from castleguard.errors import UsageError
from castleguard.job import Job, Parts
from castleguard.testing.crash import CrashError, ScriptedCrash
from castleguard.testing.in_memory import MemoryParts, MemorySink
from tests.contract.sinks import SINKS
from tests.recovery.presence import (
    EXTRA,
    LASTS,
    POLICY,
    SCHEMA,
    START,
    Arrival,
    Arrivals,
    Stage,
    look_at,
    make_arrivals,
    with_one_more,
)
from tests.soak import effort

FORMATS = ("csv", "csv-gzip", "jsonl", "jsonl-gzip", "parquet", "arrow", "stdout-csv", "stdout-jsonl")
EDGES = [6_000_000.0 + 60 * at for at in range(4)]
LAG = 6.0
AGE = cg.Numeric("age", lower=0, upper=100)


@pytest.mark.soak
@pytest.mark.compiled
def test_unreleased_row_leaves_no_trace_in_files(tmp_path: Path) -> None:
    """At random times, over all formats and all kinds of unreleased rows."""
    draw, parts = random.Random(17), 0
    for case in range(effort(60, 200)):
        kind, name = list(EXTRA)[case % len(EXTRA)], FORMATS[case % len(FORMATS)]
        arrivals = make_arrivals(draw, effort(24, 150))
        seen = []
        for which, rows in (("without", arrivals), ("with", with_one_more(arrivals, draw, kind))):
            folder = tmp_path / f"{case}-{which}"
            (folder / "public").mkdir(parents=True)
            adapter, look = SINKS[name](folder / "public"), partial(look_at, folder / "public")
            described = None if name.startswith("stdout") else folder / "public" / "out"
            stage = Stage(rows, adapter.open, look, folder, with_store=case % effort(12, 1) == 0, described=described)
            seen.append((stage.play(), look()))
            adapter.close()
        assert seen[0] == seen[1], f"case {case}: {kind}, {name}"
        parts += len(seen[0][0])
    assert parts > effort(90, 300)


class Shelf:
    """A sink in memory that can be observed."""

    def __init__(self) -> None:
        self.parts = MemoryParts()

    def sink(self) -> MemorySink:
        return MemorySink(self.parts)

    def look(self) -> list[tuple[int, str]]:
        return [(number, table.to_pandas().to_csv()) for number, table in self.parts.delivered]

    def rows(self) -> int:
        return sum(table.num_rows for _, table in self.parts.delivered)


def on_stage(folder: Path, arrivals: list[Arrival], *, with_store: bool = True) -> tuple[Stage, Shelf]:
    shelf = Shelf()
    return Stage(arrivals, shelf.sink, shelf.look, folder, with_store=with_store), shelf


ARRIVALS = make_arrivals(random.Random(3), 60)


def test_window_is_delivered_at_its_edge_plus_the_lag(tmp_path: Path) -> None:
    stage, _ = on_stage(tmp_path, ARRIVALS)
    seen = stage.play()
    assert [one.begun for one in seen] == [edge + LAG for edge in EDGES[1:]]
    assert [one.number for one in seen] == [1, 2, 3]


def test_last_window_is_published_at_its_edge_and_not_when_the_source_ends(tmp_path: Path) -> None:
    stage, _ = on_stage(tmp_path, ARRIVALS)
    stage.play()
    assert EDGES[-1] > START + LASTS
    assert stage.clock.now() == EDGES[-1] + LAG


@pytest.mark.parametrize("with_store", [True, False])
def test_stop_publishes_nothing_of_an_open_window(tmp_path: Path, with_store: bool) -> None:
    """With a checkpoint its rows wait for the next run; without one they are suppressed."""
    stage, _ = on_stage(tmp_path, ARRIVALS, with_store=with_store)
    job = stage.job()
    while stage.clock.now() < EDGES[1] + 40:
        job.turn()
    pending = job.stream.report().pending
    assert pending > 0
    job.stop()
    assert job.run() == "stopped"
    assert [one.begun for one in stage.seen] == [EDGES[1] + LAG]
    if with_store:
        assert stage.job().run() == "finished"
        assert [one.begun for one in stage.seen] == [edge + LAG for edge in EDGES[1:]]
    else:
        assert job.stream.report().pending == 0
        assert job.stream.report().suppressed >= pending


def test_stop_during_the_last_window_leaves_it_to_the_next_run(tmp_path: Path) -> None:
    stage, _ = on_stage(tmp_path, ARRIVALS)
    whole = on_stage(tmp_path / "whole", ARRIVALS)[0]
    (tmp_path / "whole").mkdir()
    job = stage.job()
    sleep = stage.clock.sleep

    def interrupted(seconds: float) -> None:
        sleep(seconds)
        if stage.clock.now() > START + LASTS + 10:
            job.stop()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage.clock, "sleep", interrupted)
        assert job.run() == "stopped"
    assert EDGES[2] < stage.clock.now() < EDGES[3]
    assert stage.job().run() == "finished"
    assert stage.seen == whole.play()


def stopped_in_a_window(folder: Path) -> Stage:
    """A job that was stopped in its second window."""
    stage, _ = on_stage(folder, ARRIVALS)
    job = stage.job()
    while stage.clock.now() < EDGES[1] + 40:
        job.turn()
    job.stop()
    job.run()
    return stage


@pytest.mark.parametrize("drop", [False, True])
def test_drain_waits_for_the_edge_or_drops_the_window(tmp_path: Path, drop: bool) -> None:
    stage = stopped_in_a_window(tmp_path)
    before = stage.clock.now()
    assert stage.job().drain(drop_window=drop) == "drained"
    assert len(stage.seen) == (1 if drop else 2)
    assert stage.clock.now() == (before if drop else EDGES[2] + LAG)
    with Store(tmp_path / "state.db") as store:
        latest = store.load()
    assert latest is not None
    assert latest.books["pending"] == 0
    assert latest.segments == len(stage.seen)


def test_late_window_is_delivered_at_once_after_a_restart(tmp_path: Path) -> None:
    stage = stopped_in_a_window(tmp_path)
    stage.clock.advance(1000)
    back = stage.clock.now()
    stage.job().run()
    assert stage.seen[1].begun == back


@pytest.mark.parametrize("step", range(1, 7))
@pytest.mark.parametrize("commit", [1, 3, 9])
def test_crash_changes_neither_numbers_nor_times(tmp_path: Path, step: int, commit: int) -> None:
    """A process dies at any step. Before a commit is stored, its rows are read again at a later time; afterwards the
    content is the same as well.
    """
    whole, shelf = on_stage(tmp_path / "whole", ARRIVALS)
    stage, other = on_stage(tmp_path / "crashed", ARRIVALS)
    for folder in (whole.folder, stage.folder):
        folder.mkdir()
    whole.play()
    job = stage.job(step=ScriptedCrash(commit=commit, step=step))
    with pytest.raises(CrashError):
        job.run()
    assert stage.job().run() == "finished"
    assert [one.begun for one in stage.seen] == [edge + LAG for edge in EDGES[1:]]
    assert [one.number for one in stage.seen] == [1, 2, 3]
    if step > 2:
        assert other.look() == shelf.look()


def test_crash_while_a_window_waits_does_not_deliver_it_early(tmp_path: Path) -> None:
    stage, _ = on_stage(tmp_path, ARRIVALS)
    job = stage.job()

    def die(seconds: float) -> None:
        raise CrashError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage.clock, "sleep", die)
        with pytest.raises(CrashError):
            job.run()
    assert EDGES[1] <= stage.clock.now() < EDGES[1] + LAG
    assert stage.seen == []
    stage.job().close()
    assert [one.begun for one in stage.seen] == [EDGES[1] + LAG]


def test_dry_run_does_not_wait_for_the_end_of_a_window(tmp_path: Path) -> None:
    stage, shelf = on_stage(tmp_path, ARRIVALS)
    parts = Parts(
        open_source=lambda _: Arrivals(stage.clock, ARRIVALS),
        make_stream=lambda _: cg.Anonymiser(SCHEMA, POLICY, seed=1),
        sink=shelf.sink(),
        observed=False,
    )
    job = Job(parts, clock=stage.clock)
    assert job.run() == "finished"
    assert stage.clock.now() < START + LASTS + 1
    assert job.stream.report().pending == 0


def test_policy_without_windows_has_none_to_drop() -> None:
    stream = cg.Anonymiser(cg.Schema(person=None, quasi_identifiers=[AGE]), cg.Castle(k=2, delay=5))
    with pytest.raises(UsageError, match="no window to drop"):
        stream.drop_window()


def test_batch_that_closes_a_window_does_not_split_it(tmp_path: Path) -> None:
    """The stored segment is one chunk, for any size of the batch after the edge."""
    many = [Arrival(EDGES[1] + 7.0, {"pid": f"q{at}", "age": 1, "ward": "surgery"}) for at in range(70_000)]
    early = [one for one in ARRIVALS if one.at < EDGES[1]]
    stages = [on_stage(tmp_path, early, with_store=False), on_stage(tmp_path, [*early, *many], with_store=False)]
    chunks: list[list[int]] = []
    for stage, shelf in stages:
        stage.play()
        table: pa.Table = shelf.parts.delivered[0][1]
        chunks.append([chunk.num_chunks for chunk in table.columns])
    assert chunks[0] == chunks[1]
