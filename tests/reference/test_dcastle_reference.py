"""dCASTLE's transcription on whole streams: what holds at every site, what does not, and that a run can be repeated."""

from collections.abc import Hashable
from random import Random

import pytest

from tests.reference.chacha import Draws
from tests.reference.dcastle import Settings, Site, WorkingCluster
from tests.reference.dcastle_network import Arrive, Deliver, Expire, Network, round_robin
from tests.reference.measure import Attribute, Box, Categorical, Domain, Numeric, Row, Tree, contains
from tests.reference.split import Event, split_diverse

TREE = Tree.from_mapping({"Any": {"School": ["a", "b"], "University": ["c", "d", "e"]}})
ATTRIBUTES: list[Attribute] = [Numeric(0, 100), Categorical(TREE), Numeric(0, 10)]
LEAVES = 6


def rows(count: int, seed: int, *, persons: int | None = None) -> list[Row]:
    """Persons with one row each, or rows spread over a number of persons."""
    random = Random(seed)
    return [
        Row(
            0,
            i if persons is None else random.randrange(persons),
            (random.triangular(0, 100) // 1, random.randrange(5), random.uniform(0, 10)),
            (random.randrange(LEAVES),),
        )
        for i in range(count)
    ]


def network(sites: int, *, k: int = 8, l: int = 3, seed: int = 0) -> Network:
    settings = Settings(k=k, l=l, delay=100, max_clusters=15, loss_window=50, sites=sites)
    choosers = [Draws([seed, x, 0, 0, 0, 0, 0, 0]).pick for x in range(sites)]
    return Network(ATTRIBUTES, settings, choosers, sensitive_leaves=LEAVES)


def at_once(sites: int, stream: list[Row], *, l: int = 3) -> Network:
    net = network(sites, l=l)
    net.run_at_once(round_robin(stream, sites))
    net.finish()
    return net


def at_random(sites: int, stream: list[Row], seed: int) -> Network:
    """Rows and messages in any order that keeps each connection's."""
    random = Random(seed)
    net = network(sites, seed=seed)
    for row in stream:
        net.play(Arrive(random.randrange(sites), row))
        while net.waiting() and random.random() < 0.5:
            net.play(Deliver(*random.choice(net.waiting())))
    net.finish()
    return net


def values_by_box(net: Network) -> dict[Box, set[Hashable]]:
    found: dict[Box, set[Hashable]] = {}
    for release in net.releases:
        for position in release.rows:
            found.setdefault(release.box, set()).update(net.rows[release.site, position].sensitive)
    return found


@pytest.fixture(scope="module", params=["at once", "at random"])
def net(request: pytest.FixtureRequest) -> Network:
    if request.param == "at once":
        return at_once(4, rows(2000, 1))
    return at_random(3, rows(900, 2, persons=300), seed=2)


class TestEverySchedule:
    """For any order of messages."""

    def test_every_row_is_released_exactly_once(self, net: Network) -> None:
        released = [(release.site, position) for release in net.releases for position in release.rows]
        assert sorted(released) == sorted(net.rows)
        assert all(not site.pending for site in net.sites)

    def test_every_row_is_released_in_a_generalisation_that_contains_it(self, net: Network) -> None:
        for release in net.releases:
            assert all(contains(release.box, net.rows[release.site, position]) for position in release.rows)

    def test_no_row_waits_for_more_than_delta_arrivals(self, net: Network) -> None:
        arrivals = [0 for _ in net.sites]
        for step in net.steps:
            if isinstance(step.event, Arrive):
                arrivals[step.event.site] += 1
            for release in step.releases:
                assert arrivals[release.site] - 1 - release.rows[0] <= 100

    def test_all_cases_and_messages_occur(self, net: Network) -> None:
        assert {release.case for release in net.releases} == {1, 2, 3, 4, 5, "message"}
        assert {message.kind for message in net.messages} == {"create", "output", "withdraw"}

    def test_the_recorded_schedule_gives_the_same_run(self, net: Network) -> None:
        again = network(len(net.sites), seed=2 if len(net.sites) == 3 else 0)
        assert again.run(net.schedule) == net.steps
        assert again.traffic == net.traffic


@pytest.mark.parametrize("persons", [None, 700])
def test_a_single_site_publishes_no_group_below_k_or_l(persons: int | None) -> None:
    net = at_once(1, rows(2000, 3, persons=persons))
    root = net.sites[0].space.root()
    assert all(len(people) >= 8 for box, people in net.published().items() if box != root)
    assert all(len(values) >= 3 for box, values in values_by_box(net).items() if box != root)


def test_several_sites_publish_groups_below_k_and_l() -> None:
    """Although every person has one row and every message arrives at once."""
    net = at_once(4, rows(2000, 1))
    root = net.sites[0].space.root()
    assert any(len(people) < 8 for box, people in net.published().items() if box != root)
    assert any(len(values) < 3 for box, values in values_by_box(net).items() if box != root)


def test_messages_and_bytes_are_counted_once_per_send() -> None:
    net = at_once(4, rows(500, 4))
    record = (3 + 2 + 1 + 2) * 4 + LEAVES
    assert net.traffic.messages == len(net.messages)
    assert net.traffic.bytes == record * sum(len(message.clusters) for message in net.messages)


@pytest.mark.parametrize("seed", range(20))
def test_algorithm_4_is_the_split_of_castle(seed: int) -> None:
    """Up to the loss, which is a sum here and a mean there."""
    stream = [
        Row(position, row.person, row.quasi, row.sensitive) for position, row in enumerate(rows(40, seed, persons=30))
    ]
    key = [seed, 0, 0, 0, 0, 0, 0, 0]
    settings = Settings(k=4, l=2, delay=100, max_clusters=1, loss_window=1, sites=1)
    site = Site(0, ATTRIBUTES, settings, Draws(key).pick)
    parts = site.d_split_cluster(WorkingCluster((0, 0), list(stream)), 7)
    theirs = split_diverse(stream, 0, 4, 2, "random", Event(7, Draws(key), Domain(ATTRIBUTES)))
    assert len(parts) > 1
    assert [{t.position for t in part.rows} for part in parts] == [{t.position for t in p.rows} for p in theirs]


def test_an_impossible_schedule_is_refused() -> None:
    net = network(2)
    with pytest.raises(ValueError, match="no message from site 0 to site 1"):
        net.play(Deliver(0, 1))
    with pytest.raises(ValueError, match="site 1 has no row"):
        net.play(Expire(1))
    with pytest.raises(ValueError, match="expected 0, got 3"):
        net.sites[0].receive(Row(3, "p", (1.0, 0, 1.0)))
    with pytest.raises(ValueError, match="lower and upper"):
        Site(0, [Numeric()], Settings(k=2, delay=1, max_clusters=1, loss_window=1, sites=1), Draws([0] * 8).pick)
    with pytest.raises(ValueError, match="l must not exceed k"):
        network(2, k=2, l=3)
