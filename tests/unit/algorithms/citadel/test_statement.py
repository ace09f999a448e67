"""The statement of Citadel promises what docs/proofs/citadel.md proves, and names what it does not."""

import pytest

import castleguard as cg
from castleguard.algorithms.citadel.policy import Citadel
from castleguard.privacy.closeness import Closeness

CANDIDATES = "Each row has 5 candidates of 5 persons in its release"
POSTERIOR = "each person's posterior is the frequency in the group"
VALUES = cg.Sensitive("illness", values=["flu", "cold"])
PUBLIC = Closeness(t=0.3, reference="public", public={"illness": {"flu": 0.5, "cold": 0.5, None: 0.0}})


def schema(
    *, person: str | None = "pid", public: tuple[str, ...] = (), sensitive: cg.Sensitive | None = None
) -> cg.Schema:
    return cg.Schema(
        person=person,
        quasi_identifiers=[cg.Numeric("age", lower=0, upper=100, step=5)],
        sensitive=[sensitive or VALUES],
        public=public,
    )


def statement(policy: Citadel, of: cg.Schema | None = None) -> str:
    return str(policy.guarantee(of or schema(), seeded=False))


def test_fresh_promises_candidates_and_says_what_it_does_not() -> None:
    text = statement(Citadel(k=5, delay=100))
    assert CANDIDATES in text
    assert (
        "Not promised: a value that a person keeps over several rows, even in one release (intersection); anything "
        "against someone who adds rows or persons, or knows values of others; presence; different values within a "
        "group unless l is asked."
    ) in text
    assert "Not promised: differential privacy." in text
    assert "by a second run, key or policy voids the promise" in text
    assert POSTERIOR not in text


def test_every_sentence_ends() -> None:
    guarantee = Citadel(k=5, l=2, delay=100).guarantee(schema(public=("clinic",)), seeded=True)
    assert all(text.endswith(".") for text in (guarantee.promise, *guarantee.limits))


def test_posteriors_are_claimed_where_values_are_judged_blindly() -> None:
    text = statement(Citadel(k=5, l=2, delay=100))
    assert CANDIDATES in text
    assert POSTERIOR in text
    assert "Not claimed: unequal priors; joint facts; groups of a release that share a box" in text
    assert "Suppressed rows are not protected" in text


def test_narrow_reuse_is_called_k_over_the_whole_publication() -> None:
    """The library of boxes depends on values if l is asked, so nothing is claimed about posteriors either."""
    text = statement(Citadel(k=5, l=2, delay=100, reuse="narrow"))
    assert "k over the whole publication" in text
    assert "a reused row leaves alone, and that observer knows its values" in text
    assert CANDIDATES not in text
    assert POSTERIOR not in text


@pytest.mark.parametrize(
    "policy",
    [
        Citadel(k=5, l=2, delay=100, diversity="entropy"),
        Citadel(k=5, delay=100, closeness=PUBLIC),
        Citadel(k=5, delay=100, closeness=Closeness(t=0.3)),
    ],
)
def test_distributions_of_rows_promise_candidates_with_repeated_persons(policy: Citadel) -> None:
    """Rows are counted, so a verdict does not tell which values persons share (docs/proofs/citadel.md)."""
    text = statement(policy)
    assert CANDIDATES in text
    assert POSTERIOR in text
    assert "the values of illness, over all its rows, have" in text


def test_closeness_is_to_the_rows_of_earlier_releases() -> None:
    text = statement(Citadel(k=5, delay=100, closeness=Closeness(t=0.3)))
    assert "to the distribution of the rows that left in earlier releases" in text
    assert "Rows that leave before the burn-in are suppressed." in text


def test_columns_that_tell_rows_apart_are_named() -> None:
    policy = Citadel(k=5, delay=100)
    assert "clinic can distinguish the rows of a release" in statement(policy, schema(public=("clinic",)))
    moment = cg.Sensitive("seen", type="timestamp")
    assert "seen can distinguish the rows of a release" in statement(policy, schema(sensitive=moment))
    assert "if a sensitive column reveals a time or a sequence" in statement(policy)
