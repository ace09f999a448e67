"""dCASTLE by hand: small streams whose releases and messages follow from the paper's text, on the transcription.

Most have one quasi-identifier over [0, 100], so that a loss is a width divided by 100. tau is 0 at first: until Gamma
is full (`max_clusters`) only equal values share a cluster. Draws fall on the first unless said otherwise.
"""

from collections.abc import Hashable

import pytest

from tests.reference.dcastle import ClusterId, Message, Record, Release, Settings, Space, WorkingCluster
from tests.reference.dcastle_network import Arrive, Deliver, Expire, Network, Step, message_bytes
from tests.reference.measure import Attribute, Box, Categorical, Numeric, Row, Tree

ATTRIBUTES: list[Attribute] = [Numeric(0, 100)]
ROOT: Box = ((0, 100),)


def first(purpose: str, position: int, n: int) -> int:
    return 0


def last(purpose: str, position: int, n: int) -> int:
    return n - 1


def network(*, k: int, l: int = 1, max_clusters: int = 1, sites: int = 2, delay: int = 1000) -> Network:
    settings = Settings(k=k, l=l, delay=delay, max_clusters=max_clusters, loss_window=100, sites=sites)
    return Network(ATTRIBUTES, settings, [first] * sites)


def row(value: float, person: Hashable, *sensitive: Hashable) -> Row:
    return Row(0, person, (value,), sensitive)


def arrive(net: Network, site: int, *rows: Row) -> list[Message]:
    """Rows at a site, one after the other; what it sends stays under way. None of them lets another expire."""
    messages: list[Message] = []
    for r in rows:
        step = net.play(Arrive(site, r))
        assert step.releases == []
        messages += step.messages
    return messages


def people(site: int, *numbers: float) -> list[Row]:
    """Rows of new persons, one for each value."""
    return [row(number, f"site {site}: {number} ({i})") for i, number in enumerate(numbers)]


def box(low: float, high: float) -> Box:
    return ((low, high),)


def record(name: ClusterId, size: int, generalisation: Box, *values: Hashable) -> Record:
    return Record(name, size, generalisation, frozenset(values or [None]))


def create(sender: int, *records: Record) -> Message:
    return Message("create", sender, records)


def output(sender: int, *records: Record) -> Message:
    return Message("output", sender, records)


def withdraw(sender: int, name: ClusterId, generalisation: Box, *values: Hashable) -> Message:
    return Message("withdraw", sender, (record(name, 0, generalisation, *values),))


def shown(releases: list[Release]) -> list[tuple[int, object, str, list[int], Box]]:
    return [(r.site, r.case, r.kind, r.rows, r.box) for r in releases]


def gamma(net: Network, site: int) -> list[tuple[ClusterId, int, int]]:
    """ID, local size and size of every working cluster."""
    return [(C.id, C.localsize, C.size) for C in net.sites[site].clusters]


def with_a_shared_cluster(*, k: int = 4, l: int = 1, max_clusters: int = 1) -> Network:
    """Site 0 has three persons in cluster (0, 0), at 10, 12 and 11. It was shared when there were two: [10, 12]."""
    net = network(k=k, l=l, max_clusters=max_clusters)
    assert arrive(net, 0, row(10, "p1", "flu"), row(12, "p2", "flu")) == []
    assert arrive(net, 0, row(11, "p3", "flu")) == [create(0, record((0, 0), 2, box(10, 12), "flu"))]
    net.settle()
    return net


# -- 3.2 to 3.4 ----------------------------------------------------------------------------------------------------


def test_example_1_distances_are_those_printed() -> None:
    """Figure 2, as far as the text tells it: seven leaves, three of them below University."""
    education = Tree.from_mapping(
        {"Any": {"School": ["1", "2", "3", "4"], "University": ["Bachelors", "Masters", "Doctorate"]}}
    )
    bachelors, masters, doctorate = 4, 5, 6
    space = Space([Numeric(0, 100), Categorical(education)])
    t1, t2, t3 = Row(0, 1, (26, bachelors)), Row(1, 2, (29, doctorate)), Row(2, 3, (28, masters))
    assert space.distance(t1, t2) == pytest.approx(0.03 + 2 / 6)  # printed as 0.363
    assert space.distance(t1, t3) == pytest.approx(0.02 + 2 / 6)  # printed as 0.353
    assert space.distance(t1, t3) < space.distance(t1, t2)


# -- 4.2 and 4.4: messages -----------------------------------------------------------------------------------------


def test_a_cluster_of_k_divided_by_n_is_shared_when_the_next_row_arrives() -> None:
    """ceil(4 / 2) = 2 persons. The message leaves before the arriving row is looked at, and never again."""
    net = network(k=4)
    assert arrive(net, 0, row(10, "p1"), row(12, "p1")) == []
    assert arrive(net, 0, row(30, "p2")) == []
    assert arrive(net, 0, row(31, "p3")) == [create(0, record((0, 0), 2, box(10, 30)))]
    assert arrive(net, 0, row(32, "p4"), row(33, "p5")) == []


def test_one_message_has_all_clusters_that_became_large_enough() -> None:
    """A list, although with a message before every row there is never more than one: a row enters one cluster."""
    net = network(k=4, max_clusters=2)
    arrive(net, 0, *people(0, 10, 50))
    net.sites[0].clusters[0].insert(Row(2, "p1", (10.0,)))
    net.sites[0].clusters[1].insert(Row(3, "p2", (50.0,)))
    net.sites[0].send_recent_clusters()
    assert net.sites[0].outbox == [create(0, record((0, 0), 2, box(10, 10)), record((0, 1), 2, box(50, 50)))]


def test_type_1_adds_the_cluster_to_gamma_beyond_its_limit() -> None:
    net = network(k=4, max_clusters=1)
    arrive(net, 0, *people(0, 10, 12, 11))
    arrive(net, 1, *people(1, 70))
    assert gamma(net, 1) == [((1, 0), 1, 1)]
    net.play(Deliver(0, 1))
    assert gamma(net, 1) == [((1, 0), 1, 1), ((0, 0), 0, 2)]
    assert net.sites[1].clusters[1].box == box(10, 12)


def test_a_row_may_join_a_cluster_that_another_site_created_and_it_is_not_sent_back() -> None:
    net = with_a_shared_cluster()
    assert arrive(net, 1, *people(1, 11, 13, 12)) == []
    assert gamma(net, 1) == [((0, 0), 3, 5)]
    assert gamma(net, 0) == [((0, 0), 3, 3)]
    assert net.sites[1].clusters[0].box == box(10, 13)


def test_type_2_lets_the_other_site_output_its_rows_and_pass_the_news_on() -> None:
    net = with_a_shared_cluster()
    arrive(net, 1, row(11, "q1", "flu"), row(13, "q2", "cold"))
    step = net.play(Expire(1))
    assert shown(step.releases) == [(1, 2, "new", [0, 1], box(10, 13))]
    assert step.messages == [output(1, record((0, 0), 4, box(10, 13), "flu", "cold"))]
    received, echo = net.settle()
    assert shown(received.releases) == [(0, "message", "new", [0, 1, 2], box(10, 13))]
    assert received.messages == [output(0, record((0, 0), 7, box(10, 13), "flu", "cold"))]  # 3 + 4, D15
    assert echo == Step(Deliver(0, 1), [], [])
    assert gamma(net, 0) == gamma(net, 1) == []
    assert net.published() == {box(10, 13): {"p1", "p2", "p3", "q1", "q2"}}


def test_type_2_at_a_site_without_rows_of_the_cluster_changes_tau_and_gamma() -> None:
    net = with_a_shared_cluster(k=3)
    step = net.play(Expire(0))
    assert shown(step.releases) == [(0, 2, "new", [0, 1, 2], box(10, 12))]
    received, _ = net.settle()
    assert received.releases == []
    assert received.messages == [output(1, record((0, 0), 3, box(10, 12), "flu"))]
    assert gamma(net, 1) == []
    assert net.sites[1].tau == pytest.approx(0.02)


def test_type_2_about_an_unknown_cluster_is_ignored() -> None:
    net = network(k=2)
    arrive(net, 0, *people(0, 10))
    arrive(net, 0, *people(0, 12))
    assert shown(net.play(Expire(0)).releases) == [(0, 2, "new", [0, 1], box(10, 12))]
    net.play(Deliver(0, 1))
    assert net.play(Deliver(0, 1)).messages == [output(1, record((0, 0), 2, box(10, 12)))]
    assert net.settle() == [Step(Deliver(1, 0), [], [])]


def test_type_3_takes_the_shared_part_and_keeps_the_rows() -> None:
    net = with_a_shared_cluster()
    arrive(net, 1, *people(1, 11))
    site = net.sites[1]
    assert gamma(net, 1) == [((0, 0), 1, 3)]
    assert site.d_update_clusters(withdraw(0, (0, 0), box(10, 12))) == []
    assert gamma(net, 1) == [((0, 0), 1, 1)]
    assert site.clusters[0].box == box(11, 11)
    assert site.clusters[0].values == {None}


def test_type_3_removes_a_cluster_that_has_no_rows_here() -> None:
    net = with_a_shared_cluster()
    assert gamma(net, 1) == [((0, 0), 0, 2)]
    net.sites[1].d_update_clusters(withdraw(0, (0, 0), box(10, 12)))
    assert gamma(net, 1) == []


def test_type_3_does_not_touch_the_rows_of_the_creator() -> None:
    net = with_a_shared_cluster()
    net.sites[0].d_update_clusters(withdraw(1, (0, 0), box(10, 12)))
    assert gamma(net, 0) == [((0, 0), 3, 3)]


def test_bytes_are_those_of_figure_3() -> None:
    tree = Tree.from_mapping({"Any": ["a", "b"]})
    attributes: list[Attribute] = [Numeric(0, 100), Categorical(tree)]
    one = Record((0, 0), 5, ((1, 2), (0, 1)), frozenset(["flu", "cold"]))
    assert message_bytes(create(0, one), attributes, 8) == (3 + 2 + 1) * 4 + 8
    assert message_bytes(create(0, one, one), attributes, 8) == 2 * 32
    assert message_bytes(create(0, one), attributes, None) == (3 + 2 + 1) * 4 + 2 * 4
    assert message_bytes(create(0, record((0, 0), 5, one.generalisation)), attributes, None) == 24


# -- 4.5: dBestSelection -------------------------------------------------------------------------------------------


def test_the_nearest_cluster_hosts_a_row_once_gamma_is_full() -> None:
    net = network(k=4, max_clusters=2)
    arrive(net, 0, *people(0, 10, 50, 20, 45))
    assert [C.box for C in net.sites[0].clusters] == [box(10, 20), box(45, 50)]


def test_shared_clusters_fill_gamma() -> None:
    net = with_a_shared_cluster(max_clusters=1)
    arrive(net, 1, *people(1, 90))
    assert gamma(net, 1) == [((0, 0), 1, 3)]


def test_a_cluster_of_more_than_k_takes_no_row_as_long_as_a_new_one_may_be_made() -> None:
    """D11: three persons at 10 with k = 2 fit tau, but are more than k."""
    net = network(k=2, max_clusters=2)
    arrive(net, 0, *people(0, 10, 10, 10))
    assert gamma(net, 0) == [((0, 0), 3, 3)]
    arrive(net, 0, *people(0, 10))
    assert gamma(net, 0) == [((0, 0), 3, 3), ((0, 1), 1, 1)]


# -- 4.6: dDelayConstraint -----------------------------------------------------------------------------------------


def test_case_1_the_row_moves_to_a_ready_cluster_of_less_loss() -> None:
    net = network(k=3, max_clusters=2)
    arrive(net, 0, *people(0, 50, 10, 10, 10, 60))
    assert [(C.id, C.box) for C in net.sites[0].clusters] == [((0, 0), box(50, 60)), ((0, 1), box(10, 10))]
    step = net.play(Expire(0))
    assert shown(step.releases) == [(0, 1, "new", [0, 1, 2, 3], box(10, 50))]
    assert step.messages == [output(0, record((0, 1), 4, box(10, 50)))]
    assert [(C.id, C.box) for C in net.sites[0].clusters] == [((0, 0), box(60, 60))]


def test_case_1_takes_the_least_loss_of_several() -> None:
    net = network(k=2, max_clusters=3)
    arrive(net, 0, *people(0, 50, 10, 90, 10, 91, 55))
    assert [C.box for C in net.sites[0].clusters] == [box(50, 55), box(10, 10), box(90, 91)]
    assert shown(net.play(Expire(0)).releases) == [(0, 1, "new", [0, 1, 3], box(10, 50))]


def test_a_ready_cluster_of_the_same_loss_is_not_better() -> None:
    net = network(k=2, max_clusters=2)
    arrive(net, 0, *people(0, 50, 10, 10, 50))
    assert shown(net.play(Expire(0)).releases) == [(0, 2, "new", [0, 3], box(50, 50))]


def test_case_2_the_cluster_of_the_row_is_ready() -> None:
    net = network(k=3)
    arrive(net, 0, *people(0, 10, 30, 20))
    step = net.play(Expire(0))
    assert shown(step.releases) == [(0, 2, "new", [0, 1, 2], box(10, 30))]
    assert step.messages == [output(0, record((0, 0), 3, box(10, 30)))]
    assert net.sites[0].tau == pytest.approx(0.2)
    assert net.sites[0].omega == []  # the loss is tau itself, not less


def with_two_in_omega() -> Network:
    """Published: [0, 90], then [20, 22] and [21, 24], which are below tau."""
    net = network(k=3)
    for values in ((0, 90, 50), (20, 22, 21), (21, 24, 23)):
        arrive(net, 0, *people(0, *values))
        net.play(Expire(0))
        net.settle()
        assert not net.sites[0].pending
    assert net.sites[0].omega == [box(20, 22), box(21, 24)]
    return net


@pytest.mark.parametrize(("value", "expected"), [(20, box(20, 22)), (23, box(21, 24)), (21, box(20, 22))])
def test_case_3_the_row_reuses_a_generalisation_that_contains_it(value: float, expected: Box) -> None:
    net = with_two_in_omega()
    arrive(net, 0, *people(0, value))
    step = net.play(Expire(0))
    assert [(r.case, r.kind, r.box) for r in step.releases] == [(3, "reuse", expected)]
    assert step.messages == []
    assert gamma(net, 0) == []


def test_case_3_the_generalisation_is_drawn() -> None:
    net = with_two_in_omega()
    net.sites[0]._choose = last
    arrive(net, 0, *people(0, 21))
    assert [r.box for r in net.play(Expire(0)).releases] == [box(21, 24)]


def test_case_4_a_row_in_an_outlier_is_suppressed() -> None:
    """Sizes 1, 2 and 2: two of three are larger."""
    net = network(k=3, max_clusters=3)
    arrive(net, 0, *people(0, 50, 10, 10, 90, 90))
    step = net.play(Expire(0))
    assert shown(step.releases) == [(0, 4, "root", [0], ROOT)]
    assert step.messages == []
    assert gamma(net, 0) == [((0, 1), 2, 2), ((0, 2), 2, 2)]


def test_cluster_is_not_an_outlier_if_half_of_gamma_is_larger() -> None:
    net = network(k=3, max_clusters=2)
    arrive(net, 0, *people(0, 50, 10, 10))
    assert shown(net.play(Expire(0)).releases) == [(0, 5, "new", [0, 1, 2], box(10, 50))]


def test_case_5_merges_with_the_nearest_until_there_are_k() -> None:
    net = network(k=3, max_clusters=4)
    arrive(net, 0, *people(0, 50, 10, 45, 70))
    step = net.play(Expire(0))
    assert shown(step.releases) == [(0, 5, "new", [0, 2, 3], box(45, 70))]
    assert step.messages == [
        withdraw(0, (0, 2), box(45, 45)),
        withdraw(0, (0, 3), box(70, 70)),
        output(0, record((0, 0), 3, box(45, 70))),
    ]
    assert gamma(net, 0) == [((0, 1), 1, 1)]


def test_case_5_suppresses_the_row_if_all_clusters_together_are_not_enough() -> None:
    net = network(k=3, max_clusters=3)
    arrive(net, 0, row(50, "p1"), row(10, "p2"), row(90, "p2"))
    step = net.play(Expire(0))
    assert shown(step.releases) == [(0, 5, "root", [0], ROOT)]
    assert step.messages == []


def test_a_row_expires_when_delta_rows_have_arrived_after_it() -> None:
    net = network(k=3, delay=2)
    arrive(net, 0, *people(0, 10, 20))
    step = net.play(Arrive(0, row(30, "p3")))
    assert shown(step.releases) == [(0, 2, "new", [0, 1, 2], box(10, 30))]


# -- 4.7: dMergeClusters -------------------------------------------------------------------------------------------


def test_a_merge_of_two_shared_parts_adds_their_sizes() -> None:
    net = network(k=20, sites=3)
    site = net.sites[0]
    site.d_update_clusters(create(1, record((1, 0), 7, box(10, 12), "flu")))
    site.d_update_clusters(create(2, record((2, 0), 8, box(20, 25), "cold")))
    one, other = site.clusters
    one.take(other)
    assert (one.localsize, one.size, one.diversity, one.box) == (0, 15, 2, box(10, 25))


def test_nearest_is_what_enlarges_the_cluster_of_the_row_least() -> None:
    """50 needs .1 for 60 and .3 for [20, 48], which would itself need only .02 for 50."""
    net = network(k=3, max_clusters=2)
    arrive(net, 0, *people(0, 50, 60))
    net.sites[0].d_update_clusters(create(1, record((1, 0), 1, box(20, 48))))
    step = net.play(Expire(0))
    assert shown(step.releases) == [(0, 5, "new", [0, 1], box(20, 60))]
    assert [m.clusters[0].id for m in step.messages] == [(0, 1), (1, 0), (0, 0)]


def test_of_equally_near_clusters_the_smallest_is_merged() -> None:
    net = network(k=3, max_clusters=3)
    arrive(net, 0, *people(0, 50, 40, 40, 60))
    step = net.play(Expire(0))
    assert shown(step.releases) == [(0, 5, "new", [0, 1, 2, 3], box(40, 60))]
    assert [m.clusters[0].id for m in step.messages] == [(0, 2), (0, 1), (0, 0)]


# -- 4.8 and 4.9: dOutputCluster and dSplitCluster -----------------------------------------------------------------


def test_a_cluster_of_2k_is_split_and_withdrawn_and_not_output_elsewhere() -> None:
    net = network(k=2, l=2)
    rows = row(10, "p1", "flu"), row(50, "p2", "flu"), row(11, "p3", "cold"), row(51, "p4", "cold")
    arrive(net, 0, *rows, row(13, "p1", "gout"))
    step = net.play(Expire(0))
    assert shown(step.releases) == [(0, 2, "new", [0, 2, 4], box(10, 13)), (0, 2, "new", [1, 3], box(50, 51))]
    assert step.messages == [withdraw(0, (0, 0), box(10, 51), "flu", "cold", "gout")]
    assert net.sites[0].tau == pytest.approx(0.02)
    assert net.sites[0].omega == [box(50, 51)]  # .01 < (.03 + .01) / 2; CASTLE's order of steps gives the same here


def test_tau_is_that_of_all_parts_when_the_first_is_compared_with_it() -> None:
    """D20: the first part has less loss than the mean of both; CASTLE would compare it with its own loss."""
    net = network(k=2)
    arrive(net, 0, *people(0, 10, 11, 50, 53))
    step = net.play(Expire(0))
    assert [r.box for r in step.releases] == [box(10, 11), box(50, 53)]
    assert net.sites[0].omega == [box(10, 11)]


def test_rows_that_are_left_over_join_the_part_they_enlarge_least() -> None:
    net = network(k=2)
    arrive(net, 0, *people(0, 10, 11, 50, 51, 45))
    assert [(r.rows, r.box) for r in net.play(Expire(0)).releases] == [([0, 1], box(10, 11)), ([2, 3, 4], box(45, 51))]


def test_a_rare_value_has_a_row_in_the_part() -> None:
    """k = 3, l = 2, buckets of 5 and 1: the quotas 2.5 and 0.5 are rounded up, so that the rare value takes part."""
    net = network(k=3, l=2)
    rows = [row(10 + i, f"p{i}", "flu") for i in range(5)]
    arrive(net, 0, *rows, row(90, "p5", "cold"))
    step = net.play(Expire(0))
    assert [(r.rows, r.box) for r in step.releases] == [([0, 1, 2, 3, 4, 5], box(10, 90))]
    assert [m.kind for m in step.messages] == ["withdraw"]  # one part with all rows is still a split, D22


def test_a_cluster_whose_buckets_are_fewer_than_l_is_output_whole() -> None:
    """Two values, but the second is of a person for whom another row was selected."""
    net = network(k=2, l=2)
    rows = [row(10 + i, f"p{i}", "flu") for i in range(4)]
    arrive(net, 0, *rows, row(20, "p0", "cold"))
    step = net.play(Expire(0))
    assert shown(step.releases) == [(0, 2, "new", [0, 1, 2, 3, 4], box(10, 20))]
    assert [m.kind for m in step.messages] == ["output"]
    net = network(k=2, l=2)
    net.sites[0]._choose = last  # of p0 the other row
    arrive(net, 0, *rows, row(20, "p0", "cold"))
    assert [m.kind for m in net.play(Expire(0)).messages] == ["withdraw"]


def test_only_rows_of_the_site_itself_are_split() -> None:
    """The shared part is neither counted for 2k nor in the boxes of the parts."""
    net = with_a_shared_cluster(k=3)
    arrive(net, 1, *people(1, 20, 21, 22, 80))
    assert gamma(net, 1) == [((0, 0), 4, 6)]
    assert shown(net.play(Expire(1)).releases) == [(1, 2, "new", [0, 1, 2, 3], box(10, 80))]
    net = with_a_shared_cluster(k=3)
    arrive(net, 1, *people(1, 20, 21, 22, 78, 79, 80))
    assert shown(net.play(Expire(1)).releases) == [
        (1, 2, "new", [0, 1, 2], box(20, 22)),
        (1, 2, "new", [3, 4, 5], box(78, 80)),
    ]


# -- l-diversity through shared values (3.6) -----------------------------------------------------------------------


def test_a_shared_value_makes_a_cluster_diverse() -> None:
    net = with_a_shared_cluster(k=3, l=2)
    arrive(net, 1, row(11, "q1", "cold"))
    assert shown(net.play(Expire(1)).releases) == [(1, 2, "new", [0], box(10, 12))]


def test_the_same_value_at_both_sites_counts_once() -> None:
    net = with_a_shared_cluster(k=3, l=2)
    arrive(net, 1, row(11, "q1", "flu"))
    assert gamma(net, 1) == [((0, 0), 1, 3)]
    assert shown(net.play(Expire(1)).releases) == [(1, 5, "root", [0], ROOT)]


def test_diversity_is_the_size_of_the_union() -> None:
    cluster = WorkingCluster((0, 0), [Row(0, "p1", (1.0,), ("flu",)), Row(1, "p2", (1.0,), ("cold",))])
    assert (cluster.localdiversity, cluster.diversity) == (2, 2)


# -- What the paper's protocol breaks ------------------------------------------------------------------------------


def test_d1_a_person_at_two_sites_counts_twice_and_the_group_is_below_k() -> None:
    net = network(k=3)
    arrive(net, 0, row(10, "ann"), row(12, "bob"), row(11, "bob"))
    net.settle()
    arrive(net, 1, row(11, "ann"))
    assert gamma(net, 1) == [((0, 0), 1, 3)]
    net.run_at_once([Expire(1)])
    assert net.published() == {box(10, 12): {"ann", "bob"}}


def test_d2_rows_that_have_left_are_still_counted_elsewhere() -> None:
    """Site 0 empties its cluster row by row, which no message tells; site 1 goes on counting two persons."""
    net = network(k=3)
    arrive(net, 0, row(10, "p1"), row(12, "p2"), row(11, "p2"))
    net.settle()
    for _ in range(3):
        net.run_at_once([Expire(0)])
    assert [r.kind for r in net.releases] == ["root"] * 3
    assert (gamma(net, 0), gamma(net, 1)) == ([], [((0, 0), 0, 2)])
    arrive(net, 1, row(11, "q1"))
    net.run_at_once([Expire(1)])
    assert net.published()[box(10, 12)] == {"q1"}


def test_d3_a_cluster_that_grew_meanwhile_is_published_as_two_groups() -> None:
    net = with_a_shared_cluster()
    arrive(net, 0, row(20, "p4", "flu"))
    arrive(net, 1, row(11, "q1", "flu"), row(13, "q2", "flu"))
    net.run_at_once([Expire(1)])
    assert net.published() == {box(10, 13): {"q1", "q2"}, box(10, 20): {"p1", "p2", "p3", "p4"}}


def test_d4_merging_a_cluster_of_another_site_publishes_one_person() -> None:
    net = network(k=3, max_clusters=2)
    arrive(net, 0, *people(0, 10, 10, 10))
    net.settle()
    arrive(net, 1, row(50, "q1"))
    assert gamma(net, 1) == [((0, 0), 0, 2), ((1, 0), 1, 1)]
    step = net.play(Expire(1))
    assert step.messages == [withdraw(1, (0, 0), box(10, 10)), output(1, record((1, 0), 3, box(10, 50)))]
    net.settle()
    assert net.published() == {box(10, 50): {"q1"}}
    assert gamma(net, 0) == [((0, 0), 3, 3)]  # they are still there


def test_d5_what_one_site_publishes_is_below_k() -> None:
    net = with_a_shared_cluster(k=3)
    arrive(net, 1, row(11, "q1"))
    step = net.play(Expire(1))
    assert shown(step.releases) == [(1, 2, "new", [0], box(10, 12))]


def test_d7_two_sites_that_output_a_cluster_at_the_same_time_publish_different_groups() -> None:
    net = with_a_shared_cluster(k=3)
    arrive(net, 1, row(15, "q1", "flu"))
    net.play(Expire(0))
    net.play(Expire(1))
    assert all(step.releases == [] for step in net.settle())
    assert net.published() == {box(10, 12): {"p1", "p2", "p3"}, box(10, 15): {"q1"}}


def test_d10_the_better_cluster_need_not_contain_the_row() -> None:
    """Two rows could be published in [50, 54] and two in [10, 10]; in place of that three are in [10, 50]."""
    net = network(k=2, max_clusters=2)
    arrive(net, 0, *people(0, 50, 10, 54, 10))
    assert [C.box for C in net.sites[0].clusters] == [box(50, 54), box(10, 10)]
    assert shown(net.play(Expire(0)).releases) == [(0, 1, "new", [0, 1, 3], box(10, 50))]
