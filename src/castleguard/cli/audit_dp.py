"""`castleguard audit dp --algorithm castleguard --mode paper --k 20 --delay 100 ...`: try to refute a privacy claim."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from castleguard.cli.audit import repeat_command, write_json
from castleguard.cli.exit_codes import BROKEN
from castleguard.cli.file_options import FILE, defaulted
from castleguard.cli.policy_options import PolicyCommand, make_policy

if TYPE_CHECKING:
    from castleguard.algorithms.policy import Policy
    from castleguard.judge.game.settings import Given

RUNS = 3000
_WIDTH = 100


@click.command(cls=PolicyCommand, short_help="Play the membership game against claims of differential privacy.")
@click.option(
    "--claim-epsilon",
    type=click.FloatRange(0),
    help="Also judge this epsilon; for castleguard in paper mode, judge Theorem 2 at it.",
)
@click.option("--claim-delta", type=click.FloatRange(0, 1), help="Delta that goes with --claim-epsilon.  [default: 0]")
@defaulted(
    "--runs",
    type=click.IntRange(20),
    default=RUNS,
    help="Runs with and runs without each canary; half of them are the test set.",
)
@defaulted(
    "--confidence",
    type=click.FloatRange(0.5, 1, max_open=True),
    default=0.95,
    help="Confidence with which all bounds of a claim hold together.",
)
@click.option(
    "--jobs", type=click.IntRange(1), help="Processes; the result does not depend on it.  [default: one per core]"
)
@defaulted("--seed", type=click.IntRange(0), default=0, help="Seed of the random draws.")
@click.option("--schema", "schema_file", type=FILE, help="YAML file with the roles of the columns of --data.")
@click.option("--data", type=FILE, metavar="FILE", help="Use rows of this file instead of synthetic ones.")
@click.option("--rows", type=click.IntRange(30), help="Number of rows of --data to use.  [default: set by the policy]")
@click.option(
    "--one-run",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Do a single run with N canaries: fast, for claims about adding or removing a row.",
)
@click.option("--json", "json_file", metavar="FILE", help="Write the figures as JSON; - prints them.")
@click.option("--html", type=FILE, metavar="FILE", help="Write a report with charts.")
@click.pass_context
def dp(
    ctx: click.Context,
    /,
    algorithm: str,
    claim_epsilon: float | None,
    claim_delta: float | None,
    runs: int,
    confidence: float,
    jobs: int | None,
    seed: int,
    schema_file: Path | None,
    data: Path | None,
    rows: int | None,
    one_run: int | None,
    json_file: str | None,
    html: Path | None,
    **options: Any,
) -> None:
    """Try to refute the privacy claim of a policy: run the stream many times with a conspicuous row (a canary) and as
    often without it, and test whether an observer tells the two apart better than the claim allows.

    It judges the policy's own claim and, in paper mode, the claim of the paper. Neighbouring streams are those of the
    claim: a row added or removed, other values in a row, or all rows of a person. A claim that is not refuted is not
    proved.

    The exit code is 3 if the policy's OWN claim is refuted. It is 0 otherwise, also if only a paper's claim is refuted
    or the policy claims nothing. Without --data all rows are synthetic.
    """
    if claim_delta is not None and claim_epsilon is None:
        raise click.UsageError("--claim-delta needs --claim-epsilon")
    policy = make_policy(algorithm, options)
    if one_run is not None:
        if any(each is not None for each in (claim_delta, data, schema_file, html)):
            raise click.UsageError(
                "--one-run uses synthetic rows and writes no report: remove --data, --schema, --claim-delta and --html"
            )
        _one_run(ctx, policy, one_run, (seed, confidence, claim_epsilon), json_file)
        return

    from castleguard.judge.game.game import play_and_judge
    from castleguard.judge.game.settings import setting_for
    from castleguard.judge.game.verdicts import text_of
    from castleguard.judge.publishing import in_words
    from castleguard.workers import cores

    given = _given(schema_file, data, rows, policy)
    setting = setting_for(policy, given, epsilon=claim_epsilon, dp_delta=claim_delta)
    with _progress() as progress:
        played = play_and_judge(
            setting, runs=runs, seed=seed, jobs=jobs or cores(), confidence=confidence, progress=progress
        )
    _report(text_of(played), played.as_json(), json_file)
    if html is not None:
        from castleguard.judge.game.game_page import write

        write(played, html, policy=in_words(policy), repeat=repeat_command())
    if not played.ok:
        ctx.exit(BROKEN)


def _one_run(
    ctx: click.Context,
    policy: "Policy",
    canaries: int,
    chosen: tuple[int, float, float | None],
    json_file: str | None,
) -> None:
    """Audit with all canaries in one run."""
    from castleguard.judge.game.one_run import audit_once

    seed, confidence, epsilon = chosen
    found = audit_once(policy, canaries=canaries, seed=seed, confidence=confidence, epsilon=epsilon)
    _report(found.text, found.as_json(), json_file)
    if not found.ok:
        ctx.exit(BROKEN)


def _report(text: str, figures: dict[str, Any], json_file: str | None) -> None:
    """Print the text, unless the figures are printed instead; write the figures to the file that --json names."""
    if json_file != "-":
        click.echo("\n".join(_wrapped(line) for line in text.splitlines()))
    if json_file is not None:
        write_json(json_file, figures)


def _given(schema_file: Path | None, data: Path | None, rows: int | None, policy: "Policy") -> "Given | None":
    """The rows of --data; None without it."""
    if data is None or schema_file is None:
        if data is not None or schema_file is not None:
            raise click.UsageError("--schema and --data must be used together: give both or neither")
        if rows is not None:
            raise click.UsageError("--rows needs --data")
        return None
    from castleguard.config.schema_file import read_schema_file
    from castleguard.judge.first_rows import read_sample
    from castleguard.judge.game.backgrounds import rows_for, rows_of
    from castleguard.judge.game.settings import Given

    schema, csv = read_schema_file(schema_file)
    wanted = rows or rows_for(policy)
    # Read twice as many as needed: some may be unusable.
    return Given(schema=schema, rows=rows_of(read_sample(data, schema, 2 * wanted, csv), schema)[:wanted])


@contextmanager
def _progress() -> Iterator[Callable[[float], None] | None]:
    """Yield a function that takes the finished share; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("playing", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def _wrapped(line: str) -> str:
    """Wrap a long line; tables and short lines stay as they are."""
    if len(line) <= _WIDTH:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    return click.wrap_text(line.strip(), _WIDTH, indent, indent)
