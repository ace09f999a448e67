"""Three sites as processes over a real relay, one of them killed: every row is published exactly once."""

import base64
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from castleguard.checkpoint.store import Store
from tests.integration.broker_nats import running_broker
from tests.integration.crash import assert_fine
from tests.patience import PATIENCE, WHOLE_RUN, eventually
from tests.ports import free_port

pytestmark = [pytest.mark.compiled, pytest.mark.integration]

K, L, DELAY = 20, 2, 2_000
SITES = ("berlin", "paris", "rome")
PERSONS = 2_000
PORTION, FILES, PAUSE = 60, 100, 0.08
"""Rows per file, files per site, and seconds between files: rows must not arrive faster than sites can agree."""
TOGETHER = 100
"""Least number of rows that must be exchanged between sites."""
MORE_FILES, SLOWER = 40, 1.25
"""Further files per site until enough rows are exchanged, and the factor by which each pause grows:
the last ones are minutes long, so that the slowest machine agrees."""
KILLED_AFTER = (35, 70)
"""Files."""
KEY = base64.b64encode(bytes(range(32))).decode()
JOB = """
name: trips
source: {{type: csv, path: "in/${{SITE}}/", follow: true}}
schema:
  person: pid
  quasi_identifiers:
    - {{name: age, lower: 0, upper: 100, step: 2}}
    - {{name: zip, lower: 0, upper: 1000, step: 10}}
    - {{name: income, lower: 0, upper: 5000, step: 50}}
  sensitive: [{{name: job, values: [cook, clerk, nurse]}}]
  public: [row]
privacy: {{algorithm: dcastle, k: {k}, l: {l}, delay: {delay}, max_wait: 60s, share_threshold: 7}}
sink: {{type: parquet, path: "out/${{SITE}}/"}}
checkpoint: {{path: "${{SITE}}.db", every: 200ms}}
dead_letter: {{path: "${{SITE}}.letters.jsonl"}}
metrics: {{port: "${{PORT}}"}}
sites:
  names: [berlin, paris, rome]
  relay: {{servers: "{url}"}}
  key: ${{SITES_KEY}}
"""


def make_rows() -> list[dict[str, Any]]:
    """Numbered rows, dealt out to the sites; some are invalid, and persons occur at several sites."""
    chance = random.Random(11)
    rows = []
    for row in range(len(SITES) * (FILES + MORE_FILES) * PORTION):
        age = "odd" if row % 197 == 3 else min(max(int(chance.gauss(45, 15)), 0), 100)
        rows.append(
            {
                "pid": chance.randrange(PERSONS),
                "age": age,
                "zip": chance.randrange(1000),
                "income": min(int(chance.expovariate(1 / 900)), 5000),
                "job": chance.choice(("cook", "clerk", "nurse")),
                "row": row,
            }
        )
    return rows


def portion(rows: list[dict[str, Any]], site: int, number: int) -> list[dict[str, Any]]:
    """Content of a file of a site."""
    return rows[site :: len(SITES)][number * PORTION :][:PORTION]


class Site:
    """One site: its process, its input, its books."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "in" / name).mkdir(parents=True)

    def start(self, command: str = "site") -> None:
        arguments = [sys.executable, "-m", "castleguard", command, "job.yaml", "--name", self.name, "--quiet"]
        environ = {**os.environ, "SITES_KEY": KEY, "PORT": str(self.port)}
        self.process = subprocess.Popen(
            arguments, cwd=self.folder, env=environ, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )

    def feed(self, rows: list[dict[str, Any]]) -> None:
        """A file, renamed when it is complete."""
        lines = [",".join(str(value) for value in row.values()) for row in rows]
        path = self.folder / "in" / self.name / f"{rows[0]['row']:09d}.csv.part"
        path.write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
        path.rename(path.with_suffix(""))

    def kill(self) -> None:
        assert self.process is not None
        assert self.process.poll() is None, "it ended before it was killed"
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def end(self) -> None:
        """Stop, then drain, as an operator does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert_fine(self.process, self.process.wait(timeout=WHOLE_RUN))

    def finish(self) -> None:
        """Wait until it has ended by itself."""
        assert self.process is not None
        assert_fine(self.process, self.process.wait(timeout=WHOLE_RUN))

    def wait_for_rows(self, number: int) -> None:
        """Wait until it has read this many rows."""

        def come() -> bool:
            assert self.process is not None
            if self.process.poll() is not None:
                assert_fine(self.process, self.process.returncode)
            return self.rows_taken() >= number

        eventually(come, f"{self.name} does not get on", every=0.1)

    def parts(self) -> list[Path]:
        return sorted((self.folder / "out" / self.name).glob("part-*.parquet"))

    def published(self) -> pa.Table:
        return pa.concat_tables(pq.read_table(part) for part in self.parts())

    def rows_taken(self) -> int:
        """Number of rows that the running site has read."""
        return self.counted("rows_total", "rejected_rows_total", "pending_rows", "undecided_rows")

    def counted(self, *kinds: str) -> int:
        """The sum of some metrics of the running site."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=PATIENCE) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return 0  # not started yet
        counted = [line for line in lines if line.startswith(tuple(f"castleguard_{kind}" for kind in kinds))]
        return int(sum(float(line.rpartition(" ")[2]) for line in counted))

    def books(self) -> dict[str, Any]:
        """The books of the site, from its checkpoint."""
        with Store(self.folder / f"{self.name}.db") as store:
            latest = store.load()
        assert latest is not None
        return latest.books

    def rejected(self) -> list[int]:
        letters = (self.folder / f"{self.name}.letters.jsonl").read_text().splitlines()
        return [int(json.loads(letter)["row"]["row"]) for letter in letters]


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[list[Site]]:
    """All sites; their processes always end with the test."""
    made = [Site(tmp_path, name) for name in SITES]
    yield made
    for site in made:
        if site.process is not None and site.process.poll() is None:
            site.kill()


def test_three_sites_with_one_killed_publish_every_row_once(tmp_path: Path, sites: list[Site]) -> None:
    rows = make_rows()
    victim = sites[1]
    with running_broker(tmp_path) as broker:
        (tmp_path / "job.yaml").write_text(JOB.format(url=broker.url, k=K, l=L, delay=DELAY))
        for at, site in enumerate(sites):
            site.feed(portion(rows, at, 0))
            site.start()
        for site in sites:
            site.wait_for_rows(PORTION)
        for number in range(1, FILES):
            for at, site in enumerate(sites):
                site.feed(portion(rows, at, number))
            time.sleep(PAUSE)
            if number in KILLED_AFTER:
                victim.kill()
                victim.start()
            elif number % 5 == 0:  # on a busy machine sites fall behind and agree on less
                for site in sites:
                    site.wait_for_rows((number + 1) * PORTION)
        for site in sites:
            site.wait_for_rows(FILES * PORTION)
        files = publish_together(sites, rows)
        for site in sites:  # one after the other: running sites take part in its last releases
            site.end()
            site.start("drain")
            site.finish()
    check(sites, rows[: len(SITES) * files * PORTION])


def publish_together(sites: list[Site], rows: list[dict[str, Any]]) -> int:
    """Feed more files, ever more slowly, until enough rows have been exchanged; returns the files per site."""
    pause = PAUSE
    for files in range(FILES, FILES + MORE_FILES):
        if sum(site.counted("received_rows_total") for site in sites) > TOGETHER:
            return files
        for at, site in enumerate(sites):
            site.feed(portion(rows, at, files))
        for site in sites:
            site.wait_for_rows((files + 1) * PORTION)
        pause *= SLOWER
        time.sleep(pause)
    pytest.fail("they have hardly published together")


def check(sites: list[Site], rows: list[dict[str, Any]]) -> None:
    """Every row exactly once; k persons and l values in every published group; books that balance."""
    out = pa.concat_tables([site.published() for site in sites])
    published = [int(row) for row in out["row"].to_pylist()]
    rejected = [row for site in sites for row in site.rejected()]
    assert len(published) == len(set(published)), "a row is published twice"
    assert len(rejected) == len(set(rejected)) == sum(row["age"] == "odd" for row in rows)
    assert not set(published) & set(rejected)
    books = [site.books() for site in sites]
    total = {name: sum(one[name] for one in books) for name in books[0] if isinstance(books[0][name], int)}
    assert total["rows_in"] == len(rows)
    assert len(published) == total["published"] + total["received"]
    assert total["received"] == total["handed_over"]
    assert total["received"] > TOGETHER, "they have hardly published together"
    left_out = total["suppressed"] + total["undecided"]
    assert len(rows) == total["published"] + total["handed_over"] + left_out + len(rejected)
    assert {row["row"] for row in rows} >= {*published}
    persons: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    values: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    columns = [name for name in out.column_names if name.endswith(("_min", "_max"))]
    for row, *box in zip(published, *(out[name].to_pylist() for name in columns), strict=True):
        persons[tuple(box)].add(rows[row]["pid"])
        values[tuple(box)].add(rows[row]["job"])
        for name in ("age", "zip", "income"):
            at = columns.index(f"{name}_min")
            assert box[at] <= rows[row][name] <= box[columns.index(f"{name}_max")]
    assert min(map(len, persons.values())) >= K
    assert min(map(len, values.values())) >= L
