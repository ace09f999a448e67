"""Child process that reads damaged files with the real readers and the decoder.

    python -m tests.properties.damaged_files parquet 0 500 FOLDER

reads files 0 to 499 of the format, each generated from its number alone, and prints the outcomes as a line of JSON.
FOLDER/at holds the number of the file being read, which shows where a child died.

Every file has undeclared columns. Their values use letters that no declared value has: if such letters occur in the
decoder's output or in an error message, an undeclared value has leaked.
"""

import io
import json
import random
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import castleguard as cg
from castleguard.connectors.formats import open_reader
from castleguard.connectors.jsonl import render
from castleguard.connectors.payloads import read_payloads
from castleguard.errors import CastleguardError
from castleguard.schema.decode import Decoder
from castleguard.schema.table import to_table

Kind = Literal["parquet", "arrow", "messages", "jsonl"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_UNDECLARED = re.compile("[ZQXJ]{4}")
_SECRET_NUMBERS = range(777_000_000, 777_001_000)
_BASES = 24  # files that are damaged, of each format

SCHEMA = cg.Schema(
    person="pid",
    quasi_identifiers=[
        cg.Numeric("age", lower=0, upper=100, step=10, invalid="reject"),
        cg.Categorical("city", hierarchy=cg.Hierarchy.flat(["rome", "oslo"])),
    ],
    sensitive=["ill"],
    public=["note", "code", "visits"],
)


def _table(draw: random.Random) -> pa.Table:
    """Declared columns among others."""
    rows = draw.choice([1, 7, 60, 300])
    secrets = [f"ZQXJ{draw.choice('ZQXJ')}QZXJ{row:04d}" for row in range(rows)]

    def pick(*values: object) -> list[Any]:
        return [draw.choice(values) for _ in range(rows)]

    columns: dict[str, Any] = {
        "before": secrets,
        "pid": [f"p{row}" for row in range(rows)],
        "age": [draw.randrange(100) for _ in range(rows)],
        "phone": [_SECRET_NUMBERS[row] for row in range(rows)],
        "city": pa.array(pick("rome", "oslo", None), pa.string()).dictionary_encode(),
        "kept": pa.array(secrets).dictionary_encode(),
        "ill": pick("flu", "cold", "gout"),
        "list": [[secret] for secret in secrets],
        "note": pick("a", "bb", None, "", "ccccc"),
        "other": secrets,
        "code": pa.array(pick("x", "yy", "zzz"), pa.string()).dictionary_encode(),
        "visits": pick(1, 2, 3, None),
        "last": secrets,
    }
    names = list(columns)
    draw.shuffle(names)
    return pa.table({name: columns[name] for name in names})


def _arrow(draw: random.Random, table: pa.Table, *, stream: bool) -> bytes:
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=draw.choice([None, None, "lz4", "zstd"]))
    opener = pa.ipc.new_stream if stream else pa.ipc.new_file
    with opener(out, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=draw.choice([40, 1000]))
    return out.getvalue()


def _parquet(draw: random.Random, table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(
        table,
        out,
        compression=draw.choice(["none", "none", "snappy", "zstd", "gzip"]),
        use_dictionary=draw.random() < 0.5,
        row_group_size=draw.choice([40, 1000]),
        data_page_version=draw.choice(["1.0", "2.0"]),
        write_page_checksum=draw.random() < 0.2,
        data_page_size=draw.choice([100, 1 << 20]),
    )
    return out.getvalue()


def _lines(table: pa.Table) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in table.to_pylist())


_WRITERS: dict[Kind, Callable[[random.Random, pa.Table], bytes]] = {
    "parquet": _parquet,
    "arrow": lambda draw, table: _arrow(draw, table, stream=draw.random() < 0.4),
    "messages": lambda draw, table: _arrow(draw, table, stream=True),
    "jsonl": lambda draw, table: _lines(table),
}


def _damage(draw: random.Random, content: bytes) -> bytes:
    """Flip bits, overwrite, truncate, delete, insert and duplicate: once or often, anywhere or near the end."""
    data = bytearray(content)
    for _ in range(draw.choice([1, 1, 1, 1, 2, 3, 8, 40])):
        near_end = draw.random() < 0.4
        place = max(len(data) - 1 - int(draw.expovariate(1 / 400)), 0) if near_end else draw.randrange(len(data))
        length = draw.choice([1, 2, 4, 8, 64, draw.randrange(1, 400)])
        what = draw.random()
        if what < 0.5:
            data[place] ^= 1 << draw.randrange(8)
        elif what < 0.65:
            data[place : place + length] = draw.randbytes(len(data[place : place + length]))
        elif what < 0.8:
            fill = draw.choice([b"\0", b"\xff", b"\x7f", b"\x80", b"\x01\0\0\0"])
            data[place : place + length] = (fill * length)[: len(data[place : place + length])]
        elif what < 0.87:
            del data[place : place + length]
        elif what < 0.92:
            data[place:place] = draw.randbytes(length)
        elif what < 0.96:
            data[place:place] = data[place : place + length]
        else:
            del data[place:]
        if not data:
            return b""
    return bytes(data)


def _batches(kind: Kind, content: bytes, folder: Path) -> Iterator[pa.RecordBatch]:
    if kind == "messages":
        yield read_payloads("arrow", [content], SCHEMA.columns).rows
        return
    path = folder / f"data.{kind}"
    path.write_bytes(content)
    with closing(open_reader(path, SCHEMA.columns, batch_rows=64, keep_bad=False)) as reader:
        yield from reader


def _check_lines(content: bytes, payload: pa.Table) -> None:
    """Values under a declared key of a damaged line count as declared."""
    allowed: set[object] = {None}
    for line in content.split(b"\n"):
        try:
            row = json.loads(line.decode(errors="replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            allowed |= {str(row.get(name)) for name in SCHEMA.columns}
    strange = [value for column in payload.columns for value in column.to_pylist() if value not in allowed]
    assert not any(_UNDECLARED.search(str(value)) for value in strange), "an undeclared value"


def _check_columns(payload: pa.Table) -> None:
    for column in payload.columns:
        for value in column.to_pylist():
            assert not (isinstance(value, int) and value in _SECRET_NUMBERS), "an undeclared value"
            assert not _UNDECLARED.search(str(value)), "an undeclared value"


def _try(kind: Kind, content: bytes, folder: Path, decoder: Decoder) -> str:
    """Outcome of reading a file."""
    rows = rejected = 0
    try:
        for batch in _batches(kind, content, folder):
            decoded = decoder.decode(to_table(batch, SCHEMA.columns))
            rows += decoded.payload.num_rows
            rejected += decoded.rejected.index.size
            if kind == "jsonl":
                _check_lines(content, decoded.payload)
            else:
                _check_columns(decoded.payload)
            simple = [field.name for field in decoded.payload.schema if not _is_bytes(field.type)]
            render(decoded.payload.select(simple))  # a decoded payload can be delivered
    except CastleguardError as exc:
        if _UNDECLARED.search(str(exc)):
            raise AssertionError("an undeclared value in a message") from exc
        return "refused"
    return "rejects" if rejected else "read" if rows else "empty"


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)) or bool(
        types.is_nested(kind) or types.is_interval(kind)
    )


def main(kind: Kind, first: int, count: int, folder: Path) -> None:
    """Read the files and print the outcomes."""
    found: Counter[str] = Counter()
    failures: list[str] = []
    draws = [random.Random(f"{kind} {number}") for number in range(_BASES)]
    bases = [_WRITERS[kind](draw, _table(draw)) for draw in draws]
    decoder = Decoder(SCHEMA, key=np.array([1, 2], np.uint64))
    for number in range(first, first + count):
        draw = random.Random(f"{kind} damage {number}")
        content = _damage(draw, draw.choice(bases))
        (folder / "at").write_text(f"{kind} {number}")
        try:
            found[_try(kind, content, folder, decoder)] += 1
        except Exception:
            failures.append(f"{kind} {number}: {traceback.format_exc(limit=-3)}")
    sys.stdout.write(json.dumps({"found": found, "failures": failures}))


if __name__ == "__main__":
    main(cast(Kind, sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
