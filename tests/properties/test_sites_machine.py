"""Sites that publish together, whatever happens to them and to what they tell one another.

Hypothesis plays the weather, the crashes and the clock. The promises are checked by a reader who sees nothing but what
is delivered, and by the books of all sites at the end.
"""

import sys
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from castleguard.engine.dcastle_policy import Dcastle
from castleguard.sites.memory import Weather
from tests.properties.sites_world import HIGHEST, TREE, GossipingRelay, Moment, Reader, Row, Site, make_schema
from tests.properties.streams import examples

_NAMES = ("a", "b", "c", "d")
_ROW = 4  # bytes: person, number, category, sensitive value
_SITE = st.integers(0, 3)
_FEW, _MANY = (
    st.integers(1, most).flatmap(lambda count: st.binary(min_size=_ROW * count, max_size=_ROW * count))
    for most in (4, 40)
)
_SOME = st.tuples(*[st.sets(st.sampled_from(_NAMES), max_size=2)] * 2)
_SHARE = st.sampled_from((0.0, 0.0, 0.2, 0.6))


@st.composite
def policies(draw: st.DrawFn, *, sensitive: bool) -> Dcastle:
    """Small parameters: everything is scarce."""
    k = draw(st.sampled_from((2, 3, 4, 4, 5)))
    return Dcastle(
        sites=draw(st.integers(2, 4)),
        k=k,
        l=draw(st.integers(1, 2)) if sensitive else 1,
        delay=draw(st.integers(k, 16) | st.integers(10, 16)),
        max_wait=draw(st.none() | st.none() | st.none() | st.integers(4, 30)),
        max_clusters=draw(st.integers(1, 6)),
        loss_window=draw(st.integers(1, 5)),
        max_reusable=draw(st.sampled_from((1, 3, 50))),
        reuse=draw(st.sampled_from(("paper", "paper", "off"))),
        suppression=draw(st.sampled_from(("root", "drop"))),
        share_threshold=draw(st.integers(1, 2) | st.integers(1, k)),
        reserve=draw(st.sampled_from((0.5, 0.9))),
        k_scope=draw(st.sampled_from(("global", "global", "global", "global", "per_site"))),
    )


class Sites(RuleBasedStateMachine):
    """Two to four sites under random weather."""

    sites: list[Site]

    @initialize(
        data=st.data(),
        persons=st.sampled_from((True, True, False)),
        sensitive=st.sampled_from(((), ("s",))),
        category=st.booleans(),
        seed=st.integers(0, 2**16),
    )
    def begin(self, data: Any, persons: bool, sensitive: tuple[str, ...], category: bool, seed: int) -> None:
        """Some sites that know nothing yet."""
        policy = data.draw(policies(sensitive=bool(sensitive)))
        schema = make_schema(persons=persons, sensitive=sensitive, category=category)
        self.now = 0.0
        self.rows = 0
        self.spread = data.draw(st.sampled_from((8, 40, 250)))
        self.relay = GossipingRelay(seed=seed)
        self.reader = Reader(schema=schema, policy=policy)
        names = _NAMES[: policy.sites]
        self.sites = [Site(name, names, self.relay, self.reader) for name in names]

    @rule(number=_SITE, data=_FEW, wait=st.integers(0, 2))
    def push(self, number: int, data: bytes, wait: int) -> None:
        """Rows arrive at a site, after those that it has to read again."""
        self.now += wait
        site = self._site(number)
        site.source += [self._row(data[at : at + _ROW]) for at in range(0, len(data), _ROW)]
        site.push(site.unread, self.now)

    @rule(first=_SITE, data=_MANY)
    def push_everywhere(self, first: int, data: bytes) -> None:
        """Rows arrive at the sites in turn; what these have to say is heard soon."""
        for number, at in enumerate(range(0, len(data), _ROW), start=first):
            self.push(number, data[at : at + _ROW], 0)
            self._site(number).commit()
            self.relay.pass_time()

    @rule(number=_SITE, dies=st.sampled_from((None, None, "stored", "delivered")))
    def commit(self, number: int, dies: Moment | None) -> None:
        """A site commits, and may die on the way."""
        self._site(number).commit(dies)

    @rule(number=_SITE, dies=st.sampled_from((True, True, False)))
    def end(self, number: int, dies: bool) -> None:
        """A site dies and reads again what is not on its disk; or its stream ends for now, and nothing stays locked."""
        site = self._site(number)
        if dies:
            site.start()
            site.push(site.unread, self.now)
        else:
            site.flush()

    @rule(number=_SITE, wait=st.integers(0, 4))
    def tick(self, number: int, wait: int) -> None:
        """Time passes."""
        self.now += wait
        self.relay.pass_time()
        self._site(number).tick(self.now)

    @rule(number=_SITE)
    def propose(self, number: int) -> None:
        """A site looks for others to publish with."""
        self._site(number).stream.cooperation.propose_all()

    @rule(first=st.integers(0, 40), count=st.integers(1, 20))
    def repeat(self, first: int, count: int) -> None:
        """The relay delivers old messages again."""
        for number in range(first + count, first, -1):
            self.relay.repeat(number)

    @rule(calm=st.booleans(), loss=_SHARE, doubled=_SHARE, unsure=_SHARE, delay=st.integers(0, 3), away=_SOME)
    def change_weather(
        self, calm: bool, loss: float, doubled: float, unsure: float, delay: int, away: tuple[set[str], set[str]]
    ) -> None:
        """Another weather."""
        gone, pair = away
        parted = {frozenset(pair)} if len(pair) == 2 else set()
        weather = Weather(loss=loss, doubled=doubled, delay=delay, away=gone, parted=parted, unsure=unsure)
        self.relay.weather = Weather() if calm else weather

    def teardown(self) -> None:
        """In the end the weather is fine, and every row is accounted for."""
        if sys.exc_info()[0] is not None or not hasattr(self, "sites"):
            return
        self.relay.weather = Weather()
        for _ in range(3):
            for site in self.sites:
                site.push(site.unread, self.now)
                site.commit()
            self.relay.pass_time()
        for site in self.sites:
            site.flush()
            site.commit()
        for _ in range(2):  # what was given up is looked up, and what that finds is handed out
            for site in self.sites:
                site.tick(self.now)
                site.commit()
        reports = [site.stream.report() for site in self.sites]
        assert [report.rows_in for report in reports] == [len(site.source) for site in self.sites]
        assert all(report.pending == report.undecided == 0 for report in reports)
        assert sum(report.handed_over for report in reports) == sum(report.received for report in reports)
        assert sum(report.published + report.received for report in reports) == len(self.reader.published)

    def _site(self, number: int) -> Site:
        return self.sites[number % len(self.sites)]

    def _row(self, data: bytes) -> Row:
        self.rows += 1
        person, number, category, value = data
        return {
            "row": self.rows,
            "p": person % self.spread or None,
            "q": None if number > 250 else number % (HIGHEST + 1),
            "c": TREE.leaves[category % len(TREE.leaves)],
            "s": value % 3 or None,
        }


TestSites = Sites.TestCase
TestSites.settings = settings(examples(4), stateful_step_count=40)
