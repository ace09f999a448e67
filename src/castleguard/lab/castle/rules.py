"""Rules that decide whether a figure shows what the paper states, over repeated measurements.

A difference counts only if it exceeds the effect of random choices: twice the standard error of the difference of two
means. Smaller differences are called level.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev
from typing import NamedTuple

from castleguard.lab.result import Word


@dataclass(frozen=True)
class Sample:
    """Repeated measurements of one value."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of all."""
        return fmean(self.values)

    @property
    def spread(self) -> float:
        """Standard deviation; 0 for a single value."""
        return stdev(self.values) if len(self.values) > 1 else 0.0

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.spread / math.sqrt(len(self.values))

    def is_above(self, other: "Sample") -> bool:
        """Whether it is larger by more than chance."""
        return self.mean - other.mean > 2 * math.hypot(self.error, other.error)

    def __str__(self) -> str:
        return f"{self.mean:.3f}" if len(self.values) == 1 else f"{self.mean:.3f} ± {self.spread:.3f}"


FEW = 3
"""Number of curves that are listed one by one."""
_ORDER: tuple[Word, ...] = ("not reproduced", "partly", "not comparable", "reproduced")

Curve = Mapping[float, Sample]  # in the order of its keys
"""Measurements by varied parameter."""


class Judgement(NamedTuple):
    """Verdict of a rule."""

    verdict: Word
    found: str
    """The finding in words, with figures."""


def grows(curve: Curve) -> Judgement:
    """Whether it grows from end to end without falling in between."""
    return _moves(list(curve.items()), "grows", "falls")


def falls(curve: Curve) -> Judgement:
    """Whether it falls from end to end without growing in between."""
    return _moves(list(curve.items())[::-1], "falls", "grows")


def ends_higher(curve: Curve) -> Judgement:
    """Whether the last point is above the first, with any values in between; partly if they are level."""
    (start, first), *_, (end, last) = curve.items()
    words = f"{first.mean:.3f} at {start:,g}, {last.mean:.3f} at {end:,g}"
    if last.is_above(first):
        return Judgement("reproduced", words)
    return Judgement("not reproduced" if first.is_above(last) else "partly", words)


def _moves(points: Sequence[tuple[float, Sample]], right: str, wrong: str) -> Judgement:
    """Whether the last point is the highest and no step goes down; the words describe it from left to right."""
    low, high = points[0][1], points[-1][1]
    ends = points if right == "grows" else points[::-1]
    words = f"from {ends[0][1].mean:.3f} at {ends[0][0]:,g} to {ends[-1][1].mean:.3f} at {ends[-1][0]:,g}"
    back = [
        f"{min(a, b):,g} to {max(a, b):,g}" for (a, before), (b, after) in pairwise(points) if before.is_above(after)
    ]
    if not high.is_above(low):
        return Judgement("not reproduced", f"it does not go the stated way: {words}")
    if back:
        return Judgement("partly", f"it {right} {words}, but {wrong} {', '.join(back)}")
    return Judgement("reproduced", f"it {right} {words}")


def is_least(samples: Mapping[float, Sample], stated: Sequence[float]) -> Judgement:
    """Whether the stated settings have the smallest value: all others exceed the best of them by more than chance.

    Partly: none is below it by more than chance, but some are level with it.
    """
    ours = min((samples[one] for one in stated), key=lambda sample: sample.mean)
    best = min(samples, key=lambda one: samples[one].mean)
    words = f"least at {best:,g} ({samples[best]}), stated {_listed(stated)} ({ours})"
    others = {one: sample for one, sample in samples.items() if one not in stated}
    better = [one for one, sample in others.items() if ours.is_above(sample)]
    level = [one for one, sample in others.items() if one not in better and not sample.is_above(ours)]
    if better:
        return Judgement("not reproduced", f"{words}; {_listed(better)} better by more than chance")
    if level:
        return Judgement("partly", f"{words}; {_listed(level)} level with it")
    return Judgement("reproduced", words)


def stays_below(samples: Sequence[Sample], limit: float) -> Judgement:
    """Whether every mean is below the limit; partly if at least half are."""
    means = [sample.mean for sample in samples]
    below = sum(mean < limit for mean in means)
    words = f"between {min(means):.3f} and {max(means):.3f}, {below} of {len(means)} points below {limit:g}"
    if below == len(means):
        return Judgement("reproduced", words)
    return Judgement("partly" if 2 * below >= len(means) else "not reproduced", words)


def is_at_most(samples: Sequence[Sample], limit: float) -> Judgement:
    """Whether all means are at most the limit; partly if one is."""
    means = [sample.mean for sample in samples]
    words = f"between {min(means):.3f} and {max(means):.3f}"
    if max(means) <= limit:
        return Judgement("reproduced", words)
    return Judgement("partly" if min(means) <= limit else "not reproduced", words)


def beats(ours: Curve, theirs: Curve) -> Judgement:
    """Whether the first is below the second wherever both were measured; partly if it is at some points."""
    common = [at for at in ours if at in theirs]
    won = [at for at in common if theirs[at].is_above(ours[at])]
    lost = [at for at in common if ours[at].is_above(theirs[at])]
    shown = won or common
    at = shown[-1]
    words = f"{ours[at].mean:.3f} against {theirs[at].mean:.3f} at {at:,g}"
    if len(common) > 1:
        words = f"below at {len(won)} of {len(common)} points, above at {len(lost)}, such as {words}"
    if len(won) == len(common):
        return Judgement("reproduced", words)
    return Judgement("partly" if won else "not reproduced", words)


def together(judgements: Mapping[str, Judgement]) -> Judgement:
    """One verdict for several curves: theirs if all agree, else partly. If they are many, only the worst are listed."""
    verdicts = {each.verdict for each in judgements.values()}
    worst = min(verdicts, key=_ORDER.index)
    listed = {name: each for name, each in judgements.items() if each.verdict == worst or len(judgements) <= FEW}
    words = "; ".join(f"{name}: {each.found}" for name, each in list(listed.items())[:FEW])
    if len(judgements) > FEW:
        share = f"at all {len(listed)}" if len(verdicts) == 1 else f"{worst} at {len(listed)} of {len(judgements)}"
        words = f"{share}, such as {words}"
    return Judgement(verdicts.pop() if len(verdicts) == 1 else "partly", words)


def _listed(numbers: Sequence[float]) -> str:
    return " and ".join(f"{number:,g}" for number in numbers)
