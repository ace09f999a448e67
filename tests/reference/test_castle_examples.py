"""The worked examples 1 to 6 of the CASTLE paper, executed on the transcription."""

from math import floor

import pytest

from tests.reference.castle import Castle, Decision, Row, Settings
from tests.reference.measure import Attribute, Box, Categorical, Cluster, Domain, Numeric, Tree

# Figure 1, as far as the text tells it: five leaves, two of them below University.
EDUCATION = Tree.from_mapping(
    {
        "Any": {
            "Secondary education": ["Primary School", "Secondary School"],
            "University": ["Bachelor", "Master", "Ph.D."],
        }
    }
)
PRIMARY, SECONDARY, BACHELOR, MASTER, PHD = range(5)
ANY: tuple[float, float] = (PRIMARY, PHD)
UNIVERSITY: tuple[float, float] = (BACHELOR, PHD)

ATTRIBUTES: list[Attribute] = [Numeric(18, 120), Categorical(EDUCATION)]


class Always:
    """A random choice that always falls on the same number, and remembers what it was asked."""

    def __init__(self, answer: int = 0) -> None:
        self.answer = answer
        self.asked: list[tuple[str, int, int]] = []

    def pick(self, purpose: str, position: int, n: int) -> int:
        self.asked.append((purpose, position, n))
        return self.answer


class Stream:
    """Rows numbered as they come, each of a new person unless said otherwise; they expire only when told to."""

    def __init__(self, k: int, answer: int = 0) -> None:
        self.choices = Always(answer)
        settings = Settings.paper(k=k, delay=1000, max_clusters=1, loss_window=100)
        self.castle = Castle(ATTRIBUTES, settings, self.choices)
        self.next = 0

    def arrive(self, *quasi: tuple[int, int]) -> list[int]:
        """One row for each pair of age and education; returns their positions."""
        positions = list(range(self.next, self.next + len(quasi)))
        for position, pair in zip(positions, quasi, strict=True):
            assert self.castle.push(Row(position, f"person {position}", pair)) == []
        self.next += len(quasi)
        return positions

    def release(self, *quasi: tuple[int, int]) -> Decision:
        """Let these rows arrive and the first of them expire: they leave together."""
        positions = self.arrive(*quasi)
        (decision,) = self.castle.expire(positions[0])
        assert decision.kind == "new"
        assert decision.rows == positions
        return decision

    def reusable(self) -> list[Box]:
        return [entry.published for entry in self.castle.omega]


C2: Box = ((26, 28), UNIVERSITY)
C3: Box = ((24, 27), UNIVERSITY)
WIDE = (18, PRIMARY), (90, PHD), (60, PHD), (70, MASTER)  # a poor cluster first, so that later ones are below tau
IN_C2 = (26, BACHELOR), (28, MASTER), (27, BACHELOR), (27, MASTER)
IN_C3 = (24, BACHELOR), (25, MASTER), (26, BACHELOR), (27, MASTER)  # P1 to P4 of Example 6


def with_both_clusters_published(answer: int = 0) -> Stream:
    """The instant iota of Example 4: C2 and C3 are k_s-anonymised."""
    stream = Stream(k=4, answer=answer)
    stream.release(*WIDE)
    assert stream.release(*IN_C2).box == C2
    assert stream.release(*IN_C3).box == C3
    assert stream.reusable() == [C2, C3]
    return stream


def test_example_1_range_intervals_and_size_of_a_cluster() -> None:
    cluster = Cluster([Row(0, "pid1", (25, BACHELOR)), Row(1, "pid2", (26, MASTER)), Row(2, "pid3", (30, PHD))])
    assert cluster.box == ((25, 30), (BACHELOR, PHD))
    assert cluster.size == 3
    cluster.add(Row(3, "pid1", (25, BACHELOR)))
    assert cluster.box == ((25, 30), (BACHELOR, PHD))
    assert cluster.size == 3


def test_example_2_enlargements_are_those_printed() -> None:
    domain = Domain(ATTRIBUTES)
    c1: Box = ((18, 22), (PRIMARY, SECONDARY))
    c2: Box = ((26, 28), (BACHELOR, MASTER))
    t = Row(0, "pid", (24, BACHELOR))
    assert domain.loss(c1) == pytest.approx((4 / 102 + 1 / 4) / 2)
    assert floor(domain.enlargement(c1, t.box) * 1000) == 384  # printed as 0.384, which is cut off and not rounded
    assert domain.enlargement(c1, t.box) == pytest.approx((6 / 102 + 4 / 4) / 2 - (4 / 102 + 1 / 4) / 2)
    assert round(domain.enlargement(c2, t.box), 4) == 0.0098  # printed as 0.01
    assert domain.published(((18, 24), (PRIMARY, BACHELOR))) == ((18, 24), ANY)
    assert domain.published(((24, 28), (BACHELOR, MASTER))) == ((24, 28), UNIVERSITY)


def test_example_2_the_tuple_is_pushed_into_the_nearer_cluster() -> None:
    settings = Settings.paper(k=10, delay=1000, max_clusters=2, loss_window=100, tau_init=0.3)
    castle = Castle(ATTRIBUTES, settings, Always())
    for position, quasi in enumerate([(18, PRIMARY), (22, SECONDARY), (26, BACHELOR), (28, MASTER)]):
        castle.push(Row(position, position, quasi))
    c1, c2 = castle.clusters
    assert c1.box == ((18, 22), (PRIMARY, SECONDARY))
    assert c2.box == ((26, 28), (BACHELOR, MASTER))
    castle.push(Row(4, 4, (24, BACHELOR)))
    assert c1.box == ((18, 22), (PRIMARY, SECONDARY))
    assert c2.box == ((24, 28), (BACHELOR, MASTER))


def test_example_3_an_expiring_tuple_reuses_the_published_cluster_that_contains_it() -> None:
    stream = Stream(k=4)
    stream.release(*WIDE)
    stream.release(*IN_C2)
    position, *_ = stream.arrive((26, BACHELOR), (24, MASTER), (27, BACHELOR))
    (c3,) = stream.castle.clusters
    assert c3.box == ((24, 27), (BACHELOR, MASTER))
    assert c3.size < 4
    (decision,) = stream.castle.expire(position)
    assert (decision.kind, decision.rows, decision.box) == ("reuse", [position], C2)
    assert c3.box == ((24, 27), (BACHELOR, MASTER))
    assert c3.size == 2


def test_example_4_outside_the_overlap_only_the_wider_cluster_contains_the_tuple() -> None:
    stream = with_both_clusters_published()
    (position,) = stream.arrive((25, MASTER))
    (decision,) = stream.castle.expire(position)
    assert (decision.kind, decision.box) == ("reuse", C3)
    assert stream.choices.asked == []  # nothing to choose from, nothing drawn


@pytest.mark.parametrize(("answer", "box"), [(0, C2), (1, C3)])
def test_example_5_in_the_overlap_the_cluster_is_drawn_and_not_the_least_loss(answer: int, box: Box) -> None:
    stream = with_both_clusters_published(answer)
    (position,) = stream.arrive((26, BACHELOR))
    (decision,) = stream.castle.expire(position)
    assert (decision.kind, decision.box) == ("reuse", box)
    assert stream.choices.asked == [("reuse", position, 2)]


def test_example_6_the_generalisation_still_fits_all_four_persons() -> None:
    """C3's generalisation may belong to any of the four; with the least loss it could only be P1 or P2."""
    can_be_published_as_c3 = set()
    has_c3_as_least_loss = set()
    for quasi in IN_C3:
        for answer in (0, 1):
            stream = with_both_clusters_published(answer)
            (position,) = stream.arrive(quasi)
            (decision,) = stream.castle.expire(position)
            if decision.box == C3:
                can_be_published_as_c3.add(quasi)
        domain = stream.castle.domain
        fitting = [e.published for e in stream.castle.omega if e.interval[0][0] <= quasi[0] <= e.interval[0][1]]
        if min(fitting, key=domain.loss) == C3:
            has_c3_as_least_loss.add(quasi)
    assert can_be_published_as_c3 == set(IN_C3)
    assert has_c3_as_least_loss == set(IN_C3[:2])
