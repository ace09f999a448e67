"""Input files as other programs write them, and published files as text or tables."""

import csv
import datetime as dt
import gzip
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from tests.golden.outcomes import Outcome

FORMATS = ("csv", "jsonl", "parquet", "arrow")


def write_rows(table: pa.Table, path: Path) -> None:
    """Write a file of the format that its ending says."""
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table.column_names)
            writer.writerows([[_cell(value) for value in row.values()] for row in table.to_pylist()])
    else:
        lines = [json.dumps({name: _json(value) for name, value in row.items()}) for row in table.to_pylist()]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def add_published(outcome: Outcome, path: Path) -> None:
    """Enter a published file: text as it stands, line by line, other formats as a table."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        outcome.add_table(pq.read_table(path))
    elif name.endswith(".arrow"):
        with pa.ipc.open_file(path) as file:
            outcome.add_table(file.read_all())
    else:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
        if name.endswith(".csv"):
            header, *rows = _csv_records(text)
            outcome.add_rows([header], rows)
        else:
            outcome.add_rows(["JSON lines"], text.splitlines())


def add_parts(outcome: Outcome, folder: Path) -> None:
    """Enter the parts of a job in the order of their numbers, as one piece."""
    for part in sorted(folder.glob("part-*")):
        add_published(outcome, part)
    outcome.join()


def add_letters(outcome: Outcome, path: Path) -> None:
    """Enter the reasons of rejected rows."""
    found = [json.loads(line)["reason"] for line in path.read_text(encoding="utf-8").splitlines()]
    outcome.books.append({"letters": found})


def _csv_records(text: str) -> list[str]:
    """Records as they stand: a line end within quotes does not end one."""
    records, begun = [], ""
    for line in text.split("\n")[:-1]:
        begun = f"{begun}\n{line}" if begun else line
        if begun.count('"') % 2 == 0:
            records.append(begun)
            begun = ""
    assert not begun
    return records


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, dt.date | dt.datetime) else str(value)


def _json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, dt.date | dt.datetime) else value
