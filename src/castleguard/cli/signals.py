"""SIGINT and SIGTERM: one handler for all commands.

By default a signal aborts the command: the handler raises Interrupted. Inside `stop_on_signals` it sets the stop flag
of a job instead, and only a second SIGINT aborts.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import click

from castleguard.runtime.stopping import Stop

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_REPEAT = 1.0  # seconds; removing an unfinished file takes less

Handlers = dict[int, Any]
"""Handlers by signal, in the form of the signal module."""


class Interrupted(BaseException):
    """A signal aborts the command. A BaseException, so that no `except Exception` swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.message = _state.message

    @property
    def exit_code(self) -> int:
        """The exit code of a process that a signal ended."""
        return 128 + self.number


@dataclass
class _StopRequest:
    """The stop flag that signals set inside a block."""

    stop: Stop
    notice: str
    before: Handlers
    interrupted: bool = False
    """Whether SIGINT was received once."""


@dataclass
class _State:
    """Effect of the next signal: it sets the flag of `request`, or aborts with `message`."""

    message: str = "interrupted; incomplete output has been removed"
    request: _StopRequest | None = None


_state = _State()


def handle_signals() -> None:
    """Install the handler, except for signals that the parent process has set to be ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)


@contextmanager
def interruption_message(message: str) -> Iterator[None]:
    """Print this message if a signal aborts the block."""
    before, _state.message = _state.message, message
    try:
        yield
    finally:
        _state.message = before


@contextmanager
def stop_on_signals(stop: Stop, *, notice: str, aborted: str) -> Iterator[None]:
    """Let SIGTERM and the first SIGINT set the stop flag; a second SIGINT does what it would do outside.

    `notice` is printed at the first SIGINT, `aborted` if a signal aborts the block.
    """
    before = current_handlers()
    _state.request = _StopRequest(stop, notice, before)
    for number in _SIGNALS:
        signal.signal(number, _handle)
    try:
        with interruption_message(aborted):
            yield
    finally:
        _state.request = None
        restore_handlers(before)


def current_handlers() -> Handlers:
    """The handlers of both signals, for `restore_handlers`."""
    return {number: signal.getsignal(number) for number in _SIGNALS}


def restore_handlers(handlers: Handlers) -> None:
    """Reinstall handlers that a library or a block has replaced."""
    for number, handler in handlers.items():
        signal.signal(number, handler)


def cancel_repeats() -> None:
    """Stop raising Interrupted: `main` has caught it."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _handle(number: int, frame: FrameType | None) -> None:
    """The handler: set the stop flag, or abort."""
    request = _state.request
    if request is None or (number == signal.SIGINT and request.interrupted):
        _abort(number)
        return
    request.stop.ask()
    if number == signal.SIGINT:
        request.interrupted = True
        signal.signal(number, request.before[number])
        click.echo(f"castleguard: {request.notice}", err=True)


def _abort(number: int) -> None:
    """Raise Interrupted; a second signal ends the process at once."""
    signal.signal(number, signal.SIG_DFL)
    sys.unraisablehook = _suppress_unraisable
    # Python drops an exception raised inside a destructor or a callback of the compiler: raise it again until it lands.
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, partial(_raise_again, number))
        signal.setitimer(signal.ITIMER_REAL, _REPEAT, _REPEAT)
    raise Interrupted(number)


def _suppress_unraisable(dropped: "sys.UnraisableHookArgs") -> None:
    """Suppress the report of an unraisable Interrupted; it is raised again."""
    if not issubclass(dropped.exc_type, Interrupted):
        sys.__unraisablehook__(dropped)


def _raise_again(number: int, alarm: int, frame: FrameType | None) -> None:
    raise Interrupted(number)
