"""Play the membership game against the claims about a policy, in several processes.

A run is determined by its stream and its seed, so the result does not depend on the number of processes. Equal streams
(several canaries share a neighbour: the stream without them) are published once and observed for every canary. This
does not affect the evidence: the bounds of all canaries hold together by a union bound, which needs no independence.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from castleguard.errors import UsageError
from castleguard.judge.attack.canaries import Stream
from castleguard.judge.attack.membership_game import (
    FEWEST_RUNS,
    CanaryEvidence,
    Measured,
    Seen,
    Verdict,
    judge,
    observe,
    verdict_word,
)
from castleguard.judge.game.claims import NOTHING, Neighbours, Stated, neighbours_of
from castleguard.judge.game.settings import Setting
from castleguard.judge.publishing import publisher, quiet
from castleguard.schema.table import to_table
from castleguard.workers import workers

RUNS_AT_ONCE = 100
"""Runs per task. Independent of the number of processes, so that the work is always cut the same way."""

Progress = Callable[[float], None]
"""Callback with the share of the work that is done."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim and its verdict."""

    stated: Stated
    verdict: Verdict

    @property
    def word(self) -> str:
        """Verdict in a word or two."""
        return verdict_word(self.verdict.refuted)


@dataclass(frozen=True, kw_only=True)
class Played:
    """Result of a finished game."""

    statement: str
    """Guarantee of the policy, in its own words."""
    neighbours: Neighbours
    judged: tuple[Judged, ...]
    """All claims, the policy's own first; empty if no claim is made."""
    found: Verdict
    """Bounds without a claim: at epsilon 0 and delta 0."""
    runs: int
    seed: int
    rows: int
    """Rows of the background."""
    made_up: bool

    @property
    def own(self) -> Judged | None:
        """The policy's own claim; None without one."""
        return next((judged for judged in self.judged if judged.stated.own), None)

    @property
    def ok(self) -> bool:
        """Whether the policy's own claim was not refuted. Other claims do not count."""
        return self.own is None or not self.own.verdict.refuted

    def as_json(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "ok": self.ok,
            "statement": self.statement,
            "neighbours": self.neighbours.sentence,
            "runs": self.runs,
            "seed": self.seed,
            "background": {"rows": self.rows, "made_up": self.made_up},
            "claims": [
                {**judged.stated.as_json(refuted=judged.verdict.refuted), **_figures(self, judged.verdict)}
                for judged in self.judged
            ],
            "found": _figures(self, self.found),
        }

    def event(self, finding: CanaryEvidence) -> str:
        """Event behind a canary's evidence. With real rows the threshold is left out: it may be a value of a row."""
        # Feature names end with the number of the known row: 0 for the canary, 1 for its replacement.
        words = finding.event.replace(" (0)", "").replace(" (1)", " (of the row in its place)")
        return words if self.made_up else re.sub(r"( is at (?:least|most)) \S+$", r"\1 a threshold", words)


class _Part(NamedTuple):
    """Some runs of one stream, which these canaries share. Side 0 has the canary, side 1 is its neighbour."""

    side: int
    canaries: tuple[int, ...]
    first: int
    runs: int


def play_and_judge(
    setting: Setting,
    *,
    runs: int,
    seed: int = 0,
    jobs: int = 1,
    confidence: float = 0.95,
    progress: Progress | None = None,
) -> Played:
    """Play the game for a setting and judge its claims (`setting_for` makes a setting for a policy)."""
    seen = play(setting, runs=runs, seed=seed, jobs=jobs, progress=progress)
    return judge_all(setting, seen, runs=runs, seed=seed, confidence=confidence)


def play(
    setting: Setting, *, runs: int, seed: int = 0, jobs: int = 1, progress: Progress | None = None
) -> tuple[Seen, ...]:
    """Run all canaries in `jobs` processes. Run i of a canary, of 2 `runs`, has the seed `seed` + i."""
    if runs < FEWEST_RUNS:
        raise UsageError(f"runs must be at least {FEWEST_RUNS}, got {runs}: fewer prove nothing")
    parts = list(_cut(setting, runs))
    seen: dict[tuple[int, int], list[Measured]] = {}
    names: dict[int, tuple[str, ...]] = {}
    with quiet(), workers(min(jobs, len(parts))) as pool:
        for number, found in enumerate(pool.map(partial(_measure, setting, runs, seed), parts), 1):
            for canary, (columns, measured) in zip(parts[number - 1].canaries, found, strict=True):
                names[canary] = columns
                seen.setdefault((canary, parts[number - 1].side), []).append(measured)
            if progress is not None:
                progress(number / len(parts))
    return tuple(
        Seen(canary.name, names[at], np.vstack(seen[at, 0]), np.vstack(seen[at, 1]))
        for at, canary in enumerate(setting.canaries)
    )


def judge_all(setting: Setting, seen: Sequence[Seen], *, runs: int, seed: int = 0, confidence: float = 0.95) -> Played:
    """Judge every claim of the setting by the same runs."""
    policy, schema = setting.policy, setting.schema
    return Played(
        statement=policy.guarantee(schema, seeded=False).sentence,
        neighbours=neighbours_of(policy, schema),
        judged=tuple(
            Judged(stated=stated, verdict=judge(seen, stated.claim, confidence=confidence)) for stated in setting.claims
        ),
        found=judge(seen, NOTHING, confidence=confidence),
        runs=runs,
        seed=seed,
        rows=len(setting.background),
        made_up=setting.made_up,
    )


def _figures(played: Played, verdict: Verdict) -> dict[str, Any]:
    return {
        "epsilon_above": verdict.epsilon,
        "dp_delta_above": verdict.dp_delta,
        "ceiling": verdict.ceiling,
        "confidence": verdict.confidence,
        "canaries": [
            {
                "canary": each.canary,
                "event": played.event(each),
                "tested": each.tested,
                "seen": each.seen,
                "seen_other": each.seen_other,
                "epsilon_above": each.epsilon,
                "dp_delta_above": each.dp_delta,
            }
            for each in verdict.findings
        ],
    }


def _cut(setting: Setting, runs: int) -> Iterator[_Part]:
    """Cut the work into parts, independently of the number of processes."""
    for side in (0, 1):
        for canaries in _equal_streams([canary.streams(setting.background)[side] for canary in setting.canaries]):
            for first in range(0, runs, RUNS_AT_ONCE):
                yield _Part(side, canaries, first, min(RUNS_AT_ONCE, runs - first))


def _equal_streams(streams: Sequence[Stream]) -> list[tuple[int, ...]]:
    """Group the indices of equal streams."""
    groups: list[list[int]] = []
    for number, stream in enumerate(streams):
        for group in groups:
            if streams[group[0]] == stream:
                group.append(number)
                break
        else:
            groups.append([number])
    return [tuple(group) for group in groups]


def _measure(setting: Setting, runs: int, seed: int, part: _Part) -> list[tuple[tuple[str, ...], Measured]]:
    """Features of some runs, for all canaries that share this stream."""
    canaries = [setting.canaries[at] for at in part.canaries]
    stream = to_table(canaries[0].streams(setting.background)[part.side])
    publish = publisher(setting.schema, setting.policy, clock=setting.clock)
    first = seed + part.side * runs + part.first
    observers = [setting.observer(canary) for canary in canaries]
    return observe(publish, stream, observers, range(first, first + part.runs))
