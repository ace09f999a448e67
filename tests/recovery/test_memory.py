"""The memory that `explain` names is the memory that a job takes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from castleguard.jobs.explain.memory import memory_of_rows
from castleguard.jobs.load import load

ROWS = 600_000
JOB = """
name: memory
confirmed: true
source: {{type: csv, path: {folder}/rows.csv}}
schema:
  person: patient
  quasi_identifiers:
    - {{name: age, lower: 0, upper: 100, step: 5}}
    - {{name: weight, lower: 0, upper: 200, step: 5}}
    - {{name: height, lower: 0, upper: 220, step: 5}}
  sensitive: [illness]
privacy: {{algorithm: {algorithm}, k: 50, delay: {delay}}}
sink: {{type: csv, path: {folder}/out}}
{checkpoint}
"""


STATUS = Path("/proc/self/status")
# Not the figure that wait4 gives: that begins with the memory of the process that started this one.
RUN = """
import sys
from castleguard.cli import main
try:
    main(["run", "--quiet", sys.argv[1]])
except SystemExit as exc:
    assert not exc.code
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    table = pa.table(
        {
            "patient": np.arange(ROWS),
            "age": random.integers(0, 100, ROWS),
            "weight": random.integers(40, 150, ROWS),
            "height": random.integers(120, 210, ROWS),
            "illness": random.choice(["flu", "cold", "asthma"], ROWS),
        }
    )
    folder = tmp_path_factory.mktemp("memory")
    csv.write_csv(table, folder / "rows.csv")
    return folder


def run(job: Path) -> int:
    """Run a job in a process of its own; return the largest memory it had, in bytes."""
    done = subprocess.run([sys.executable, "-c", RUN, str(job)], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-2]) * 1024


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(not STATUS.exists(), reason="this system does not report the memory of a process")
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("algorithm", ["citadel", "castle"])
def test_explain_names_the_memory_of_a_job(folder: Path, tmp_path: Path, algorithm: str, *, stored: bool) -> None:
    """The difference between a long and a short delay: the program itself differs by version and by machine."""
    needed: list[int] = []
    named: list[int] = []
    for delay in (1_000, 300_000):
        job = tmp_path / f"{delay}.yaml"
        checkpoint = f"checkpoint: {{path: {tmp_path}/state-{delay}, every: 1s}}" if stored else ""
        job.write_text(JOB.format(folder=folder, algorithm=algorithm, delay=delay, checkpoint=checkpoint))
        job.write_text(job.read_text().replace("/out}", f"/out-{algorithm}-{stored}-{delay}}}"))
        named.append(memory_of_rows(load(job)) or 0)
        needed.append(run(job))
    grown = needed[1] - needed[0]
    assert grown == pytest.approx(named[1] - named[0], rel=0.3)
