"""Books of all shards, read from files of every format."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from castleguard.books import Report
from castleguard.connectors.formats import Format
from castleguard.spark import books as module
from castleguard.spark.books import books_of, malformed_in, total_books
from tests.unit.spark.test_committed import entry, log

NOTHING: dict[str, Any] = {
    **dict.fromkeys(("rows_in", "published", "suppressed", "sampled_out", "over_budget", "pending", "at_root"), 0),
    **dict.fromkeys(("reused", "gate_refused", "groups", "open_clusters", "oldest_wait", "waiting"), 0),
    "rejected": {},
    "information_loss": None,
    "now": 1.0,
}


def books(**changes: Any) -> dict[str, Any]:
    return {**NOTHING, **changes}


def test_books_of_shards_add_up() -> None:
    first = books(rows_in=10, published=6, rejected={"age: null": 1}, pending=3, information_loss=0.5, oldest_wait=4)
    second = books(rows_in=5, published=2, suppressed=2, rejected={"age: null": 1}, information_loss=0.1, waiting=7)
    assert total_books([first, second]) == Report(
        rows_in=22,  # 10 and 5, and 7 that wait for the keys to be stored
        published=8,
        suppressed=2,
        rejected={"age: null": 2},
        pending=10,
        information_loss=(6 * 0.5 + 2 * 0.1) / 8,
        oldest_wait=4,
    )


def test_loss_is_none_without_published_rows() -> None:
    assert total_books([books(rows_in=1, pending=1)]).information_loss is None


def write(folder: Path, number: int, format: Format, outcome: str, rows: list[dict[str, Any]]) -> None:
    """Write a file as Spark does, and commit it with a micro-batch."""
    path = folder / f"outcome={outcome}" / f"part-{number}.{format}"
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema(
        [("age_min", pa.int64()), ("shard", pa.int32()), ("place", pa.string()), ("detail", pa.string())]
    )
    if format == "parquet":
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    elif format == "csv":
        pyarrow.csv.write_csv(pa.Table.from_pylist(rows, schema=schema), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    log(folder, str(number), entry(path.as_uri()))


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl"])
def test_latest_books_of_every_shard_count(tmp_path: Path, format: Format) -> None:
    def counts(shard: int, **changes: Any) -> dict[str, Any]:
        return {"shard": shard, "detail": json.dumps(books(**changes))}

    write(tmp_path, 0, format, "counts", [counts(0, rows_in=4, waiting=1, pending=4), counts(1, rows_in=3, pending=3)])
    write(
        tmp_path,
        1,
        format,
        "counts",
        [counts(0, rows_in=5, pending=5, now=2.0), counts(0, rows_in=5, published=5, now=2.0)],
    )
    found = books_of(tmp_path, format, 2)
    assert found is not None
    assert (found.report.rows_in, found.report.published, found.report.pending) == (8, 5, 3)
    assert found.whole


def test_missing_books_of_an_inactive_shard_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, shard in enumerate((1, 0, 0)):
        rows = [{"shard": shard, "detail": json.dumps(books(rows_in=number, pending=number, now=float(number)))}]
        write(tmp_path, number, "parquet", "counts", rows)
    everything = books_of(tmp_path, "parquet", 3)  # the third shard has never had a row
    assert everything is not None
    assert everything.whole
    monkeypatch.setattr(module, "MOST_FILES", 2)
    some = books_of(tmp_path, "parquet", 3)
    assert some is not None
    assert (some.report.rows_in, some.whole) == (2, False)


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl"])
def test_malformed_lines_are_counted(tmp_path: Path, format: Format) -> None:
    write(tmp_path, 0, format, "rejected", [{"place": '{"_line":3}', "detail": "malformed: not UTF-8"}])
    write(tmp_path, 1, format, "rejected", [{"shard": 1, "detail": "age: null"}])
    assert malformed_in(tmp_path, format) == 1


def test_output_without_books_gives_none(tmp_path: Path) -> None:
    log(tmp_path, "0")
    assert books_of(tmp_path, "parquet", 2) is None
