"""One-run audit: many canaries in a single run, each included by a coin flip, and guesses which of them were.

T. Steinke, M. Nasr, M. Jagielski: Privacy Auditing with One (1) Training Run, NeurIPS 2023. If a claim of pure epsilon
is true, the number of right guesses among r is stochastically at most that of r independent coins with probability
e^epsilon / (1 + e^epsilon); a delta adds a term per canary. Too many right guesses refute the claim. This costs one run
and shows less than many runs do. It covers claims about presence only, by canaries with unique sensitive values.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from castleguard.algorithms.policy import Policy
from castleguard.errors import UsageError
from castleguard.judge.attack.evidence import Claim
from castleguard.judge.game.backgrounds import CLOCK, COMMON, SCHEMA, background_for
from castleguard.judge.game.claims import Stated, claims_about, neighbours_of
from castleguard.judge.game.verdicts import NO_CLAIM, NOT_PROVED
from castleguard.judge.publishing import publisher
from castleguard.judge.reading.values import texts_of
from castleguard.privacy.parameters import check_count, check_probability
from castleguard.schema.roles import Schema
from castleguard.schema.sensitive import Sensitive
from castleguard.schema.table import to_table

LARGEST = 20.0
"""Upper end of the search for epsilon: no run has enough canaries to reach it."""
_STEP = 0.05
_HALVINGS = 20


@dataclass(frozen=True, kw_only=True)
class Guessed:
    """Counts of guesses. Canaries without a guess do not count."""

    canaries: int
    """Canaries, each included with probability 1/2."""
    guesses: int
    right: int

    def __post_init__(self) -> None:
        check_count("canaries", self.canaries)
        if not 0 <= self.right <= self.guesses <= self.canaries:
            raise UsageError("right guesses, guesses and canaries must not decrease in this order")


@dataclass(frozen=True, kw_only=True)
class GuessedClaim:
    """A claim and the evidence from the guesses."""

    stated: Stated
    p_value: float
    """Upper bound on the probability of at least this many right guesses, if the claim is true."""
    epsilon: float
    """Lower bound on the true epsilon, at the claim's delta."""
    refuted: bool


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """Result of a one-run audit."""

    guessed: Guessed
    claims: tuple[GuessedClaim, ...]
    confidence: float

    @property
    def ok(self) -> bool:
        """Whether the policy's own claim was not refuted. Other claims do not count."""
        return not any(each.refuted and each.stated.own for each in self.claims)

    @property
    def text(self) -> str:
        """Result as lines of text."""
        found, sure = self.guessed, f"with {100 * self.confidence:g} % confidence"
        lines = [
            f"One run with {found.canaries:,} canaries, each included by a coin flip: {found.guesses:,} guesses, "
            f"{found.right:,} of them right."
        ]
        if not any(each.stated.own for each in self.claims):
            bound = epsilon_above(found, confidence=self.confidence)
            lines += ["", f"the policy itself: {NO_CLAIM}", f"  epsilon >= {bound:.2f} at delta 0, {sure}"]
        for each in self.claims:
            lines += [
                "",
                each.stated.sentence(refuted=each.refuted),
                f"  epsilon >= {each.epsilon:.2f} at delta {each.stated.claim.dp_delta:.3g}, {sure}",
                "  if the claim were true, this many right guesses would have a probability of at most "
                f"{each.p_value:.2g}",
            ]
        return "\n".join([*lines, "", NOT_PROVED])

    def as_json(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "ok": self.ok,
            "canaries": self.guessed.canaries,
            "guesses": self.guessed.guesses,
            "right": self.guessed.right,
            "confidence": self.confidence,
            "epsilon_above": epsilon_above(self.guessed, confidence=self.confidence),
            "claims": [
                {**each.stated.as_json(refuted=each.refuted), "epsilon_above": each.epsilon, "p_value": each.p_value}
                for each in self.claims
            ],
        }


def audit_once(
    policy: Policy, *, canaries: int, seed: int = 0, confidence: float = 0.95, epsilon: float | None = None
) -> OneRun:
    """Play one run against a policy and judge every claim about it. `epsilon`: see `claims_about`."""
    found = play_once(policy, canaries=canaries, seed=seed)
    claims = weigh(found, policy, confidence=confidence, epsilon=epsilon)
    return OneRun(guessed=found, claims=tuple(claims), confidence=confidence)


def play_once(policy: Policy, *, canaries: int, seed: int = 0) -> Guessed:
    """Play one run. The guess is that every canary whose value was published was included."""
    if neighbours_of(policy, SCHEMA).replaced:
        raise UsageError(
            "a one-run audit needs a claim about the presence of rows; this policy makes a claim about values"
        )
    background = background_for(policy)
    labels = [f"canary {number}" for number in range(check_count("canaries", canaries))]
    schema = Schema(
        person=SCHEMA.person_role,
        quasi_identifiers=SCHEMA.quasi_identifiers,
        sensitive=[Sensitive("s", values=[*COMMON, *labels])],
    )
    included = np.random.default_rng(seed).random(canaries) < 0.5
    rows = []
    for at, row in enumerate(background):
        rows.append(row)
        here = range(at * canaries // len(background), (at + 1) * canaries // len(background))
        rows += [{**row, "pid": len(background) + n, "s": labels[n]} for n in here if included[n]]
    publish = publisher(schema, policy, clock=CLOCK if policy.timed else None)
    seen = {text for table in publish(to_table(rows), seed) for text in texts_of(table.column("s"))[0]}
    guessed = np.array([label in seen for label in labels])
    return Guessed(canaries=canaries, guesses=int(guessed.sum()), right=int((guessed & included).sum()))


def weigh(
    found: Guessed, policy: Policy, *, confidence: float = 0.95, epsilon: float | None = None
) -> list[GuessedClaim]:
    """Judge every claim about the policy by the guesses. `epsilon`: see `claims_about`."""
    alpha = 1 - check_probability("confidence", confidence)
    weighed = []
    for stated in claims_about(policy, SCHEMA, epsilon=epsilon):
        p = p_value(found, stated.claim)
        bound = epsilon_above(found, dp_delta=stated.claim.dp_delta, confidence=confidence)
        weighed.append(GuessedClaim(stated=stated, p_value=p, epsilon=bound, refuted=p < alpha))
    return weighed


def p_value(found: Guessed, claim: Claim) -> float:
    """Upper bound on the probability of at least this many right guesses if the claim is true (their Appendix D).

    >>> round(p_value(Guessed(canaries=10, guesses=10, right=10), Claim(0.0, 0.0)) * 1024, 6)
    1.0
    """
    from scipy.stats import binom

    hit = 1 / (1 + math.exp(-claim.epsilon))
    at_least = float(binom.sf(found.right - 1, found.guesses, hit))
    if claim.dp_delta == 0 or found.right == 0:
        return min(at_least, 1.0)
    # A failure of delta may make i more guesses right; take the i with the largest gain for its cost.
    more = np.arange(1, found.right + 1)
    just_missed = np.cumsum(binom.pmf(found.right - more, found.guesses, hit))
    return min(at_least + 2 * found.canaries * claim.dp_delta * float(np.max(just_missed / more)), 1.0)


def epsilon_above(found: Guessed, *, dp_delta: float = 0.0, confidence: float = 0.95) -> float:
    """Epsilon up to which every claim with this delta is refuted; 0 if none is."""
    alpha = 1 - check_probability("confidence", confidence)

    def refuted(epsilon: float) -> bool:
        return p_value(found, Claim(epsilon, dp_delta)) < alpha

    # Search upwards to the first claim that is not refuted: beyond it the p-value may fall again, which shows nothing.
    steps = round(LARGEST / _STEP)
    first = next((number for number in range(steps + 1) if not refuted(number * _STEP)), steps)
    if first == 0:
        return 0.0
    low, high = (first - 1) * _STEP, first * _STEP
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
