"""Other anonymisation tools from the package index beside castleguard, on the same rows.

    python -m benchmarks.peers            # makes an environment for the others in build/peers; takes about six minutes
    python -m benchmarks.peers --k 100

The others anonymise a whole table at once; castleguard anonymises it as a stream with a delay. Seconds are processor
time of the anonymisation itself, from a table in memory to published bounds, in one run on one core. The loss is the
mean width of the published bounds, as a share of the range of the column. Nothing of the others is in this repository:
`requirements.txt` pins them.
"""

import argparse
import os
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv
from rich.console import Console
from rich.table import Table

import castleguard as cg
from benchmarks import adult
from benchmarks.adult import NUMERIC
from castleguard.algorithms.policy import Policy

HERE = Path(__file__).parent
OTHERS = {"AnonyPy 0.2.1, Mondrian": "drive_anonypy.py", "ANJANA 1.2.3, whole columns": "drive_anjana.py"}
LIMIT = 900.0  # seconds for one of the others


class Found(NamedTuple):
    """What a tool made of the rows."""

    tool: str
    seconds: float
    bounds: NDArray[np.float64]  # (2, columns, rows)
    rows: int  # that it got

    @property
    def smallest(self) -> int:
        """Rows of the smallest group of equal bounds."""
        flat = self.bounds.reshape(-1, self.bounds.shape[2]).T
        return int(np.unique(flat, axis=0, return_counts=True)[1].min())

    def loss(self, ranges: NDArray[np.float64]) -> float:
        """Mean width of the bounds, as a share of the range."""
        return float(np.mean((self.bounds[1] - self.bounds[0]) / ranges[:, None]))


def make_environment(folder: Path) -> Path:
    """Create the environment of the others, once; return its Python."""
    python = folder / "bin" / "python"
    wanted = (HERE / "requirements.txt").read_text()
    done = folder / "requirements.txt"
    if not done.exists() or done.read_text() != wanted:
        print(f"installing the others into {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        install = ["-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(HERE / "requirements.txt")]
        subprocess.run([str(python), *install], check=True)
        done.write_text(wanted)
    return python


def bounds_of(table: pa.Table) -> NDArray[np.float64]:
    """Published bounds of the numeric columns."""
    ends = [[table[f"{name}_{end}"].to_numpy() for name in NUMERIC] for end in ("min", "max")]
    return np.array(ends, dtype=np.float64)


def run_others(table: pa.Table, k: int, folder: Path) -> Iterator[Found]:
    """Run each of the others in a process of its own."""
    python = make_environment(folder)
    source, target = folder / "rows.csv", folder / "out.csv"
    csv.write_csv(table.select(list(NUMERIC)), source)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for tool, script in OTHERS.items():
        print(f"  {tool}", file=sys.stderr)
        command = [str(python), str(HERE / script), str(source), str(target), str(k), *NUMERIC]
        try:
            done = subprocess.run(command, env=environment, timeout=LIMIT, check=True, capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            print(f"  {tool}: not done after {LIMIT:.0f} s", file=sys.stderr)
            continue
        yield Found(tool, float(done.stdout.split()[-1]), bounds_of(csv.read_csv(target)), table.num_rows)


def run_own(table: pa.Table, k: int) -> Iterator[Found]:
    """Run castleguard in this process, after a run that loads its kernels."""
    schema = adult.schema(table)
    names = [role.name for role in schema.quasi_identifiers] + ["pid"]
    rows = table.select(names)
    policies: dict[str, Policy] = {
        "castleguard, Citadel, delay 10,000": cg.Citadel(k=k, delay=10_000),
        "castleguard, Citadel, delay 1,000": cg.Citadel(k=k, delay=1_000),
        "castleguard, CASTLE, delay 10,000": cg.Castle(k=k, delay=10_000),
    }
    for tool, policy in policies.items():
        cg.anonymise(rows.slice(0, 1_000), schema, policy)
        start = time.process_time()
        published = cg.anonymise(rows, schema, policy)
        seconds = time.process_time() - start
        yield Found(tool, seconds, bounds_of(published), table.num_rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--folder", type=Path, default=Path("build/peers"))
    options = parser.parse_args()
    table = adult.load()
    values = np.array([table[name].to_numpy() for name in NUMERIC], dtype=np.float64)
    ranges = values.max(axis=1) - values.min(axis=1)
    shown = Table("tool", "rows/s", "loss", "published", "smallest group", title=f"Adult, 6 numbers, k={options.k}")
    for found in (*run_own(table, options.k), *run_others(table, options.k, options.folder.resolve())):
        share = found.bounds.shape[2] / found.rows
        rate = f"{found.rows / found.seconds:,.0f}"
        shown.add_row(found.tool, rate, f"{found.loss(ranges):.3f}", f"{share:.1%}", f"{found.smallest:,}")
    Console(width=110).print(shown)


if __name__ == "__main__":
    main()
