"""Choice of a release: only rows inside its box, and no more of them than needed."""

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
    """A release with own rows in nested boxes of one column."""
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
    """An answer with rows of another site."""
    count = len(levels)
    rows = Rows(
        np.arange(count).astype(np.uint64), np.empty((count, 0), dtype=np.int64), pa.table({}), np.array(levels)
    )
    return Prepared(sender=name, epoch="1", agreed="", release="a.1.1", offer=f"{name}.1.1", rows=rows, **outside)


def at_least(k: int) -> Any:
    """Allow groups of at least so many rows."""

    def is_allowed(verdict: Verdict, box: Box) -> bool:
        return sum(verdict.offers.values()) >= k

    return is_allowed


def test_smallest_allowed_box_is_chosen(engine: MemberEngine) -> None:
    lead = make_lead(0, 0, 1, boxes=[(40, 50), (30, 60), (0, 90)])
    lead.answers = {"b": answer("b", 0, 1, 1, 2)}
    verdict, box = choose(lead, engine, at_least(5)) or pytest.fail("nothing was chosen")
    assert (box[0].tolist(), box[1].tolist()) == ([30], [60])
    assert verdict.offers == {"a.1.1": 3, "b.1.1": 2}


def test_others_rows_are_trimmed_to_the_smallest_allowed_share(engine: MemberEngine) -> None:
    lead = make_lead(0, 0, boxes=[(40, 50)])
    lead.answers = {"b": answer("b", *[0] * 40), "c": answer("c", *[0] * 20)}
    verdict, _ = choose(lead, engine, at_least(8)) or pytest.fail("nothing was chosen")
    assert verdict.offers["a.1.1"] == 2
    assert 8 <= sum(verdict.offers.values()) <= 10
    assert verdict.offers["b.1.1"] > verdict.offers["c.1.1"] > 0


def test_rows_outside_a_box_are_never_published_in_it(engine: MemberEngine) -> None:
    """A joining site offers rows of all levels: the box must contain them too."""
    lead = make_lead(0, 0, boxes=[(40, 50), (10, 60)])
    lead.answers = {
        "b": answer("b", 0, 1, 1, *[OUTSIDE] * 6, lower=np.array([70.0]), upper=np.array([80.0]), otherwise=1.0)
    }
    verdict, box = choose(lead, engine, at_least(6)) or pytest.fail("nothing was chosen")
    assert verdict.offers["b.1.1"] > 1
    assert (box[0].tolist(), box[1].tolist()) == ([10], [80])


def test_rows_that_lose_less_without_the_release_are_not_taken(engine: MemberEngine) -> None:
    lead = make_lead(0, 0, boxes=[(0, 90)])
    lead.otherwise = 0.1
    lead.answers = {"b": answer("b", 0, 0, 0, otherwise=0.1)}
    assert choose(lead, engine, at_least(2)) is None
