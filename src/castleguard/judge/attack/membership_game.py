"""The membership game: how well can an observer of the output tell two neighbouring streams apart?

A claim of differential privacy limits how well, so playing can refute it: many runs on a stream with a canary, as many
on its neighbour. One half of the runs chooses an event that distinguishes the two; the event is then counted in the
other half, which is independent of the choice. The counts give lower bounds (`attack.evidence`). A claim that is not
refuted is not proved either: proofs are in docs/proofs.

This module does not run streams: `observe` receives a function that does (`judge.publishing`).
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
"""The function under test: from a whole stream and a seed to all published tables."""
Measured = NDArray[np.float64]  # (runs, features)

FEWEST_RUNS = 20
"""Minimum runs per stream of a canary; fewer prove nothing."""
_THRESHOLDS = 64  # thresholds tried per feature


class Seen(NamedTuple):
    """Features of all runs for one canary, one row per run."""

    canary: str
    features: tuple[str, ...]
    one: Measured
    """Runs on the stream with the canary."""
    other: Measured
    """Runs on its neighbour."""


class Event(NamedTuple):
    """The event that the weighted sum of the features reaches the threshold."""

    name: str
    weights: NDArray[np.float64]
    threshold: float

    def count(self, measured: Measured) -> int:
        """Count the runs in which it happened."""
        return int(np.count_nonzero(measured @ self.weights >= self.threshold))


@dataclass(frozen=True, kw_only=True)
class CanaryEvidence:
    """Evidence from one canary."""

    canary: str
    event: str
    tested: int
    """Test runs per stream."""
    seen: int
    """Test runs with the event, on the stream with the canary."""
    seen_other: int
    """Test runs with the event, on its neighbour."""
    epsilon: float
    """Lower bound on the true epsilon, at the claim's delta."""
    dp_delta: float
    """Lower bound on the true delta, at the claim's epsilon."""


def verdict_word(refuted: bool) -> str:
    """Verdict on a claim. One that is not refuted is not proved."""
    return "REFUTED" if refuted else "not refuted"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Evidence from all canaries about a claim. All bounds hold at once with probability `confidence`."""

    claim: Claim
    confidence: float
    ceiling: float
    """Largest epsilon that this number of runs could have shown."""
    findings: tuple[CanaryEvidence, ...]

    @property
    def worst(self) -> CanaryEvidence:
        """Canary with the largest lower bounds."""
        return max(self.findings, key=lambda finding: (finding.epsilon, finding.dp_delta))

    @property
    def epsilon(self) -> float:
        """Lower bound on the true epsilon, at the claim's delta."""
        return self.worst.epsilon

    @property
    def dp_delta(self) -> float:
        """Lower bound on the true delta, at the claim's epsilon."""
        return max(finding.dp_delta for finding in self.findings)

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted at this confidence."""
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
    publish: Publish, stream: pa.Table, observers: Sequence[Features], seeds: Sequence[int]
) -> list[tuple[tuple[str, ...], Measured]]:
    """Publish one stream once per seed; for each observer, return feature names and their values run by run."""
    found = [[observer(output) for observer in observers] for output in (publish(stream, seed) for seed in seeds)]
    measured = []
    for at in range(len(observers)):
        names = tuple(found[0][at])
        measured.append((names, np.array([[run[at][name] for name in names] for run in found])))
    return measured


def judge(seen: Sequence[Seen], claim: Claim, *, confidence: float = 0.95) -> Verdict:
    """Judge a claim from the runs. The error probability 1 - `confidence` is split equally among the canaries."""
    claim.check()
    alpha = (1 - check_probability("confidence", confidence)) / len(seen)
    findings = tuple(_find(each, claim, alpha) for each in seen)
    tested = min(finding.tested for finding in findings)
    highest = ceiling(runs=tested, alpha=alpha, dp_delta=claim.dp_delta)
    return Verdict(claim=claim, confidence=confidence, ceiling=highest, findings=findings)


def choose_event(seen: Seen, claim: Claim, *, alpha: float) -> Event:
    """Event with the largest lower bounds on these training runs: one feature, or a weighted sum of all.

    The sum is fitted on every second run, and all candidates are compared on the other runs, to avoid overfitting. A
    candidate with more thresholds must pass a stricter test.
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
    """Choose an event on the first half of the runs, count it in the second."""
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
    """Thresholds that separate runs, and how many runs of each stream reach them."""
    thresholds = np.unique(np.concatenate([one, other]))
    if thresholds.size > _THRESHOLDS:
        thresholds = np.unique(np.quantile(np.concatenate([one, other]), np.linspace(0, 1, _THRESHOLDS)))
    thresholds = thresholds[1:]
    counts = [side.size - np.searchsorted(np.sort(side), thresholds) for side in (one, other)]
    return thresholds, counts[0], counts[1]


def _discriminant(one: Measured, other: Measured) -> NDArray[np.float64]:
    """Weights of the linear discriminant between two sets of points (Fisher 1936)."""
    together = np.vstack([one, other])
    scale = together.std(axis=0)
    weights = np.zeros(scale.size)
    moves = np.flatnonzero(scale > 0)
    if moves.size:
        inner = [(side[:, moves] - together[:, moves].mean(axis=0)) / scale[moves] for side in (one, other)]
        spread = sum(np.cov(side, rowvar=False).reshape(moves.size, moves.size) for side in inner)
        difference = inner[0].mean(axis=0) - inner[1].mean(axis=0)
        # Collinear features make the covariance singular, so add a small ridge.
        weights[moves] = np.linalg.solve(spread + 1e-3 * np.eye(moves.size), difference) / scale[moves]
    return weights
