"""`castleguard randomise IN -o OUT --schema schema.yaml --epsilon 4`: add noise before rows are handed over."""

from contextlib import closing
from pathlib import Path

import click

from castleguard.cli.file_options import check_output, csv_input, csv_output, file_options, writing_options


@click.command(short_help="Add noise to each row of a file.")
@file_options
@click.option("--epsilon", type=float, help="Epsilon of a row, all columns together.")
@click.option("--phi", type=float, help="Epsilon of each column, instead of --epsilon.")
@click.option(
    "--weight", "weights", multiple=True, metavar="COLUMN=NUMBER", help="A column's share of epsilon; can be repeated."
)
@writing_options(quiet="Do not print the privacy statement.")
def randomise(
    input: Path,
    output: Path,
    schema_file: Path,
    csv_pairs: tuple[str, ...],
    epsilon: float | None,
    phi: float | None,
    weights: tuple[str, ...],
    formulas: str | None,
    seed: int | None,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Replace every quasi-identifier and sensitive value of IN by a noisy one, and write the rows to OUT.

    Person and public columns are copied unchanged; columns that the schema does not declare are dropped. The collector
    of the rows then runs `castleguard anonymise --algorithm castleguard --noise edge` with the same epsilon. That
    command does not undo escaping, so write CSV for it with --formulas keep. Handing out the results of two runs on the
    same rows spends the budget twice.
    """
    check_output(input, output, overwrite)
    csv = csv_output(output, formulas)

    from castleguard.books import Report
    from castleguard.cli.summary import warn_if_empty
    from castleguard.config.schema_file import read_schema_file
    from castleguard.connectors.formats import open_reader, open_writer
    from castleguard.edge import Randomiser

    schema, dialect = read_schema_file(schema_file)
    shares = dict(_weight(text) for text in weights) or None
    randomiser = Randomiser(schema, epsilon=epsilon, phi=phi, weights=shares, seed=seed)
    with closing(open_reader(input, schema.columns, csv=csv_input(input, csv_pairs, dialect))) as reader:
        writer = open_writer(output, csv=csv)
        try:
            rows = 0
            for batch in reader:
                writer.write(randomiser.randomise(batch))
                rows += batch.num_rows
            writer.close()
        except BaseException:
            writer.abort()
            raise
        if not quiet:
            if reader.malformed:
                click.echo(f"{reader.malformed:,} malformed lines were skipped")
            click.echo(randomiser.guarantee().paragraphs())
        warn_if_empty(Report(rows_in=rows, published=rows), malformed=reader.malformed)


def _weight(text: str) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    try:
        return name, float(number)
    except ValueError:
        raise click.UsageError(f"--weight must have the form age=2, got {text}") from None
