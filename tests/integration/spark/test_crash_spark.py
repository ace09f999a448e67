"""A stream in Spark that is repeatedly killed during a batch: driver, Java and all workers at once."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from tests.integration.crash import kills
from tests.integration.spark.visits import check_all, last_books, make_visits, read_committed, write_parts
from tests.patience import WHOLE_RUN

pytestmark = [pytest.mark.integration, pytest.mark.compiled]

ROWS, FILES = 24_000, 24
JOB = """
name: visits
source: {type: parquet, path: in, follow: true}
schema:
  person: pid
  quasi_identifiers:
    - {name: age, lower: 0, upper: 100, step: 5}
    - {name: zip, lower: 0, upper: 1000, step: 50}
    - name: region
      hierarchy: {all: {north: [oslo, turku], south: [rome, bari]}}
  sensitive: [job]
  public: [row]
privacy: {algorithm: castle, k: 5, l: 2, delay: 300, max_wait: 3s}
sink: {type: parquet, path: out}
checkpoint: {path: state, every: 200ms}
spark: {shards: 4, max_files: 2}
"""


@pytest.mark.slow
def test_committed_rows_are_complete_and_unique_after_repeated_kills(needs_spark: None, tmp_path: Path) -> None:
    visits = make_visits(ROWS)
    write_parts(visits, tmp_path / "in", FILES)
    (tmp_path / "job.yaml").write_text(JOB)
    chance = random.Random(3)
    for _ in range(kills(3)):
        started = _start(tmp_path)
        _kill_in_mid_batch(started, tmp_path, chance)
    assert len(read_committed(tmp_path / "out")), "nothing was published before the last kill"
    last = _start(tmp_path, "--until-idle")
    assert last.wait(WHOLE_RUN) == 0, (tmp_path / "stderr").read_text()
    published = read_committed(tmp_path / "out")
    check_all(visits, published, last_books(read_committed(tmp_path / "out", "counts")))
    _check_orphans(visits, tmp_path / "out", published)


def _start(folder: Path, *options: str) -> "subprocess.Popen[bytes]":
    arguments = [
        sys.executable,
        "-m",
        "castleguard",
        "spark",
        "job.yaml",
        "--master",
        "local[2,4]",
        "--quiet",
        *options,
    ]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "CASTLEGUARD_DEBUG": "1"}
    with open(folder / "stderr", "ab") as errors:
        return subprocess.Popen(arguments, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=errors)


def _kill_in_mid_batch(process: "subprocess.Popen[bytes]", folder: Path, chance: random.Random) -> None:
    """Wait until a batch is complete and a later one is running, then kill all its processes."""
    state = folder / "state"
    first = _last(state / "commits")
    while True:
        assert process.poll() is None, (folder / "stderr").read_text()
        at_work = _last(state / "offsets") > _last(state / "commits") > first
        if at_work:
            time.sleep(chance.uniform(0, 0.8))
            if _last(state / "offsets") > _last(state / "commits"):
                break
        time.sleep(0.01)
    doomed = _descendants(process.pid)
    assert len(doomed) >= 3, "Java, and the workers of Python"
    for number in [process.pid, *doomed]:
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def _last(log: Path) -> int:
    """Return the number of the latest batch in one of Spark's logs; -1 if none."""
    return max((int(path.name) for path in log.glob("[0-9]*")), default=-1) if log.is_dir() else -1


def _descendants(number: int) -> list[int]:
    """Return all descendants of a process."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        parents.setdefault(parent, []).append(int(entry.parent.name))
    found, look_at = [], [number]
    while look_at:
        children = parents.get(look_at.pop(), [])
        found += children
        look_at += children
    return found


def _check_orphans(visits: pa.Table, folder: Path, committed: list[pa.Table]) -> None:
    """Check that uncommitted files show every row as the committed ones do."""
    import pyarrow.parquet as pq

    known = {row["row"]: row for table in committed for row in table.to_pylist()}
    assert len(known) <= visits.num_rows
    for path in folder.rglob("outcome=published/*.parquet"):
        try:
            orphan = pq.read_table(path, partitioning=None)
        except pa.ArrowInvalid:  # an unfinished file
            continue
        for row in orphan.to_pylist():
            assert row == known[row["row"]]
