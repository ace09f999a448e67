"""Cost of publishing together for real sites: three processes over a NATS server, beside the same three alone.

    python -m benchmarks.sites --rows 500000

Every site reads its share of the Adult data (6 numeric quasi-identifiers, dealt out in turn and repeated, each row
a new person) from Parquet and publishes to Parquet, with a checkpoint. Rates are those of the slowest site, from its
first rows to its last; all sites and the server share the cores of the machine. The output is checked: every row
once, and no group below k.
"""

import argparse
import base64
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from rich.console import Console
from rich.table import Table

import castleguard as cg
from benchmarks import adult
from castleguard.checkpoint.store import Store
from tests.integration.broker_nats import running_broker
from tests.ports import free_port

SITES = ("berlin", "paris", "rome")
WARM = 30_000  # rows before the clock starts: kernels are loaded, and the first groups are out


@dataclass(frozen=True, kw_only=True)
class Way:
    """One publishing method."""

    name: str
    together: bool
    share_threshold: int | None = None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Result of a run."""

    rate: float
    """Rows per second of the slowest site."""
    loss: float
    groups: int
    smallest: int
    """Persons of the smallest group."""
    left_out: int
    handed_over: int
    messages: int
    bytes: int


def write_job(folder: Path, way: Way, *, k: int, delay: int, url: str) -> None:
    """Write the job file, and an input folder for every site."""
    roles = [
        {"name": role.name, "lower": role.lower, "upper": role.upper}
        for role in adult.schema(adult.load()).quasi_identifiers
        if isinstance(role, cg.Numeric)
    ]
    privacy = {"algorithm": "dcastle" if way.together else "castle", "k": k, "delay": delay}
    job = {
        "name": "adult",
        "source": {"type": "parquet", "path": "in/${SITE}/", "follow": True},
        "schema": {"person": "pid", "quasi_identifiers": roles, "public": ["row"]},
        "privacy": privacy,
        "sink": {"type": "parquet", "path": "out/${SITE}/"},
        "checkpoint": {"path": "${SITE}.db"},
        "metrics": {"port": "${PORT}"},
    }
    if way.together:
        job["sites"] = {"names": list(SITES), "relay": {"servers": url}, "key": "${SITES_KEY}"}
        if way.share_threshold is not None:
            privacy["share_threshold"] = way.share_threshold
    (folder / "job.yaml").write_text(yaml.safe_dump(job))


def deal(folder: Path, rows: int) -> None:
    """Rows of every site: a few to begin with, the others in a file set aside."""
    table = adult.load(rows * len(SITES)).select(["pid", *adult.NUMERIC])
    table = table.append_column("row", pa.array(np.arange(table.num_rows)))
    for at, site in enumerate(SITES):
        (folder / "in" / site).mkdir(parents=True)
        mine = table.take(pa.array(np.arange(at, table.num_rows, len(SITES))))
        pq.write_table(mine.slice(0, WARM), folder / "in" / site / "0.parquet")
        pq.write_table(mine.slice(WARM), folder / f"{site}.parquet")


class Site:
    """One process."""

    def __init__(self, folder: Path, name: str, way: Way) -> None:
        self.folder, self.name, self.way = folder, name, way
        self.port = free_port()
        command = ["site", "job.yaml", "--name", name] if way.together else ["run", "job.yaml"]
        self._environ = {
            **os.environ,
            "SITE": name,
            "PORT": str(self.port),
            "SITES_KEY": base64.b64encode(bytes(range(32))).decode(),
        }
        if way.together:
            del self._environ["SITE"]
        self.process = self._start(command)

    def _start(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        arguments = [sys.executable, "-m", "castleguard", *command, "--quiet"]
        return subprocess.Popen(arguments, cwd=self.folder, env=self._environ)

    def begin(self) -> None:
        """Let the rows arrive."""
        (self.folder / f"{self.name}.parquet").rename(self.folder / "in" / self.name / "1.parquet")

    def number(self, *names: str) -> int:
        """Sum of metrics."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return 0
        wanted = tuple(f"castleguard_{name}{{" for name in names)
        return int(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(wanted)))

    @property
    def rows(self) -> int:
        """Rows taken so far."""
        return self.number("rows_total", "rejected_rows_total", "pending_rows", "undecided_rows")

    def drain(self) -> None:
        """Stop it after it has published its pending rows."""
        self.process.terminate()
        if self.process.wait(timeout=120) != 0:
            raise SystemExit(f"{self.name} ended with {self.process.returncode}")
        self.process = self._start(["drain", "job.yaml", *(["--name", self.name] if self.way.together else [])])

    def end(self) -> None:
        """Read the books after a drain."""
        if self.process.wait(timeout=300) != 0:
            raise SystemExit(f"{self.name} ended with {self.process.returncode}")


@contextmanager
def running(folder: Path, way: Way) -> Iterator[list[Site]]:
    """Run all sites."""
    sites = [Site(folder, name, way) for name in SITES]
    try:
        yield sites
    finally:
        for site in sites:
            if site.process.poll() is None:
                site.process.kill()
                site.process.wait()


def measure(way: Way, *, rows: int, k: int, delay: int) -> Measured:
    """Run it once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        deal(folder, rows)
        with running_broker(folder) as broker:
            write_job(folder, way, k=k, delay=delay, url=broker.url)
            with running(folder, way) as sites:
                while any(site.rows < WARM for site in sites):
                    time.sleep(0.2)
                start = time.perf_counter()
                for site in sites:
                    site.begin()
                left = {site.name: site for site in sites}
                while left:
                    time.sleep(0.1)
                    for site in list(left.values()):
                        if site.rows >= rows:
                            del left[site.name]
                seconds = time.perf_counter() - start
                sent = [(site.number("messages_total"), site.number("message_bytes_total")) for site in sites]
                for site in sites:
                    site.drain()
                for site in sites:
                    site.end()
        return _counted(folder, rows, seconds, sent)


def _counted(folder: Path, rows: int, seconds: float, sent: list[tuple[int, int]]) -> Measured:
    out = pa.concat_tables(pq.read_table(folder / "out" / site) for site in SITES)
    published = out["row"].to_numpy()
    if np.unique(published).size != published.size:
        raise SystemExit("a row is published twice")
    box = [name for name in out.column_names if name.endswith(("_min", "_max"))]
    sizes = out.group_by(box).aggregate([([], "count_all")])["count_all"].to_numpy()
    books = []
    for site in SITES:
        with Store(folder / f"{site}.db") as store:
            latest = store.load()
        assert latest is not None
        books.append(latest.books)
    total = {name: sum(one[name] for one in books) for name in ("handed_over", "suppressed", "undecided")}
    left_out = total["suppressed"] + total["undecided"]
    if published.size + left_out != rows * len(SITES):
        raise SystemExit("a row is lost")
    parts = [(one["information_loss"], one["published"] + one["received"]) for one in books]
    lost = sum(loss * count for loss, count in parts) + left_out
    return Measured(
        rate=(rows - WARM) / seconds,
        loss=lost / (rows * len(SITES)),
        groups=sizes.size,
        smallest=int(sizes.min()),
        left_out=left_out,
        handed_over=total["handed_over"],
        messages=sum(messages for messages, _ in sent),
        bytes=sum(size for _, size in sent),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000, help="of each site")
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--delay", type=int, default=100_000)
    parser.add_argument("--share-threshold", type=int, help="the lower one that is tried; k / sites without it")
    asked = parser.parse_args(arguments)
    few = asked.share_threshold or -(-asked.k // len(SITES))
    ways = (
        Way(name="each site by itself", together=False),
        Way(name=f"together, boxes told from k = {asked.k} persons on", together=True),
        Way(name=f"together, boxes told from {few} persons on", together=True, share_threshold=few),
    )
    console = Console(width=160)
    table = Table(title=f"{len(SITES)} sites, {asked.rows:,} rows each, k={asked.k}, delay={asked.delay:,}")
    titles = ("way", "rows/s\nper site", "loss", "groups", "smallest", "left out", "published\nelsewhere", "messages")
    for title in (*titles, "bytes", "bytes\nper row"):
        table.add_column(title, justify="left" if title == "way" else "right")
    for way in ways:
        found = measure(way, rows=asked.rows, k=asked.k, delay=asked.delay)
        counted = (found.groups, found.smallest, found.left_out, found.handed_over, found.messages, found.bytes)
        per_row = found.bytes / (asked.rows * len(SITES))
        table.add_row(
            way.name, f"{found.rate:,.0f}", f"{found.loss:.4f}", *(f"{count:,}" for count in counted), f"{per_row:.1f}"
        )
    console.print(table)


if __name__ == "__main__":
    main()
