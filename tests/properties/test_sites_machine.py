"""Sites that publish together under faults of sites and messages.

Hypothesis drives the faults and the clock, and chooses what follows each step: the number of rows that arrive, the
rate of faults, and a seed for their kind (which does not shrink). A reader who sees only delivered rows checks the
promises, and so do the books of all sites at the end.
"""

import random
import sys
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.sites.memory_relay import Faults
from tests.properties.sites_world import HIGHEST, TREE, GossipingRelay, Reader, Site, make_schema
from tests.properties.streams import examples

Life = tuple[int, int, float]  # rows, a seed, how often something goes wrong

_NAMES = ("a", "b", "c", "d")
_SITE = st.integers(0, 3)
_SOME = st.sets(st.sampled_from(_NAMES), max_size=2)
_LIFE = st.tuples(st.integers(0, 40), st.integers(0, 2**16), st.sampled_from((0.0, 0.1, 0.4)))
_SHARE = st.sampled_from((0.0, 0.0, 0.2, 0.6))


@st.composite
def policies(draw: st.DrawFn, *, sensitive: bool) -> Dcastle:
    """Small parameters: everything is scarce."""
    k = draw(st.sampled_from((2, 3, 4, 4, 5)))
    return Dcastle(
        sites=draw(st.integers(2, 4)),
        k=k,
        l=draw(st.integers(1, 2)) if sensitive else 1,
        delay=draw(st.integers(k, 16) | st.integers(10, 16) | st.integers(30, 40)),
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
    """Two to four sites under random faults."""

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

    @rule(number=_SITE, rows=st.integers(0, 30), life=_LIFE)
    def push(self, number: int, rows: int, life: Life) -> None:
        """Many rows arrive at a site at once."""
        self._push(self._site(number), rows, random.Random(rows))
        self._live(*life)

    @rule(number=_SITE, life=_LIFE)
    def flush(self, number: int, life: Life) -> None:
        """The stream of a site ends for now: nothing stays locked."""
        self._site(number).flush()
        self._live(*life)

    @rule(number=_SITE, wait=st.integers(0, 4), life=_LIFE)
    def tick(self, number: int, wait: int, life: Life) -> None:
        """Time passes."""
        self.now += wait
        self._site(number).tick(self.now)
        self._live(*life)

    @rule(number=_SITE, life=_LIFE)
    def propose(self, number: int, life: Life) -> None:
        """A site looks for others to publish with."""
        site = self._site(number)
        site.stream.cooperation.ending = True
        site.tick(self.now)
        site.stream.cooperation.ending = False
        self._live(*life)

    @rule(first=st.integers(0, 40), count=st.integers(1, 20), life=_LIFE)
    def repeat(self, first: int, count: int, life: Life) -> None:
        """The relay delivers old messages again."""
        for number in range(first + count, first, -1):
            self.relay.repeat(number)
        self._live(*life)

    @rule(shares=st.tuples(_SHARE, _SHARE, _SHARE), delay=st.integers(0, 3), away=_SOME, parted=_SOME, life=_LIFE)
    def change_faults(
        self, shares: tuple[float, float, float], delay: int, away: set[str], parted: set[str], life: Life
    ) -> None:
        """Change the faults."""
        loss, doubled, unsure = shares
        pairs = {frozenset(parted)} if len(parted) == 2 else set()
        self.relay.faults = Faults(loss=loss, doubled=doubled, delay=delay, away=set(away), parted=pairs, unsure=unsure)
        self._live(*life)

    @rule(life=_LIFE)
    def clear_up(self, life: Life) -> None:
        """Everybody reaches everybody."""
        self.relay.faults = Faults()
        self._live(*life)

    def _live(self, rows: int, seed: int, trouble: float) -> None:
        """Rows arrive here and there, one by one, and their sites commit, unless something else happens."""
        chance = random.Random(seed)
        for _ in range(rows):
            site = chance.choice(self.sites)
            self._push(site, 1, chance)
            if chance.random() >= trouble:
                site.commit()
            else:
                self._trouble(site, chance)
            self.relay.pass_time()

    def _trouble(self, site: Site, chance: random.Random) -> None:
        match chance.choice(("dies", "dies late", "commits twice", "goes or comes", "hears again", "commits later")):
            case "dies":
                site.start()
            case "dies late":
                site.commit(chance.choice(("stored", "delivered")))
            case "commits twice":
                site.commit()
                site.commit()
            case "goes or comes":
                self.relay.faults.away.symmetric_difference_update({site.name})
            case "hears again":
                self.relay.repeat(chance.randrange(20))

    def teardown(self) -> None:
        """In the end there are no faults, and every row is accounted for."""
        if sys.exc_info()[0] is not None or not hasattr(self, "sites"):
            return
        self.relay.faults = Faults()
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

    def _push(self, site: Site, rows: int, chance: random.Random) -> None:
        for _ in range(rows):
            self.rows += 1
            site.source.append(
                {
                    "row": self.rows,
                    "p": chance.randrange(self.spread) or None,
                    "q": chance.choice((None, *range(HIGHEST + 1), *range(HIGHEST + 1))),
                    "c": chance.choice(TREE.leaves),
                    "s": chance.choice((None, "x", "y")),
                }
            )
        site.push(site.unread, self.now)


TestSites = Sites.TestCase
TestSites.settings = settings(examples(1), stateful_step_count=10)
