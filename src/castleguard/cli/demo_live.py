"""Live view of the demo: rows per second, pending rows and information loss.

A terminal shows one view that is redrawn; other outputs get a line every second.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from castleguard.stream import Anonymiser

BARS = "▁▂▃▄▅▆▇█"
SPARKS = 48
SECONDS_BETWEEN_LINES = 1.0


@dataclass(frozen=True)
class Moment:
    """The state of the stream after a batch."""

    rows: int
    loss: float
    """Information loss of the rows published since the previous moment; NaN without such rows."""
    pending: int


class History:
    """The run so far, one moment per batch."""

    def __init__(self, stream: Anonymiser, total: int) -> None:
        self.moments: list[Moment] = []
        self.total = total
        self._stream = stream
        self._lost = 0.0
        self._published = 0
        self._started = time.perf_counter()
        self.seconds = 0.0

    def add(self, batch_rows: int) -> None:
        """Record the moment after a batch."""
        report = self._stream.report()
        lost = (report.information_loss or 0.0) * report.published
        fresh = report.published - self._published
        loss = (lost - self._lost) / fresh if fresh else float("nan")
        self._lost, self._published = lost, report.published
        self.seconds = time.perf_counter() - self._started
        rows = (self.moments[-1].rows if self.moments else 0) + batch_rows
        self.moments.append(Moment(rows, loss, report.pending))

    @property
    def rate(self) -> float:
        """Rows per second so far."""
        return self.moments[-1].rows / self.seconds if self.moments and self.seconds else 0.0

    @property
    def loss(self) -> float:
        """Information loss of all rows published so far; NaN without any."""
        return self._lost / self._published if self._published else float("nan")

    def losses(self) -> list[float]:
        """Information loss over time, without the moments that published nothing."""
        return [moment.loss for moment in self.moments if moment.loss == moment.loss]


@contextmanager
def live_view(history: History) -> Iterator[Any]:
    """Yield a function to call with the number of rows of each batch."""
    if not sys.stdout.isatty():
        yield _Lines(history).add
        return
    from rich.live import Live

    with Live(_view(history), refresh_per_second=12) as live:

        def add(batch_rows: int) -> None:
            history.add(batch_rows)
            live.update(_view(history))

        yield add
        live.update(_view(history), refresh=True)


class _Lines:
    """Prints a line every second."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._next = SECONDS_BETWEEN_LINES

    def add(self, batch_rows: int) -> None:
        history = self._history
        history.add(batch_rows)
        if history.seconds >= self._next or history.moments[-1].rows >= history.total:
            self._next = history.seconds + SECONDS_BETWEEN_LINES
            now, losses = history.moments[-1], history.losses()
            click.echo(
                f"  {now.rows:>9,} rows  {history.rate:>9,.0f} rows/s  {now.pending:>6,} pending"
                f"  information loss {_latest(losses)}"
            )


def _view(history: History) -> Any:
    """The view as a rich table."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    moments, losses = history.moments, history.losses()
    rows = moments[-1].rows if moments else 0
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(justify="right", min_width=9)
    grid.add_column()
    grid.add_row("rows", f"{rows:,}", ProgressBar(total=history.total, completed=rows, width=SPARKS))
    grid.add_row("rows/s", f"{history.rate:,.0f}", "")
    grid.add_row("pending", f"{moments[-1].pending if moments else 0:,}", "")
    grid.add_row("information loss", _latest(losses), sparkline(losses, SPARKS))
    return grid


def _latest(losses: list[float]) -> str:
    return f"{losses[-1]:.3f}" if losses else "-"


def sparkline(values: list[float], width: int) -> str:
    """Values as at most `width` bars, each a mean of neighbouring values; the scale starts at half the highest.

    >>> sparkline([0.5, 0.75, 1.0], 10)
    '▁▅█'
    """
    size = max(1, -(-len(values) // width))
    means = [sum(part) / len(part) for part in (values[i : i + size] for i in range(0, len(values), size))]
    half = max(means, default=0.0) / 2 or 1.0
    return "".join(BARS[max(0, min(int((mean / half - 1) * len(BARS)), len(BARS) - 1))] for mean in means)
