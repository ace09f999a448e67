"""The example job of files: its options exist, and its rows can be read."""

from pathlib import Path

import yaml

from castleguard.connectors.base import BadRow
from castleguard.connectors.registry import find

EXAMPLE = Path(__file__).parents[3] / "examples" / "jobs" / "csv-to-parquet"


def test_example_job_reads_and_writes_a_part(tmp_path: Path) -> None:
    job = yaml.safe_load((EXAMPLE / "job.yaml").read_text(encoding="utf-8"))
    source_type, sink_type = find(job["source"].pop("type")), find(job["sink"].pop("type"))
    assert source_type.source_options is not None
    assert source_type.open_source is not None
    assert sink_type.sink_options is not None
    assert sink_type.open_sink is not None
    options = source_type.source_options(**{**job["source"], "path": EXAMPLE / job["source"]["path"]})
    source = source_type.open_source(options, ["rider", "zone"], None)
    rows, bad = 0, list[BadRow]()
    while (read := source.read(0.0)) is not None:
        rows += read.rows.num_rows
        bad += read.bad
    source.close()
    assert (rows, [line.reason for line in bad]) == (58, ["8 values instead of 7", "2 values instead of 7"])
    sink_options = sink_type.sink_options(**{**job["sink"], "path": tmp_path / job["sink"]["path"]})
    assert sink_type.open_sink(sink_options).last() == 0
