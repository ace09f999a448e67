"""Anonymisation of a finite input: a table or a file. `job.py` runs streams with positions and checkpoints."""

from collections.abc import Callable, Generator
from contextlib import closing

import pyarrow as pa

from castleguard.algorithms.policy import Policy
from castleguard.connectors.base import Reader, Writer
from castleguard.pipeline import ahead, follow
from castleguard.release.encode import Numbers
from castleguard.schema.roles import Schema
from castleguard.schema.table import to_table
from castleguard.stream import Anonymiser
from castleguard.workers import cores


def anonymise(
    table: object, schema: Schema, policy: Policy, *, seed: int | None = None, numbers: Numbers | None = None
) -> pa.Table:
    """Anonymise a finite table: push and finish in one call.

    A column of untyped values (a list of dicts, pandas objects) gets the common type of all its values;
    `Anonymiser.push` can only use that of the first.
    """
    stream = Anonymiser(schema, policy, seed=seed, numbers=numbers)
    stream.parallel = cores() > 1
    pushed = stream.push(to_table(table, schema.columns, person=schema.person), now=0.0)
    finished = stream.finish()
    return pa.concat_tables([pushed.cast(finished.schema), finished])


def convert(
    reader: Reader,
    stream: Anonymiser,
    writer: Writer,
    *,
    now: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Read a finite input through a stream into an output, and close both.

    `now`: the arrival time of all rows, for a policy that counts seconds. `progress` is called after every batch with
    its number of rows. On any error or interruption the writer is aborted: its output is complete or absent.
    """
    stream.parallel = cores() > 1
    # Reading a pipe can block for ever, and a blocked thread cannot be ended.
    threads = stream.parallel and reader.fraction() is not None

    def released() -> Generator[pa.Table]:
        batches = ahead(map(stream.prepare, reader)) if threads else (batch for batch in reader)
        with closing(batches):
            for batch in batches:
                yield stream.push(batch, now)
                if progress is not None:
                    progress(batch.num_rows)
        yield stream.finish(warn=False)  # the caller warns: it also knows the malformed lines

    try:
        with closing(released()) as tables:
            if threads:
                follow(writer.write, tables)
            else:
                for table in tables:
                    writer.write(table)
        writer.close()
    except BaseException:
        writer.abort()
        raise
    finally:
        reader.close()
