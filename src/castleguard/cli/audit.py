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
from castleguard.cli.policy_options import make_policy, policy_options

if TYPE_CHECKING:
    from castleguard.algorithms.base import Policy
    from castleguard.judge.findings import Audit
    from castleguard.schema.roles import Schema

_FILE = click.Path(path_type=Path)
_MARKS = {"passed": "passed", "failed": "FAILED", "warning": "warning", "not checked": "not checked"}
_WIDTH = 100
_INDENT = 15


class _WithGame(click.Command):
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
@policy_options
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
    from castleguard.jobs.publication import read_original, read_published
    from castleguard.judge.audit.material import Material
    from castleguard.judge.audit.run import audit as look

    population, json_file, html = (options.pop(name) for name in ("population", "json_file", "html"))
    chosen = {name: options.pop(name) for name in ("link", "threshold", "attack_runs")}
    if html is not None and not html.parent.is_dir():
        raise OutputError(f"{html} cannot be written: there is no folder {html.parent}")
    sources = _job(original, options) if published is None else _files(original, published, options)
    schema, policy, before, format, after, formulas = sources
    columns = list(dict.fromkeys([*schema.columns, *([chosen["link"]] if chosen["link"] else [])]))
    shown = read_published(after, formulas)
    found = look(
        Material(
            original=read_original(before, columns, format=format),
            published=shown.rows,
            unread_lines=shown.unread_lines,
            unread_files=shown.unread_files,
            schema=schema,
            policy=policy,
            population=None if population is None else read_published(population, "keep").rows,
            **chosen,
        ),
        names={"original": str(before), "published": str(after)},
    )
    if json_file != "-":
        click.echo(as_text(found))
    _write(found, json_file, html)
    if not found.ok:
        ctx.exit(BROKEN)


def as_text(found: "Audit") -> str:
    """The findings for a reader, and the verdict in the last line."""
    lines = [f"{name}: {text}" for name, text in found.subject.items()]
    lines += ["", click.wrap_text(found.promise, _WIDTH)]
    for section in found.sections:
        lines += ["", section.title]
        for each in section.findings:
            mark = f"  {_MARKS[each.status]:<{_INDENT - 2}}"
            name = f" ({each.id})" if each.status == "failed" else ""
            lines.append(click.wrap_text(f"{each.title}{name} {each.sentence}", _WIDTH, mark, " " * _INDENT))
    return "\n".join([*lines, "", _verdict(found)])


def _verdict(found: "Audit") -> str:
    counts = ", ".join(f"{count} {_MARKS[status]}" for status in _MARKS if (count := found.count(status)))  # type: ignore[arg-type]
    if found.ok:
        return f"verdict: nothing was found broken ({counts})"
    broken = [each.id for section in found.sections for each in section.findings if each.status == "failed"]
    return f"verdict: BROKEN: {', '.join(broken)} ({counts})"


def _files(
    original: Path, published: Path, options: dict[str, Any]
) -> "tuple[Schema, Policy, Path, None, Path, str | None]":
    """What the options say."""
    from castleguard.config.schema_file import load_schema

    schema_file, algorithm, formulas = (options.pop(name) for name in ("schema_file", "algorithm", "formulas"))
    if schema_file is None:
        raise click.UsageError("--schema is needed: it says what the columns are")
    return load_schema(schema_file), make_policy(algorithm, options), original, None, published, formulas


def _job(path: Path, options: dict[str, Any]) -> "tuple[Schema, Policy, Path, Any, Path, str | None]":
    """What a job file says."""
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise click.UsageError("PUBLISHED is needed, or one job file (.yaml)")
    options.pop("algorithm")
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise click.UsageError(f"--{given[0].replace('_file', '').replace('_', '-')} is said by the job file")
    from castleguard.connectors.csv_options import csv_of
    from castleguard.jobs.load import load
    from castleguard.jobs.publication import files_of

    job = load(path)
    before, format, after = files_of(job)
    csv = csv_of(job.sink.options)
    return job.schema, job.policy, before, format, after, None if csv is None else csv.formulas


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
        from castleguard.judge.report.page import Repeat, write

        command = shlex.join(["castleguard", *sys.argv[1:]])
        today = dt.datetime.now(dt.UTC).date().isoformat()
        write(found, html, repeat=Repeat(command=command, date=today))
