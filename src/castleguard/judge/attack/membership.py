"""The membership game: can somebody who sees the output tell two neighbouring streams apart, and how well?

A claim of differential privacy is a limit on how well. So it can be refuted by playing: many runs on a stream with a
canary, as many on its neighbour. One half of the runs serves to choose an event by which the two differ; how often the
event happens is then counted in the other half, which knows nothing of the choice. What the counts prove is a lower
bound (`attack.evidence`). A claim that is not refuted has not been proved: proofs are in docs/proofs.

Nothing here runs a stream: `observe` is given a function that does (`judge.publishing`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.judge.attack.evidence import Claim, ceiling, limits
from castleguard.judge.attack.features import Features, Published
from castleguard.privacy.parameters import check_probability

Publish = Callable[[pa.Table, int], Published]
"""What is under test: a whole stream and a seed in, all that came out in return."""
Measured = NDArray[np.float64]  # (runs, features)

FEWEST_RUNS = 20
"""On either stream of a canary: fewer prove nothing."""
_THRESHOLDS = 64  # events that are tried per feature


class Seen(NamedTuple):
    """One canary, as it was seen: a row of numbers per run."""

    canary: str
    features: tuple[str, ...]
    one: Measured
    """The stream with the rows in question."""
    other: Measured
    """Its neighbour."""


class Event(NamedTuple):
    """Something that may happen: the weighted sum of the features is at least the threshold."""

    name: str
    weights: NDArray[np.float64]
    threshold: float

    def count(self, measured: Measured) -> int:
        """In how many runs it happened."""
        return int(np.count_nonzero(measured @ self.weights >= self.threshold))


@dataclass(frozen=True, kw_only=True)
class CanaryEvidence:
    """What one canary proves."""

    canary: str
    event: str
    tested: int
    """Runs on either stream that the event was counted in."""
    seen: int
    """In how many of them on the stream with the rows in question."""
    seen_other: int
    epsilon: float
    """The true epsilon is above, at the claim's delta."""
    dp_delta: float
    """The true delta is above, at the claim's epsilon."""


def verdict_word(refuted: bool) -> str:
    """What is said of a claim. One that is not refuted is not proved."""
    return "REFUTED" if refuted else "not refuted"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What all canaries together prove about a claim. With probability `confidence` all bounds are true at once."""

    claim: Claim
    confidence: float
    ceiling: float
    """The largest epsilon that so many runs could have proved."""
    findings: tuple[CanaryEvidence, ...]

    @property
    def worst(self) -> CanaryEvidence:
        """The canary that proves most."""
        return max(self.findings, key=lambda finding: (finding.epsilon, finding.dp_delta))

    @property
    def epsilon(self) -> float:
        """The true epsilon is above, at the claim's delta."""
        return self.worst.epsilon

    @property
    def dp_delta(self) -> float:
        """The true delta is above, at the claim's epsilon."""
        return max(finding.dp_delta for finding in self.findings)

    @property
    def refuted(self) -> bool:
        """Whether the claim is false, with that confidence."""
        return self.epsilon > self.claim.epsilon or self.dp_delta > self.claim.dp_delta

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        word = verdict_word(self.refuted)
        worst = self.worst
        return (
            f"claim {self.claim}: {word}, epsilon >= {self.epsilon:.2f} at this delta and delta >= {self.dp_delta:.3g} "
            f"at this epsilon ({100 * self.confidence:g} % confidence, {worst.tested:,} + {worst.tested:,} runs, "
            f"ceiling {self.ceiling:.2f})" + (f"; most by {worst.canary}" if worst.epsilon or worst.dp_delta else "")
        )

    def __str__(self) -> str:
        return self.sentence


def observe(
    publish: Publish, stream: pa.Table, looks: Sequence[Features], seeds: Sequence[int]
) -> list[tuple[tuple[str, ...], Measured]]:
    """Publish one stream once per seed. For every observer: the names of its features, and their values run by run."""
    found = [[look(output) for look in looks] for output in (publish(stream, seed) for seed in seeds)]
    measured = []
    for at in range(len(looks)):
        names = tuple(found[0][at])
        measured.append((names, np.array([[run[at][name] for name in names] for run in found])))
    return measured


def judge(seen: Sequence[Seen], claim: Claim, *, confidence: float = 0.95) -> Verdict:
    """What the runs prove about a claim. Every canary may fail with an equal share of what `confidence` leaves."""
    claim.check()
    alpha = (1 - check_probability("confidence", confidence)) / len(seen)
    findings = tuple(_find(each, claim, alpha) for each in seen)
    tested = min(finding.tested for finding in findings)
    highest = ceiling(runs=tested, alpha=alpha, dp_delta=claim.dp_delta)
    return Verdict(claim=claim, confidence=confidence, ceiling=highest, findings=findings)


def choose_event(seen: Seen, claim: Claim, *, alpha: float) -> Event:
    """The event that would prove most if these runs were the test: one feature, or the best sum of all of them.

    The sum is made for every other run, and all candidates are compared in the rest: a sum fits the runs that it was
    made for better than any others. What has many thresholds to choose from must be better to be chosen.
    """
    candidates = np.vstack([np.eye(len(seen.features)), _discriminant(seen.one[::2], seen.other[::2])])
    names = [*seen.features, "a sum of all features"]
    one, other = seen.one[1::2], seen.other[1::2]
    best, chosen = (-np.inf, -np.inf), Event("never", candidates[0], np.inf)
    for name, direction in zip(names, candidates, strict=True):
        for sign, word in ((1.0, "at least"), (-1.0, "at most")):
            weights = sign * direction
            thresholds, counts, counts_other = _tallies(one @ weights, other @ weights)
            if not thresholds.size:
                continue
            found = limits(counts, counts_other, runs=len(one), alpha=alpha / thresholds.size)
            epsilon, delta = found.epsilon(claim.dp_delta), found.dp_delta(claim.epsilon)
            at = int(np.lexsort((delta, epsilon))[-1])
            if (epsilon[at], delta[at]) > best:
                best = float(epsilon[at]), float(delta[at])
                threshold = float(thresholds[at])
                chosen = Event(f"{name} is {word} {sign * threshold + 0.0:.6g}", weights, threshold)
    return chosen


def _find(seen: Seen, claim: Claim, alpha: float) -> CanaryEvidence:
    """Choose on the first half, count in the second."""
    half = len(seen.one) // 2
    event = choose_event(seen._replace(one=seen.one[:half], other=seen.other[:half]), claim, alpha=alpha)
    one, other = seen.one[half:], seen.other[half:]
    counts = event.count(one), event.count(other)
    found = limits(np.array(counts[0]), np.array(counts[1]), runs=len(one), alpha=alpha)
    return CanaryEvidence(
        canary=seen.canary,
        event=event.name,
        tested=len(one),
        seen=counts[0],
        seen_other=counts[1],
        epsilon=max(float(found.epsilon(claim.dp_delta)), 0.0),
        dp_delta=max(float(found.dp_delta(claim.epsilon)), 0.0),
    )


def _tallies(one: Measured, other: Measured) -> tuple[Measured, NDArray[np.int64], NDArray[np.int64]]:
    """Thresholds that some runs reach and others do not, and in how many runs of either stream the score does."""
    thresholds = np.unique(np.concatenate([one, other]))
    if thresholds.size > _THRESHOLDS:
        thresholds = np.unique(np.quantile(np.concatenate([one, other]), np.linspace(0, 1, _THRESHOLDS)))
    thresholds = thresholds[1:]
    counts = [side.size - np.searchsorted(np.sort(side), thresholds) for side in (one, other)]
    return thresholds, counts[0], counts[1]


def _discriminant(one: Measured, other: Measured) -> NDArray[np.float64]:
    """The weights that tell two clouds of points apart best, if each were a normal one (Fisher 1936)."""
    together = np.vstack([one, other])
    scale = together.std(axis=0)
    weights = np.zeros(scale.size)
    moves = np.flatnonzero(scale > 0)
    if moves.size:
        inner = [(side[:, moves] - together[:, moves].mean(axis=0)) / scale[moves] for side in (one, other)]
        spread = sum(np.cov(side, rowvar=False).reshape(moves.size, moves.size) for side in inner)
        difference = inner[0].mean(axis=0) - inner[1].mean(axis=0)
        # Features that say the same make the spread singular: a little more of it decides between them.
        weights[moves] = np.linalg.solve(spread + 1e-3 * np.eye(moves.size), difference) / scale[moves]
    return weights
