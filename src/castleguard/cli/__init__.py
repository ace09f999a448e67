"""The command line: `main` finds the command, and turns whatever ends it into one clear line and an exit code.

The codes are in `exit_codes.py`. One module per command. A command imports what it needs when it runs, so that `--help`
answers at once.
"""

import importlib
import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType

import click

from castleguard.cli.exit_codes import exit_code
from castleguard.errors import CastleguardError
from castleguard.version import __version__

COMMANDS = (
    "anonymise",
    "audit",
    "budget",
    "compare",
    "cuts",
    "demo",
    "drain",
    "explain",
    "init",
    "letters",
    "measure",
    "randomise",
    "reproduce",
    "run",
    "schema",
    "simulate",
    "site",
    "spark",
    "sweep",
    "top",
    "validate",
)

_ASK_AGAIN = 1.0  # seconds: more than it takes to remove an unfinished file


class Interrupted(BaseException):
    """A signal asked to stop. Not an Exception: nothing on the way may take it for a failure and go on."""

    words = "interrupted; an output that was not complete has been removed"
    """What to tell whoever sent it."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.words = type(self).words


@contextmanager
def interruption_words(words: str) -> Iterator[None]:
    """Say these words if an interruption arrives in this block; a repeated one says the same."""
    before, Interrupted.words = Interrupted.words, words
    try:
        yield
    finally:
        Interrupted.words = before


class _Warnings(logging.Handler):
    """Shows the warnings of the package as lines of the command."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        _say(record.getMessage())


class _LazyGroup(click.Group):
    """Knows its commands by name and imports the module of the one that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"castleguard.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="castleguard %(version)s")
def commands() -> None:
    """Anonymise streams of personal records within a bounded delay."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit. `arguments` are those of the process if they are not given."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # whoever started us in the background decided that
            signal.signal(number, _interrupt)
    logging.getLogger("castleguard").handlers = [_Warnings()]
    try:
        code = commands.main(args=arguments, prog_name="castleguard", standalone_mode=False)
    except click.ClickException as exc:
        exc.show()
        code = exc.exit_code
    except Interrupted as exc:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        _fail(exc.words, 128 + exc.number)
        # At once: a compiler that was interrupted at its work would add lines of its own while Python shuts down.
        os._exit(128 + exc.number)
    except Exception as exc:
        show_to_developers(exc)
        code = _fail(words_for(exc), exit_code(exc))
    sys.exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Stop at the next opportunity; a second signal stops at once."""
    signal.signal(number, signal.SIG_DFL)
    sys.unraisablehook = _drop_interruptions
    # Python drops what is raised inside a destructor or a callback of the compiler: ask again until it is heard.
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, partial(_interrupt_again, number))
        signal.setitimer(signal.ITIMER_REAL, _ASK_AGAIN, _ASK_AGAIN)
    raise Interrupted(number)


def _drop_interruptions(dropped: "sys.UnraisableHookArgs") -> None:
    """Say nothing of an interruption that could not be raised where it came: it will come again."""
    if not issubclass(dropped.exc_type, Interrupted):
        sys.__unraisablehook__(dropped)


def _interrupt_again(number: int, alarm: int, frame: FrameType | None) -> None:
    raise Interrupted(number)


def _say(message: str) -> None:
    click.echo(f"castleguard: {message}", err=True)


def _fail(message: str, code: int) -> int:
    _say(message)
    return code


def show_to_developers(exc: Exception) -> None:
    """The traceback of a mistake of ours, which may hold values of rows: on request only."""
    if os.environ.get("CASTLEGUARD_DEBUG") and not isinstance(exc, CastleguardError):
        traceback.print_exception(exc)


def words_for(exc: Exception) -> str:
    """What may be said of an error. The messages of other libraries may quote data, so they are not repeated."""
    if isinstance(exc, CastleguardError):
        return str(exc)
    places = traceback.extract_tb(exc.__traceback__)
    ours = [place for place in places if "castleguard" in place.filename] or list(places)
    where = f"{os.path.basename(ours[-1].filename)}:{ours[-1].lineno}" if ours else "an unknown place"
    return (
        f"unexpected {type(exc).__name__} at {where}; please report it "
        "(CASTLEGUARD_DEBUG=1 shows more, and may show values of rows)"
    )
