"""Claims of differential privacy about a policy: its own, its paper's, and one given by the user.

A claim concerns neighbours: streams that differ by one row or by all rows of a person, with and without them or in
their values only. The guarantee says which, and the game uses only such streams: noticing a missing row does not refute
a promise about values.
"""

from typing import Any, NamedTuple

from castleguard.algorithms.policy import Policy
from castleguard.judge.attack.evidence import Claim
from castleguard.judge.attack.membership_game import verdict_word
from castleguard.schema.roles import Schema

NOTHING = Claim(0.0, 0.0)
"""Claim used for policies without one: its verdict holds the bounds."""


class Neighbours(NamedTuple):
    """Pairs of streams that a claim says are indistinguishable."""

    replaced: bool
    """Both streams have the canary rows, with different values."""
    whole_person: bool
    """The streams differ by all rows of a person instead of one row."""

    @property
    def sentence(self) -> str:
        """Description in words."""
        rows = "all rows of one person" if self.whole_person else "one row"
        return f"{rows}, {'values replaced by others' if self.replaced else 'with and without'}"


class Stated(NamedTuple):
    """A claim and its source."""

    whose: str
    claim: Claim
    own: bool
    """Whether the policy itself makes the claim."""

    def sentence(self, *, refuted: bool) -> str:
        """The claim and its verdict, as a heading."""
        return f"{self.whose} claims {self.claim}: {verdict_word(refuted)}"

    def as_json(self, *, refuted: bool) -> dict[str, Any]:
        """JSON form."""
        return {
            "whose": self.whose,
            "own": self.own,
            "refuted": refuted,
            "claimed": {"epsilon": self.claim.epsilon, "dp_delta": self.claim.dp_delta},
        }


def neighbours_of(policy: Policy, schema: Schema) -> Neighbours:
    """Neighbours of the policy's own claim; without one, of its paper's claim."""
    stated = policy.guarantee(schema, seeded=False).privacy
    if stated is None:
        game = policy.game(schema)
        return Neighbours(replaced=game is not None and game.replaced, whole_person=False)
    return Neighbours(
        replaced="replaced" in stated.neighbours, whole_person=stated.unit.startswith("all rows of one person")
    )


def own_claim(policy: Policy, schema: Schema) -> Stated | None:
    """Claim of the policy itself; None without one."""
    stated = policy.guarantee(schema, seeded=False).privacy
    if stated is None:
        return None
    return Stated("the policy itself", Claim(stated.epsilon, stated.dp_delta), own=True)


def printed_claim(policy: Policy, schema: Schema, *, epsilon: float | None = None) -> Stated | None:
    """Claim printed in the algorithm's paper, at this epsilon if the paper allows any; None without one."""
    game = policy.game(schema)
    if game is None or game.printed is None:
        return None
    printed = game.printed(epsilon)
    return Stated(printed.whose, Claim(printed.epsilon, printed.dp_delta), own=False)


def claims_about(
    policy: Policy, schema: Schema, *, epsilon: float | None = None, dp_delta: float | None = None
) -> tuple[Stated, ...]:
    """All claims about a policy. `epsilon` and `dp_delta`: a claim of the user.

    For the published CASTLEGUARD, an epsilon without a delta is the one at which Theorem 2 is judged.
    """
    game = policy.game(schema)
    printed = printed_claim(policy, schema, epsilon=epsilon if dp_delta is None else None)
    at_printed = dp_delta is None and printed is not None and game is not None and game.any_epsilon
    given = None
    if epsilon is not None and not at_printed:
        given = Stated("the user", Claim(epsilon, dp_delta or 0.0).check(), own=False)
    return tuple(stated for stated in (own_claim(policy, schema), printed, given) if stated is not None)
