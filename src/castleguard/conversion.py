"""A finite input as a whole: one table into another, or one file into another.

What runs for longer than a file, with positions and checkpoints, is `job.py`.
"""

from collections.abc import Callable

import pyarrow as pa

from castleguard.algorithms.base import Policy
from castleguard.connectors.base import Reader, Writer
from castleguard.release.encode import Numbers
from castleguard.schema.roles import Schema
from castleguard.schema.table import to_table
from castleguard.stream import Anonymiser


def anonymise(
    table: object, schema: Schema, policy: Policy, *, seed: int | None = None, numbers: Numbers | None = None
) -> pa.Table:
    """The whole of a finite table: push and finish in one.

    All of it is there, so that a column of untyped values (a list of dicts, pandas objects) has the type that they have
    in common; `Anonymiser.push` decides by the first value.
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
    """Carry a finite input through a stream into an output, to the end, and close both.

    `now` is when all of it arrives, for a policy that counts seconds. `progress` is called after every batch with its
    number of rows. Whatever goes wrong, an interruption included, the writer is aborted: its output appears whole or
    not at all.
    """
    try:
        for batch in reader:
            writer.write(stream.push(batch, now))
            if progress is not None:
                progress(batch.num_rows)
        writer.write(stream.finish(warn=False))  # the caller knows of malformed lines, too, and warns
        writer.close()
    except BaseException:
        writer.abort()
        raise
    finally:
        reader.close()
