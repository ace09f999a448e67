"""The policy of Citadel: what it refuses, what it says, what it answers."""

import re
from typing import Any

import pytest

import castleguard as cg
from castleguard.errors import PolicyError

SCHEMA = cg.Schema(
    person="pid",
    quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)],
    sensitive=[cg.Sensitive("job", values=["cook", "nurse", "smith"])],
    public=["town"],
)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delay": 3}, "delay must be at least k - 1, got delay=3 and k=5"),
        ({"release_every": 51}, "release_every must be at most the delay, got 51 and delay=50"),
        ({"order": "arrival"}, "order='arrival' reveals which row is whose"),
        ({"order": "input"}, "order='input' reveals which row is whose"),
        ({"reuse": "paper"}, "reuse must be 'off' or 'narrow', got 'paper'"),
        ({"suppression": "generalise"}, "suppression must be 'root' or 'drop', got 'generalise'"),
        ({"reuse": "narrow", "closeness": cg.Closeness(t=0.3)}, "use reuse='off' with closeness"),
        ({"reuse": "narrow", "l": 2, "diversity": "entropy"}, "use reuse='off' with closeness"),
        (
            {"closeness": cg.Closeness(t=0.3, reference="window", window=100)},
            "reference='window' weighs the rows of a release by their age",
        ),
        (
            {"closeness": cg.Closeness(t=0.3, reference="decay", decay=0.9)},
            "Citadel accepts 'cumulative' (the rows of earlier releases) or 'public'",
        ),
        ({"l": 6}, "l"),
    ],
)
def test_a_policy_that_cannot_be_kept_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(message)):
        cg.Citadel(**{"k": 5, "delay": 50, **given})


def test_releases_are_an_eighth_of_the_delay_apart() -> None:
    assert cg.Citadel(k=5, delay=800).every == 100
    assert cg.Citadel(k=2, delay=5).every == 1
    assert cg.Citadel(k=5, delay=800, release_every=50).every == 50


def test_policies_that_decide_alike_have_equal_fingerprints() -> None:
    plain = cg.Citadel(k=5, delay=800).fingerprint()
    assert plain == cg.Citadel(k=5, delay=800, release_every=100, order="shuffled").fingerprint()
    assert plain != cg.Citadel(k=5, delay=800, release_every=50).fingerprint()


def test_it_says_that_rows_leave_in_bursts() -> None:
    words = " ".join(cg.Citadel(k=5, delay=800).waits(endless=True))
    assert "Rows leave in bursts: one release every 100 arrivals." in words
    assert "a smaller release_every makes releases smaller" in words
    assert "Without max_wait" in words


def test_only_fresh_releases_stand_by_themselves() -> None:
    fresh, narrow = cg.Citadel(k=5, delay=50), cg.Citadel(k=5, delay=50, reuse="narrow")
    assert "in each release by itself" in fresh.guarantee(SCHEMA, seeded=False).promise
    assert "over the whole publication" in narrow.guarantee(SCHEMA, seeded=False).promise
    assert fresh.publication(SCHEMA).each_release == "shares"
    assert narrow.publication(SCHEMA).each_release == "nothing"
    assert "10,000 published boxes are kept for reuse" in " ".join(narrow.keeps())
    assert list(fresh.keeps()) == []


def test_slack_is_part_of_the_fingerprint_only_with_narrow_reuse() -> None:
    fresh = {str(cg.Citadel(k=5, delay=100, slack=slack).fingerprint()) for slack in (0.0, 0.2, 1.0)}
    narrow = {str(cg.Citadel(k=5, delay=100, reuse="narrow", slack=slack).fingerprint()) for slack in (0.0, 0.2, 1.0)}
    assert (len(fresh), len(narrow)) == (1, 3)
