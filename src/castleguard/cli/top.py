"""`castleguard top job.yaml`: show the metrics of a running job."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import urlopen

import click

from castleguard.cli.file_options import defaulted
from castleguard.cli.job_options import site_option

if TYPE_CHECKING:
    from rich.table import Table

    from castleguard.books import Books


@click.command(short_help="Watch a running job.")
@click.argument("job", metavar="JOB")
@defaulted("--every", type=float, default=1.0, help="Seconds between updates.")
@site_option
@click.option("--once", is_flag=True, help="Print once and exit.")
def top(job: str, every: float, name: str | None, once: bool) -> None:
    """Show the metrics of the running job JOB: a job file with a metrics section, or HOST:PORT.

    Needs prometheus-client (pip install 'castleguard[metrics]'). Ctrl-C exits; the job keeps running.
    """
    from rich.console import Console
    from rich.live import Live

    address = address_of(job, name)
    before, at = scrape(address), time.monotonic()
    if once:
        Console().print(view(before, 0.0))
        return
    with Live(view(before, 0.0), auto_refresh=False) as live:
        while True:
            time.sleep(every)
            now, then = scrape(address), time.monotonic()
            live.update(view(now, (rows_in(now) - rows_in(before)) / (then - at)), refresh=True)
            before, at = now, then


def address_of(job: str, site: str | None = None) -> str:
    """Address of the metrics of a job: HOST:PORT as given, or from its file."""
    from castleguard.errors import ConfigError

    if not Path(job).exists() and ":" in job:
        return job
    from castleguard.jobs.load import load

    loaded = load(job, site=site)
    if loaded.spark is not None:
        raise ConfigError(f"{job}  is a job for Spark, which has its own metrics: set spark.ui.enabled")
    found = loaded.metrics
    if found is None or found.port == 0:
        raise ConfigError(f"{job}  has no metrics section with a fixed port: add metrics: {{port: 9464}}")
    return f"{found.host}:{found.port}"


Numbers = dict[tuple[str, str], float]
"""Values by metric and label."""


def scrape(address: str) -> Numbers:
    """The current metrics of the job."""
    from castleguard.errors import ConfigError, UnavailableError
    from castleguard.telemetry.metrics import JOB_LABEL, PREFIX

    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ModuleNotFoundError as exc:
        raise ConfigError("top needs prometheus-client: pip install 'castleguard[metrics]'") from exc
    try:
        with urlopen(f"http://{address}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    except (OSError, URLError, ValueError) as exc:
        raise UnavailableError(f"no job answers at {address}: check that it is running") from exc
    found: Numbers = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            label = next((value for name, value in sample.labels.items() if name != JOB_LABEL), "")
            found[sample.name.removeprefix(PREFIX), label] = sample.value
    return found


def books_of(numbers: Numbers) -> "Books":
    """The books of the job, from its metrics."""
    from castleguard.books import OUTCOMES, Books

    def found(metric: str, label: str = "") -> int:
        return int(numbers.get((metric, label), 0))

    outcomes: dict[str, Any] = {name: found("rows_total", name) for name in OUTCOMES} | {
        "undecided": found("undecided_rows")
    }
    rejected = {reason: int(count) for (name, reason), count in numbers.items() if name == "rejected_rows_total"}
    pending = found("pending_rows")
    return Books(
        **outcomes,
        rejected=rejected,
        pending=pending,
        rows_in=sum(outcomes.values()) + sum(rejected.values()) + pending,
        malformed=found("rows_total", "bad"),
        received=found("received_rows_total"),
        groups=found("groups_total"),
        information_loss=numbers.get(("information_loss", "")),
        open_clusters=found("open_clusters"),
        oldest_wait=found("oldest_wait_rows"),
    )


def rows_in(numbers: Numbers) -> int:
    """Rows that have arrived, malformed lines included."""
    books = books_of(numbers)
    return books.rows_in + books.malformed


def view(numbers: Numbers, rate: float) -> "Table":
    """The metrics as a table."""
    from rich.table import Table

    books = books_of(numbers)
    state = next((label for name, label in numbers if name == "state"), "unknown")
    table = Table(show_header=False, title=state, title_justify="left")
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_row("rows in", f"{books.rows_in + books.malformed:,}")
    table.add_row("rows/s", f"{rate:,.0f}")
    for outcome, count in {**books.outcomes, "bad": books.malformed}.items():
        if outcome != "undecided":
            table.add_row(outcome.replace("_", " "), f"{count:,}")
    table.add_row("pending", f"{books.pending:,}")
    for title, count in (("undecided", books.undecided), ("received from other sites", books.received)):
        if count:
            table.add_row(title, f"{count:,}")
    for reason, count in sorted(books.rejected.items()):
        table.add_row(f"rejected, {reason}", f"{count:,}")
    table.add_row("groups", f"{books.groups:,}")
    loss = books.information_loss
    table.add_row("information loss", "-" if loss is None else f"{loss:.4f}")
    table.add_row("open clusters", f"{books.open_clusters:,}")
    table.add_row("oldest wait", f"{books.oldest_wait:,} arrivals")
    table.add_row("commits", f"{numbers.get(('commits_total', ''), 0):,.0f}")
    table.add_row("latest commit took", f"{numbers.get(('commit_seconds', ''), 0):.3f} s")
    committed = numbers.get(("committed_timestamp_seconds", ""))
    if committed:
        table.add_row("latest commit", f"{max(time.time() - committed, 0):,.0f} s ago")
    if ("lag", "") in numbers:
        table.add_row("lag", f"{numbers['lag', '']:,.0f}")
    for (name, task), up in sorted(numbers.items()):
        failures = numbers.get(("background_task_failures_total", task), 0)
        if name == "background_task_up" and failures:
            table.add_row(f"background task {task}", f"{'up' if up else 'DOWN'}, {failures:,.0f} failures")
    return table
