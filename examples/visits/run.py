"""A stream of made-up hospital visits through castleguard: push, snapshot, restore, flush, check the books.

Run it with `python examples/visits/run.py`, optionally with a number of rows.
"""

import sys
from pathlib import Path

import castleguard as cg
from castleguard.config.schema_file import load_schema
from castleguard.testing.streams import visits


def main(rows: int = 20_000) -> None:
    """Publish the visits batch by batch, restore the stream from a snapshot in the middle, and print the books."""
    schema = load_schema(Path(__file__).parent / "schema.yaml")
    policy = cg.Castle(k=10, l=3, delay=500)
    stream = cg.Anonymiser(schema, policy)
    published = 0
    for number, batch in enumerate(visits(rows, seed=1, batch_rows=500, flaws=0.01)):
        published += stream.push(batch).num_rows  # a real job hands the table on here
        if number == 1:
            stream = cg.Anonymiser.restore(schema, policy, stream.snapshot())
    last = stream.flush()
    published += last.num_rows
    report = stream.report()
    assert report.published == published
    assert report.rows_in == rows
    assert report.pending == 0
    print(*last.slice(0, 3).to_pylist(), sep="\n")
    print(f"{report.rows_in} rows in, {report.published} published ({report.at_root} at the root),", end=" ")
    print(f"{report.suppressed} suppressed, rejected {report.rejected}")
    print(f"information loss {report.information_loss}, oldest wait {report.oldest_wait} arrivals")
    print(stream.guarantee())


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
