"""A job that is killed repeatedly, and the checks on everything that it published."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyarrow as pa

from castleguard.checkpoint.store import Store
from tests.patience import PATIENCE, WHOLE_RUN, eventually

K = 5
PERSONS = 9_000
PORTION = 10_000
"""Rows that arrive before each start."""
SCHEMA = """
schema:
  person: pid
  quasi_identifiers:
    - {name: age, lower: 0, upper: 100, step: 5}
    - {name: zip, lower: 0, upper: 1000, step: 50}
  sensitive: [{name: job, values: [cook, clerk, nurse]}]
  public: [row]
"""
PRIVACY = {
    "castle": f"privacy: {{algorithm: castle, k: {K}, l: 2, delay: 400}}",
    "castleguard": f"privacy: {{algorithm: castleguard, k: {K}, l: 2, delay: 400, epsilon: 6}}",
}


def kills(usual: int) -> int:
    """Number of times each job is killed: a few, or as set by `make crash`."""
    return int(os.environ.get("CASTLEGUARD_KILLS") or usual)


def make_rows(rows: int) -> list[dict[str, Any]]:
    """Numbered rows, some of them invalid."""
    chance = random.Random(7)
    made = []
    for row in range(rows):
        age = "odd" if row % 997 == 3 else chance.randrange(18, 90)
        job, place = chance.choice(("cook", "clerk", "nurse")), chance.randrange(1000)
        made.append({"pid": chance.randrange(PERSONS), "age": age, "zip": place, "job": job, "row": row})
    return made


def portions(rows: list[dict[str, Any]], number: int) -> list[list[dict[str, Any]]]:
    """The rows in this many portions, in order of arrival."""
    size = -(-len(rows) // number)
    return [rows[at : at + size] for at in range(0, len(rows), size)]


@dataclass(frozen=True)
class Victim:
    """A job file, and a view of its published rows."""

    folder: Path
    feed: Callable[[list[dict[str, Any]]], None]
    """Feed rows to its source."""
    published: Callable[[], pa.Table]
    port: int
    """Port of its metrics."""

    def start(self, command: str = "run") -> "subprocess.Popen[bytes]":
        """Start the job as a process."""
        arguments = [sys.executable, "-m", "castleguard", command, "job.yaml", "--quiet"]
        return subprocess.Popen(arguments, cwd=self.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)

    def run_and_kill(self, kills: int, seed: int, rows: list[dict[str, Any]]) -> None:
        """Feed a portion of rows before every start; kill the job `kills` times at random moments; then let it process
        the rest, and drain it.

        Half of the moments lie shortly after it has started to work, when it commits often.
        """
        chance = random.Random(seed)
        first, *others = portions(rows, kills + 1)
        self.feed(first)
        self.stop()
        for killed, portion in enumerate(others):
            self.feed(portion)
            process = self.start()
            if killed % 2:
                self.wait_for_work(process)
            time.sleep(chance.uniform(0.0, 0.5 if killed % 2 else 3.0))
            assert process.poll() is None, "the job ended before it was killed"
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert process.stderr is not None
            process.stderr.close()
        process = self.start()
        taken, since = 0, time.monotonic()
        while taken < len(rows):
            assert process.poll() is None
            if (now_taken := self.rows_taken()) > taken:
                taken, since = now_taken, time.monotonic()
            assert time.monotonic() < since + WHOLE_RUN, "the job does not go on"
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert_fine(process, process.wait(timeout=WHOLE_RUN))
        process = self.start("drain")
        assert_fine(process, process.wait(timeout=WHOLE_RUN))

    def stop(self) -> None:
        """Stop the job as an operator does, after its first commit."""
        process = self.start()
        self.wait_for_work(process)
        process.send_signal(signal.SIGTERM)
        assert_fine(process, process.wait(timeout=WHOLE_RUN))

    def wait_for_work(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait until the checkpoint is written, or the process has ended."""
        state = self.folder / "state.db"
        before = state.stat().st_mtime_ns if state.exists() else 0

        def works() -> bool:
            return process.poll() is not None or (state.exists() and state.stat().st_mtime_ns != before)

        try:
            eventually(works, "the job does not get to work")
        except AssertionError:
            process.kill()
            process.wait()
            raise

    def check(self, rows: list[dict[str, Any]], *, bad: int, rejects: bool) -> None:
        """Every row exactly once: published, in the dead letters, or counted as suppressed; groups of k persons."""
        out = self.published()
        letters = [json.loads(line) for line in (self.folder / "letters.jsonl").read_text().splitlines()]
        rejected = [int(letter["row"]["row"]) for letter in letters if "row" in letter]
        assert len(letters) - len(rejected) == bad
        assert len(rejected) == len(set(rejected)) == sum(row["age"] == "odd" for row in rows) * rejects
        published = [int(row) for row in out["row"].to_pylist()]
        assert len(published) == len(set(published))
        missing = {row["row"] for row in rows} - {*published, *rejected}
        assert len(missing) == self.books()["suppressed"]
        persons: dict[tuple[Any, ...], set[int]] = defaultdict(set)
        columns = [name for name in out.column_names if name.endswith(("_min", "_max"))]
        for row, *box in zip(published, *(out[name].to_pylist() for name in columns), strict=True):
            persons[tuple(box)].add(rows[row]["pid"])
        assert min(map(len, persons.values())) >= K

    def rows_taken(self) -> int:
        """Number of rows that a running job has read, from its metrics."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=PATIENCE) as answer:
                text = answer.read().decode()
        except OSError:
            return 0  # not started yet
        kinds = ("castleguard_rows_total", "castleguard_rejected_rows_total", "castleguard_pending_rows")
        lines = [line for line in text.splitlines() if line.startswith(kinds) and 'outcome="bad"' not in line]
        return int(sum(float(line.rpartition(" ")[2]) for line in lines))

    def books(self) -> dict[str, Any]:
        """The books of the job, from its checkpoint."""
        with Store(self.folder / "state.db") as store:
            latest = store.load()
        assert latest is not None
        return latest.books


def assert_fine(process: "subprocess.Popen[bytes]", code: int) -> None:
    """Check that a process that ended by itself succeeded."""
    assert process.stderr is not None
    errors = process.stderr.read().decode()
    process.stderr.close()
    assert code == 0, errors
