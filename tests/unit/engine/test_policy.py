"""What a policy refuses, and what it fills in."""

import json
from dataclasses import replace
from typing import Any

import pytest

from castleguard.engine.policy import PAPER, STRICT, Castle
from castleguard.errors import PolicyError

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
        ({"reusable_age": -1}, "reusable_age must be a whole number that is not negative, got -1"),
        ({"mode": "lax"}, "mode must be 'strict' or 'paper', got 'lax'"),
        ({"reuse": "on"}, "reuse must be 'paper' or 'off', got 'on'"),
        ({"suppression": "hide"}, "suppression must be 'root' or 'generalise' or 'drop', got 'hide'"),
        ({"order": "random"}, "order must be 'shuffled' or 'arrival' or 'input', got 'random'"),
        ({"suppression": "generalise"}, "suppression='generalise' publishes rows alone at the root"),
    ],
)
def test_a_promise_that_cannot_be_kept_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError) as refused:
        replace(POLICY, **change)
    assert str(refused.value).startswith(message)


def test_the_shortest_delay_holds_k_rows_at_once() -> None:
    assert Castle(k=5, delay=4).delay == 4


def test_strict_is_the_default_and_decides_what_is_left_open() -> None:
    assert POLICY.strict
    assert (POLICY.chosen_suppression, POLICY.chosen_order, POLICY.chosen_reading) == ("root", "shuffled", STRICT)
    paper = replace(POLICY, mode="paper")
    assert not paper.strict
    assert (paper.chosen_suppression, paper.chosen_order, paper.chosen_reading) == ("generalise", "arrival", PAPER)


def test_what_is_given_is_taken() -> None:
    policy = Castle(k=2, delay=9, suppression="drop", order="input", reading=PAPER)
    assert (policy.chosen_suppression, policy.chosen_order, policy.chosen_reading) == ("drop", "input", PAPER)


def test_policies_that_decide_alike_have_one_fingerprint() -> None:
    spelt_out = replace(POLICY, suppression="root", order="shuffled", reading=STRICT)
    assert spelt_out.fingerprint() == POLICY.fingerprint()
    assert json.loads(json.dumps(POLICY.fingerprint())) == POLICY.fingerprint()
    for change in ({"k": 6}, {"max_wait": 1.0}, {"mode": "paper"}, {"reading": PAPER}, {"l_per": "person"}):
        assert replace(POLICY, **change).fingerprint() != POLICY.fingerprint()
