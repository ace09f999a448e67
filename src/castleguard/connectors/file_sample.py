"""The first rows of a file, with all of its columns, read before a schema exists."""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from castleguard.connectors.csv_input import PLAIN, CsvInput
from castleguard.connectors.formats import Format, codec, format_of, open_reader
from castleguard.errors import InputError, NoRowsError


class Sample(NamedTuple):
    """The first rows of a file."""

    rows: pa.Table
    malformed: int
    """Number of lines between or after them that are not rows."""


def read_sample(path: str | Path, rows: int, *, format: Format | None = None, csv: CsvInput = PLAIN) -> Sample:
    """At most `rows` rows. Text formats give text, the others their own types. Raises InputError.

    Without `format`, the ending of the name decides.
    """
    path = Path(path)
    names = all_columns(path, rows, format=format, csv=csv)
    batches: list[pa.RecordBatch] = []
    left = rows
    with closing(open_reader(path, names, batch_rows=rows, format=format, csv=csv)) as reader:
        for batch in reader:
            batches.append(batch.slice(0, left))
            left -= batches[-1].num_rows
            if left <= 0:
                break
        malformed = reader.malformed
    if left == rows:
        raise no_rows(path, malformed)
    return Sample(pa.Table.from_batches(batches), malformed)


def all_columns(path: Path, rows: int, *, format: Format | None = None, csv: CsvInput = PLAIN) -> list[str]:
    """All columns of a file; for a format in which rows differ, those of its first `rows` rows. Raises InputError."""
    with closing(open_reader(path, [], batch_rows=rows, format=format, csv=csv)):
        pass  # the file exists, and its format is known
    format = format or format_of(path, InputError)
    names = codec(format).column_names(path, rows, **({"csv": csv} if format == "csv" else {}))
    if not names:
        raise InputError(f"{path} has no columns")
    return names


def no_rows(path: Path, malformed: int) -> NoRowsError:
    """The error for a file without a row."""
    lines = f": {malformed:,} lines cannot be read" if malformed else ""
    return NoRowsError(f"{path} has no readable rows{lines}", unread=malformed)
