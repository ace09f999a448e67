"""Results of games with known outcomes, without running them."""

from dataclasses import replace

import numpy as np

import castleguard as cg
from castleguard.judge.attack.membership_game import Seen
from castleguard.judge.game.game import Played, judge_all
from castleguard.judge.game.settings import setting_for

SAMPLED = cg.Castleguard(k=20, delay=100, sample_rate=0.5, phi=100, mode="paper", clock="sampled")
ARRIVALS = replace(SAMPLED, clock="arrivals")


def coins(one: float, other: float, *, name: str = "coin", runs: int = 800) -> Seen:
    """Runs with one feature that is 1 at these rates on the two streams."""
    draw = np.random.default_rng(5)
    sides = [(draw.random((runs, 1)) < p).astype(np.float64) for p in (one, other)]
    return Seen(name, ("rows with its s (0)",), sides[0], sides[1])


def outcome(policy: cg.Castle, *seen: Seen, made_up: bool = True) -> Played:
    """Result of these runs for the claims of the policy."""
    setting = replace(setting_for(policy), made_up=made_up)
    return judge_all(setting, seen, runs=len(seen[0].one), seed=3)


def with_claims() -> Played:
    """Game that refutes the paper's claim but not the policy's own."""
    return outcome(SAMPLED, coins(0.4, 0.0), coins(0.5, 0.5, name="blank"))


def without_claim() -> Played:
    """Game without a claim in which every canary shows."""
    return outcome(cg.Castle(k=5, delay=100), coins(1.0, 0.0))
