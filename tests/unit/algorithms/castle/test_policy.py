"""Parameters that the CASTLE policy refuses, and its defaults."""

import json
from dataclasses import replace
from typing import Any

import pytest

from castleguard.algorithms.castle.policy import PAPER, STRICT, Castle
from castleguard.errors import PolicyError
from castleguard.privacy.closeness import Closeness
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.sensitive import Sensitive

POLICY = Castle(k=5, l=2, delay=100)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 1}, "k must be a whole number of at least 2, got 1"),
        ({"l": 0}, "l must be a whole number of at least 1, got 0"),
        ({"l": 6}, "l must not be above k, got l=6 and k=5"),
        ({"l_per": "value"}, "l_per must be 'row' or 'person', got 'value'"),
        ({"delay": 0}, "delay must be a whole number of at least 1, got 0"),
        ({"delay": 2.5}, "delay must be a whole number of at least 1, got 2.5"),
        ({"delay": True}, "delay must be a whole number of at least 1, got True"),
        ({"delay": 3}, "delay must be at least k - 1, got delay=3 and k=5"),
        ({"delay": 2**31}, "delay must be at most 1073741824, got 2147483648"),
        ({"max_clusters": 0}, "max_clusters must be a whole number of at least 1, got 0"),
        ({"loss_window": 0}, "loss_window must be a whole number of at least 1, got 0"),
        ({"max_reusable": 0}, "max_reusable must be a whole number of at least 1, got 0"),
        ({"max_wait": 0}, "max_wait must be a number of seconds above 0, got 0"),
        ({"max_wait": float("inf")}, "max_wait must be a number of seconds above 0, got inf"),
        ({"max_wait": float("nan")}, "max_wait must be a number of seconds above 0, got nan"),
        ({"reusable_age": -1}, "reusable_age must be a whole number of at least 0, got -1"),
        ({"mode": "lax"}, "mode must be 'strict' or 'paper', got 'lax'"),
        ({"reuse": "on"}, "reuse must be 'paper' or 'off', got 'on'"),
        ({"suppression": "hide"}, "suppression must be 'root' or 'generalise' or 'drop', got 'hide'"),
        ({"order": "random"}, "order must be 'shuffled' or 'arrival' or 'input', got 'random'"),
        ({"suppression": "generalise"}, "suppression='generalise' publishes rows alone at the root"),
        ({"diversity": "recursive"}, "c and diversity='recursive' go together: give both or neither"),
        ({"diversity": "entropy", "l": 1}, "diversity='entropy' needs l of at least 2, got 1"),
        ({"closeness": 0.2}, "closeness must be a Closeness, got float"),
    ],
)
def test_impossible_parameters_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError) as refused:
        replace(POLICY, **change)
    assert str(refused.value).startswith(message)


def test_the_shortest_delay_holds_k_rows() -> None:
    assert Castle(k=5, delay=4).delay == 4


def test_strict_is_the_default_and_sets_open_parameters() -> None:
    assert POLICY.strict
    assert (POLICY.chosen_suppression, POLICY.chosen_order, POLICY.chosen_reading) == ("root", "shuffled", STRICT)
    paper = replace(POLICY, mode="paper")
    assert not paper.strict
    assert (paper.chosen_suppression, paper.chosen_order, paper.chosen_reading) == ("generalise", "arrival", PAPER)


def test_given_parameters_override_the_mode() -> None:
    policy = Castle(k=2, delay=9, suppression="drop", order="input", reading=PAPER)
    assert (policy.chosen_suppression, policy.chosen_order, policy.chosen_reading) == ("drop", "input", PAPER)


def test_equivalent_policies_have_equal_fingerprints() -> None:
    spelt_out = replace(POLICY, suppression="root", order="shuffled", reading=STRICT)
    assert spelt_out.fingerprint() == POLICY.fingerprint()
    assert json.loads(json.dumps(POLICY.fingerprint())) == POLICY.fingerprint()
    for change in ({"k": 6}, {"max_wait": 1.0}, {"mode": "paper"}, {"reading": PAPER}, {"l_per": "person"}):
        assert replace(POLICY, **change).fingerprint() != POLICY.fingerprint()


def test_criteria_of_distributions_are_part_of_the_fingerprint() -> None:
    close = replace(POLICY, closeness=Closeness(t=0.2))
    assert json.loads(json.dumps(close.fingerprint())) == close.fingerprint()
    assert replace(close, closeness=Closeness(t=0.2, burn_in=100)).fingerprint() == close.fingerprint()
    public = Closeness(t=0.2, reference="public", public={"s": {"a": 0.5, None: 0.5}})
    changes: list[dict[str, Any]] = [
        {"closeness": Closeness(t=0.3)},
        {"closeness": public},
        {"diversity": "entropy"},
        {"diversity": "recursive", "c": 2.0},
        {"diversity": "recursive", "c": 3.0},
    ]
    described = [json.dumps(replace(POLICY, **change).fingerprint()) for change in changes]
    assert len({*described, json.dumps(POLICY.fingerprint()), json.dumps(close.fingerprint())}) == len(changes) + 2


def test_the_default_burn_in_is_the_delay_up_to_a_thousand_rows() -> None:
    for delay, burn_in in ((50, 50), (5000, 1000)):
        closeness = replace(POLICY, delay=delay, closeness=Closeness(t=0.2)).criteria.closeness
        assert closeness is not None
        assert closeness.burn_in == burn_in


def test_the_statement_names_the_criteria_and_their_limits() -> None:
    schema = Schema(
        person="pid",
        quasi_identifiers=[Numeric("age", lower=0, upper=100)],
        sensitive=[Sensitive("illness", values=["a", "b"])],
    )
    plain = str(POLICY.guarantee(schema, seeded=False))
    assert "entropy" not in plain
    assert "remembered" not in plain
    entropy = str(replace(POLICY, diversity="entropy").guarantee(schema, seeded=False))
    assert "the values of illness, each person counted once per value, have an entropy of at least ln 2:" in entropy
    assert "Values are remembered for the reusable boxes, at most 1000, and for the root" in entropy
    assert "changes later" not in entropy
    both = replace(POLICY, diversity="recursive", c=3, closeness=Closeness(t=0.2, distance="ordered"))
    sentence = str(both.guarantee(schema, seeded=False))
    assert (
        "recursive (3, 2)-diversity and t-closeness 0.2 (ordered distance) to the distribution of all rows" in sentence
    )
    assert (
        "Closeness is promised at the moment of a release only: the distribution of all rows changes later" in sentence
    )
