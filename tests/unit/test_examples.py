"""Example jobs load, run and are documented."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from castleguard.connectors import registry
from castleguard.jobs.load import load

JOBS = sorted((Path(__file__).parents[2] / "examples" / "jobs").glob("*/job.yaml"))


@pytest.mark.parametrize("path", JOBS, ids=[path.parent.name for path in JOBS])
def test_example_job_loads_and_has_a_page(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CASTLEGUARD_KEY", base64.b64encode(bytes(32)).decode())
    monkeypatch.setenv("CASTLEGUARD_SITES_KEY", base64.b64encode(bytes(32)).decode())
    monkeypatch.setenv("KAFKA_PASSWORD", "of a test")
    job = load(path, site="berlin" if path.parent.name == "sites" else None)
    assert {job.source.type, job.sink.type} <= set(registry.names())
    assert "job.yaml" in (path.parent / "README.md").read_text()


def test_pipe_example_publishes_every_publishable_row(tmp_path: Path) -> None:
    folder = next(path.parent for path in JOBS if path.parent.name == "stdin-to-stdout")
    (tmp_path / "job.yaml").write_text((folder / "job.yaml").read_text())
    with open(folder.parent / "csv-to-parquet" / "trips.csv", "rb") as trips:
        command = [sys.executable, "-m", "castleguard", "run", "job.yaml", "--quiet"]
        ran = subprocess.run(command, stdin=trips, capture_output=True, cwd=tmp_path, env=os.environ, check=True)
    published = [json.loads(line) for line in ran.stdout.splitlines()]
    assert 50 <= len(published) <= 60
    assert "age_min" in published[0]
    assert len((tmp_path / "rejects.jsonl").read_text().splitlines()) == 2
