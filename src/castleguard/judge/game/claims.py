"""The claims of differential privacy about a policy: its own, its paper's, and one that somebody asks for.

A claim is about neighbours: streams that differ by a row, or by all rows of a person; with and without them, or by
their values alone. The guarantee says which, and the game is played with such streams and no others: against a promise
about values, it proves nothing that a row can be seen to be missing.
"""

from typing import Any, NamedTuple

from castleguard.algorithms.base import Policy
from castleguard.judge.attack.evidence import Claim
from castleguard.judge.attack.membership import verdict_word
from castleguard.schema.roles import Schema

NOTHING = Claim(0.0, 0.0)
"""What a policy without a claim is measured by: the bounds are then all that is found."""


class Neighbours(NamedTuple):
    """Which two streams a claim says cannot be told apart."""

    replaced: bool
    """The rows in question come in any case, and only their values differ."""
    whole_person: bool
    """All rows of a person are in question, not a single one."""

    @property
    def sentence(self) -> str:
        """In words."""
        rows = "all rows of one person" if self.whole_person else "one row"
        return f"{rows}, {'values replaced by others' if self.replaced else 'with and without'}"


class Stated(NamedTuple):
    """A claim, and who makes it."""

    whose: str
    claim: Claim
    own: bool
    """Whether the policy itself makes it."""

    def sentence(self, *, refuted: bool) -> str:
        """The claim and its verdict, as the heading of what was found."""
        return f"{self.whose} claims {self.claim}: {verdict_word(refuted)}"

    def as_json(self, *, refuted: bool) -> dict[str, Any]:
        """The same for programs."""
        return {
            "whose": self.whose,
            "own": self.own,
            "refuted": refuted,
            "claimed": {"epsilon": self.claim.epsilon, "dp_delta": self.claim.dp_delta},
        }


def neighbours_of(policy: Policy, schema: Schema) -> Neighbours:
    """The neighbours of the policy's own claim; without one, those of its paper's."""
    stated = policy.guarantee(schema, seeded=False).privacy
    if stated is None:
        game = policy.game(schema)
        return Neighbours(replaced=game is not None and game.replaced, whole_person=False)
    return Neighbours(
        replaced="replaced" in stated.neighbours, whole_person=stated.unit.startswith("all rows of one person")
    )


def own_claim(policy: Policy, schema: Schema) -> Stated | None:
    """What the policy itself states, if it states anything."""
    stated = policy.guarantee(schema, seeded=False).privacy
    if stated is None:
        return None
    return Stated("the policy itself", Claim(stated.epsilon, stated.dp_delta), own=True)


def printed_claim(policy: Policy, schema: Schema, *, epsilon: float | None = None) -> Stated | None:
    """What a paper prints about the algorithm that the policy plays, at this epsilon if it may be chosen."""
    game = policy.game(schema)
    if game is None or game.printed is None:
        return None
    printed = game.printed(epsilon)
    return Stated(printed.whose, Claim(printed.epsilon, printed.dp_delta), own=False)


def claims_about(
    policy: Policy, schema: Schema, *, epsilon: float | None = None, dp_delta: float | None = None
) -> tuple[Stated, ...]:
    """All of them. `epsilon` and `dp_delta` are a claim that somebody wants judged; for the published CASTLEGUARD an
    epsilon by itself says at which one Theorem 2 is judged.
    """
    game = policy.game(schema)
    printed = printed_claim(policy, schema, epsilon=epsilon if dp_delta is None else None)
    at_printed = dp_delta is None and printed is not None and game is not None and game.any_epsilon
    asked = None
    if epsilon is not None and not at_printed:
        asked = Stated("whoever asks", Claim(epsilon, dp_delta or 0.0).check(), own=False)
    return tuple(stated for stated in (own_claim(policy, schema), printed, asked) if stated is not None)
