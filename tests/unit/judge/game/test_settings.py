"""Setting for a policy: enough rows, canaries with the right neighbours, all rows of a person in one window."""

import datetime as dt
import pickle

import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.errors import InputError, UsageError
from castleguard.judge.attack.canaries import Canary
from castleguard.judge.attack.features import Observer, PointObserver
from castleguard.judge.game.backgrounds import COMMON, SCHEMA, background_for, made_up_rows, rows_of
from castleguard.judge.game.settings import Given, setting_for, worst_group
from castleguard.privacy.sdgs import worst_case

PAPER = cg.Castleguard(k=20, delay=100, sample_rate=0.5, phi=100, mode="paper")
PER_PERSON = cg.Sdgs(k=10, sample_rate=0.25, epsilon=1, window=60)


def repeated(policy: cg.Doca | cg.Sdgs | cg.Castleguard) -> Canary:
    return next(canary for canary in setting_for(policy).canaries if canary.name == "repeated person")


# Rows


@pytest.mark.parametrize(
    ("policy", "rows"),
    [
        (PAPER, 150),  # 3.75 * 20 / 0.5
        (cg.Castle(k=5, delay=40), 60),
        (cg.Castle(k=5, delay=100), 150),  # one and a half delays
        (cg.Castle(k=5, delay=100_000), 600),
        (PER_PERSON, 80),  # two values at the threshold of k: 2 * 10 / 0.25
        (cg.Doca(epsilon=1, delay=100, k=5), 150),
    ],
)
def test_background_is_as_long_as_the_policy_needs(policy: cg.Castle | cg.Sdgs | cg.Doca, rows: int) -> None:
    assert len(background_for(policy)) == rows


def test_game_that_needs_too_many_rows_is_refused() -> None:
    with pytest.raises(UsageError, match="each run would need 37,500 rows"):
        background_for(cg.Castleguard(k=100, delay=100, sample_rate=0.01, phi=1, mode="paper"))
    with pytest.raises(UsageError, match="a window would need"):
        background_for(cg.Sdgs(k=1000, sample_rate=0.01, epsilon=1, window=60))
    with pytest.raises(UsageError, match="only 4 common values"):
        background_for(cg.Castle(k=10, l=5, delay=100))


def test_made_up_rows_leave_room_for_outliers_and_a_rare_value() -> None:
    rows = made_up_rows(100, every=40, seconds=60)
    assert all(40 <= row["x"] <= 60 and 40 <= row["y"] <= 60 for row in rows)  # type: ignore[operator]
    assert {row["s"] for row in rows} == set(COMMON)
    assert [row["now"] for row in rows[::40]] == [0, 60, 120]
    assert len({row["pid"] for row in rows}) == 100


def test_rows_of_a_file_become_values_of_their_columns() -> None:
    schema = cg.Schema(
        person="who",
        quasi_identifiers=[
            cg.Numeric("age", lower=0, upper=100),
            cg.Numeric("day", lower=dt.date(2026, 1, 1), upper=dt.date(2026, 12, 31)),
            cg.Numeric("at", lower=dt.datetime(2026, 1, 1), upper=dt.datetime(2027, 1, 1)),
            cg.Categorical("job", hierarchy=cg.Hierarchy.flat(["cook", "nurse"])),
        ],
        sensitive=[cg.Sensitive("score", values=[1, 2]), "note"],
    )
    usable = ["7", "30", "2026-03-01", "2026-03-01 12:30:00", "nurse", "2", "tired"]
    table = pa.table(
        {
            name: [value] * 40 + [spoilt]
            for name, value, spoilt in zip(schema.columns, usable, [*usable[:5], "9", "tired"], strict=True)
        }
    )
    rows = rows_of(table, schema)
    assert len(rows) == 40  # a score of 9 is not declared, and so is missing
    assert rows[0] == {
        "who": "7",
        "age": 30,
        "day": dt.date(2026, 3, 1),
        "at": dt.datetime(2026, 3, 1, 12, 30),
        "job": "nurse",
        "score": 2,
        "note": "tired",
    }
    setting = setting_for(cg.Castle(k=2, delay=10), Given(schema=schema, rows=rows))
    assert not setting.made_up
    assert all(pa.Table.from_pylist(canary.streams(rows)[0]).num_rows > 40 for canary in setting.canaries)


def test_too_few_usable_rows_are_refused() -> None:
    schema = cg.Schema(person=None, quasi_identifiers=[cg.Numeric("age", lower=0, upper=100)])
    with pytest.raises(InputError, match="only 3 rows of the data are usable"):
        rows_of(pa.table({"age": ["1", "2", "x", None, "3"]}), schema)


# Canaries


def test_claim_about_presence_uses_streams_with_and_without_a_row() -> None:
    for canary in setting_for(PAPER).canaries:
        assert len(canary.rows) == 1
        assert not canary.instead


def test_claim_about_values_uses_replaced_values() -> None:
    for canary in setting_for(cg.Castleguard(k=20, delay=100, epsilon=1)).canaries:
        assert len(canary.instead) == len(canary.rows) == 1
        assert canary.instead[0]["pid"] == canary.rows[0]["pid"]


def test_claim_about_persons_uses_all_rows_of_a_person() -> None:
    assert len(repeated(PER_PERSON).rows) == 5
    assert not repeated(PER_PERSON).company


@pytest.mark.parametrize(("window", "rows"), [(3, 3), (20, 5), (39, 5)])
def test_all_rows_of_a_person_lie_in_one_window_of_arrivals(window: int, rows: int) -> None:
    canary = repeated(cg.Doca(epsilon=1, delay=window, k=2, rows_per_person=9))
    assert len(canary.rows) == len(canary.instead) == rows
    assert canary.at // window == (canary.at + rows - 1) // window


def test_canaries_of_sdgs_include_the_worst_group() -> None:
    rows = background_for(PER_PERSON)
    size = worst_case(k=PER_PERSON.k, sample_rate=PER_PERSON.sample_rate, epsilon=PER_PERSON.epsilon).rows
    canary = worst_group(size, SCHEMA, rows)
    assert setting_for(PER_PERSON).canaries[-1] == canary
    group = [*canary.company, *canary.rows]
    assert len({row["pid"] for row in group}) == len(group) >= PER_PERSON.k
    assert len({row["s"] for row in group} - {row["s"] for row in rows}) == 1  # a unique value
    named = [{**row, "pid": f"p{row['pid']}"} for row in rows]
    assert len({row["pid"] for row in worst_group(size, SCHEMA, named).company}) == len(canary.company)


def test_points_and_boxes_have_their_own_observers() -> None:
    doca, castle = setting_for(cg.Doca(epsilon=1, delay=10, k=2)), setting_for(cg.Castle(k=2, delay=10))
    assert isinstance(doca.observer(doca.canaries[0]), PointObserver)
    assert isinstance(castle.observer(castle.canaries[0]), Observer)


def test_setting_can_be_pickled() -> None:
    for policy in (PAPER, PER_PERSON, cg.Doca(epsilon=1, delay=10, k=2)):
        setting = setting_for(policy)
        again = pickle.loads(pickle.dumps(setting))
        assert (again.policy, again.schema, again.canaries) == (setting.policy, setting.schema, setting.canaries)


def test_only_a_timed_policy_gets_a_clock() -> None:
    assert setting_for(PER_PERSON).clock == "now"
    assert setting_for(PAPER).clock is None
