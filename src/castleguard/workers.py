"""Worker processes for many independent runs: experiments, sweeps, membership games."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Found = TypeVar("_Found")


@contextmanager
def workers(number: int, *, start: Callable[..., None] | None = None, given: Sequence[Any] = ()) -> Iterator[Executor]:
    """Yield an executor with `number` processes; with one, calls run in this process, when submitted.

    `start` is called in each process with the arguments `given`, before any work. Leaving the block cancels calls that
    have not started. Submitted functions must be importable by name: module-level functions, and partials of them.
    """
    if number <= 1:
        if start is not None:
            start(*given)
        yield _Here()
        return
    # Spawned, not forked: a fork would copy the locks of Arrow's threads, possibly while they are held.
    pool = ProcessPoolExecutor(
        number, mp_context=get_context("spawn"), initializer=_start, initargs=(start, tuple(given))
    )
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


class _Here(Executor):
    """Runs calls at once, in this process."""

    def submit(
        self, fn: Callable[_Parameters, _Found], /, *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> Future[_Found]:
        """Run the call and return its completed future."""
        future: Future[_Found] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as exc:
            future.set_exception(exc)
        return future


def _start(start: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    quieten()
    if start is not None:
        start(*given)


def cores() -> int:
    """Number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quieten() -> None:
    """Log errors only: each run would repeat the warning that its seed voids the guarantee."""
    logging.getLogger("castleguard").setLevel(logging.ERROR)
