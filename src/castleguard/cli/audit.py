"""`castleguard audit ORIGINAL PUBLISHED --schema schema.yaml --k 10 --delay 1000`: audit a published file."""

import datetime as dt
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from castleguard.cli.exit_codes import BROKEN
from castleguard.cli.file_options import FILE, defaulted, link_option, published_formulas_option
from castleguard.cli.policy_options import PolicyCommand, make_policy

if TYPE_CHECKING:
    from castleguard.judge.report.findings import Audit
    from castleguard.judge.report.page import Repeat

_CHOICES = ("link", "population", "threshold", "attack_runs", "observed_rows")


class _WithGame(PolicyCommand):
    """`audit`, or `audit dp` if the first argument is `dp`."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of `audit` or `audit dp`."""
        if args[:1] == ["dp"]:
            from castleguard.cli.audit_dp import dp

            game: click.Context = dp.make_context(f"{info_name} dp", args[1:], parent, **extra)
            return game
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run `audit` or `audit dp`."""
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


@click.command(cls=_WithGame, short_help="Check a published file against its original.")
@click.argument("original", type=FILE, metavar="ORIGINAL")
@click.argument("published", type=FILE, metavar="[PUBLISHED]", required=False)
@click.option("--schema", "schema_file", type=FILE, help="YAML file that gives every column its role.")
@link_option
@published_formulas_option
@click.option(
    "--population", type=FILE, help="File of all persons who may be in the data, with their quasi-identifiers."
)
@defaulted(
    "--threshold", type=float, default=0.2, help="Count persons whose re-identification risk is higher than this."
)
@defaulted(
    "--attack-runs",
    type=click.IntRange(0),
    default=50,
    help="Guesses in the attack that publishes the rows again; 0 skips it.",
)
@defaulted(
    "--observed-rows",
    type=click.IntRange(0),
    default=100_000,
    help="Rows published again for the attacker who knows arrival times (at least four delays); 0 skips it.",
)
@click.option("--json", "json_file", metavar="FILE", help="Write the findings as JSON; - prints them.")
@click.option("--html", type=FILE, metavar="FILE", help="Write a report with charts.")
@click.pass_context
def audit(ctx: click.Context, /, original: Path, published: Path | None, **options: Any) -> None:
    """Compare a PUBLISHED file with its ORIGINAL: recount every group and run the known attacks.

    `castleguard audit job.yaml` takes both files, the schema and the policy from a job file. A folder stands for its
    numbered parts. Without --link the audit can find a broken promise, but cannot prove that a promise was kept.

    The exit code is 0 if no broken promise was found, and 3 otherwise. `castleguard audit dp --help` describes the
    audit of differential privacy.
    """
    from castleguard.errors import OutputError

    json_file, html = options.pop("json_file"), options.pop("html")
    chosen = {name: options.pop(name) for name in _CHOICES}
    if html is not None and not html.parent.is_dir():
        raise OutputError(f"{html} cannot be written: the folder {html.parent} does not exist")
    if published is None:
        found = _audit_job(original, options, chosen)
    else:
        found = _audit_files(original, published, options, chosen)
    if json_file != "-":
        click.echo(found)
    _write(found, json_file, html)
    if not found.ok:
        ctx.exit(BROKEN)


def _audit_files(original: Path, published: Path, options: dict[str, Any], chosen: dict[str, Any]) -> "Audit":
    """Audit two files under the policy of the options."""
    from castleguard.config.schema_file import read_schema_file
    from castleguard.jobs.evaluation import audit as audit_files

    schema_file, algorithm, formulas = (options.pop(name) for name in ("schema_file", "algorithm", "formulas"))
    if schema_file is None:
        raise click.UsageError("--schema is missing: it gives every column its role")
    schema, csv = read_schema_file(schema_file)
    policy = make_policy(algorithm, options)
    return audit_files(original, published, schema, policy, formulas=formulas, csv=csv, **chosen)


def _audit_job(path: Path, options: dict[str, Any], chosen: dict[str, Any]) -> "Audit":
    """Audit the output of a job; schema and policy come from its file."""
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise click.UsageError("PUBLISHED is missing: name both files, or a single job file (.yaml)")
    options.pop("algorithm")
    given = [name for name, value in options.items() if value is not None]
    if given:
        option = given[0].replace("_file", "").replace("_", "-")
        raise click.UsageError(f"--{option} cannot be combined with a job file, which already sets it: remove it")
    from castleguard.jobs.evaluation import audit_job
    from castleguard.jobs.load import load

    return audit_job(load(path), **chosen)


def _write(found: "Audit", json_file: str | None, html: Path | None) -> None:
    if json_file is not None:
        write_json(json_file, found.as_json())
    if html is not None:
        from castleguard.judge.audit.audit_page import write

        write(found, html, repeat=repeat_command())


def write_json(target: str, figures: dict[str, Any]) -> None:
    """Write figures as JSON to a file, or print them if `target` is "-"."""
    from castleguard.errors import OutputError

    text = json.dumps(figures, indent=2)
    if target == "-":
        click.echo(text)
        return
    try:
        Path(target).write_text(text + "\n", encoding="utf-8")
    except OSError as exc:
        raise OutputError(f"{target} cannot be written: {exc.strerror}") from exc


def repeat_command() -> "Repeat":
    """The current command line and date, for a report."""
    from castleguard.judge.report.page import Repeat

    today = dt.datetime.now(dt.UTC).date().isoformat()
    return Repeat(command=shlex.join(["castleguard", *sys.argv[1:]]), date=today)
