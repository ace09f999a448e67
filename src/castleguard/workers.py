"""Processes that share the work of many independent runs: an experiment, a sweep, a game."""

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
    """So many processes; with one, the work is done here, when it is handed over.

    `start` is called in each with what is `given`, before any work. Who leaves the block early does not wait for what
    nobody has begun. What is handed over must be importable by name: functions of modules, and partials of those.
    """
    if number <= 1:
        if start is not None:
            start(*given)
        yield _Here()
        return
    # Spawned, not forked: a fork would copy the locks of Arrow's threads in whatever state they are.
    pool = ProcessPoolExecutor(
        number, mp_context=get_context("spawn"), initializer=_start, initargs=(start, tuple(given))
    )
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


class _Here(Executor):
    """Does the work at once, in this process."""

    def submit(
        self, fn: Callable[_Parameters, _Found], /, *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> Future[_Found]:
        """Do it."""
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
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quieten() -> None:
    """Say nothing of a promise that a seed voids, in every single run of many."""
    logging.getLogger("castleguard").setLevel(logging.ERROR)
