"""`castleguard schema`: the JSON Schema of a job file, for editors."""

import json
from pathlib import Path

import click

from castleguard.errors import OutputError


@click.command(short_help="Print the JSON Schema of a job file, for editors.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write it to a file.  [default: print it]"
)
def schema(output: Path | None) -> None:
    """Print the JSON Schema of a job file: with it an editor completes, explains and checks what one types.

    \b
    In a job file, for editors that use the YAML language server:
      # yaml-language-server: $schema=job.schema.json
    """
    from castleguard.config.editor_schema import job_schema
    from castleguard.jobs.load import Connectors, relay_options

    text = json.dumps(job_schema(Connectors(), relay_options), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise OutputError(f"{output} cannot be written: {exc.strerror}") from exc
