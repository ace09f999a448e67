"""What a release takes: nothing that its box does not hold, and no more than it needs."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from castleguard.algorithms.dcastle.engine import OUTSIDE, MemberEngine
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.schema.roles import Numeric, Schema
from castleguard.sites.joint_releases import Box, Lead, Verdict, choose
from castleguard.sites.site_messages import Prepared, Rows

SCHEMA = Schema(person=None, quasi_identifiers=[Numeric("q", lower=0, upper=100, step=1)])


@pytest.fixture
def engine() -> MemberEngine:
    return MemberEngine(SCHEMA, Dcastle(k=5, delay=20, sites=2), key=np.zeros(8, dtype=np.uint32))


def make_lead(*levels: int, boxes: list[tuple[float, float]]) -> Lead:
    """Own rows in boxes of one column, one inside the other."""
    lower, upper = np.array(boxes).T[..., None]
    return Lead(
        release="a.1.1",
        cluster=0,
        positions=np.arange(len(levels)),
        levels=np.array(levels),
        lower=lower,
        upper=upper,
        losses=(upper - lower)[:, 0] / 100,
        otherwise=1.0,
        made=0.0,
    )


def answer(name: str, *levels: int, **outside: Any) -> Prepared:
    """Rows of another site."""
    count = len(levels)
    rows = Rows(
        np.arange(count).astype(np.uint64), np.empty((count, 0), dtype=np.int64), pa.table({}), np.array(levels)
    )
    return Prepared(sender=name, epoch="1", agreed="", release="a.1.1", offer=f"{name}.1.1", rows=rows, **outside)


def at_least(k: int) -> Any:
    """Judges rows by their number."""

    def may_be(verdict: Verdict, box: Box) -> bool:
        return sum(verdict.offers.values()) >= k

    return may_be


def test_the_smallest_box_that_will_do_is_taken(engine: MemberEngine) -> None:
    lead = make_lead(0, 0, 1, boxes=[(40, 50), (30, 60), (0, 90)])
    lead.answers = {"b": answer("b", 0, 1, 1, 2)}
    verdict, box = choose(lead, engine, at_least(5)) or pytest.fail("nothing was chosen")
    assert (box[0].tolist(), box[1].tolist()) == ([30], [60])
    assert verdict.offers == {"a.1.1": 3, "b.1.1": 2}


def test_no_more_rows_of_the_others_are_taken_than_needed_and_of_each_a_like_share(engine: MemberEngine) -> None:
    lead = make_lead(0, 0, boxes=[(40, 50)])
    lead.answers = {"b": answer("b", *[0] * 40), "c": answer("c", *[0] * 20)}
    verdict, _ = choose(lead, engine, at_least(8)) or pytest.fail("nothing was chosen")
    assert verdict.offers["a.1.1"] == 2
    assert 8 <= sum(verdict.offers.values()) <= 10
    assert verdict.offers["b.1.1"] > verdict.offers["c.1.1"] > 0


def test_rows_that_lie_in_a_larger_box_only_are_never_taken_in_a_smaller_one(engine: MemberEngine) -> None:
    """Whoever joins from outside brings rows of all levels: the box must hold them too."""
    lead = make_lead(0, 0, boxes=[(40, 50), (10, 60)])
    lead.answers = {
        "b": answer("b", 0, 1, 1, *[OUTSIDE] * 6, lower=np.array([70.0]), upper=np.array([80.0]), otherwise=1.0)
    }
    verdict, box = choose(lead, engine, at_least(6)) or pytest.fail("nothing was chosen")
    assert verdict.offers["b.1.1"] > 1
    assert (box[0].tolist(), box[1].tolist()) == ([10], [80])


def test_nothing_is_taken_that_would_lose_less_elsewhere(engine: MemberEngine) -> None:
    lead = make_lead(0, 0, boxes=[(0, 90)])
    lead.otherwise = 0.1
    lead.answers = {"b": answer("b", 0, 0, 0, otherwise=0.1)}
    assert choose(lead, engine, at_least(2)) is None
