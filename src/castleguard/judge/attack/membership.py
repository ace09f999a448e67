"""The membership game: can somebody who sees the output tell two neighbouring streams apart, and how well?

A claim of differential privacy is a limit on how well. So it can be refuted by playing: many runs on a stream with a
canary, as many on its neighbour. One half of the runs serves to choose an event by which the two differ; how often the
event happens is then counted in the other half, which knows nothing of the choice. What the counts prove is a lower
bound (`evaluate.evidence`). A claim that is not refuted has not been proved: proofs are in docs/proofs.

    game = Game(schema=schema, publish=publisher(schema, policy), background=rows, runs=1000)
    seen = [play(game, canary) for canary in standard_canaries(schema, rows)]
    print(judge(seen, Claim(epsilon=1.0, dp_delta=1e-3)))
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.base import Policy
from castleguard.errors import UsageError
from castleguard.judge.attack.canaries import Canary, Stream
from castleguard.judge.attack.evidence import Claim, ceiling, limits
from castleguard.judge.attack.features import Features, Observer, Published
from castleguard.privacy.parameters import check_probability
from castleguard.schema.roles import Schema
from castleguard.schema.table import to_table
from castleguard.stream import Anonymiser

Publish = Callable[[pa.Table, int], Published]
"""What is under test: a whole stream and a seed in, all that came out in return."""
Measured = NDArray[np.float64]  # (runs, features)

FEWEST_RUNS = 20
_THRESHOLDS = 64  # events that are tried per feature


@dataclass(frozen=True, kw_only=True)
class Game:
    """What is the same in all runs. Run i of a canary, of 2 `runs`, has the seed `seed` + i."""

    schema: Schema
    publish: Publish
    background: Stream
    runs: int
    """On either stream; the first half of them serves to choose the event."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.runs < FEWEST_RUNS:
            raise UsageError(f"runs must be at least {FEWEST_RUNS}, got {self.runs}: fewer prove nothing")


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
class Finding:
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


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What all canaries together prove about a claim. With probability `confidence` all bounds are true at once."""

    claim: Claim
    confidence: float
    ceiling: float
    """The largest epsilon that so many runs could have proved."""
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Finding:
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
        word = "REFUTED" if self.refuted else "not refuted"
        worst = self.worst
        return (
            f"claim {self.claim}: {word}, epsilon >= {self.epsilon:.2f} at this delta and delta >= {self.dp_delta:.3g} "
            f"at this epsilon ({100 * self.confidence:g} % confidence, {worst.tested:,} + {worst.tested:,} runs, "
            f"ceiling {self.ceiling:.2f})" + (f"; most by {worst.canary}" if worst.epsilon or worst.dp_delta else "")
        )

    def __str__(self) -> str:
        return self.sentence


def publisher(schema: Schema, policy: Policy, *, clock: str | None = None) -> Publish:
    """Streams under this policy, the rows of each handed over at once; or, by `clock`, a column with the seconds of
    their arrival, those of each moment together.
    """

    def publish(stream: pa.Table, seed: int) -> list[pa.Table]:
        anonymiser = Anonymiser(schema, policy, seed=seed)
        out = [anonymiser.push(rows, now=now) for now, rows in _moments(stream, clock)]
        out.append(anonymiser.finish(warn=False))
        return [table.cast(out[-1].schema) for table in out]

    return publish


def play(game: Game, canary: Canary, *, features: Features | None = None) -> Seen:
    """All runs of one canary. `features`: what is looked at, if not what an `Observer` does."""
    look = features or Observer(game.schema, canary.known, place=canary.place)
    streams = [to_table(rows) for rows in canary.streams(game.background)]
    runs = [
        [look(game.publish(stream, game.seed + side * game.runs + run)) for run in range(game.runs)]
        for side, stream in enumerate(streams)
    ]
    names = tuple(runs[0][0])
    one, other = (np.array([[run[name] for name in names] for run in side]) for side in runs)
    return Seen(canary.name, names, one, other)


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


def _find(seen: Seen, claim: Claim, alpha: float) -> Finding:
    """Choose on the first half, count in the second."""
    half = len(seen.one) // 2
    event = choose_event(seen._replace(one=seen.one[:half], other=seen.other[:half]), claim, alpha=alpha)
    one, other = seen.one[half:], seen.other[half:]
    counts = event.count(one), event.count(other)
    found = limits(np.array(counts[0]), np.array(counts[1]), runs=len(one), alpha=alpha)
    return Finding(
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


def _moments(stream: pa.Table, clock: str | None) -> Iterator[tuple[float, pa.Table]]:
    """The stream in pieces, each with the time at which it arrives."""
    if clock is None:
        yield 0.0, stream
        return
    times = stream.column(clock).to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(times)) + 1).tolist(), stream.num_rows]
    for start, stop in pairwise(edges):
        yield float(times[start]), stream.slice(start, stop - start)
