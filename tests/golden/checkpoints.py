"""Checkpoints of made-up jobs, kept as files: a later version must restore them and publish the same rows.

Each job died in a commit, after its checkpoint was stored and before the sink had the segment. So a checkpoint holds a
segment and dead letters to deliver, pending rows, and a source position in the middle of a file.
"""

import base64
import gzip
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import yaml

from tests.golden import shim
from tests.golden.draws import Draws
from tests.golden.files import add_letters, add_parts, write_rows
from tests.golden.outcomes import Outcome
from tests.golden.policies import is_timed
from tests.golden.snapshots import SNAPSHOTS, Kept
from tests.golden.worlds import Written, make_rows

FOLDER = Path(__file__).parent / "checkpoints"

_ROWS_BEFORE, _ROWS_AFTER, _BATCH = 120, 200, 20
_SECONDS = 10.0  # between two batches
_START, _RESTART = 6_000_000.0, 6_001_000.0
_SITES = ("north", "south")
_KEY = "GOLDEN_SITES_KEY"


@dataclass(frozen=True)
class KeptCheckpoint(Kept):
    """A job, from one JSONL file to JSONL parts, with a kept checkpoint; its policy also has a kept snapshot."""

    @property
    def path(self) -> Path:
        """The compressed checkpoint."""
        return FOLDER / f"{self.name}.db.gz"

    def make(self) -> bytes:
        """The checkpoint of a job that died in its commit after the first rows."""

        def die(step: int) -> None:
            if step == 3 and job.books().rows_in >= _ROWS_BEFORE:  # stored, not delivered
                raise shim.CrashError

        with self._folder() as folder, shim.fixed_keys(f"checkpoint {self.name}"):
            clock = shim.ManualClock(_START)
            job = self._job(folder, clock, die)
            try:
                self._turn(job, clock, _ROWS_BEFORE)
                if is_timed(self.policy):  # a window has to end first
                    self._turn(job, clock, _ROWS_BEFORE + _ROWS_AFTER)
                job.commit()
            except shim.CrashError:
                job.close()
                return gzip.compress((folder / "state.db").read_bytes(), mtime=0)
        raise AssertionError(f"{self.name} has committed without rows to deliver")

    def restore(self, checkpoint: bytes) -> Outcome:
        """What the job publishes from the checkpoint on."""
        outcome = Outcome()
        with self._folder() as folder:
            (folder / "state.db").write_bytes(gzip.decompress(checkpoint))
            clock = shim.ManualClock(_RESTART)
            job = self._job(folder, clock, lambda _: None)
            assert job.recovered, "the checkpoint has no segment to deliver"
            self._turn(job, clock, _ROWS_BEFORE + _ROWS_AFTER - _BATCH)
            assert job.run() == "finished"
            outcome.add_report(job.books())
            add_parts(outcome, folder / "out")
            add_letters(outcome, folder / "rejects.jsonl")
        return outcome

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """The folder of the job with its job file and its input, and the key of its sites."""
        key = base64.b64encode(b"golden".ljust(32)).decode()
        with tempfile.TemporaryDirectory() as name, mock.patch.dict(os.environ, {_KEY: key}):
            folder = Path(name)
            (folder / "in").mkdir()
            write_rows(self._rows(), folder / "in" / "rows.jsonl")
            (folder / "job.yaml").write_text(yaml.safe_dump(self._job_file(), sort_keys=False), encoding="utf-8")
            yield folder

    def _rows(self) -> pa.Table:
        return make_rows(Draws("checkpoint", self.name), self.schema, _ROWS_BEFORE + _ROWS_AFTER, messy=True)

    def _job_file(self) -> Written:
        policy = {name: value for name, value in self.policy.items() if name != "sites"}
        job: Written = {
            "name": self.name,
            "source": {"type": "jsonl", "path": "in/", "batch_rows": _BATCH},
            "schema": self.schema,
            "privacy": policy,
            "sink": {"type": "jsonl", "path": "out/"},
            "checkpoint": {"path": "state.db", "every": "10h"},
            "dead_letter": {"path": "rejects.jsonl"},
        }
        if self.numbers is not None:
            job["numbers"] = self.numbers
        if self._is_site:
            relay = {"servers": "nats://127.0.0.1:4222"}
            job["sites"] = {"names": list(_SITES), "relay": relay, "key": f"${{{_KEY}}}"}
        return job

    @property
    def _is_site(self) -> bool:
        return bool(self.policy["algorithm"] == "dcastle")

    def _job(self, folder: Path, clock: shim.ManualClock, step: Any) -> Any:
        return shim.make_job(folder / "job.yaml", clock, site=_SITES[0] if self._is_site else None, step=step)

    def _turn(self, job: Any, clock: shim.ManualClock, rows: int) -> None:
        """Read up to this row."""
        while job.books().rows_in < rows:
            job.turn()
            clock.advance(_SECONDS)


_JOBS = ("castle-strict", "castleguard-strict", "citadel", "sdgs-seconds", "doca-strict", "dcastle-strict")
CHECKPOINTS = tuple(
    KeptCheckpoint(kept.name, kept.policy, kept.schema, kept.numbers) for kept in SNAPSHOTS if kept.name in _JOBS
)
