"""What `castleguard top` shows of background tasks."""

from rich.console import Console

from castleguard.cli.top import Numbers, view


def shown(numbers: Numbers) -> str:
    console = Console(width=100)
    with console.capture() as captured:
        console.print(view(numbers, 0.0))
    return captured.get()


def test_a_task_that_is_down_is_named() -> None:
    down: Numbers = {("background_task_up", "relay"): 0.0, ("background_task_failures_total", "relay"): 12.0}
    assert "background task relay" in shown(down)
    assert "DOWN, 12 failures" in shown(down)


def test_a_task_that_never_failed_is_not_shown() -> None:
    well: Numbers = {("background_task_up", "relay"): 1.0, ("background_task_failures_total", "relay"): 0.0}
    assert "background task" not in shown(well)
