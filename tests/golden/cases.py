"""The cases: each follows from its number. `PLAN` says how many there are of which surface, algorithm and mode."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from tests.golden.draws import Draws
from tests.golden.policies import CITADEL, KINDS, is_timed, make_policy, split_budget
from tests.golden.worlds import Written, make_rows, make_schema

_STRICT_GUARD, _SDGS, _DOCA, _PAPER_DOCA = KINDS[2], KINDS[4], KINDS[5], KINDS[6]
_SITES, _PAPER_SITES, _EDGE = ("dcastle", "strict"), ("dcastle", "paper"), ("local noise", "strict")

_STREAMS = (("anonymise", 3), ("push", 11), ("restore", 6), ("job", 8), ("anonymise command", 3), ("shards", 4))
"""Surfaces that publish a stream under any policy, and cases of each."""

PLAN: tuple[tuple[str, tuple[tuple[str, str], ...], int], ...] = (
    *((surface, KINDS, cases) for surface, cases in _STREAMS),
    ("carry", (_STRICT_GUARD, _SDGS, _DOCA, _PAPER_DOCA), 2),
    ("edge", (_STRICT_GUARD,), 5),
    ("randomise", (_EDGE,), 10),
    ("randomise command", (_EDGE,), 3),
    ("simulate", (_SITES,), 17),
    ("simulate command", (_SITES,), 6),
    ("paper sites", (_PAPER_SITES,), 6),
    # Appended, so that the cases before keep their numbers.
    *((surface, (CITADEL,), cases) for surface, cases in _STREAMS),
)
"""Surface, algorithms and modes, and cases of each."""


class Slot(NamedTuple):
    """The place of a case in the plan."""

    surface: str
    """What is called."""
    algorithm: str
    """As job files name it."""
    mode: str
    """strict or paper."""
    repeat: int
    """Its number among the cases with the same surface, algorithm and mode."""


_ALL = [
    Slot(surface, algorithm, mode, repeat)
    for surface, kinds, repeats in PLAN
    for repeat in range(repeats)
    for algorithm, mode in kinds
]
COUNT = len(_ALL)

_WITHOUT_CLOCK = ("anonymise", "job", "anonymise command", "simulate", "simulate command", "carry", "edge")
_IN_MEMORY = ("anonymise", "push", "restore")
"""Where rows have types that not every file can hold."""
_MOST_ROWS = {"simulate": 700, "simulate command": 500, "paper sites": 400, "push": 2000}


@dataclass(frozen=True)
class Case:
    """A schema, a policy, rows, and a way to publish them."""

    number: int

    @property
    def slot(self) -> Slot:
        """Its place in the plan."""
        return _ALL[self.number]

    @property
    def seed(self) -> int:
        """For the stream."""
        return 1000 + self.number

    def draws(self, use: str) -> Draws:
        """Draws for one use."""
        return Draws("golden", self.number, use)

    @cached_property
    def _made(self) -> tuple[Written, Written]:
        draws = self.draws("policy")
        algorithm = "castleguard" if self.slot.algorithm == "local noise" else self.slot.algorithm
        clock = self.slot.surface not in _WITHOUT_CLOCK
        policy, traits = make_policy(draws, algorithm, self.slot.mode, clock=clock)
        schema = make_schema(draws, replace(traits, rich=self.slot.surface in _IN_MEMORY))
        return split_budget(draws, policy, schema), schema

    @property
    def policy(self) -> Written:
        """As a job file has it."""
        return self._made[0]

    @property
    def schema(self) -> Written:
        """As a job file has it."""
        return self._made[1]

    @property
    def timed(self) -> bool:
        """Whether the stream is told the time."""
        return is_timed(self.policy)

    @cached_property
    def rows(self) -> pa.Table:
        """What arrives."""
        draws = self.draws("rows")
        most = _MOST_ROWS.get(self.slot.surface, 1000)
        least = 400 if self.slot.algorithm == "sdgs" else 250
        return make_rows(draws, self.schema, draws.whole(least, most), messy=draws.chance(0.7))

    def describe(self) -> str:
        """One line about it."""
        parameters = " ".join(
            f"{name}={value if not isinstance(value, dict) else '...'}"
            for name, value in self.policy.items()
            if name not in ("algorithm", "mode")
        )
        roles = [entry["name"] for entry in self.schema["quasi_identifiers"]]
        hidden = [entry if isinstance(entry, str) else entry["name"] for entry in self.schema.get("sensitive", ())]
        columns = " | ".join(" ".join(names) for names in (roles, hidden, self.schema.get("public", ())))
        person = "persons" if self.schema["person"] is not None else "no persons"
        return f"{self.slot.surface}, {self.slot.algorithm} {self.slot.mode}: {parameters}; {person} | {columns}"
