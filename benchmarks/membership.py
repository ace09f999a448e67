"""The membership game against every claim: the paper's, and ours.

    python -m benchmarks.membership --runs 3000

The settings are those of `castleguard audit dp` with other backgrounds, and one stream that discloses a clock. The
tables are those of docs/proofs/castleguard.md and docs/proofs/local.md.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import castleguard as cg
from castleguard.algorithms.castleguard.policy import Clock
from castleguard.judge.attack.canaries import Canary
from castleguard.judge.attack.evidence import Claim
from castleguard.judge.attack.features import standing_together
from castleguard.judge.attack.membership_game import Verdict, judge
from castleguard.judge.game.backgrounds import COMMON, made_up_rows
from castleguard.judge.game.claims import Stated, claims_about
from castleguard.judge.game.game import play
from castleguard.judge.game.settings import Setting, setting_for, with_background

LEAVES = 20  # groups of the stream that discloses the clock
CELLS = cg.Schema(
    person="pid",
    quasi_identifiers=[
        cg.Categorical("cell", hierarchy=cg.Hierarchy.flat([f"cell {number:02}" for number in range(LEAVES)]))
    ],
    sensitive=["s"],
)


@dataclass(frozen=True, kw_only=True)
class Named:
    """A setting, and its name in the tables."""

    name: str
    setting: Setting

    def verdicts(self, *, runs: int, seed: int = 0, confidence: float = 0.95) -> dict[str, Verdict]:
        """All claims, judged by the same runs."""
        seen = play(self.setting, runs=runs, seed=seed)
        claims = {short(stated): stated.claim for stated in self.setting.claims}
        return {whose: judge(seen, claim, confidence=confidence) for whose, claim in claims.items()}


def short(stated: Stated) -> str:
    """Origin of a claim, as in the tables."""
    return "ours" if stated.own else "Theorem 2" if "Theorem 2" in stated.whose else "no one"


def paper(*, k: int, sample_rate: float, clock: Clock, epsilon: float = 1.0) -> Named:
    """The published algorithm, and Theorem 2 for it."""
    policy = cg.Castleguard(k=k, delay=100, sample_rate=sample_rate, phi=100, mode="paper", clock=clock)
    return Named(
        name=f"paper k={k} rate={sample_rate:g} phi=100 clock={clock}",
        setting=with_background(setting_for(policy, epsilon=epsilon), made_up_rows(150)),
    )


def paper_clock(*, k: int, sample_rate: float, clock: Clock) -> Named:
    """A stream that discloses a clock of arrivals although none of its rows is unusual.

    For every cell i a row a_i arrives first, then enough others to fill the cell; c_i arrives exactly when a_i has to
    leave. If both are kept, they leave together. With one more row between them, kept or not, a_i leaves one arrival
    earlier, without c_i, which then has no group left. So no a_i and c_i are ever published in one box with that row,
    and without it some nearly always are.
    """
    others = 2 * round((k + 3 * k**0.5) / sample_rate / 2)
    cells = [f"cell {number:02}" for number in range(LEAVES)]
    first = [{"cell": cell, "s": f"a {cell}"} for cell in cells]
    fillers = [{"cell": cell, "s": "usual"} for _ in range(others) for cell in cells]
    last = [{"cell": cell, "s": f"c {cell}"} for cell in cells]
    rows = [{**row, "pid": number} for number, row in enumerate([*first, *fillers, *last])]
    between = len(first) + len(fillers)
    row = {"pid": len(rows), "cell": cells[0], "s": "usual"}
    policy = cg.Castleguard(k=k, delay=between, sample_rate=sample_rate, phi=100, mode="paper", clock=clock)
    own = [stated for stated in claims_about(policy, CELLS) if stated.own]
    return Named(
        name=f"paper k={k} rate={sample_rate:g} phi=100 clock={clock}, clock stream",
        setting=Setting(
            policy=policy,
            schema=CELLS,
            background=rows,
            canaries=[Canary(name="one row more", rows=[row], at=between)],
            claims=own or [Stated("no one", Claim(0.0, sample_rate), own=False)],
            features=standing_together(CELLS, [(f"a {cell}", f"c {cell}") for cell in cells]),
        ),
    )


def strict(*, epsilon: float) -> Named:
    """Local noise. Rows come out in input order and k is minimal, so that only the noise protects them; most of epsilon
    is on the sensitive column, which can be read directly."""
    policy = cg.Castleguard(k=2, delay=6, epsilon=epsilon, weights={"s": 8}, order="input")
    return Named(name=f"strict epsilon={epsilon:g}", setting=with_background(setting_for(policy), made_up_rows(20)))


def sdgs(*, k: int, windows: int, sample_rate: float = 0.25, epsilon: float = 1.0) -> Named:
    """SDGS with exactly as many rows of each value in a window as are needed to be on the edge of publication."""
    policy = cg.Sdgs(k=k, sample_rate=sample_rate, epsilon=epsilon, window=10)
    setting = setting_for(policy)
    each = len(setting.background)
    rows = made_up_rows(each * windows, values=COMMON[:2], every=each)
    return Named(
        name=f"sdgs k={k} rate={sample_rate:g} epsilon={epsilon:g}, {windows} window{'s' if windows > 1 else ''}",
        setting=with_background(setting, rows),
    )


def settings() -> Iterator[Named]:
    """All settings of the game."""
    yield paper(k=20, sample_rate=0.5, clock="arrivals")
    yield paper(k=20, sample_rate=0.5, clock="sampled")
    yield paper(k=20, sample_rate=0.25, clock="arrivals")
    yield paper(k=20, sample_rate=0.25, clock="sampled")
    yield paper(k=10, sample_rate=0.5, clock="arrivals", epsilon=2.0)
    yield paper(k=10, sample_rate=0.5, clock="sampled", epsilon=2.0)
    yield paper_clock(k=20, sample_rate=0.5, clock="arrivals")
    yield paper_clock(k=20, sample_rate=0.5, clock="sampled")
    yield strict(epsilon=1.0)
    yield strict(epsilon=4.0)
    for k in (10, 20):
        for windows in (1, 3):
            yield sdgs(k=k, windows=windows)


def main() -> None:
    """Play, and print two tables: the verdicts, and the bound that every canary proves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="runs on either stream; half of them are the test")
    parser.add_argument("--only", default="", help="settings whose name contains this")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first run")
    parser.add_argument("--confidence", type=float, default=0.95)
    asked = parser.parse_args()
    played: list[tuple[str, str, Verdict]] = []
    for named in settings():
        if asked.only not in named.name:
            continue
        start = time.monotonic()
        found = named.verdicts(runs=asked.runs, seed=asked.seed, confidence=asked.confidence)
        played += [(named.name, whose, verdict) for whose, verdict in found.items()]
        for whose, verdict in found.items():
            print(f"{named.name}: {whose}: {verdict} [{time.monotonic() - start:.0f} s]", file=sys.stderr)
    print("| setting | claimed by | claim | epsilon >= | delta >= | ceiling | most by | verdict |")
    print("|---|---|---|---|---|---|---|---|")
    for name, whose, verdict in played:
        word = "**refuted**" if verdict.refuted else "not refuted"
        canary = verdict.worst.canary if verdict.epsilon or verdict.dp_delta else "none"
        print(
            f"| {name} | {whose} | {verdict.claim} | {verdict.epsilon:.2f} | {verdict.dp_delta:.3f} "
            f"| {verdict.ceiling:.2f} | {canary} | {word} |"
        )
    print("\n| setting | claim | canary | event | with | without | of | epsilon >= | delta >= |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, _, verdict in played:
        for found_by in verdict.findings:
            print(
                f"| {name} | {verdict.claim} | {found_by.canary} | {found_by.event} | {found_by.seen} "
                f"| {found_by.seen_other} | {found_by.tested} | {found_by.epsilon:.2f} | {found_by.dp_delta:.3f} |"
            )


if __name__ == "__main__":
    main()
