"""The first rows of a file, in file order: a random sample would split groups, which form from neighbouring rows."""

from contextlib import closing
from pathlib import Path

import pyarrow as pa

from castleguard.connectors.csv_input import PLAIN, CsvInput
from castleguard.connectors.formats import open_reader
from castleguard.errors import InputError
from castleguard.schema.roles import Schema

_BATCH = 65536


def read_sample(path: Path, schema: Schema, rows: int, csv: CsvInput = PLAIN) -> pa.Table:
    """Read at most `rows` rows. Raises InputError if the file has none."""
    found: list[pa.RecordBatch] = []
    with closing(open_reader(path, schema.columns, batch_rows=min(rows, _BATCH), csv=csv)) as reader:
        for batch in reader:
            found.append(batch)
            if sum(each.num_rows for each in found) >= rows:
                break
    if not sum(batch.num_rows for batch in found):
        raise InputError(f"{path} has no rows")
    tables = [pa.Table.from_batches([batch]) for batch in found]
    return pa.concat_tables(tables, promote_options="default").slice(0, rows).combine_chunks()
