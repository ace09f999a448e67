"""The membership game against every claim there is: the paper's, and ours.

    python -m benchmarks.membership --runs 3000

Each setting has a background of made-up rows, the canaries that are put into it, and the claims that are judged by the
same runs. The tables are those of docs/proofs/castleguard.md and docs/proofs/local.md.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

import castleguard as cg
from castleguard.engine.castleguard import Clock
from castleguard.engine.policies import Policy
from castleguard.evaluate.canaries import Canary, Stream, standard_canaries, with_values_replaced
from castleguard.evaluate.evidence import Claim
from castleguard.evaluate.features import Features, standing_together
from castleguard.evaluate.membership import Game, Verdict, judge, play, publisher
from castleguard.privacy.sdgs import sdgs_delta, worst_case

LEAVES = 20  # groups of the stream that betrays the clock
CLOCK = "now"  # the column that says when a row arrives
COMMON = ("a", "b")

SCHEMA = cg.Schema(
    person="pid",
    quasi_identifiers=[
        cg.Numeric("x", lower=0, upper=100, step=10),
        cg.Numeric("y", lower=0, upper=100, step=10),
    ],
    sensitive=[cg.Sensitive("s", values=[*COMMON, "c", "d", "rare"])],
)
CELLS = cg.Schema(
    person="pid",
    quasi_identifiers=[
        cg.Categorical("cell", hierarchy=cg.Hierarchy.flat([f"cell {number:02}" for number in range(LEAVES)]))
    ],
    sensitive=["s"],
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One stream under one policy, and what is claimed about it: whose claim, and the claim."""

    name: str
    policy: Policy
    background: Stream
    canaries: Sequence[Canary]
    claims: dict[str, Claim]
    schema: cg.Schema = field(default=SCHEMA)
    clock: str | None = None
    features: Features | None = None

    def verdicts(self, *, runs: int, seed: int = 0, confidence: float = 0.95) -> dict[str, Verdict]:
        """All claims, judged by the same runs."""
        publish = publisher(self.schema, self.policy, clock=self.clock)
        game = Game(schema=self.schema, publish=publish, background=self.background, runs=runs, seed=seed)
        seen = [play(game, canary, features=self.features) for canary in self.canaries]
        return {whose: judge(seen, claim, confidence=confidence) for whose, claim in self.claims.items()}


def background(rows: int, *, values: Sequence[str] = ("a", "b", "c", "d"), every: int | None = None) -> Stream:
    """Persons with one row each, in the middle of the domain, so that it has an outside. `every` so many rows, ten
    seconds pass.
    """
    draw = np.random.default_rng(2020)
    places = draw.uniform(40, 60, (rows, 2)).tolist()
    return [
        {"pid": row, "x": x, "y": y, "s": values[row % len(values)], CLOCK: 10.0 * (row // (every or rows))}
        for row, (x, y) in enumerate(places)
    ]


def paper(*, k: int, sample_rate: float, clock: Clock, epsilon: float = 1.0) -> Setting:
    """The published algorithm, and Theorem 2 for it."""
    rows = background(150)
    policy = cg.Castleguard(k=k, delay=100, sample_rate=sample_rate, phi=100, mode="paper", clock=clock)
    return Setting(
        name=f"paper k={k} rate={sample_rate:g} phi=100 clock={clock}",
        policy=policy,
        background=rows,
        canaries=standard_canaries(SCHEMA, rows),
        claims={
            "Theorem 2": Claim(epsilon, sdgs_delta(k=k, sample_rate=sample_rate, epsilon=epsilon)),
            **own_claim(policy, SCHEMA),
        },
    )


def paper_clock(*, k: int, sample_rate: float, clock: Clock) -> Setting:
    """The stream that betrays a clock of arrivals, though no row of it is unusual.

    For every cell i a row a_i comes first, then come enough others to fill the cell; c_i comes exactly when a_i has to
    leave. If both are kept they leave together. One row more between them, kept or not, and a_i leaves one arrival
    earlier, without c_i, for which then nobody is left. So no a_i and c_i are ever published in one box with it, and
    without it nearly always some are.
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
    return Setting(
        name=f"paper k={k} rate={sample_rate:g} phi=100 clock={clock}, clock stream",
        policy=policy,
        schema=CELLS,
        background=rows,
        canaries=[Canary(name="one row more", rows=[row], at=between)],
        claims=own_claim(policy, CELLS) or {"nobody": Claim(0.0, sample_rate)},
        features=standing_together(CELLS, [(f"a {cell}", f"c {cell}") for cell in cells]),
    )


def strict(*, epsilon: float) -> Setting:
    """Local noise. Rows come out in input order and k is as small as it can be, so that nothing but the noise protects;
    most of epsilon is on the sensitive column, which can be read off directly.
    """
    rows = background(20)
    policy = cg.Castleguard(k=2, delay=6, epsilon=epsilon, weights={"s": 8}, order="input")
    return Setting(
        name=f"strict epsilon={epsilon:g}",
        policy=policy,
        background=rows,
        canaries=[with_values_replaced(canary, SCHEMA, rows) for canary in standard_canaries(SCHEMA, rows)],
        claims=own_claim(policy, SCHEMA),
    )


def sdgs(*, k: int, windows: int, sample_rate: float = 0.25, epsilon: float = 1.0) -> Setting:
    """SDGS with as many rows of each value in a window as are needed to stand on the edge of being published."""
    each = round(len(COMMON) * k / sample_rate)
    rows = background(each * windows, values=COMMON, every=each)
    policy = cg.Sdgs(k=k, sample_rate=sample_rate, epsilon=epsilon, window=10)
    return Setting(
        name=f"sdgs k={k} rate={sample_rate:g} epsilon={epsilon:g}, {windows} window{'s' if windows > 1 else ''}",
        policy=policy,
        background=rows,
        canaries=[*standard_canaries(SCHEMA, rows, whole_person=True), worst_group(policy, rows)],
        claims=own_claim(policy, SCHEMA),
        clock=CLOCK,
    )


def worst_group(policy: cg.Sdgs, rows: Stream) -> Canary:
    """The group that Theorem 2 has its maximum at, with one row of it in question."""
    size = worst_case(k=policy.k, sample_rate=policy.sample_rate, epsilon=policy.epsilon).rows
    middle = len(rows) // 2
    group = [{**rows[middle], "s": "rare", "pid": len(rows) + number} for number in range(size)]
    return Canary(name="worst group", rows=group[-1:], company=group[:-1], at=middle)


def own_claim(policy: Policy, schema: cg.Schema) -> dict[str, Claim]:
    """What the policy itself states, if it states anything."""
    stated = policy.guarantee(schema, seeded=True).privacy
    return {} if stated is None else {"ours": Claim(stated.epsilon, stated.dp_delta)}


def settings() -> Iterator[Setting]:
    """Everything that is played."""
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
    """Play, and print two tables: the verdicts, and what every canary proves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="runs on either stream; half of them are the test")
    parser.add_argument("--only", default="", help="settings whose name contains this")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first run")
    parser.add_argument("--confidence", type=float, default=0.95)
    asked = parser.parse_args()
    played: list[tuple[str, str, Verdict]] = []
    for setting in settings():
        if asked.only not in setting.name:
            continue
        start = time.monotonic()
        found = setting.verdicts(runs=asked.runs, seed=asked.seed, confidence=asked.confidence)
        played += [(setting.name, whose, verdict) for whose, verdict in found.items()]
        for whose, verdict in found.items():
            print(f"{setting.name}: {whose}: {verdict} [{time.monotonic() - start:.0f} s]", file=sys.stderr)
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
