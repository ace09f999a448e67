"""`castleguard schema`: JSON Schema of job files for editors, or the reference page of all parameters."""

import json
from pathlib import Path

import click

from castleguard.cli.file_options import FILE
from castleguard.errors import OutputError


@click.command(short_help="Print the JSON Schema of job files, for editors.")
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Write to this file.  [default: standard output]")
@click.option(
    "--algorithm",
    "algorithms",
    multiple=True,
    metavar="NAME",
    help="Include this plug-in's parameters; can be repeated.",
)
@click.option("--parameters", is_flag=True, help="Print the parameters of all algorithms as Markdown instead.")
def schema(output: Path | None, algorithms: tuple[str, ...], parameters: bool) -> None:
    """Print the JSON Schema of job files, with which an editor completes, explains and checks keys.

    \b
    For editors with the YAML language server, add this line to the job file:
      # yaml-language-server: $schema=job.schema.json
    """
    text = _parameters(algorithms) if parameters else _schema(algorithms)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise OutputError(f"{output} cannot be written: {exc.strerror}") from exc


def _schema(algorithms: tuple[str, ...]) -> str:
    from castleguard.config.editor_schema import job_schema
    from castleguard.jobs.load import Connectors, relay_options

    return json.dumps(job_schema(Connectors(), relay_options, algorithms), indent=2, ensure_ascii=False) + "\n"


def _parameters(algorithms: tuple[str, ...]) -> str:
    from castleguard.config.parameter_page import parameter_page

    return parameter_page(algorithms)
