"""Rows that a sink cannot store are refused before a commit: no stored segment is undeliverable."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import castleguard as cg
from castleguard.cli import main
from castleguard.connectors.file_sink import FileSink
from castleguard.connectors.payloads import write_payloads
from castleguard.errors import OutputError
from castleguard.jobs.assemble import make_job
from castleguard.jobs.load import load
from tests.recovery.test_file_jobs import Place, rows

COUNT = 40
REFUSED: dict[str, tuple[pa.Array, str]] = {
    "list": (pa.array([["a"]] * COUNT), "csv jsonl"),
    "struct": (pa.array([{"a": 1}] * COUNT), "csv jsonl"),
    "map": (pa.array([[("a", 1)]] * COUNT, pa.map_(pa.string(), pa.int64())), "csv jsonl"),
    "binary": (pa.array([b"\xff"] * COUNT), "csv jsonl"),
    "interval": (pa.array([(1, 2, 3)] * COUNT, pa.month_day_nano_interval()), "csv jsonl parquet"),
    "unknown time zone": (pa.array([0] * COUNT).view(pa.timestamp("us", "Mars/Base")), "csv jsonl"),
    "negative scale": (pa.array([Decimal(100)] * COUNT, pa.decimal128(9, -2)), "parquet"),
}
CASES = [(name, sink) for name, (_, sinks) in REFUSED.items() for sink in sinks.split()]


def _arrow(folder: Path, note: pa.Array, name: str = "1") -> None:
    folder.mkdir(exist_ok=True)
    table = rows(0, COUNT, note)
    with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize(("name", "sink"), CASES)
def test_type_that_the_sink_cannot_hold_is_refused_on_the_first_batch(tmp_path: Path, name: str, sink: str) -> None:
    place = Place(tmp_path, source="arrow", path="in", sink=sink)
    _arrow(tmp_path / "in", REFUSED[name][0])
    for _ in range(2):  # every time
        with pytest.raises(OutputError, match=r"column 'note' is of type .*, which .* cannot hold: convert it before"):
            place.run()
    assert not list((tmp_path / "out").glob("part-*"))
    _arrow(tmp_path / "in", pa.array(["mended"] * COUNT))
    assert place.run().published == COUNT, "nothing was committed: the job goes on as soon as the input is mended"


@pytest.mark.parametrize(("name", "sink"), CASES)
def test_conversion_is_refused_before_its_end(
    tmp_path: Path, name: str, sink: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _arrow(tmp_path / "in", REFUSED[name][0])
    schema = "person: who\nquasi_identifiers: [{name: age, lower: 0, upper: 100, step: 5}]\npublic: [row, note]\n"
    (tmp_path / "schema.yaml").write_text(schema)
    out = tmp_path / f"out.{sink}"
    arguments = ["anonymise", str(tmp_path / "in" / "1.arrow"), "-o", str(out), "--k", "2", "--delay", "20"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--schema", str(tmp_path / "schema.yaml")])
    assert ended.value.code == 1
    error = capsys.readouterr().err
    assert "column 'note' is of type" in error
    assert "Traceback" not in error
    assert not out.exists()


SECRET = b"caf\xe9"
UNPUBLISHABLE: dict[str, pa.Array] = {
    "Latin-1": pa.array([SECRET] + [b"fine"] * (COUNT - 1)).view(pa.string()),
    "Latin-1 in a long text": pa.array([SECRET] + [b"fine"] * (COUNT - 1), pa.large_binary()).view(pa.large_string()),
    "a time without a year": pa.array([2**62] + [0] * (COUNT - 1)).view(pa.timestamp("s")),
    "a day without a year": pa.array([2**31 - 1] + [0] * (COUNT - 1), pa.int32()).view(pa.date32()),
    "a time of day beyond midnight": pa.array([90_000] + [0] * (COUNT - 1), pa.int32()).view(pa.time32("s")),
}


@pytest.mark.parametrize("sink", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("note", UNPUBLISHABLE.values(), ids=UNPUBLISHABLE)
def test_row_with_an_unpublishable_value_is_rejected_before_the_engine(
    tmp_path: Path, sink: str, note: pa.Array
) -> None:
    place = Place(tmp_path, source="arrow", path="in", sink=sink)
    _arrow(tmp_path / "in", note)
    books = place.run()
    assert books.rejected == {"note: unpublishable": 1}
    assert books.published == COUNT - 1
    letters = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    assert [(letter["reason"], letter["row"]["row"]) for letter in letters] == [("note: unpublishable", 0)]
    found = place.out({"jsonl": "json"}.get(sink, sink))
    assert sorted(map(int, found["row"].to_pylist())) == list(range(1, COUNT))


@pytest.mark.parametrize("sink", ["csv", "jsonl"])
def test_parquet_file_with_latin_1_text_does_not_block_a_job(tmp_path: Path, sink: str) -> None:
    """As Spark and older tools write it: the type is text, but the bytes are of another encoding."""
    (tmp_path / "in").mkdir()
    pq.write_table(rows(0, COUNT, UNPUBLISHABLE["Latin-1"]), tmp_path / "in" / "1.parquet")
    place = Place(tmp_path, source="parquet", path="in", sink=sink)
    assert place.run().published == COUNT - 1
    pq.write_table(rows(COUNT, COUNT, pa.array(["later"] * COUNT)), tmp_path / "in" / "2.parquet")
    assert place.run().published == 2 * COUNT - 1


def test_unsupported_type_that_comes_late_is_refused_and_pending_rows_can_be_drained(tmp_path: Path) -> None:
    place = Place(tmp_path, source="parquet", path="in", sink="csv")
    (tmp_path / "in").mkdir()
    pq.write_table(rows(0, 10, pa.nulls(10)), tmp_path / "in" / "1.parquet")
    job = make_job(load(tmp_path / "job.yaml"))
    job.turn()
    job.commit()
    job.close()
    late: Any = pa.array([["a"]] * 10)
    pq.write_table(rows(10, 10, late), tmp_path / "in" / "2.parquet")
    with pytest.raises(OutputError, match="column 'note' is of type list"):
        place.run()
    assert make_job(load(tmp_path / "job.yaml")).drain() == "drained"
    assert place.out("csv").num_rows == 10


LIMIT = 10_000


@pytest.mark.parametrize(
    "text",
    ["x" * LIMIT, "\x01" * (LIMIT // 5), '"' * (LIMIT // 2), "ü" * (LIMIT // 2)],
    ids=["x", "control", "quote", "ü"],
)
def test_row_longer_than_a_message_is_rejected(text: str) -> None:
    schema = cg.Schema(
        person="who", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)], public=["row", "note"]
    )
    stream = cg.Anonymiser(schema, cg.Castle(k=2, delay=20))
    stream.longest_row = LIMIT
    fits = LIMIT - 1000
    notes = [text, "y" * fits, None, *["fine"] * (COUNT - 3)]
    published = [stream.push(rows(0, COUNT, pa.array(notes)))]
    assert stream.rejected() == [(0, "note: too long")]
    published.append(stream.flush())
    messages = [message for table in published for message in write_payloads("json", table)]
    assert len(messages) == COUNT - 1
    assert fits < max(map(len, messages)) <= LIMIT


def test_job_rejects_rows_longer_than_the_limit_of_its_sink(tmp_path: Path) -> None:
    place = Place(tmp_path, source="arrow", path="in", sink="jsonl")
    _arrow(tmp_path / "in", pa.array(["x" * LIMIT, *["fine"] * (COUNT - 1)]))
    with mock.patch.object(FileSink, "longest_row", LIMIT):
        books = place.run()
    assert books.rejected == {"note: too long": 1}
    assert books.published == COUNT - 1


@pytest.mark.parametrize(("name", "sink"), CASES)
def test_dry_run_reports_what_the_sink_cannot_hold(tmp_path: Path, name: str, sink: str) -> None:
    Place(tmp_path, source="arrow", path="in", sink=sink)
    _arrow(tmp_path / "in", REFUSED[name][0])
    with pytest.raises(OutputError, match="the sink: column 'note' is of type"):
        make_job(load(tmp_path / "job.yaml"), dry_run=True).run()
    assert not (tmp_path / "out").exists()
