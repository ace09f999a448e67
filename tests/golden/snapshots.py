"""Snapshots of made-up streams, kept as files: a later version must restore them and publish the same rows.

The keys and rows in these files have no other use.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import castleguard as cg
from tests.golden import shim
from tests.golden.draws import Draws
from tests.golden.outcomes import Outcome
from tests.golden.policies import build_policy, is_timed
from tests.golden.worlds import Written, build_schema, make_rows

FOLDER = Path(__file__).parent / "snapshots"

_ROWS_BEFORE, _ROWS_AFTER = 120, 200
_SEED = 7

_FULL: Written = {
    "person": "pid",
    "quasi_identifiers": [
        {"name": "age", "lower": 0, "upper": 100, "step": 5, "null": "root"},
        {"name": "zone", "hierarchy": {"Any": {"North": ["Aal", "Bro", "Cor", "Dun"], "South": ["Elm", "Fen", "Gor"]}}},
    ],
    "sensitive": [{"name": "illness", "values": ["asthma", "cold", "flu", "gout", "measles"]}],
}
_PAYLOAD: Written = {**_FULL, "sensitive": ["illness", "cost"], "public": ["note", "moment"]}
_OBSERVED: Written = {**_PAYLOAD, "quasi_identifiers": [{"name": "age"}, _FULL["quasi_identifiers"][1]]}
_FEW: Written = {
    "person": {"name": "pid", "kind": "text"},
    "quasi_identifiers": [{"name": "age", "lower": 0, "upper": 100, "step": 20}],
    "sensitive": [{"name": "grade", "values": [1, 2, 3, 4]}],
}
_NO_ROOT: Written = {**_FULL, "quasi_identifiers": [{"name": "income", "lower": 0.0, "upper": 1000.0, "step": 12.5}]}
_SMALL: Written = {"max_clusters": 6, "max_reusable": 8, "loss_window": 5}
_CASTLE: Written = {"algorithm": "castle", "k": 3, "delay": 40, **_SMALL}
_GUARD: Written = {"algorithm": "castleguard", "k": 3, "delay": 40, **_SMALL}
_CITADEL: Written = {"algorithm": "citadel", "k": 3, "delay": 40}
_SDGS: Written = {"algorithm": "sdgs", "k": 2, "sample_rate": 0.75, "epsilon": 2.5}


@dataclass(frozen=True)
class Kept:
    """A stream of which a snapshot is kept."""

    name: str
    policy: Written
    schema: Written
    numbers: Any = None

    @property
    def path(self) -> Path:
        """Its file."""
        return FOLDER / f"{self.name}.snapshot"

    def make(self) -> bytes:
        """The snapshot, from the first rows."""
        stream: Any = self._new()
        for rows, now in self._batches(0, _ROWS_BEFORE):
            self._push(stream, rows, now)
        snapshot: bytes = stream.snapshot()
        return snapshot

    def restore(self, snapshot: bytes) -> Outcome:
        """What is published from the snapshot on."""
        outcome, stream = Outcome(), self._restored(snapshot)
        for rows, now in self._batches(_ROWS_BEFORE, _ROWS_BEFORE + _ROWS_AFTER):
            outcome.add_table(self._push(stream, rows, now))
        if not isinstance(stream, cg.Randomiser):
            outcome.add_table(stream.finish(warn=False))
            outcome.add_report(stream.report())
        return outcome

    def _new(self) -> Any:
        schema = build_schema(self.schema)
        if self.policy["algorithm"] == "local noise":
            return cg.Randomiser(schema, epsilon=self.policy["epsilon"], seed=_SEED)
        policy = build_policy(self.policy)
        if self.policy["algorithm"] == "dcastle":
            return shim.one_site(schema, policy, seed=_SEED)
        return cg.Anonymiser(schema, policy, seed=_SEED, numbers=self.numbers)

    def _restored(self, snapshot: bytes) -> Any:
        schema = build_schema(self.schema)
        if self.policy["algorithm"] == "local noise":
            return cg.Randomiser.restore(schema, snapshot, epsilon=self.policy["epsilon"])
        policy = build_policy(self.policy)
        if self.policy["algorithm"] == "dcastle":
            site = shim.one_site(schema, policy, seed=_SEED)
            site.resume(snapshot)
            return site
        return cg.Anonymiser.restore(schema, policy, snapshot, numbers=self.numbers)

    def _push(self, stream: Any, rows: pa.Table, now: float | None) -> pa.Table:
        if isinstance(stream, cg.Randomiser):
            return stream.randomise(rows)
        return stream.push(rows, now=now)

    def _batches(self, first: int, end: int) -> Iterator[tuple[pa.Table, float | None]]:
        """Rows by twenties, ten seconds apart."""
        rows = make_rows(Draws("snapshot", self.name), self.schema, _ROWS_BEFORE + _ROWS_AFTER, messy=True)
        timed = self.policy["algorithm"] != "local noise" and is_timed(self.policy)
        for at in range(first, end, 20):
            yield rows.slice(at, 20), float(at // 2) if timed else None


SNAPSHOTS = (
    Kept("castle-strict", {**_CASTLE, "l": 2}, _PAYLOAD),
    Kept(
        "castle-strict-close",
        {**_CASTLE, "delay": 24, "order": "input", "closeness": {"t": 0.6, "burn_in": 20}},
        _FULL,
        "interval",
    ),
    Kept("castle-strict-apart", {**_CASTLE, "reuse": "off", "max_wait": 30.0}, {**_PAYLOAD, "person": None}),
    Kept("castle-paper", {**_CASTLE, "mode": "paper"}, _OBSERVED, "midpoint"),
    Kept("castleguard-strict", {**_GUARD, "epsilon": 8.0, "sample_rate": 0.9, "rows_per_person": 2}, _FULL),
    Kept("castleguard-paper", {**_GUARD, "mode": "paper", "phi": 4.0, "clock": "sampled"}, _OBSERVED),
    Kept("citadel", {**_CITADEL, "l": 2}, _PAYLOAD),
    Kept("citadel-narrow", {**_CITADEL, "reuse": "narrow", "slack": 1.0, "max_wait": 30.0}, _PAYLOAD),
    Kept("sdgs-rows", {**_SDGS, "window": 100, "window_unit": "rows"}, _FEW),
    Kept("sdgs-seconds", {**_SDGS, "window": 40.0, "start_cells": 2}, _FEW),
    Kept("doca-strict", {"algorithm": "doca", "epsilon": 4.0, "delay": 50, "k": 5, "rows_per_person": 2}, _FULL),
    Kept(
        "doca-paper", {"algorithm": "doca", "mode": "paper", "epsilon": 4.0, "delay": 40, "max_clusters": 6}, _NO_ROOT
    ),
    Kept("dcastle-strict", {**_CASTLE, "algorithm": "dcastle", "sites": 2}, _PAYLOAD),
    Kept("local-noise", {"algorithm": "local noise", "epsilon": 4.0}, _FULL),
)
