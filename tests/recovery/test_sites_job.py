"""Two jobs with joint releases that die at any step of a commit: every row is published once."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

import castleguard as cg
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.books import Books
from castleguard.checkpoint.store import Store
from castleguard.coordination import Alone
from castleguard.job import Job, Pace, Parts
from castleguard.sites.coordinator import SiteCoordinator
from castleguard.sites.memory_relay import Relay
from castleguard.sites.site_membership import Membership
from castleguard.testing.crash import CrashError
from castleguard.testing.manual_clock import ManualClock
from tests.recovery.fakes import Shelf, Topic

SCHEMA = cg.Schema(person="pid", quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)], public=["row"])
K, DELAY = 6, 64
POLICY = Dcastle(k=K, delay=DELAY, sites=2, share_threshold=3)
NAMES = ("north", "south")
ROWS = 112
STEPS = range(1, 7)


class Site:
    """One site: the data that outlives its processes, and the current process."""

    def __init__(self, folder: Path, relay: Relay, name: str) -> None:
        self.folder, self.relay, self.name = folder, relay, name
        self.shelf, self.clock, self.epoch = Shelf(), ManualClock(), 0
        at = NAMES.index(name)
        self.topic = Topic(
            [{"pid": n % 70, "age": n * 37 % 100, "row": n} for n in range(at, 2 * ROWS, 2)], endless=True
        )
        self.happens: Callable[[int], None] = lambda _: None
        self.job = self.start()

    def start(self) -> Job:
        self.epoch += 1
        parts = Parts(
            open_source=lambda position: self.topic.source(position, batch=POLICY.joint.step),
            make_stream=self.stream,
            sink=self.shelf,
            store=Store(self.folder / f"{self.name}.db"),
            identity={"site": self.name},
        )
        # A commit for every release, and one every ten turns.
        return Job(parts, clock=self.clock, pace=Pace(every=1.0, poll=0.1, urgent=0.0), step=self.step)

    def stream(self, snapshot: bytes | None) -> cg.Anonymiser:
        member = Membership(name=self.name, sites=NAMES, key=b"shared", epoch=f"{self.epoch:04d}")
        coordinator = SiteCoordinator(member, self.relay.join(self.name), seed=5)
        if snapshot is not None:
            return cg.Anonymiser.restore(SCHEMA, POLICY, snapshot, coordinator=coordinator)
        return cg.Anonymiser(SCHEMA, POLICY, seed=5, coordinator=coordinator)

    def step(self, at: int) -> None:
        self.happens(at)

    def turn(self) -> None:
        """Run a turn of the job, or of its successor."""
        try:
            self.job.turn()
        except CrashError:
            self.job.close()
            self.happens = lambda _: None
            self.job = self.start()
        self.clock.advance(0.1)


def run(folder: Path, *, dies: tuple[int, int] | None = None) -> tuple[list[Site], int]:
    """Run both sites to the end; the first dies at (step, commit). Return its number of commits."""
    relay = Relay(seed=3)
    sites = [Site(folder, relay, name) for name in NAMES]
    commits = 0

    def step(at: int) -> None:
        nonlocal commits
        commits += at == 1
        if dies is not None and (at, commits) == dies:
            raise CrashError

    sites[0].happens = step
    for _ in range(2 * ROWS // POLICY.joint.step):
        for site in sites:
            site.turn()
        relay.pass_time()
    for site in sites:
        site.job.commit()
        assert site.job.drain() == "drained"
        relay.pass_time()
    return sites, commits


def check(sites: list[Site]) -> None:
    published = [row for site in sites for row in site.shelf.table().to_pylist()]
    numbers = sorted(row["row"] for row in published)
    assert numbers == sorted(set(numbers)), "a row is published twice"
    books = [site.job.books() for site in sites]
    total = Books.total(books)
    assert total.rows_in == 2 * ROWS
    assert total.undecided == 0
    assert len(numbers) + total.suppressed == 2 * ROWS
    assert total.handed_over == total.received
    assert len(numbers) == total.published + total.received
    persons = defaultdict(set)
    for row in published:
        persons[row["age_min"], row["age_max"]].add(row["row"] % 70)
        assert row["age_min"] <= row["row"] * 37 % 100 <= row["age_max"]
    assert min(map(len, persons.values())) >= K


def test_two_sites_publish_jointly_and_every_row_once(tmp_path: Path) -> None:
    sites, commits = run(tmp_path)
    check(sites)
    assert commits > 8
    assert sum(site.job.books().received for site in sites) > 0


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("commit", [3, 5, 8])
def test_site_that_dies_at_any_step_of_a_commit_publishes_nothing_twice(tmp_path: Path, step: int, commit: int) -> None:
    sites, _ = run(tmp_path, dies=(step, commit))
    assert sites[0].epoch == 2, "it did not die"
    check(sites)


class Holding(Alone):
    """A coordinator that always holds rows back, for at most 50 ms."""

    def holds_rows(self, waited: float) -> bool:
        return 0.0 <= waited < 0.05


def test_next_rows_wait_while_a_decision_is_awaited_but_not_for_ever(tmp_path: Path) -> None:
    topic = Topic([{"pid": n, "age": n, "row": n} for n in range(30)], endless=True)
    parts = Parts(
        open_source=topic.source,
        make_stream=lambda _: cg.Anonymiser(SCHEMA, cg.Castle(k=2, delay=20), coordinator=Holding()),
        sink=Shelf(),
    )
    clock = ManualClock()
    job = Job(parts, clock=clock)
    moments: dict[int, float] = {}
    while (taken := job.books().rows_in) < 28:
        moments.setdefault(taken, clock.now())
        job.turn()
    job.close()
    waits = [moments[now] - moments[before] for before, now in ((7, 14), (14, 21))]
    assert waits == pytest.approx([0.05, 0.05], abs=0.006)


def test_further_resources_of_a_stream_are_closed_with_the_job(tmp_path: Path) -> None:
    closed: list[str] = []
    parts = Parts(
        open_source=Topic([]).source,
        make_stream=lambda _: cg.Anonymiser(SCHEMA, cg.Castle(k=2, delay=20)),
        sink=Shelf(),
        close=lambda: closed.append("relay"),
    )
    assert Job(parts, clock=ManualClock()).run() == "finished"
    assert closed == ["relay"]
