"""Membership game: canaries make neighbours, the event is chosen without the test runs, and the verdict has bounds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from castleguard.errors import PolicyError, UsageError
from castleguard.judge.attack.canaries import Canary, standard_canaries, with_values_replaced
from castleguard.judge.attack.evidence import Claim
from castleguard.judge.attack.features import Features, Observer, standing_together
from castleguard.judge.attack.membership_game import Event, Seen, choose_event, judge, observe
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive

SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[
        Numeric("age", lower=0, upper=100, step=10),
        Categorical("job", hierarchy=Hierarchy.flat(["cook", "nurse", "pilot"])),
    ],
    sensitive=[Sensitive("illness", values=["cold", "flu", "rare"])],
)
ROWS: list[dict[str, Any]] = [
    {"pid": number, "age": 40 + number, "job": "nurse", "illness": ("flu", "flu", "cold")[number % 3], "now": 5.0}
    for number in range(8)
]
CLAIM = Claim(1.0, 0.0)


def coins(one: float, other: float, *, runs: int = 400, seed: int = 0) -> Seen:
    """Runs with one feature that is 1 at these rates on the two streams, and two features without information."""
    draw = np.random.default_rng(seed)
    sides = [np.column_stack([draw.normal(size=runs), draw.random(runs) < p, np.ones(runs)]) for p in (one, other)]
    return Seen("coin", ("noise", "coin", "constant"), sides[0].astype(np.float64), sides[1].astype(np.float64))


# Canaries


@pytest.mark.parametrize("canary", standard_canaries(SCHEMA, ROWS), ids=lambda canary: canary.name)
def test_neighbouring_streams_differ_only_by_the_canary_rows(canary: Canary) -> None:
    with_rows, without = canary.streams(ROWS)
    assert len(canary.rows) == 1
    assert with_rows[: canary.place] == without[: canary.place]
    assert with_rows[canary.place] == canary.rows[0]
    assert with_rows[canary.place + 1 :] == without[canary.place :]
    assert [row for row in without if row in ROWS] == ROWS


@pytest.mark.parametrize("canary", standard_canaries(SCHEMA, ROWS), ids=lambda canary: canary.name)
def test_replaced_values_keep_person_time_and_length(canary: Canary) -> None:
    replaced = with_values_replaced(canary, SCHEMA, ROWS)
    one, other = replaced.streams(ROWS)
    assert len(one) == len(other)
    differing = [place for place, rows in enumerate(zip(one, other, strict=True)) if rows[0] != rows[1]]
    assert differing == [canary.place]
    here, there = one[canary.place], other[canary.place]
    assert [name for name in here if here[name] != there[name]] == ["age", "job", "illness"]


def test_canaries_match_their_names() -> None:
    unique, outlier, first, repeated, extender = standard_canaries(SCHEMA, ROWS)
    assert unique.rows[0]["illness"] == "rare"
    assert unique.rows[0]["pid"] == 8
    assert (outlier.rows[0]["age"], outlier.rows[0]["job"]) == (100, "pilot")
    assert first.at == 0
    assert 39 < first.rows[0]["age"] < 40  # type: ignore[operator]
    assert {row["pid"] for row in repeated.company} == {repeated.rows[0]["pid"]} == {8}
    assert (extender.at, extender.rows[0]["age"], extender.rows[0]["job"]) == (1, 100, "nurse")


def test_whole_person_canary_has_all_rows_of_the_person() -> None:
    one, other = standard_canaries(SCHEMA, ROWS, whole_person=True)[3].streams(ROWS)
    assert other == ROWS
    assert sum(row["pid"] == 8 for row in one) == 5


def test_canaries_work_without_declared_values() -> None:
    schema = Schema(person=None, quasi_identifiers=[Numeric("age")], sensitive=["illness", "cost"])
    rows = [{"age": age, "illness": "flu", "cost": age} for age in (20, 30, 40)]
    unique, outlier, *_ = standard_canaries(schema, rows)
    assert unique.rows[0] == {"age": 30, "illness": "canary", "cost": 41}
    assert outlier.rows[0]["age"] == 120


def test_canary_outside_the_stream_is_refused() -> None:
    with pytest.raises(UsageError, match="position 9 is outside a stream of 8 rows"):
        Canary(name="lost", rows=ROWS[:1], at=9).streams(ROWS)


# Features


def published(illnesses: Sequence[str | None]) -> pa.Table:
    count = len(illnesses)
    return pa.table(
        {
            "age_min": pa.array([40] * count, pa.int64()),
            "age_max": pa.array([50] * count, pa.int64()),
            "job": pa.array(["nurse"] * count, pa.string()),
            "illness": pa.array(illnesses, pa.string()),
        }
    )


def test_observer_finds_known_rows() -> None:
    known = {"pid": 8, "age": 40, "job": "nurse", "illness": "rare"}
    look = Observer(SCHEMA, [known, {**known, "age": 10, "illness": "flu"}], place=1)
    found = look([published(["flu", "rare", None]), published([])])
    assert found["rows"] == found["rows of release 0"] == 3
    assert found["rows of release 1"] == 0
    assert found["boxes"] == 1
    assert (found["lowest age"], found["highest age"]) == (40, 50)
    assert found["width of age"] == pytest.approx(0.1)
    assert (found["rows around it (0)"], found["rows around it (1)"]) == (3, 0)
    assert (found["bounds at its age (0)"], found["bounds at its age (1)"]) == (3, 0)
    assert (found["rows with its illness (0)"], found["rows with its illness (1)"]) == (1, 1)
    assert (found["rows around it with its illness (0)"], found["rows around it with its illness (1)"]) == (1, 0)
    assert (found["its illness in its place (0)"], found["its illness in its place (1)"]) == (1, 0)
    assert (found["lower age in its place"], found["upper age in its place"]) == (40, 50)
    assert (found["loss of the smallest box around it (0)"], found["loss of the smallest box around it (1)"]) == (
        0.05,
        1,
    )


def test_empty_output_has_the_same_features() -> None:
    look = Observer(SCHEMA, ROWS[:1], place=0)
    nothing = look([published([]), published([])])
    assert nothing.keys() == look([published(["flu"]), published([])]).keys()
    assert all(np.isfinite(value) for value in nothing.values())
    assert nothing["rows"] == nothing["boxes"] == 0


def test_pairs_count_only_within_one_box() -> None:
    look = standing_together(SCHEMA, [("flu", "rare"), ("flu", "cold")])
    apart = published(["rare"]).set_column(0, "age_min", pa.array([30]))
    assert look([published(["flu", "cold"]), apart]) == {"pairs in one box": 1}
    assert look([published(["flu", "cold", "rare"])]) == {"pairs in one box": 2}


# The game


def test_stream_is_published_once_per_seed_for_all_observers() -> None:
    asked: list[tuple[int, int]] = []

    def publish(stream: pa.Table, seed: int) -> list[pa.Table]:
        asked.append((stream.num_rows, seed))
        return [published(["flu"] * (seed % 2))]

    observers: list[Features] = [Observer(SCHEMA, ROWS[:1], place=3), lambda output: {"tables": float(len(output))}]
    (names, seen), (other_names, other) = observe(publish, pa.Table.from_pylist(ROWS), observers, range(100, 120))
    assert asked == [(8, 100 + run) for run in range(20)]
    assert seen.shape == (20, len(names))
    assert seen[:, names.index("rows")].tolist() == [0, 1] * 10
    assert other_names == ("tables",)
    assert other.tolist() == [[1.0]] * 20


# The choice of the event, and the verdict


def test_event_with_the_largest_bound_is_chosen() -> None:
    event = choose_event(coins(0.6, 0.1), CLAIM, alpha=0.05)
    assert event.name == "coin is at least 1"
    assert event.count(np.array([[5.0, 1.0, 1.0], [5.0, 0.0, 1.0]])) == 1
    assert choose_event(coins(0.1, 0.6), CLAIM, alpha=0.05).name == "coin is at most 0"


def test_event_can_combine_several_features() -> None:
    draw = np.random.default_rng(1)
    sides = [draw.normal(size=(2000, 6)) + shift for shift in (0.6, 0.0)]
    seen = Seen("cloud", tuple("abcdef"), sides[0], sides[1])
    assert choose_event(seen, CLAIM, alpha=0.05).name.startswith("a sum of all features")
    alone = max(
        judge([seen._replace(features=("a",), one=s, other=o)], CLAIM).epsilon
        for s, o in [(sides[0][:, [at]], sides[1][:, [at]]) for at in range(6)]
    )
    assert judge([seen], CLAIM).epsilon > alone


def test_event_is_chosen_without_the_test_runs() -> None:
    """The first half alone decides the event; the second half has no influence."""
    seen = coins(0.6, 0.1)
    half = len(seen.one) // 2
    turned = seen._replace(
        one=np.vstack([seen.one[:half], seen.other[half:]]), other=np.vstack([seen.other[:half], seen.one[half:]])
    )
    before, after = judge([seen], CLAIM).worst, judge([turned], CLAIM).worst
    assert before.event == after.event
    assert (before.seen, before.seen_other) == (after.seen_other, after.seen)
    assert before.epsilon > 1
    assert after.epsilon == 0


def test_training_runs_are_not_evidence() -> None:
    """Runs that chose the event are not evidence, even if they differ strongly."""
    seen = coins(0.5, 0.5)
    half = len(seen.one) // 2
    seen.one[:half, 1], seen.other[:half, 1] = 1.0, 0.0
    found = judge([seen], CLAIM)
    assert found.worst.event == "coin is at least 1"
    assert found.worst.tested == half
    assert not found.refuted


def test_verdict_states_its_bounds() -> None:
    found = judge([coins(0.9, 0.02, runs=2000)], CLAIM)
    assert found.refuted
    assert 3 < found.epsilon < np.log(0.9 / 0.02)
    assert 0.7 < found.dp_delta < 0.9 - np.e * 0.02
    assert found.epsilon < found.ceiling
    assert str(found).startswith("claim (1, 0): REFUTED, epsilon >= 3.")
    assert "95 % confidence, 1,000 + 1,000 runs" in str(found)
    true = judge([coins(0.9, 0.02, runs=2000)], Claim(4.5, 0.0))
    assert not true.refuted
    assert "not refuted" in str(true)


def test_bounds_fall_with_more_canaries() -> None:
    seen = coins(0.9, 0.02)
    alone, among = judge([seen], CLAIM), judge([seen, coins(0.5, 0.5), coins(0.5, 0.5, seed=1)], CLAIM)
    assert alone.worst.event == among.worst.event
    assert 0 < among.epsilon < alone.epsilon
    assert among.ceiling < alone.ceiling
    assert among.worst.canary == "coin"


def test_bounds_fall_with_higher_confidence() -> None:
    seen = [coins(0.9, 0.02)]
    assert judge(seen, CLAIM, confidence=0.999).epsilon < judge(seen, CLAIM, confidence=0.9).epsilon
    with pytest.raises(PolicyError, match="confidence"):
        judge(seen, CLAIM, confidence=1.0)


def test_equal_streams_refute_no_claim() -> None:
    same = Seen("nothing", ("constant",), np.ones((50, 1)), np.ones((50, 1)))
    found = judge([same], Claim(0.0, 0.0))
    assert (found.epsilon, found.dp_delta, found.refuted) == (0, 0, False)


def test_event_is_counted_with_its_weights() -> None:
    event = Event("both", np.array([1.0, 2.0]), 3.0)
    assert event.count(np.array([[1.0, 1.0], [0.0, 1.0], [5.0, 0.0]])) == 2
