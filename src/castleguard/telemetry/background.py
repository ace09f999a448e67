"""Supervision of background tasks, so that none dies unnoticed.

A failed task is logged and restarted with exponential backoff. `tasks()` lists all tasks of the process for health and
metrics. Threads (`SupervisedThread`) and coroutines (`supervise`) follow the same rules.
"""

import asyncio
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from castleguard.errors import CastleguardError
from castleguard.telemetry.logs import LOG

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds before a restart: after the first failure, and the maximum."""
DOWN_AFTER = 3
"""Failures in a row after which a task counts as down."""
STEADY_SECONDS = 10.0
"""A task that has run this long counts as recovered, unless it reported that earlier (`Task.well`)."""


class Task:
    """One background task: its number of failures, and whether it is down."""

    def __init__(self, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`name` tells the operator what the task does."""
        self.name = name
        self.failures = 0
        """Failures since the process started."""
        self._in_a_row = 0
        self._clock = clock
        self._running_since: float | None = None

    @property
    def up(self) -> bool:
        """Whether the task is running, or has failed only a few times in a row."""
        return self._in_a_row < DOWN_AFTER or self._is_steady()

    def started(self) -> None:
        """Note a start or restart."""
        self._running_since = self._clock()

    def well(self) -> None:
        """Note that the task works: earlier failures no longer count."""
        if self._in_a_row:
            LOG.warning("background task %s works again after %d failures", self.name, self._in_a_row)
        self._in_a_row = 0

    def failed(self, error: BaseException) -> float:
        """Log a failure; return the seconds to pause before a restart."""
        if self._is_steady():
            self._in_a_row = 0
        self._running_since = None
        self.failures += 1
        self._in_a_row += 1
        pause = min(FIRST_PAUSE * 2.0 ** min(self._in_a_row - 1, 32), LONGEST_PAUSE)
        # Warn at powers of two only: a task that fails for days must not fill the log.
        rare = self._in_a_row & (self._in_a_row - 1) == 0
        (LOG.warning if rare else LOG.debug)(
            "background task %s failed (%s), failure %d in a row; it restarts in %g s",
            self.name,
            _cause(error),
            self._in_a_row,
            pause,
        )
        return pause

    def _is_steady(self) -> bool:
        return self._running_since is not None and self._clock() - self._running_since >= STEADY_SECONDS


_tasks: list[Task] = []
_tasks_lock = threading.Lock()


def tasks() -> tuple[Task, ...]:
    """Return the current background tasks of the process."""
    with _tasks_lock:
        return tuple(_tasks)


async def supervise(
    name: str,
    work: Callable[[Task], Awaitable[None]],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Await `work` until it returns, restarting it when it fails. Cancelling this coroutine cancels the work."""
    with _listed(Task(name, clock=clock)) as task:
        while True:
            task.started()
            try:
                await work(task)
                return
            except GeneratorExit:
                raise
            except BaseException as exc:
                if isinstance(exc, asyncio.CancelledError) and _is_cancelled():
                    raise
                pause = task.failed(exc)
            await sleep(pause)


class SupervisedThread:
    """A daemon thread that restarts its work when it fails, and ends when it returns."""

    def __init__(self, name: str, work: Callable[[Task], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        """Start the thread under the name `castleguard-<name>`."""
        self.task = Task(name, clock=clock)
        self._work = work
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"castleguard-{name}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread has not ended."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Prevent further restarts. The work itself must be stopped by other means."""
        self._stopped.set()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def _run(self) -> None:
        with _listed(self.task):
            while not self._stopped.is_set():
                self.task.started()
                try:
                    self._work(self.task)
                    return
                except BaseException as exc:  # SystemExit would end the thread silently
                    if self._stopped.is_set():
                        return
                    pause = self.task.failed(exc)
                self._stopped.wait(pause)


@contextmanager
def _listed(task: Task) -> Iterator[Task]:
    with _tasks_lock:
        _tasks.append(task)
    try:
        yield task
    finally:
        with _tasks_lock:
            _tasks.remove(task)


def _is_cancelled() -> bool:
    """Whether the current coroutine itself is being cancelled, not just an awaitable inside it."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def _cause(error: BaseException) -> str:
    """Describe why a task failed. A foreign error may quote a row, so only its type and location are shown."""
    if isinstance(error, CastleguardError):
        return str(error)
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        place = f" at {Path(frame.f_code.co_filename).name}:{line}"
    return f"{type(error).__name__}{place}"
