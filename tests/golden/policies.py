"""Made-up policies, written as a job file has them."""

from collections.abc import Callable
from typing import Any

import castleguard as cg
from tests.golden import shim
from tests.golden.draws import Draws
from tests.golden.worlds import Traits, Written

KINDS = (
    ("castle", "strict"),
    ("castle", "paper"),
    ("castleguard", "strict"),
    ("castleguard", "paper"),
    ("sdgs", "strict"),
    ("doca", "strict"),
    ("doca", "paper"),
)
"""Algorithms and modes of a single stream, of the four papers."""
CITADEL = ("citadel", "strict")


def make_policy(draws: Draws, algorithm: str, mode: str, *, clock: bool) -> tuple[Written, Traits]:
    """A policy, and what it asks of its schema. Without a `clock` nothing is counted in seconds."""
    return _MAKERS[algorithm, mode](draws, clock)


def split_budget(draws: Draws, policy: Written, schema: Written) -> Written:
    """Where columns have a share of the noise, a policy that names some of them."""
    numeric = [entry["name"] for entry in schema["quasi_identifiers"] if "lower" in entry]
    if policy.get("epsilon") is None or policy["algorithm"] not in ("castleguard", "doca") or not numeric:
        return policy
    if policy.get("mode") == "paper" and policy["algorithm"] == "doca":
        return {**policy, **_maybe(draws, 0.3, sensitivity={numeric[0]: 90.0})}
    return {**policy, **_maybe(draws, 0.4, weights={numeric[0]: 2.0})}


def build_policy(written: Written) -> Any:
    """The same as a value."""
    given = dict(written)
    algorithm = given.pop("algorithm")
    if "closeness" in given:
        given["closeness"] = cg.Closeness(**given["closeness"])
    if "reading" in given:
        given["reading"] = shim.Reading(**given["reading"])
    return _CLASSES[algorithm](**given)


def is_timed(written: Written) -> bool:
    """Whether the stream must be told the time."""
    return "max_wait" in written or ("window" in written and written.get("window_unit", "seconds") == "seconds")


def _castle(draws: Draws, clock: bool) -> tuple[Written, Traits]:
    policy = {"algorithm": "castle", **_groups(draws)}
    traits = _values(draws, policy)
    policy |= {
        **_maybe(draws, 0.3, reuse="off"),
        **_maybe(draws, 0.3, suppression=draws.pick(["root", "drop"])),
        **_maybe(draws, 0.4, order=draws.pick(["shuffled", "arrival", "input"])),
        **(_maybe(draws, 0.4, max_wait=draws.pick([15.0, 60.0])) if clock else {}),
    }
    return policy, Traits(**traits)


def _castle_paper(draws: Draws, clock: bool) -> tuple[Written, Traits]:
    policy = {"algorithm": "castle", "mode": "paper", **_groups(draws)}
    traits = _values(draws, policy)
    policy |= {
        **_maybe(draws, 0.2, reuse="off"),
        **_maybe(draws, 0.5, suppression=draws.pick(["root", "drop", "generalise"])),
        **_maybe(draws, 0.4, order=draws.pick(["shuffled", "arrival", "input"])),
        **(_maybe(draws, 0.3, max_wait=draws.pick([15.0, 60.0])) if clock else {}),
    }
    if draws.chance(0.3):
        policy["reading"] = {
            "tie_break": draws.pick(["oldest", "random"]),
            "containment": draws.pick(["generalisation", "interval"]),
            "admission": draws.pick(["le", "lt"]),
            "representatives": draws.pick(["balanced", "random"]),
            "merge": draws.pick(["diversity_aware", "paper"]),
            "first_threshold": draws.pick([0.0, 0.5]),
        }
    return policy, Traits(observed=True, **traits)


def _castleguard(draws: Draws, clock: bool) -> tuple[Written, Traits]:
    policy = {"algorithm": "castleguard", **_groups(draws)}
    traits = _values(draws, policy)
    policy |= draws.pick([{"epsilon": 8.0}, {"phi": 3.0}, {"epsilon": 2.5}])
    policy |= {
        **_maybe(draws, 0.4, sample_rate=draws.pick([0.5, 0.9])),
        **_maybe(draws, 0.3, reuse="off"),
        **_maybe(draws, 0.3, order=draws.pick(["arrival", "input"])),
    }
    counted = draws.chance(0.5)
    if counted:
        policy["rows_per_person"] = draws.whole(1, 3)
        if clock and draws.chance(0.5):
            policy["window"] = 40.0
        elif draws.chance(0.7):
            policy |= {"window": draws.pick([100, 250]), "window_unit": "rows"}
    return policy, Traits(**{**traits, "declared": True, "person": counted})


def _castleguard_paper(draws: Draws, clock: bool) -> tuple[Written, Traits]:
    policy = {"algorithm": "castleguard", "mode": "paper", **_groups(draws), "phi": draws.pick([2.0, 10.0])}
    traits = _values(draws, policy)
    policy |= {
        **_maybe(draws, 0.6, sample_rate=draws.pick([0.5, 0.9])),
        **_maybe(draws, 0.3, range_floor=draws.pick([1.0, 5.0])),
        **_maybe(draws, 0.3, suppression=draws.pick(["root", "generalise"])),
        **_maybe(draws, 0.3, order=draws.pick(["shuffled", "input"])),
    }
    ways: list[Written] = [{}, {"clock": "sampled"}, *([{"clock": "time", "max_wait": 30.0}] if clock else [])]
    return policy | draws.pick(ways), Traits(observed=True, **traits)


def _citadel(draws: Draws, clock: bool) -> tuple[Written, Traits]:
    narrow = draws.chance(0.3)
    policy: Written = {
        "algorithm": "citadel",
        "k": draws.whole(2, 7),
        "delay": draws.whole(40, 200),
        **_maybe(draws, 0.3, release_every=draws.whole(5, 40)),
        **_maybe(draws, 0.3, suppression="drop"),
        **(_maybe(draws, 0.4, max_wait=draws.pick([15.0, 60.0])) if clock else {}),
    }
    if narrow:
        policy |= {
            "reuse": "narrow",
            "slack": 1.0,  # the default when these cases were recorded
            **_maybe(draws, 0.5, slack=draws.pick([0.0, 0.5])),
            **_maybe(draws, 0.5, max_reusable=draws.whole(4, 60)),
        }
    ways: list[Written] = [
        {},
        {},
        {"l": draws.whole(2, 3)},
        {"l": 2, "diversity": "entropy"},
        {"l": 2, "diversity": "recursive", "c": draws.pick([2.0, 4.0])},
        {"closeness": {"t": draws.pick([0.5, 0.7]), "burn_in": 30, "distance": draws.pick(["equal", "ordered"])}},
    ]
    way = draws.whole(0, 2 if narrow else 5)  # the others are refused with narrow reuse
    if way > 1:
        policy["k"] = max(policy["k"], 4)
    return policy | ways[way], Traits(sensitive=way > 1, declared=way > 2)


def _sdgs(draws: Draws, clock: bool) -> tuple[Written, Traits]:
    policy: Written = {
        "algorithm": "sdgs",
        "k": draws.whole(2, 4),
        "sample_rate": draws.pick([0.6, 0.75, 0.9]),
        "epsilon": draws.pick([2.5, 4.0]),
        "start_cells": draws.pick([1, 2, 3]),
    }
    if clock and draws.chance(0.5):
        policy["window"] = draws.pick([30.0, 50.0])
    else:
        policy |= {"window": draws.pick([100, 160, 240]), "window_unit": "rows"}
    policy |= {**_maybe(draws, 0.4, unit="row"), **_maybe(draws, 0.3, adapt=False), **_maybe(draws, 0.3, survival=0.5)}
    policy |= _maybe(draws, 0.3, max_cells=draws.pick([4, 6]))
    way = draws.whole(0, 5)
    more: list[Written] = [
        {},
        {},
        {"l": 2},
        {"l": 2, "diversity": "entropy"},
        {"l": 2, "diversity": "recursive", "c": 3.0},
        {"closeness": {"t": 0.6, "distance": draws.pick(["equal", "ordered"]), "burn_in": 40}},
    ]
    return policy | more[way], Traits(few=True, public=False, declared=True, sensitive=way > 1)


def _doca(draws: Draws, clock: bool) -> tuple[Written, Traits]:
    policy: Written = {
        "algorithm": "doca",
        "epsilon": draws.pick([1.0, 4.0, 10.0]),
        "delay": draws.pick([40, 75, 150]),
        "k": draws.whole(2, 10),
        **(_maybe(draws, 0.4, max_wait=draws.pick([15.0, 40.0])) if clock else {}),
    }
    counted = draws.chance(0.4)
    if counted:
        policy["rows_per_person"] = draws.whole(1, 3)
    return policy, Traits(public=False, declared=True, person=counted)


def _doca_paper(draws: Draws, clock: bool) -> tuple[Written, Traits]:
    policy: Written = {
        "algorithm": "doca",
        "mode": "paper",
        "epsilon": draws.pick([1.0, 4.0, 10.0]),
        "delay": draws.pick([40, 75, 150]),
        **_maybe(draws, 0.5, max_clusters=draws.whole(4, 20)),
        **_maybe(draws, 0.5, loss_window=draws.whole(5, 30)),
        **_maybe(draws, 0.5, admission="le"),
        **(_maybe(draws, 0.4, max_wait=draws.pick([15.0, 40.0])) if clock else {}),
    }
    counted = draws.chance(0.4)
    if counted:
        policy["rows_per_person"] = draws.whole(1, 3)
    return policy, Traits(root=False, declared=True, person=counted)


def _dcastle(draws: Draws, clock: bool) -> tuple[Written, Traits]:
    policy = {"algorithm": "dcastle", **_groups(draws), "sites": draws.whole(2, 5), "delay": draws.whole(40, 120)}
    diverse = draws.chance(0.4)
    if diverse:
        policy["l"] = 2
    policy |= {
        **_maybe(draws, 0.3, share_threshold=draws.whole(1, 3)),
        **_maybe(draws, 0.4, reserve=draws.pick([0.1, 0.5])),
        **_maybe(draws, 0.3, k_scope="per_site"),
        **_maybe(draws, 0.3, reuse="off"),
        **_maybe(draws, 0.3, suppression="drop"),
        **_maybe(draws, 0.3, order="arrival"),
    }
    return policy, Traits(sensitive=diverse)


def _dcastle_paper(draws: Draws, clock: bool) -> tuple[Written, Traits]:
    diverse = draws.chance(0.4)
    policy: Written = {
        "algorithm": "dcastle",
        "k": draws.whole(3, 8),
        "l": 2 if diverse else 1,
        "delay": draws.whole(30, 80),
        "sites": draws.whole(2, 5),
        "max_clusters": draws.whole(5, 25),
    }
    return policy, Traits(sensitive=diverse)


def _groups(draws: Draws) -> Written:
    """k and delay, and how clusters are steered."""
    return {
        "k": draws.whole(2, 7),
        "delay": draws.whole(20, 160),
        **_maybe(draws, 0.5, max_clusters=draws.whole(3, 30)),
        **_maybe(draws, 0.5, loss_window=draws.whole(3, 40)),
        **_maybe(draws, 0.4, max_reusable=draws.whole(4, 60)),
        **_maybe(draws, 0.3, reusable_age=draws.whole(50, 300)),
    }


def _values(draws: Draws, policy: Written) -> dict[str, bool]:
    """Add what is asked of sensitive values, if anything; what that asks of the schema."""
    way = draws.whole(0, 9)
    if way < 3:
        return {}
    policy["k"] = max(policy["k"], 4)
    policy["delay"] += 60
    if way < 6:
        policy |= {"l": draws.whole(2, 3), **_maybe(draws, 0.4, l_per="person")}
        return {"sensitive": True}
    if way == 6:
        policy |= {"l": 2, "diversity": "entropy"}
    elif way == 7:
        policy |= {"l": 2, "diversity": "recursive", "c": draws.pick([2.0, 4.0])}
    else:
        tree = draws.chance(0.4)
        policy["closeness"] = {"t": draws.pick([0.5, 0.7]), **_reference(draws, tree)}
        return {"sensitive": True, "declared": True, "tree": tree}
    return {"sensitive": True, "declared": True}


def _reference(draws: Draws, tree: bool) -> Written:
    running: list[Written] = [
        {"burn_in": 30},
        {"reference": "window", "window": 150},
        {"reference": "decay", "decay": 0.99, "alpha": 0.5},
        {"burn_in": 0, "alpha": 2.0},
    ]
    found = draws.pick(running)
    if not tree:
        return {**found, "distance": draws.pick(["equal", "ordered"])}
    shares = {"asthma": 0.3, "cold": 0.2, "flu": 0.2, "gout": 0.2, "measles": 0.1}
    public: Written = {"reference": "public", "public": {"illness": shares}}
    return {**draws.pick([found, public]), "distance": "hierarchical"}


def _maybe(draws: Draws, share: float, **given: Any) -> Written:
    return given if draws.chance(share) else {}


_MAKERS: dict[tuple[str, str], Callable[[Draws, bool], tuple[Written, Traits]]] = {
    ("castle", "strict"): _castle,
    ("castle", "paper"): _castle_paper,
    ("castleguard", "strict"): _castleguard,
    ("castleguard", "paper"): _castleguard_paper,
    CITADEL: _citadel,
    ("sdgs", "strict"): _sdgs,
    ("doca", "strict"): _doca,
    ("doca", "paper"): _doca_paper,
    ("dcastle", "strict"): _dcastle,
    ("dcastle", "paper"): _dcastle_paper,
}
_CLASSES: dict[str, Callable[..., Any]] = {
    "castle": cg.Castle,
    "castleguard": cg.Castleguard,
    "citadel": cg.Citadel,
    "sdgs": cg.Sdgs,
    "doca": cg.Doca,
    "dcastle": shim.Dcastle,
}
