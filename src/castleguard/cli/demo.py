"""`castleguard demo`: anonymise a synthetic stream live, and verify the output."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from castleguard.cli.file_options import FILE, defaulted
from castleguard.errors import OutputError

if TYPE_CHECKING:
    import pyarrow as pa

    from castleguard.algorithms.citadel.policy import Citadel
    from castleguard.algorithms.policy import Policy
    from castleguard.cli.demo_live import History
    from castleguard.judge.verify.structure import Verification
    from castleguard.schema.roles import Schema

BATCH_ROWS = 1000
FLAWS = 0.001
LINK = "record"


@click.command(short_help="Anonymise a synthetic stream; needs no data.")
@defaulted("--rows", type=click.IntRange(min=1), default=300_000, help="Rows to generate.")
@defaulted("--k", type=int, default=10, help="Distinct persons in every published group.")
@defaulted("--l", type=int, default=3, help="Distinct diagnoses in every published group.")
@defaulted("--delay", type=int, default=2000, help="Rows that may arrive before a row must be published.")
@click.option("--seed", type=int, help="Make the run repeatable; another seed generates another stream.")
@defaulted(
    "--output",
    "folder",
    type=FILE,
    default=Path("out/demo"),
    metavar="FOLDER",
    help="Folder for the stream, the published rows and a chart.",
)
def demo(rows: int, k: int, l: int, delay: int, seed: int | None, folder: Path) -> None:
    """Generate a year of hospital visits, anonymise it live with Citadel, write the result, and verify the written
    file. CASTLE anonymises the same rows for comparison; its output is discarded.
    """
    import pyarrow as pa

    from castleguard.algorithms.castle.policy import Castle
    from castleguard.algorithms.citadel.policy import Citadel
    from castleguard.testing.streams import visits, visits_schema

    schema, citadel, castle = visits_schema(), Citadel(k=k, l=l, delay=delay), Castle(k=k, l=l, delay=delay)
    _make_folder(folder)
    tables = list(visits(rows, seed=1 if seed is None else seed, batch_rows=BATCH_ROWS, flaws=FLAWS))
    original = pa.concat_tables(tables)
    _write_original(folder, original)
    persons = len(original["patient"].unique())
    click.echo(f"{rows:,} visits of {persons:,} patients in one year, in order of arrival; k={k}, l={l}, delay={delay}")
    history = _anonymise(tables, schema, citadel, seed, folder / "published.csv")
    beside = _publish_beside(tables, schema, castle, seed)
    click.echo(_side_by_side(history, beside) + "\n")
    verdict = _judge(folder, original, schema, citadel, {"Citadel": history, "CASTLE": beside})
    click.secho(str(verdict), fg="green" if verdict.ok else "red", bold=True)
    click.echo(
        f"\nOpen {folder}/published.csv and picture.png, or run it yourself:\n"
        f"  castleguard anonymise {folder}/visits.csv -o {folder}/mine.parquet --schema {folder}/schema.yaml"
        f" --algorithm citadel --k 20 --l 3 --delay 1000"
    )
    if not verdict.ok:
        raise click.exceptions.Exit(1)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise OutputError(f"cannot create the folder {folder}: {exc.strerror}") from exc


def _write_original(folder: Path, original: "pa.Table") -> None:
    """Write the stream and its schema, as input for `castleguard anonymise`."""
    from castleguard.connectors.formats import open_writer
    from castleguard.testing.streams import visits_schema_text

    writer = open_writer(folder / "visits.csv")
    try:
        writer.write(original)
        writer.close()
        (folder / "schema.yaml").write_text(visits_schema_text(), encoding="utf-8")
    except OSError as exc:
        raise OutputError(f"{folder} cannot be written: {exc.strerror}") from exc
    finally:
        writer.abort()


def _anonymise(tables: "list[pa.Table]", schema: "Schema", policy: "Policy", seed: int | None, path: Path) -> "History":
    """Anonymise the stream with a live view, and print the summary."""
    from castleguard.cli.demo_live import History, live_view
    from castleguard.cli.summary import summary
    from castleguard.connectors.formats import open_writer
    from castleguard.conversion import convert
    from castleguard.stream import Anonymiser
    from castleguard.testing.in_memory import MemoryReader

    _warm_up(tables, schema, policy)
    stream = Anonymiser(schema, policy, seed=seed)
    history = History(stream, sum(table.num_rows for table in tables))
    with live_view(history) as add:
        convert(MemoryReader(tables), stream, open_writer(path), progress=add)
    history.add(0)
    click.echo("\n" + summary(stream.report(), stream.guarantee()) + "\n")
    return history


def _warm_up(tables: "list[pa.Table]", schema: "Schema", policy: "Policy") -> None:
    """Push a few rows first, to keep the loading of compiled kernels out of the measured speed."""
    from castleguard.stream import Anonymiser

    warm = Anonymiser(schema, policy)
    warm.push(tables[0].slice(0, 100))
    warm.flush(warn=False)


def _publish_beside(tables: "list[pa.Table]", schema: "Schema", policy: "Policy", seed: int | None) -> "History":
    """Anonymise the same rows with another algorithm, and discard its output: rows must not be published twice."""
    from castleguard.cli.demo_live import History
    from castleguard.stream import Anonymiser

    _warm_up(tables, schema, policy)
    stream = Anonymiser(schema, policy, seed=seed)
    history = History(stream, sum(table.num_rows for table in tables))
    for table in tables:
        stream.push(table)
        history.add(table.num_rows)
    stream.flush(warn=False)
    history.add(0)
    return history


def _side_by_side(citadel: "History", castle: "History") -> str:
    """Information loss and promise of both algorithms."""
    rows = (
        ("Citadel", citadel, "k persons in each group of each release, even if the arrival time of a row is known"),
        ("CASTLE", castle, "k persons in each group of the whole publication (for comparison, not written)"),
    )
    lines = (f"  {name:<9}{history.loss:.4f}  {promise}" for name, history, promise in rows)
    return "\n".join(["Information loss and promise, for the same rows, k, l and delay", *lines])


def _judge(
    folder: Path, original: "pa.Table", schema: "Schema", policy: "Citadel", histories: "dict[str, History]"
) -> "Verification":
    """Verify the published file, and draw it if matplotlib is installed."""
    import pyarrow.csv

    from castleguard.cli.demo_picture import draw
    from castleguard.judge.verify.structure import verify

    published = pyarrow.csv.read_csv(folder / "published.csv")
    verdict = verify(published, original, schema, k=policy.k, l=policy.l, link=LINK)
    moments = {name: history.moments for name, history in histories.items()}
    try:
        draw(folder / "picture.png", original, published, moments, verdict)
    except ModuleNotFoundError as exc:
        if exc.name is None or not exc.name.startswith("matplotlib"):
            raise
        click.echo("no picture.png: install matplotlib with pip install 'castleguard[plot]'")
    return verdict
