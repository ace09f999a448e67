"""Anonymisation of a finite input: a table or a file. `job.py` runs streams with positions and checkpoints."""

from collections.abc import Callable

import pyarrow as pa

from castleguard.algorithms.policy import Policy
from castleguard.connectors.base import Reader, Writer
from castleguard.release.encode import Numbers
from castleguard.schema.roles import Schema
from castleguard.schema.table import to_table
from castleguard.stream import Anonymiser


def anonymise(
    table: object, schema: Schema, policy: Policy, *, seed: int | None = None, numbers: Numbers | None = None
) -> pa.Table:
    """Anonymise a finite table: push and finish in one call.

    A column of untyped values (a list of dicts, pandas objects) gets the common type of all its values;
    `Anonymiser.push` can only use that of the first.
    """
    stream = Anonymiser(schema, policy, seed=seed, numbers=numbers)
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
    try:
        for batch in reader:
            writer.write(stream.push(batch, now))
            if progress is not None:
                progress(batch.num_rows)
        writer.write(stream.finish(warn=False))  # the caller warns: it also knows the malformed lines
        writer.close()
    except BaseException:
        writer.abort()
        raise
    finally:
        reader.close()
