"""The supervisor logs every failure of a task, restarts it with backoff, and lists it."""

import asyncio
import logging
import threading

import pytest

from castleguard.errors import UnavailableError
from castleguard.telemetry.background import (
    DOWN_AFTER,
    LONGEST_PAUSE,
    STEADY_SECONDS,
    SupervisedThread,
    Task,
    supervise,
    tasks,
)
from tests.patience import eventually

ERRORS = [KeyError("secret"), UnavailableError("away"), asyncio.CancelledError(), SystemExit(1), MemoryError()]


class FakeTime:
    """A clock that advances by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


class Faulty:
    """A task that fails with these errors in turn, each after so many seconds, and then ends."""

    def __init__(self, errors: list[BaseException], time: FakeTime, lives: float = 0.0, well: bool = False) -> None:
        self.errors = list(errors)
        self.time = time
        self.lives = lives
        self.well = well
        self.up: list[bool] = []

    async def __call__(self, task: Task) -> None:
        assert task in tasks()
        self.up.append(task.up)
        if self.well:
            task.well()
        self.time.now += self.lives
        if self.errors:
            raise self.errors.pop(0)


def supervised(work: Faulty) -> None:
    before = tasks()
    asyncio.run(supervise("faulty", work, clock=work.time.clock, sleep=work.time.sleep))
    assert tasks() == before, "a task that has ended is not listed"


def test_task_is_restarted_after_any_error() -> None:
    work = Faulty(list(ERRORS), FakeTime())
    supervised(work)
    assert len(work.up) == len(ERRORS) + 1


def test_pauses_double_up_to_the_maximum() -> None:
    work = Faulty([KeyError() for _ in range(9)], FakeTime())
    supervised(work)
    assert work.time.pauses[:6] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6]
    assert set(work.time.pauses[6:]) == {LONGEST_PAUSE}


def test_repeatedly_failing_task_is_down_until_it_works() -> None:
    work = Faulty([KeyError() for _ in range(5)], FakeTime())
    supervised(work)
    assert work.up == [True] * DOWN_AFTER + [False] * 3
    recovering = Faulty([KeyError() for _ in range(5)], FakeTime(), well=True)
    supervised(recovering)
    assert recovering.up == [True] * 6
    assert set(recovering.time.pauses) == {0.05}, "a task that worked in between has not failed in a row"


def test_task_that_has_run_for_long_has_recovered() -> None:
    work = Faulty([KeyError() for _ in range(5)], FakeTime(), lives=STEADY_SECONDS)
    supervised(work)
    assert set(work.time.pauses) == {0.05}
    moment = FakeTime()
    task = Task("steady", clock=moment.clock)
    for _ in range(DOWN_AFTER):
        task.started()
        task.failed(KeyError())
    task.started()
    assert not task.up
    moment.now += STEADY_SECONDS
    assert task.up
    assert task.failures == DOWN_AFTER


def test_cancelling_the_supervisor_ends_the_task() -> None:
    begun = asyncio.Event()

    async def endless(task: Task) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def main() -> None:
        running = asyncio.ensure_future(supervise("endless", endless))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert "endless" not in {task.name for task in tasks()}


def test_log_shows_type_and_place_but_no_foreign_message(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "castleguard"):
        supervised(Faulty([KeyError("secret"), UnavailableError("the server is away")], FakeTime()))
    assert "secret" not in caplog.text
    assert "KeyError at test_background.py" in caplog.text
    assert "the server is away" in caplog.text


def test_task_that_fails_for_ever_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "castleguard"):
        supervised(Faulty([KeyError() for _ in range(1000)], FakeTime()))
    assert len(caplog.records) == 10


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_failed_thread_is_restarted(error: BaseException) -> None:
    runs: list[str] = []

    def work(task: Task) -> None:
        runs.append(threading.current_thread().name)
        if len(runs) < 3:
            raise error

    thread = SupervisedThread("faulty", work)
    thread.join()
    assert runs == ["castleguard-faulty"] * 3
    assert thread.task.failures == 2
    assert thread.task not in tasks()


def test_stopped_thread_is_not_restarted() -> None:
    wanted = threading.Event()

    def work(task: Task) -> None:
        wanted.wait()
        raise OSError

    thread = SupervisedThread("stopped", work)
    eventually(lambda: thread.task in tasks())
    thread.stop()
    wanted.set()
    thread.join()
    assert thread.task.failures == 0
    assert not thread.alive
