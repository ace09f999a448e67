"""dCASTLE as printed: what is refused, what a table becomes, and how the numbers of a run are counted."""

from typing import Any

import numpy as np
import pytest

from castleguard.errors import CastleguardError, PolicyError, UsageError
from castleguard.lab.transcriptions.dcastle.network import PaperNetwork
from castleguard.lab.transcriptions.dcastle.paper_messages import Message, Record, Scale
from castleguard.lab.transcriptions.dcastle.paper_policy import PaperPolicy
from castleguard.lab.transcriptions.dcastle.space import Space
from castleguard.schema.coded import CodedRows
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive

AGE = Numeric("age", lower=0, upper=100)
JOB = Categorical("job", hierarchy=Hierarchy.from_mapping({"*": {"care": ["nurse", "cook"], "desk": ["clerk"]}}))
SCHEMA = Schema(person="p", quasi_identifiers=[JOB, AGE], sensitive=[Sensitive("s", values=["a", "b"])])


def rows(count: int, **changed: Any) -> list[dict[str, Any]]:
    random = np.random.default_rng(count)
    found = []
    for number in range(count):
        job = random.choice(["nurse", "cook", "clerk"])
        found.append({"p": number, "age": int(random.integers(0, 101)), "job": str(job), "s": "ab"[number % 2]})
    return [{**row, **changed} for row in found]


def network(sites: int = 3, *, seed: int = 1) -> PaperNetwork:
    return PaperNetwork(SCHEMA, PaperPolicy(k=5, l=2, delay=40, sites=sites), seed=seed)


# The policy


def paper_policy(**changed: Any) -> PaperPolicy:
    return PaperPolicy(**{"k": 5, "delay": 10, "sites": 2, **changed})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("k", 1, "k must be a whole number of at least 2"),
        ("delay", 0, "delay must be a whole number of at least 1"),
        ("sites", 2.5, "sites must be a whole number"),
    ],
)
def test_impossible_parameters_are_refused(name: str, value: float, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        paper_policy(**{name: value})


@pytest.mark.parametrize("name", ["max_clusters", "loss_window"])
def test_parameters_of_the_engine_are_positive(name: str) -> None:
    with pytest.raises(PolicyError, match=f"{name} must be"):
        paper_policy(**{name: 0})


def test_l_above_k_is_refused() -> None:
    with pytest.raises(PolicyError, match="l must not exceed k, got l=6 and k=5"):
        paper_policy(l=6)


def test_cluster_is_shared_from_k_over_n_persons_on() -> None:
    assert [PaperPolicy(k=5, delay=9, sites=sites).share_from for sites in (1, 2, 4, 5, 8)] == [5, 3, 2, 1, 1]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (Schema(person="p", quasi_identifiers=[AGE]), "l=2 needs a sensitive column"),
        (Schema(person="p", quasi_identifiers=[Numeric("age")], sensitive=["s"]), "'age' needs lower and upper"),
    ],
)
def test_schema_without_bounds_or_sensitive_column_is_refused(schema: Schema, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        PaperNetwork(schema, PaperPolicy(k=5, l=2, delay=10, sites=2))


# The space


def test_losses_are_sums_in_any_order_of_columns() -> None:
    space = Space(SCHEMA)
    lower, upper = space.bounds(((0.0, 1.0), (20.0, 45.0)))  # nurses and cooks of 20 to 45
    assert space.loss(lower, upper) == 0.5 + 0.25
    assert space.box(*space.published(*space.bounds(((1.0, 2.0), (20.0, 45.0))))) == ((0.0, 2.0), (20.0, 45.0))
    assert space.root == ((0.0, 2.0), (0.0, 100.0))
    assert space.root_loss == 2.0


def test_a_domain_of_one_point_loses_nothing() -> None:
    space = Space(Schema(person="p", quasi_identifiers=[Numeric("only", lower=3, upper=3), AGE]))
    assert space.root_loss == 1.0


# Messages


def test_message_size_follows_figure_3() -> None:
    record = Record((0, 1), 7, ((0.0, 1.0), (20.0, 45.0)), frozenset({0, 1}))
    message = Message("create", 0, (record, record))
    numbers = 4 * (2 + 1 + 1 + 2)  # ID, size, a node, a range
    assert Scale(SCHEMA).bytes(message) == 2 * (numbers + 2)
    undeclared = Schema(person="p", quasi_identifiers=[JOB, AGE], sensitive=["s"])
    assert Scale(undeclared).bytes(message) == 2 * (numbers + 2 * 4)
    assert Scale(Schema(person="p", quasi_identifiers=[JOB, AGE])).bytes(message) == 2 * numbers


def test_a_release_does_not_print_its_rows() -> None:
    one = np.zeros(1, dtype=np.int64)
    net = network(1)
    net.arrive(0, CodedRows(np.array([[0.0, 5.0]]), one.astype(np.uint64), one[:, None], one.astype(np.bool_)))
    (step,) = net.finish()
    assert repr(step.releases[0]) == "Release(site 0, case 5, root, 1 rows)"


# A run


def test_every_row_of_a_table_is_published_or_suppressed() -> None:
    run = network().run_round_robin(rows(400))
    assert run.published + run.suppressed == 400
    assert run.rejected == 0
    assert run.information_loss is not None
    assert 0 < run.information_loss < 1
    assert run.messages > 0
    assert run.bytes >= run.messages * 24
    assert 0 < run.groups < 400 / 2
    assert run.most_clusters >= 25


def test_rows_that_cannot_be_coded_reach_no_site() -> None:
    rooted = Schema(person="p", quasi_identifiers=[JOB, Numeric("age", lower=0, upper=100, null="root")])
    run = PaperNetwork(rooted, PaperPolicy(k=5, delay=40, sites=2)).run_round_robin(
        [*rows(60), *rows(3, age=None), *rows(2, job="pilot")]
    )
    assert run.rejected == 5
    assert run.published + run.suppressed == 60


def test_a_table_without_rows_has_no_loss() -> None:
    run = network().run_round_robin([])
    assert run.information_loss is None
    assert run.published == run.messages == run.groups == run.most_clusters == 0


def test_too_few_rows_are_suppressed_and_lose_everything() -> None:
    run = network(2).run_round_robin(rows(3))
    assert (run.published, run.suppressed, run.information_loss) == (0, 3, 1.0)


def test_single_site_keeps_k_and_l() -> None:
    run = network(1).run_round_robin(rows(400))
    assert run.groups_below_k == run.groups_below_l == 0
    assert run.most_clusters <= 25


def test_several_sites_publish_groups_below_k() -> None:
    """What makes the mode one for experiments only: everybody has one row here, and every message arrives at once."""
    assert network(4).run_round_robin(rows(1500)).groups_below_k > 0


def test_a_seed_repeats_a_run_and_another_one_does_not() -> None:
    first, again, other = (network(seed=seed).run_round_robin(rows(400)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


# What cannot be played


def test_impossible_event_is_refused() -> None:
    net = network()
    with pytest.raises(UsageError, match="no message from site 0 to site 1"):
        net.deliver(0, 1)
    with pytest.raises(UsageError, match="no message from site 1 to site 1"):
        net.deliver(1, 1)
    with pytest.raises(UsageError, match="site 2 has no row"):
        net.expire(2)
    with pytest.raises(CastleguardError, match="3 sites need as many choosers, got 1"):
        PaperNetwork(SCHEMA, PaperPolicy(k=5, delay=9, sites=3), choosers=[lambda purpose, position, n: 0])
