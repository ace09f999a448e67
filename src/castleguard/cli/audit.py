"""`castleguard audit ORIGINAL PUBLISHED --schema schema.yaml --k 10 --delay 1000`: does a file keep its promise?"""

import datetime as dt
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from castleguard.cli.exit_codes import BROKEN
from castleguard.cli.file_options import published_formulas_option
from castleguard.cli.policy_options import PolicyCommand, make_policy

if TYPE_CHECKING:
    from castleguard.judge.report.findings import Audit

_FILE = click.Path(path_type=Path)
_CHOICES = ("link", "population", "threshold", "attack_runs", "observed_rows")


class _WithGame(PolicyCommand):
    """The command itself, unless its first argument is `dp`: that is the membership game, another command."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of whichever is meant."""
        if args[:1] == ["dp"]:
            from castleguard.cli.audit_dp import dp

            game: click.Context = dp.make_context(f"{info_name} dp", args[1:], parent, **extra)
            return game
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run whichever is meant."""
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


@click.command(cls=_WithGame, short_help="Check a published file against its original.")
@click.argument("original", type=_FILE, metavar="ORIGINAL")
@click.argument("published", type=_FILE, metavar="[PUBLISHED]", required=False)
@click.option("--schema", "schema_file", type=_FILE, help="YAML file that gives every column its role.")
@click.option("--link", metavar="COLUMN", help="A column of both files that numbers the original rows.")
@published_formulas_option
@click.option("--population", type=_FILE, help="A file of whoever might be in the data, with its quasi-identifiers.")
@click.option(
    "--threshold", type=float, default=0.2, show_default=True, help="Count persons whose risk of being found is above."
)
@click.option(
    "--attack-runs",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="Guesses that are judged in the attack that publishes anew; 0: none.",
)
@click.option(
    "--observed-rows",
    type=click.IntRange(0),
    default=100_000,
    show_default=True,
    help="Rows that are published again for the observer who knows when (at least four delays); 0: none.",
)
@click.option("--json", "json_file", metavar="FILE", help="Write the findings for programs; - to the output.")
@click.option("--html", type=_FILE, metavar="FILE", help="Write a report with pictures.")
@click.pass_context
def audit(ctx: click.Context, /, original: Path, published: Path | None, **options: Any) -> None:
    """Put a PUBLISHED file beside its ORIGINAL, count everything anew, and play the known attacks.

    `castleguard audit job.yaml` takes both files, the schema and the policy from a job. A folder stands for its
    numbered parts. Without --link a broken promise can be found, but a kept one not proved.

    The exit code is 0 if nothing was found broken. `castleguard audit dp --help` is the other audit, of differential
    privacy.
    """
    from castleguard.errors import OutputError

    json_file, html = options.pop("json_file"), options.pop("html")
    chosen = {name: options.pop(name) for name in _CHOICES}
    if html is not None and not html.parent.is_dir():
        raise OutputError(f"{html} cannot be written: there is no folder {html.parent}")
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
    """Audit two files, with the policy that the options make."""
    from castleguard.jobs.judging import audit as audit_files
    from castleguard.jobs.load import load_schema

    schema_file, algorithm, formulas = (options.pop(name) for name in ("schema_file", "algorithm", "formulas"))
    if schema_file is None:
        raise click.UsageError("--schema is needed: it says what the columns are")
    schema, policy = load_schema(schema_file), make_policy(algorithm, options)
    return audit_files(original, published, schema, policy, formulas=formulas, **chosen)


def _audit_job(path: Path, options: dict[str, Any], chosen: dict[str, Any]) -> "Audit":
    """Audit what a job has published; its file says everything else."""
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise click.UsageError("PUBLISHED is needed, or one job file (.yaml)")
    options.pop("algorithm")
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise click.UsageError(f"--{given[0].replace('_file', '').replace('_', '-')} is said by the job file")
    from castleguard.jobs.judging import audit_job
    from castleguard.jobs.load import load

    return audit_job(load(path), **chosen)


def _write(found: "Audit", json_file: str | None, html: Path | None) -> None:
    from castleguard.errors import OutputError

    if json_file is not None:
        text = json.dumps(found.as_json(), indent=2, allow_nan=True)
        if json_file == "-":
            click.echo(text)
        else:
            try:
                Path(json_file).write_text(text + "\n", encoding="utf-8")
            except OSError as exc:
                raise OutputError(f"{json_file} cannot be written: {exc.strerror}") from exc
    if html is not None:
        from castleguard.judge.audit.audit_page import write
        from castleguard.judge.report.page import Repeat

        command = shlex.join(["castleguard", *sys.argv[1:]])
        today = dt.datetime.now(dt.UTC).date().isoformat()
        write(found, html, repeat=Repeat(command=command, date=today))
