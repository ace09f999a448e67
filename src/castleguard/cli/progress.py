"""How far a run has got: a bar on a terminal, nothing elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from castleguard.connectors.base import Reader


@contextmanager
def progress_bar(reader: Reader, *, quiet: bool = False) -> Iterator[Callable[[int], None] | None]:
    """Yield what to call with the number of rows of every batch; None if nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TextColumn("{task.fields[rate]:,.0f} rows/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0 if reader.fraction() is not None else None, rows=0, rate=0.0)

        def advance(batch_rows: int) -> None:
            state = bar.tasks[0]
            rows = state.fields["rows"] + batch_rows
            rate = rows / state.elapsed if state.elapsed else 0.0
            bar.update(task, completed=reader.fraction() or 0.0, rows=rows, rate=rate)

        yield advance
