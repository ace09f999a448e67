"""The signal handler of all commands: abort, or set a stop flag first."""

import signal
from collections.abc import Iterator

import pytest

from castleguard.cli.signals import (
    Interrupted,
    cancel_repeats,
    current_handlers,
    handle_signals,
    interruption_message,
    restore_handlers,
    stop_on_signals,
)
from castleguard.runtime.stopping import Stop


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Install the handler, and restore the former ones afterwards."""
    before, alarm = current_handlers(), signal.getsignal(signal.SIGALRM)
    restore_handlers(dict.fromkeys(before, signal.SIG_DFL))
    handle_signals()
    yield
    cancel_repeats()
    restore_handlers(before)
    signal.signal(signal.SIGALRM, alarm)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_aborts_with_the_message_of_its_block(number: signal.Signals) -> None:
    with pytest.raises(Interrupted) as found, interruption_message("half of it is done"):
        signal.raise_signal(number)
    assert (found.value.message, found.value.exit_code) == ("half of it is done", 128 + number)


def test_the_first_signals_set_the_stop_flag_and_a_second_sigint_aborts(capsys: pytest.CaptureFixture[str]) -> None:
    stop = Stop()
    with stop_on_signals(stop, notice="stopping", aborted="aborted"):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert stop.asked
        signal.raise_signal(signal.SIGINT)
        assert capsys.readouterr().err == "castleguard: stopping\n"
        with pytest.raises(Interrupted) as found:
            signal.raise_signal(signal.SIGINT)
    assert found.value.message == "aborted"


def test_after_the_block_a_signal_aborts_again() -> None:
    before = current_handlers()
    with stop_on_signals(Stop(), notice="", aborted=""):
        signal.raise_signal(signal.SIGINT)
    assert current_handlers() == before
    with pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGINT)


def test_a_signal_that_the_parent_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    handle_signals()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
