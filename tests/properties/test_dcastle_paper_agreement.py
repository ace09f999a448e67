"""dCASTLE as printed against its transcription: the same schedule and the same draws give the same releases, messages
and clusters, event by event and to the last bit, for any order in which messages arrive.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.lab.transcriptions.dcastle.network import PaperNetwork
from castleguard.lab.transcriptions.dcastle.paper_messages import Step
from castleguard.lab.transcriptions.dcastle.paper_policy import PaperPolicy
from castleguard.lab.transcriptions.dcastle.paper_site import Site
from castleguard.schema.coded import CodedRows
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive
from tests.properties.streams import categories, coded_rows, examples, schemas
from tests.properties.transcription import attributes_of, rows_of
from tests.reference import dcastle, dcastle_network
from tests.reference.chacha import Draws
from tests.reference.dcastle_network import Arrive, Deliver, Event, Expire, Network
from tests.reference.measure import Row

Asked = list[tuple[int, str, int, int]]  # site, purpose, position, n


@dataclass(frozen=True, eq=False)
class Case:
    """Input of both: rows in order of arrival, and a byte for every open choice."""

    schema: Schema
    policy: PaperPolicy
    key: int
    rows: CodedRows
    bytes: bytes


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Small clusters, few of them, and several rows per person: every case of the paper and every message occurs."""
    schema = draw(schemas(strict=True))
    declared = draw(st.booleans())
    if schema.sensitive and declared:
        roles = [Sensitive("s0", hierarchy=draw(categories()))]
        schema = Schema(person="p", quasi_identifiers=schema.quasi_identifiers, sensitive=roles)
    k = draw(st.integers(2, 6))
    policy = PaperPolicy(
        k=k,
        l=min(k, draw(st.integers(1, 3))) if schema.sensitive else 1,
        delay=draw(st.integers(1, 40)),
        sites=draw(st.sampled_from((1, 2, 2, 3, 3, 4))),
        max_clusters=draw(st.integers(1, 6)),
        loss_window=draw(st.integers(1, 5)),
    )
    rows = draw(coded_rows(schema, named=True))  # the paper knows no others
    rows = rows.take(np.flatnonzero(~rows.to_root))
    count = 2 * rows.person.size
    return Case(schema, policy, draw(st.integers(0, 2**32 - 1)), rows, draw(st.binary(min_size=count, max_size=count)))


class Pair:
    """Both networks, run side by side."""

    def __init__(self, case: Case) -> None:
        policy = case.policy
        self.case = case
        self.asked: Asked = []
        self.asked_by_paper: Asked = []
        self.ours = PaperNetwork(case.schema, policy, choosers=self._choosers(self.asked))
        settings = dcastle.Settings(
            k=policy.k,
            l=policy.l,
            delay=policy.delay,
            max_clusters=policy.max_clusters,
            loss_window=policy.loss_window,
            sites=policy.sites,
        )
        labels = case.schema.sensitive[0].labels if case.schema.sensitive else None
        self.paper = Network(
            attributes_of(case.schema, snap=False),
            settings,
            self._choosers(self.asked_by_paper),
            sensitive_leaves=None if labels is None else len(labels),
        )
        self._rows = iter(rows_of(case.rows))

    def play(self, event: Event | None) -> None:
        """Run one event on both sides. None: nothing to do."""
        if event is None:
            return
        if isinstance(event, Arrive):
            ours = self.ours.arrive(event.site, self._coded(event.row))
        elif isinstance(event, Expire):
            ours = self.ours.expire(event.site)
        else:
            ours = self.ours.deliver(event.sender, event.receiver)
        self._compare([ours], [self.paper.play(event)])

    def settle(self) -> None:
        """Deliver all messages, oldest first."""
        self._compare(self.ours.settle(), self.paper.settle())

    def finish(self) -> None:
        """End all streams."""
        ours, before = self.ours.finish(), len(self.paper.steps)
        self.paper.finish()
        self._compare(ours, self.paper.steps[before:])
        assert all(site.pending == 0 for site in self.ours.sites)

    def arrival(self, site: int) -> Arrive | None:
        """Push the next row, if any, to this site."""
        row = next(self._rows, None)
        return None if row is None else Arrive(site, row)

    def chosen(self, byte: int) -> Event | None:
        """Choose an event by its byte: mostly rows, many deliveries, rarely the expiry of a site's oldest row."""
        kind, rest = byte % 16, byte // 16
        waiting = self.paper.waiting()
        assert sorted(self.ours.waiting()) == sorted(waiting)
        if kind == 0:
            return self._expiry(rest)
        if kind < 7 and waiting:
            return Deliver(*waiting[rest % len(waiting)])
        return self.arrival(rest % self.case.policy.sites)

    def ending(self, byte: int) -> Event | None:
        """After the last row: a delivery or an expiry, in any order."""
        waiting = self.paper.waiting()
        if byte % 2 and waiting:
            return Deliver(*waiting[byte // 2 % len(waiting)])
        return self._expiry(byte // 2)

    def _expiry(self, number: int) -> Expire | None:
        pending = [site.x for site in self.paper.sites if site.pending]
        return Expire(pending[number % len(pending)]) if pending else None

    def _coded(self, row: Row) -> CodedRows:
        return self.case.rows.take(np.array([row.position]))

    def _choosers(self, asked: Asked) -> list[Callable[[str, int, int], int]]:
        def chooser(site: int) -> Callable[[str, int, int], int]:
            draws = Draws([self.case.key, site, 0, 0, 0, 0, 0, 0])

            def choose(purpose: str, position: int, n: int) -> int:
                asked.append((site, purpose, position, n))
                return draws.pick(purpose, position, n)

            return choose

        return [chooser(site) for site in range(self.case.policy.sites)]

    def _compare(self, ours: Sequence[Step], theirs: Sequence[dcastle_network.Step]) -> None:
        # Both are tuples with the same fields, down to the records of a message.
        released: list[list[tuple[object, ...]]] = [[*step.releases] for step in ours]
        sent: list[list[tuple[object, ...]]] = [[*step.messages] for step in ours]
        assert released == [step.releases for step in theirs]
        assert sent == [step.messages for step in theirs]
        assert (self.ours.messages, self.ours.bytes) == (self.paper.traffic.messages, self.paper.traffic.bytes)
        assert self.asked == self.asked_by_paper
        for site, its_twin in zip(self.ours.sites, self.paper.sites, strict=True):
            assert list(_state(site)) == list(_twins_state(its_twin))
            assert site.threshold == its_twin.tau
            assert site.pending == len(its_twin.pending)


def _state(site: Site) -> Iterator[tuple[object, ...]]:
    """A site's knowledge of every cluster."""
    gamma = site.gamma
    for at, cluster in enumerate(gamma.clusters):
        box = site.space.box(gamma.lower[:, at], gamma.upper[:, at])
        yield cluster.id, cluster.rows, box, gamma.loss[at], gamma.size[at], gamma.diversity[at], cluster.values


def _twins_state(site: dcastle.Site) -> Iterator[tuple[object, ...]]:
    for C in site.clusters:  # noqa: N806
        yield C.id, [row.position for row in C.rows], C.box, site.space.loss(C.box), C.size, C.diversity, C.values


@examples(4)
@given(cases())
def test_any_schedule_gives_the_same_releases_and_messages(case: Case) -> None:
    pair = Pair(case)
    half = len(case.bytes) // 2
    for byte in case.bytes[:half]:
        pair.play(pair.chosen(byte))
    for byte in case.bytes[half:]:
        pair.play(pair.ending(byte))
    pair.finish()


@examples(2)
@given(cases())
def test_messages_delivered_at_once_give_the_same_releases(case: Case) -> None:
    pair = Pair(case)
    for number in range(case.rows.person.size):
        pair.play(pair.arrival(number % case.policy.sites))
        pair.settle()
    pair.finish()


@examples(1)
@given(cases())
def test_every_row_is_released_once_and_within_its_delay(case: Case) -> None:
    network = PaperNetwork(case.schema, case.policy, seed=case.key)
    sites, released = case.policy.sites, set()
    for number in range(case.rows.person.size):
        steps = [network.arrive(number % sites, case.rows.take(np.array([number]))), *network.settle()]
        for release in (release for step in steps for release in step.releases):
            arrived = len(network.sites[release.site].rows)
            assert all(arrived - 1 - row <= case.policy.delay for row in release.rows)
            released |= {(release.site, row) for row in release.rows}
    released |= {(release.site, row) for step in network.finish() for release in step.releases for row in release.rows}
    run = network.run()
    assert len(released) == run.published + run.suppressed == case.rows.person.size


LONG = Schema(
    person="p",
    quasi_identifiers=[
        Numeric("q0", lower=0, upper=100),
        Categorical(
            "q1", hierarchy=Hierarchy.from_mapping({"*": {"a": [1, 2, 3], "b": {"c": [4, 5], "d": [6]}, "e": [7]}})
        ),
        Numeric("q2", lower=0, upper=10),
    ],
    sensitive=[Sensitive("s", values=list(range(6)))],
)


@pytest.mark.parametrize(("sites", "l", "persons"), [(1, 3, 300), (2, 1, 10**6), (3, 3, 300), (4, 3, 10**6)])
def test_long_streams_agree_too(sites: int, l: int, persons: int) -> None:
    """Enough rows for every case and for splits of large clusters; deliveries lag by a few rows."""
    random = np.random.default_rng(sites + persons)
    count = 1200
    rows = CodedRows(
        quasi=np.stack(
            [
                np.floor(random.triangular(0, 40, 100, count)),
                random.integers(0, 7, count).astype(np.float64),
                random.uniform(0, 10, count),
            ],
            axis=1,
        ),
        person=random.integers(0, persons, count).astype(np.uint64),
        sensitive=random.poisson(1, (count, 1)).clip(0, 5),
        to_root=np.zeros(count, dtype=np.bool_),
    )
    policy = PaperPolicy(k=8, l=l, delay=100, sites=sites, max_clusters=15, loss_window=50)
    pair = Pair(Case(LONG, policy, 7, rows, b""))
    for _ in range(count):
        pair.play(pair.arrival(int(random.integers(sites))))
        while (waiting := pair.paper.waiting()) and random.random() < 0.5:
            pair.play(Deliver(*waiting[random.integers(len(waiting))]))
    pair.finish()
    assert {release.case for release in pair.paper.releases} == {1, 2, 3, 4, 5} | ({"message"} if sites > 1 else set())
    assert {"seed_bucket", "row_in_bucket", "reuse"} <= {purpose for _, purpose, _, _ in pair.asked}
    assert_books(pair)


def assert_books(pair: Pair) -> None:
    """The numbers of the run are those of the transcription's merged stream."""
    run, policy, columns = pair.ours.run(), pair.case.policy, len(pair.case.schema.quasi_identifiers)
    root = pair.paper.sites[0].space.root()
    groups = {box: people for box, people in pair.paper.published().items() if box != root}
    values = {
        box: {
            pair.paper.rows[release.site, position].sensitive
            for release in pair.paper.releases
            for position in release.rows
            if release.box == box
        }
        for box in groups
    }
    at_root = sum(len(release.rows) for release in pair.paper.releases if release.box == root)
    assert (run.groups, run.suppressed, run.published) == (len(groups), at_root, pair.case.rows.person.size - at_root)
    assert run.groups_below_k == sum(len(people) < policy.k for people in groups.values())
    assert run.groups_below_l == sum(len(found) < policy.l for found in values.values())
    total = sum(release.loss / columns * len(release.rows) for release in pair.paper.releases)
    assert run.information_loss == pytest.approx(total / pair.case.rows.person.size)
