"""Entry points that the public names do not offer. When a module moves, adapt its import here and nowhere else.

All other files of this folder use `import castleguard as cg` and what is defined here.
"""

import hashlib
import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

import castleguard as cg
from castleguard.algorithms.castle.policy import Reading
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.algorithms.lookup import built_in
from castleguard.cli import commands
from castleguard.job import Job
from castleguard.jobs import assemble
from castleguard.jobs.load import load
from castleguard.lab.transcriptions.dcastle.network import PaperNetwork
from castleguard.lab.transcriptions.dcastle.paper_policy import PaperPolicy
from castleguard.shards.cuts import cut_domain
from castleguard.shards.plan import Plan
from castleguard.shards.routing import HashRoute, LocalityRoute
from castleguard.shards.shard import Outcome, Shard
from castleguard.sites.memory_relay import Faults, Relay
from castleguard.sites.simulation import simulate
from castleguard.sites.site_membership import Membership
from castleguard.testing.crash import CrashError
from castleguard.testing.manual_clock import ManualClock
from tests.site_stream import SiteStream

__all__ = [
    "CrashError",
    "Dcastle",
    "Faults",
    "HashRoute",
    "LocalityRoute",
    "ManualClock",
    "Outcome",
    "Plan",
    "Reading",
    "Shard",
    "SiteStream",
    "built_in",
    "cut_domain",
    "fixed_keys",
    "make_job",
    "one_site",
    "run_command",
    "run_job",
    "run_paper_sites",
    "simulate",
]


@contextmanager
def fixed_keys(name: str) -> Iterator[None]:
    """Make fresh keys predictable: a job file has neither seed nor key.

    What the system returns depends on the number of bytes only, so that it does not matter who asks first.
    """
    before = os.urandom
    os.urandom = lambda size: hashlib.shake_256(f"{name} {size}".encode()).digest(size)
    try:
        yield
    finally:
        os.urandom = before


def run_command(arguments: Sequence[str]) -> str:
    """Run the command line in this process; what it prints."""
    said = StringIO()
    handlers = logging.getLogger("castleguard").handlers
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with redirect_stdout(said), redirect_stderr(StringIO()):
            commands.main(args=list(arguments), prog_name="castleguard", standalone_mode=False)
    finally:
        logging.getLogger("castleguard").handlers = handlers
        for number, handler in signals.items():
            signal.signal(number, handler)
    return said.getvalue()


def run_job(path: Path) -> dict[str, Any]:
    """Run a job to the end of its source; its books."""
    job = assemble.make_job(load(path))
    job.run()
    books = asdict(job.books())
    return {**books, "bad": books.pop("malformed"), "before": {}}  # as they were recorded


def make_job(path: Path, clock: ManualClock, *, site: str | None, step: Callable[[int], None]) -> Job:
    """The job of a file under a manual clock; `step` is called before every step of a commit.

    A site gets a relay of its own: no other site answers.
    """
    with (
        mock.patch.object(assemble, "Job", partial(Job, clock=clock, step=step)),
        mock.patch.object(assemble, "open_relay", lambda job: Relay().join(job.site)),
    ):
        return assemble.make_job(load(path, site=site))


def run_paper_sites(
    table: pa.Table, schema: cg.Schema, policy: dict[str, Any], *, seed: int
) -> tuple[list[object], dict[str, Any]]:
    """dCASTLE as printed: the box of every released row, and the books."""
    boxes: list[object] = []

    class Watched(PaperNetwork):
        def _step(self, site: Any, releases: Any) -> Any:
            boxes.extend(release.box for release in releases for _ in release.rows)
            return super()._step(site, releases)

    return boxes, asdict(Watched(schema, PaperPolicy(**policy), seed=seed).run_round_robin(table))


def one_site(schema: cg.Schema, policy: Dcastle, *, seed: int | None = None) -> SiteStream:
    """A site on its own: no other site receives its messages."""
    names = tuple(f"site{number}" for number in range(policy.sites))
    member = Membership(name=names[0], sites=names, key=b"golden", epoch="0")
    return SiteStream(schema, policy, member, Relay().join(names[0]), seed=seed)
