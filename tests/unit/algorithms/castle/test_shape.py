"""CASTLE with criteria on distributions, by small examples; tests/properties covers the general case."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from castleguard.algorithms.castle.engine import CastleEngine
from castleguard.algorithms.castle.policy import STRICT, Castle
from castleguard.algorithms.domain import make_shape, make_weights
from castleguard.errors import PolicyError
from castleguard.kernels import state as names
from castleguard.privacy.closeness import Closeness
from castleguard.schema.coded import NEW, REUSED, ROOT, CodedRows, Decisions
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.sensitive import Sensitive

AGE = Numeric("age", lower=0, upper=100, step=10)
SCHEMA = Schema(person="id", quasi_identifiers=[AGE], sensitive=[Sensitive("illness", values=["a", "b", "c"])])
ENTROPY = Castle(k=2, l=2, diversity="entropy", delay=20, max_clusters=1, order="arrival")
CLOSE = Castle(k=2, delay=20, max_clusters=1, order="arrival", closeness=Closeness(t=0.2, burn_in=0, alpha=1e-6))


def rows(*given: tuple[int, int, float], to_root: bool = False) -> CodedRows:
    """Rows as (person, value, age)."""
    person, value, age = zip(*given, strict=True)
    return CodedRows(
        quasi=np.array(age, dtype=np.float64).reshape(-1, 1),
        person=np.array(person, dtype=np.uint64),
        sensitive=np.array(value, dtype=np.int64).reshape(-1, 1),
        to_root=np.full(len(given), to_root),
    )


def run(policy: Castle, *batches: CodedRows, schema: Schema = SCHEMA) -> list[Decisions]:
    """Decisions of a flush after each batch."""
    engine = CastleEngine(schema, policy, key=np.arange(8, dtype=np.uint32))
    decided = []
    for batch in batches:
        assert engine.push(batch, 0.0).position.size == 0
        decided.append(engine.flush())
    return decided


def test_a_cluster_is_split_only_into_parts_that_meet_the_criteria() -> None:
    """Four persons with two values each could form two parts; three with one value leave one part with equal values."""
    (even,) = run(ENTROPY, rows((1, 0, 11), (2, 1, 12), (3, 0, 51), (4, 1, 52)))
    assert even.kind.tolist() == [NEW, NEW]
    (odd,) = run(replace(ENTROPY, suppression="drop"), rows((1, 0, 11), (2, 0, 12), (3, 0, 51), (4, 1, 52)))
    assert (odd.kind.size, sorted(odd.dropped.tolist())) == (0, [0, 1, 2, 3])


def test_parts_with_the_same_box_are_one_group() -> None:
    (decided,) = run(ENTROPY, rows((1, 0, 11), (2, 1, 12), (3, 0, 18), (4, 1, 19)))
    assert decided.kind.tolist() == [NEW]
    assert decided.position.tolist() == [0, 1, 2, 3]
    assert run(replace(ENTROPY, diversity="distinct"), rows((1, 0, 11), (2, 1, 12), (3, 0, 18), (4, 1, 19)))[
        0
    ].kind.tolist() == [NEW, NEW]


def test_a_row_that_would_violate_the_criteria_does_not_join_a_published_box() -> None:
    first, joining, spoiling = run(
        replace(CLOSE, suppression="drop"),
        rows((1, 0, 11), (2, 1, 12), (3, 0, 13), (4, 1, 14)),
        rows((5, 0, 15)),
        rows((6, 0, 15)),
    )
    assert first.kind.tolist() == [NEW]
    assert joining.kind.tolist() == [REUSED]  # three of five rows, and of five pairs
    assert (spoiling.kind.tolist(), spoiling.dropped.size) == ([REUSED], 0)  # by now all other rows have this value
    public = Closeness(t=0.15, reference="public", public={"illness": {"a": 0.5, "b": 0.5}})
    first, joining, spoiling = run(
        replace(CLOSE, closeness=public, suppression="drop"),
        rows((1, 0, 11), (2, 1, 12), (3, 0, 13), (4, 1, 14)),
        rows((5, 0, 15)),
        rows((6, 0, 15)),
    )
    assert joining.kind.tolist() == [REUSED]  # a tenth too much
    assert (spoiling.kind.size, spoiling.dropped.size) == (0, 1)  # a sixth too much


def test_a_group_is_judged_with_the_rows_published_earlier_in_its_box() -> None:
    """Person 1 returns with the same value and counts once: two of three pairs have the other value."""
    first, second = run(
        replace(ENTROPY, suppression="drop", reuse="paper"),
        rows((1, 0, 11), (2, 1, 19)),
        rows((1, 0, 11), (3, 1, 19)),
    )
    assert first.kind.tolist() == [NEW]
    assert NEW not in second.kind.tolist()


def test_generalisations_published_as_one_box_share_its_pairs() -> None:
    """Their intervals differ: the row lies in the second one, and is judged with the rows of both."""
    policy = replace(
        ENTROPY, diversity="recursive", c=2.0, suppression="drop", reading=replace(STRICT, containment="interval")
    )
    *first, third = run(policy, rows((1, 0, 11), (2, 1, 13)), rows((3, 0, 16), (4, 1, 18)), rows((5, 0, 17)))
    assert [decided.kind.tolist() for decided in first] == [[NEW], [NEW]]
    assert [decided.lower.tolist() + decided.upper.tolist() for decided in first] == [[[10.0], [20.0]]] * 2
    assert third.kind.tolist() == [REUSED]


def test_the_root_opens_only_if_it_meets_the_criteria_with_rows_published_earlier() -> None:
    """The first group spans the whole domain, so its box is the root's."""
    first, second = run(
        replace(ENTROPY, reuse="off"),
        rows((1, 0, 0), (2, 1, 100)),
        rows((1, 0, 0), (3, 1, 0), to_root=True),
    )
    assert (first.kind.tolist(), first.lower.tolist(), first.upper.tolist()) == ([NEW], [[0.0]], [[100.0]])
    assert (second.position.size, second.dropped.tolist()) == (0, [2, 3])
    _, other = run(
        replace(ENTROPY, reuse="off"),
        rows((1, 0, 0), (2, 1, 100)),
        rows((4, 0, 0), (3, 1, 0), to_root=True),
    )
    assert other.kind.tolist() == [ROOT]


def test_the_root_takes_every_row_if_helpful_rows_do_not_meet_the_criteria() -> None:
    """k and l need two rows; their distribution is right only with the fourth."""
    policy = replace(ENTROPY, l=2, k=3)
    (decided,) = run(policy, rows((1, 0, 0), (2, 0, 0), (3, 1, 0), (4, 1, 0), (5, 0, 0), to_root=True))
    assert decided.kind.tolist() == [ROOT]
    assert decided.position.tolist() == [0, 1, 2, 3]
    assert decided.dropped.tolist() == [4]  # three of five would have the same value


def test_before_the_burn_in_rows_that_must_leave_are_dropped() -> None:
    closeness = Closeness(t=1.0, burn_in=3)
    engine = CastleEngine(SCHEMA, replace(CLOSE, closeness=closeness), key=np.arange(8, dtype=np.uint32))
    engine.push(rows((1, 0, 11), (2, 1, 12)), 0.0)
    early = engine.flush()
    assert (early.position.size, early.dropped.tolist()) == (0, [0, 1])
    engine.push(rows((3, 0, 11), (4, 1, 12)), 0.0)
    assert engine.flush().position.tolist() == [2, 3]


def test_rows_that_were_left_out_do_not_count() -> None:
    policy = replace(CLOSE, closeness=Closeness(t=1.0, burn_in=3))
    engine = CastleEngine(SCHEMA, policy, key=np.arange(8, dtype=np.uint32))
    present = np.array([False, True, True])
    engine.push(rows((1, 0, 11), (2, 1, 12), (3, 0, 12)), 0.0, present)
    snapshot = engine.snapshot()
    assert snapshot["counters"][names.REFERRED] == 2
    reference, facts = snapshot["weights"][policy.max_reusable + 1 :, 0][:2]
    assert reference.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert facts[[names.NEWEST, names.SUM]].tolist() == [1.0, 2.0]
    assert engine.flush().dropped.tolist() == [1, 2]


@pytest.mark.parametrize("decay", [0.001, 0.5, 0.9])
def test_decaying_weights_stay_finite_and_exact_over_many_rows(decay: float) -> None:
    policy = replace(CLOSE, closeness=Closeness(t=1.0, reference="decay", decay=decay), delay=100)
    engine = CastleEngine(SCHEMA, policy, key=np.arange(8, dtype=np.uint32))
    values = np.random.default_rng(1).integers(0, 3, 3000)
    engine.push(rows(*((number, int(value), 0.0) for number, value in enumerate(values))), 0.0)
    reference, facts = engine.snapshot()["weights"][policy.max_reusable + 1 :, 0][:2]
    weights = decay ** np.arange(len(values), dtype=np.float64)[::-1]
    expected = [float(weights[values == value].sum()) for value in range(3)]
    assert reference[:3] / facts[names.NEWEST] == pytest.approx(expected, rel=1e-9)
    assert facts[names.SUM] / facts[names.NEWEST] == pytest.approx(weights.sum(), rel=1e-9)


# -- kernel arrays -----------------------------------------------------------------------------------------------------


TREE = Hierarchy.from_mapping({"*": {"lung": ["flu", "cough"], "other": None}})


def test_trees_have_the_missing_value_below_the_root() -> None:
    schema = Schema(
        person=None,
        quasi_identifiers=[AGE],
        sensitive=[Sensitive("illness", hierarchy=TREE), Sensitive("job", values=["x"])],
    )
    weights = make_weights(schema, replace(CLOSE, closeness=Closeness(t=0.5)).criteria, entries=3)
    assert weights.shape == (3 + 6, 2, 6)
    _, facts, parents, heights, leaves = weights[4:]
    assert facts[:, [names.SIZE, names.NODES]].tolist() == [[4, 6], [2, 0]]
    assert parents[0].tolist() == [-1, 0, 1, 1, 0, 0]
    assert heights[0].tolist() == [1.0, 0.5, 0, 0, 0, 0]
    assert leaves[0, :4].tolist() == [2, 3, 4, 5]


def test_public_shares_are_the_reference_from_the_beginning() -> None:
    public = {"illness": {"a": 0.5, "c": 0.25, None: 0.25}}
    policy = replace(CLOSE, closeness=Closeness(t=0.5, reference="public", public=public))
    assert make_weights(SCHEMA, policy.criteria, entries=3)[4, 0].tolist() == [0.5, 0.0, 0.25, 0.25]


def test_without_criteria_on_distributions_no_pairs_are_kept() -> None:
    plain = Castle(k=2, l=2, delay=20)
    assert not make_shape(plain.criteria, room=9).on
    arrays = CastleEngine(SCHEMA, plain, key=np.arange(8, dtype=np.uint32)).snapshot()
    for name in ("weights", "pair_table", "recent"):
        assert arrays[name].size == 0


@pytest.mark.parametrize(
    ("sensitive", "change", "message"),
    [
        ([], {}, "t-closeness needs at least one sensitive column in the schema"),
        (["illness"], {}, "t-closeness needs the values of column 'illness': declare its values, hierarchy or bins"),
        (
            [Sensitive("illness", values=range(5000))],
            {},
            "t-closeness takes at most 4096 values, column 'illness' has 5000",
        ),
        (
            [Sensitive("illness", values=["a"])],
            {"distance": "hierarchical"},
            "distance='hierarchical' needs a hierarchy for column 'illness'",
        ),
        (
            [Sensitive("illness", values=["a"])],
            {"reference": "public", "public": {"job": {"a": 1.0}}},
            "public has no shares for the sensitive column 'illness'",
        ),
    ],
)
def test_a_schema_that_cannot_be_judged_is_refused(
    sensitive: list[Sensitive | str], change: dict[str, Any], message: str
) -> None:
    schema = Schema(person="id", quasi_identifiers=[AGE], sensitive=sensitive)
    policy = replace(CLOSE, closeness=Closeness(t=0.2, **change))
    with pytest.raises(PolicyError) as refused:
        CastleEngine(schema, policy, key=np.arange(8, dtype=np.uint32))
    assert str(refused.value) == message
