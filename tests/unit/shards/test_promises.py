"""Plans that are refused before a stream starts, and the statement of those that are not."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.castleguard.policy import Castleguard
from castleguard.algorithms.citadel.policy import Citadel
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.algorithms.doca.policy import Doca
from castleguard.algorithms.policy import Policy
from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.errors import PolicyError, SchemaError
from castleguard.privacy.closeness import Closeness
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive
from castleguard.shards.cut_tree import Cut, Cuts
from castleguard.shards.plan import Plan, Route, Shards
from castleguard.shards.promises import OWN_COLUMNS, check, guarantee
from castleguard.shards.routing import HashRoute, LocalityRoute
from castleguard.spark.output import OWN

ZIPS = Hierarchy.from_mapping({"*": {"north": ["n1", "n2"], "south": ["s1", "s2"]}})
AGE, ZIP = Numeric("age", lower=0, upper=100, step=5), Categorical("zip", hierarchy=ZIPS)
SCHEMA = Schema(person="id", quasi_identifiers=[AGE, ZIP], sensitive=[Sensitive("ill", values=["a", "b", "c"])])
NO_PERSON = Schema(person=None, quasi_identifiers=[AGE, ZIP], sensitive=[Sensitive("ill", values=["a", "b", "c"])])

CASTLE = Castle(k=3, delay=20, l=2, max_wait=60)
CITADEL = Citadel(k=3, delay=20, l=2, max_wait=60)
NARROW = replace(CITADEL, reuse="narrow")
LOCAL = Castleguard(k=3, delay=20, epsilon=2, max_wait=60)
SAMPLED = Castleguard(k=3, delay=20, phi=2, sample_rate=0.5, mode="paper", clock="sampled", max_wait=60)
SDGS = Sdgs(k=5, sample_rate=0.3, epsilon=1, window=60)
DOCA = Doca(k=3, delay=20, epsilon=2, max_wait=60)
CLOSE = Castle(k=3, delay=20, max_wait=60, closeness=Closeness(t=0.3))
NOISY = (LOCAL, SAMPLED, SDGS, DOCA)


@dataclass(frozen=True)
class Sent:
    """A route that reads these columns; the shard of a row does not matter here."""

    columns: tuple[str, ...]
    shards: int = 4

    def shard_of(self, table: pa.Table) -> Shards:
        return np.zeros(table.num_rows, dtype=np.int32)

    def fingerprint(self) -> dict[str, Any]:
        return {"columns": list(self.columns), "shards": self.shards}


OFFSET = ("partition", "offset")
BY_PERSON, BY_OFFSET = Sent(("id",)), Sent(OFFSET)
BY_AGE = LocalityRoute(SCHEMA, Cuts(Cut("age", 40.0, 0, 1)))


def plan(policy: Policy = CASTLE, route: Route = BY_PERSON, schema: Schema = SCHEMA, **more: Any) -> Plan:
    return Plan(schema=schema, policy=policy, route=route, **more)


def statement(policy: Policy = CASTLE, route: Route = BY_PERSON, *, streaming: bool = True, **more: Any) -> str:
    return str(guarantee(plan(policy, route, **more), streaming=streaming))


@pytest.mark.parametrize("policy", [CASTLE, CLOSE, CITADEL, NARROW, *NOISY])
@pytest.mark.parametrize("streaming", [True, False])
def test_every_algorithm_may_be_routed_by_person(policy: Policy, streaming: bool) -> None:
    check(plan(policy), streaming=streaming)


def test_dcastle_is_refused() -> None:
    policy = Dcastle(k=3, delay=20, sites=2, max_wait=60)
    with pytest.raises(PolicyError, match="dcastle is for sites that communicate, and shards do not: use castle"):
        check(plan(policy), streaming=True)


def test_input_order_is_refused() -> None:
    for streaming in (True, False):
        with pytest.raises(PolicyError, match="order='input' cannot be kept"):
            check(plan(replace(CASTLE, order="input")), streaming=streaming)
    check(plan(replace(CASTLE, order="arrival")), streaming=True)


@pytest.mark.parametrize(
    "policy", [replace(CASTLE, max_wait=None), replace(CITADEL, max_wait=None), replace(LOCAL, max_wait=None)]
)
def test_stream_needs_max_wait_and_a_frame_does_not(policy: Policy) -> None:
    with pytest.raises(PolicyError, match="a stream needs max_wait, the seconds"):
        check(plan(policy), streaming=True)
    check(plan(policy), streaming=False)


def test_ledger_window_of_seconds_does_not_replace_max_wait() -> None:
    policy = replace(LOCAL, max_wait=None, rows_per_person=2, window=3600)
    with pytest.raises(PolicyError, match="a stream needs max_wait"):
        check(plan(policy), streaming=True)


def test_windows_of_rows_are_for_frames_only() -> None:
    policy = replace(SDGS, window=50, window_unit="rows")
    with pytest.raises(PolicyError, match="a stream needs window_unit='seconds'"):
        check(plan(policy), streaming=True)
    check(plan(policy), streaming=False)


def test_grid_that_would_reveal_the_start_of_a_shard_is_refused() -> None:
    """An empty window changes a grid of several boxes, and their number would reveal the first row."""
    policy = replace(SDGS, start_cells=4)
    with pytest.raises(PolicyError, match="start_cells must be 1 in a stream, got 4"):
        check(plan(policy, Sent(("id",), shards=1)), streaming=True)
    check(plan(policy), streaming=False)
    check(plan(replace(policy, adapt=False)), streaming=True)


@pytest.mark.parametrize("declared", ["id", "age", "ill", "AGE"])
def test_declared_column_cannot_be_a_position(declared: str) -> None:
    with pytest.raises(SchemaError, match=f"column '{declared}' is declared in the schema and cannot be a position"):
        check(plan(position=("partition", declared)), streaming=True)


def test_own_columns_are_those_of_the_output() -> None:
    assert set(OWN_COLUMNS) == set(OWN)


@pytest.mark.parametrize("name", ["outcome", "shard", "place", "detail", "Shard"])
def test_published_column_cannot_have_the_name_of_an_added_column(name: str) -> None:
    sensitive = Schema(person="id", quasi_identifiers=[AGE], sensitive=[Sensitive(name, values=["a", "b"])])
    public = Schema(person="id", quasi_identifiers=[AGE], public=[name])
    for schema in (sensitive, public):
        with pytest.raises(SchemaError, match=f"column '{name}' has the same name as a column that castleguard adds"):
            check(plan(replace(CASTLE, l=1), schema=schema), streaming=True)


def test_unpublished_column_may_have_the_name_of_an_added_column() -> None:
    """As bounds, a number is published as place_min and place_max; the person is not published at all."""
    schema = Schema(person="shard", quasi_identifiers=[replace(AGE, name="place")])
    policy = replace(CASTLE, l=1)
    check(plan(policy, Sent(("shard",)), schema), streaming=True)
    with pytest.raises(SchemaError, match="column 'place' has the same name as a column that castleguard adds"):
        check(plan(policy, Sent(("shard",)), schema, numbers="interval"), streaming=True)
    with pytest.raises(SchemaError, match="published column 'place' has the same name"):
        check(plan(DOCA, Sent(("shard",)), schema), streaming=True)


def test_published_names_that_differ_only_in_case_are_refused() -> None:
    schema = Schema(person="id", quasi_identifiers=[AGE], public=["Age_Min"])
    with pytest.raises(SchemaError, match="column 'Age_Min' has the same name as column 'age_min'"):
        check(plan(replace(CASTLE, l=1), schema=schema), streaming=True)


@pytest.mark.parametrize("read", ["ill", "colour", "unheard"])
def test_shard_must_not_depend_on_sensitive_or_public_values(read: str) -> None:
    schema = Schema(person="id", quasi_identifiers=SCHEMA.quasi_identifiers, sensitive=["ill"], public=["colour"])
    policy = replace(CASTLE, l=1)
    with pytest.raises(PolicyError, match=f"routed to shards by '{read}', which is not a quasi-identifier"):
        check(plan(policy, Sent(("age", read)), schema), streaming=True)
    check(plan(policy, Sent(("age", read), shards=1), schema), streaming=True)


def test_shard_must_not_depend_on_exact_values() -> None:
    """A hash into 64 shards would leave one or two of the 40 pairs in a box of ten ages and four places."""
    with pytest.raises(PolicyError, match="by the exact values of age, zip, and the shard of a row is visible"):
        check(plan(CASTLE, HashRoute(NO_PERSON, 64), NO_PERSON), streaming=True)
    check(plan(CASTLE, HashRoute(NO_PERSON, 64, OFFSET), NO_PERSON, position=OFFSET), streaming=True)
    check(plan(CASTLE, BY_AGE), streaming=True)


def test_observed_domain_cannot_be_cut() -> None:
    policy = replace(CASTLE, l=1, mode="paper")
    schema = Schema(person="id", quasi_identifiers=[Numeric("age"), ZIP])
    with pytest.raises(SchemaError, match="'age', which has no lower and upper"):
        check(plan(policy, Sent(("age",)), schema), streaming=True)
    check(plan(policy, LocalityRoute(schema, Cuts(Cut("zip", 2.0, 0, 1))), schema), streaming=True)
    check(plan(policy, BY_PERSON, schema), streaming=True)


@pytest.mark.parametrize("policy", NOISY)
def test_rows_with_noise_are_not_routed_by_values(policy: Policy) -> None:
    with pytest.raises(PolicyError, match=r"by age without noise, and the shard of a row is visible: route them"):
        check(plan(policy, BY_AGE), streaming=True)
    check(plan(policy, Sent(("age",), shards=1)), streaming=True)


@pytest.mark.parametrize("policy", [CASTLE, replace(CASTLE, diversity="entropy"), CITADEL, NARROW])
def test_group_policies_may_be_routed_by_values(policy: Policy) -> None:
    check(plan(policy, BY_AGE), streaming=True)
    check(plan(policy, LocalityRoute(NO_PERSON, BY_AGE.cuts), NO_PERSON), streaming=True)


@pytest.mark.parametrize("policy", [LOCAL, DOCA])
def test_noise_without_persons_needs_a_position(policy: Policy) -> None:
    with pytest.raises(PolicyError, match="declare a person column or a position that does not depend on values"):
        check(plan(policy, Sent(("age", "zip")), NO_PERSON), streaming=True)
    check(plan(policy, BY_OFFSET, NO_PERSON, position=OFFSET), streaming=True)
    check(plan(policy, Sent(("age", "zip"), shards=1), NO_PERSON), streaming=True)


@pytest.mark.parametrize("policy", [SDGS, SAMPLED])
def test_presence_is_not_hidden_if_rows_are_routed_by_position(policy: Policy) -> None:
    with pytest.raises(PolicyError, match="one more row moves all later rows"):
        check(plan(policy, BY_OFFSET, NO_PERSON, position=OFFSET), streaming=True)
    with pytest.raises(PolicyError, match="declare a person column, or use shards=1"):
        check(plan(policy, Sent(("age", "zip")), NO_PERSON), streaming=True)
    check(plan(policy, Sent(OFFSET, shards=1), NO_PERSON, position=OFFSET), streaming=True)


def test_values_in_windows_of_rows_may_be_routed_by_position() -> None:
    policy = replace(SDGS, window=50, window_unit="rows")
    check(plan(policy, BY_OFFSET, NO_PERSON, position=OFFSET), streaming=False)


@pytest.mark.parametrize("policy", [replace(LOCAL, rows_per_person=2), replace(DOCA, rows_per_person=2), SDGS])
def test_bound_on_rows_per_person_needs_all_of_them_in_one_shard(policy: Policy) -> None:
    with pytest.raises(PolicyError, match="all rows of a person must be in one"):
        check(plan(policy, BY_OFFSET, position=OFFSET), streaming=True)


@pytest.mark.parametrize("policy", [CASTLE, CITADEL])
def test_closeness_to_a_shard_of_similar_values_is_refused(policy: Castle | Citadel) -> None:
    with pytest.raises(PolicyError, match="the rows of a shard may differ from all rows"):
        check(plan(replace(policy, closeness=Closeness(t=0.3)), BY_AGE), streaming=True)
    public = Closeness(t=0.3, reference="public", public={"ill": {"a": 0.5, "b": 0.25, "c": 0.25}})
    check(plan(replace(policy, closeness=public), BY_AGE), streaming=True)


def test_errors_of_a_worker_are_raised_before_the_start() -> None:
    with pytest.raises(SchemaError, match="column 'age'"):
        check(plan(schema=Schema(person="id", quasi_identifiers=[Numeric("age")], sensitive=["ill"])), streaming=True)
    with pytest.raises(PolicyError, match="rows_per_person needs a person column"):
        check(plan(replace(LOCAL, rows_per_person=2), Sent(OFFSET, 1), NO_PERSON, position=OFFSET), streaming=True)
    with pytest.raises(PolicyError, match="DOCA publishes numbers, not ranges"):
        check(plan(DOCA, numbers="interval"), streaming=True)


def test_guarantee_refuses_what_check_refuses() -> None:
    with pytest.raises(PolicyError, match="a stream needs max_wait"):
        guarantee(plan(replace(CASTLE, max_wait=None)), streaming=True)


def test_statement_of_shards_extends_that_of_the_policy() -> None:
    own, whole = CASTLE.guarantee(SCHEMA, seeded=False), guarantee(plan(), streaming=True)
    assert (whole.k, whole.l, whole.delay, whole.max_wait, whole.privacy) == (3, 2, 20, 60, None)
    assert whole.promise == (
        f"{own.promise} Each of the 4 shards keeps this by itself, and so do all of them together."
    )
    assert whole.limits[: len(own.limits)] == own.limits
    assert whole.limits[len(own.limits) :] == (
        "Arrivals are counted within a row's own shard.",
        "Assume that the shard of a row is known: it follows from its person.",
        "A row arrives when its micro-batch begins. By the clock it leaves with the first micro-batch that begins at "
        "least 60 s later, and no row leaves with the first micro-batch of its shard.",
        "The output of a micro-batch counts as a whole: a part of it may hold fewer persons of a group.",
        "A replayed micro-batch publishes the same rows, provided that its source returns the same rows and the "
        "versions of castleguard, numpy and pyarrow do not change.",
        "This covers rows whose outcome is 'published'; rejected rows and counts are for the operator only.",
    )


@pytest.mark.parametrize("route", [BY_PERSON, BY_AGE])
def test_release_guarantee_holds_for_every_shard(route: Route) -> None:
    text = " ".join(statement(CITADEL, route).split())
    assert "in each release by itself, at least 3 distinct persons, of whom none has more than 1/3 of the rows" in text
    assert f"Each of the {route.shards} shards keeps this by itself, and so do all of them together." in text
    narrow = " ".join(statement(NARROW, route).split())
    assert "over the whole publication" in narrow
    assert "in each release by itself" not in narrow


def test_statement_of_one_shard_does_not_mention_shards() -> None:
    text = statement(CASTLE, Sent(("age",), shards=1))
    assert "shards keeps" not in text
    assert "own shard" not in text
    assert "micro-batch" in text


def test_statement_names_what_a_locality_shard_reveals() -> None:
    assert (
        "Assume that the shard of a row is known, and with it the range of age, even for a row at the root; the cut "
        "points must be public."
    ) in statement(CASTLE, BY_AGE)


@pytest.mark.parametrize("policy", [CASTLE, CITADEL])
def test_distributions_of_shards_that_share_persons_hold_per_shard_only(policy: Castle | Citadel) -> None:
    entropy = replace(policy, diversity="entropy")
    alone = "for all together k and l hold, and nothing is promised about the distribution of their values."
    assert alone in statement(entropy, BY_AGE)
    assert "and so do all of them together" in statement(entropy, BY_PERSON)
    assert "and so do all of them together" in statement(
        entropy, LocalityRoute(NO_PERSON, BY_AGE.cuts), schema=NO_PERSON
    )
    public = Closeness(t=0.3, reference="public", public={"ill": {"a": 0.5, "b": 0.25, "c": 0.25}})
    assert alone in statement(replace(policy, closeness=public), BY_AGE)
    assert "and so do all of them together" in statement(replace(policy, closeness=public), BY_PERSON)


@pytest.mark.parametrize("policy", [CLOSE, replace(CITADEL, closeness=Closeness(t=0.3))])
def test_closeness_compares_with_the_rows_of_the_shard(policy: Policy) -> None:
    text = statement(policy)
    assert "is compared with the rows of its own shard" in text
    assert "for all together k and l hold, and nothing is promised about the distribution" in text


def test_epsilon_of_shards_equals_that_of_one_stream() -> None:
    for policy in (LOCAL, SDGS, DOCA):
        own, whole = policy.guarantee(SCHEMA, seeded=False).privacy, guarantee(plan(policy), streaming=True).privacy
        assert own is not None
        assert whole is not None
        assert (whole.epsilon, whole.dp_delta) == (own.epsilon, own.dp_delta)
        assert (whole.unit, whole.neighbours, whole.horizon) == (own.unit, own.neighbours, own.horizon)


def test_statement_names_the_assumptions_of_the_claim() -> None:
    assert "The micro-batch of a row must not depend on values." in statement(LOCAL)
    by_offset = statement(LOCAL, BY_OFFSET, schema=NO_PERSON, position=OFFSET)
    assert "The position and the micro-batch of a row must not depend on values." in by_offset
    assert "no limit on the rows of a micro-batch" in statement(SDGS)
    assert "must not depend" not in statement(CASTLE)


def test_time_of_publication_is_outside_a_claim_about_presence() -> None:
    outside = "the micro-batch in which a row is published"
    assert outside in statement(SDGS)
    assert outside in statement(SAMPLED)
    assert outside not in statement(SDGS, streaming=False)
    assert outside not in statement(LOCAL)


def test_frame_arrives_at_one_time() -> None:
    whole = "at the same time, and a window of seconds holds them all; they leave at its end at the latest."
    assert whole in statement(SDGS, streaming=False)
    assert whole in statement(replace(LOCAL, rows_per_person=2, window=3600), streaming=False)
    untimed = statement(replace(CASTLE, max_wait=None), streaming=False)
    assert "All rows of the frame arrive at the same time; they leave at its end at the latest." in untimed
    assert "micro-batch" not in untimed


def test_statement_says_that_calls_on_one_frame_add_up() -> None:
    noisy = statement(LOCAL, streaming=False)
    assert "the losses of several calls on the same rows add up" in noisy
    assert "The keys of a call are for its rows only" in noisy
    assert "nothing is promised about several releases of the same rows together" in statement(CASTLE, streaming=False)


def test_statement_mentions_a_seed() -> None:
    assert "VOID" in statement(LOCAL, seed=7)
    assert "VOID" not in statement(LOCAL)
