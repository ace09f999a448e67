"""One run of CASTLE over a stream, its information loss, and many runs in several processes.

The engine is measured before the gate, which in paper mode would refuse rows that the paper publishes, such as a single
suppressed row at the root. A row at the root loses 1, and so does a row dropped in strict mode. Every experiment ends
the stream as section 5.3 does: clusters of k persons leave, then rows within a published box, and the rest leaves as
one cluster; if that has fewer than k persons, its rows are suppressed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from castleguard.algorithms.castle.engine import CastleEngine
from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.policy import Mode
from castleguard.lab.baselines.coded_boxes import NOWHERE, Boxed, Coded
from castleguard.lab.castle.paper_streams import Stream, rows_of
from castleguard.lab.result import Scale
from castleguard.lab.running import spread
from castleguard.schema.coded import REUSED, ROOT, Decisions, join_decisions

MODES: tuple[Mode, ...] = ("paper", "strict")
BETA, MU = 50, 100
"""Defaults of all figures but the fourth."""

_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


@dataclass(frozen=True, kw_only=True)
class Run:
    """Input and parameters of a run."""

    stream: Stream
    k: int
    delay: int
    mode: Mode
    seed: int
    """Seed of the engine's random choices."""
    max_clusters: int = BETA
    loss_window: int = MU

    @property
    def policy(self) -> Castle:
        """The policy of the run."""
        return Castle(
            k=self.k, delay=self.delay, mode=self.mode, max_clusters=self.max_clusters, loss_window=self.loss_window
        )


class Outcome(NamedTuple):
    """Result of a run."""

    loss: float
    """Mean over all rows; a suppressed row counts as 1."""
    in_time: float
    """Mean over the rows that left before the end of the stream; NaN if none did."""
    at_end: float
    """Share of rows decided by the end of the stream."""
    suppressed: float
    """Share of rows at the root or dropped."""
    reused: float
    """Share of rows that left in an earlier box."""
    in_bulk: float
    """Share of rows that left with at least 2k others at once: a split cluster."""


def run_loss(run: Run) -> Outcome:
    """Anonymise the stream and measure the loss."""
    _, coded = rows_of(run.stream)
    before, after = decide(coded, run)
    parts = [part.loss[part.group] for part in (before, after)]
    dropped = before.dropped.size + after.dropped.size
    kinds = np.concatenate([part.kind[part.group] for part in (before, after)])
    count = coded.count
    early = before.position.size + before.dropped.size
    return Outcome(
        loss=float(parts[0].sum() + parts[1].sum() + dropped) / count,
        in_time=float(parts[0].sum() + before.dropped.size) / early if early else float("nan"),
        at_end=(count - early) / count,
        suppressed=float(np.count_nonzero(kinds == ROOT) + dropped) / count,
        reused=float(np.count_nonzero(kinds == REUSED)) / count,
        in_bulk=_rows_in_bulk((before, after), 2 * run.k) / count,
    )


def _rows_in_bulk(parts: Sequence[Decisions], least: int) -> int:
    """Rows that leave in events of at least so many rows. A cluster that leaves is one event, also at the end."""
    sizes = np.concatenate([np.unique(part.event[part.group], return_counts=True)[1] for part in parts])
    return int(sizes[sizes >= least].sum())


def decide(coded: Coded, run: Run) -> tuple[Decisions, Decisions]:
    """Decisions of the engine while rows arrive, and at the end."""
    key = np.random.default_rng([run.seed, 5]).integers(0, 2**32, 8, dtype=np.uint32)
    engine = CastleEngine(coded.schema, run.policy, key=key)
    return engine.push(coded.rows, 0.0), engine.flush()


def box_rows(coded: Coded, run: Run) -> Boxed:
    """Box of every row."""
    decided = join_decisions(decide(coded, run))
    box = np.full(coded.count, NOWHERE, dtype=np.int64)
    box[decided.position] = decided.group
    released = np.zeros(coded.count, dtype=np.int64)
    released[decided.position] = decided.seen[decided.group]
    return Boxed(box, decided.lower, decided.upper, released)


def measure(scale: Scale, work: Callable[[_Given], _Found], given: Sequence[_Given]) -> dict[_Given, _Found]:
    """Apply the function to each of these once, in as many processes as asked for."""
    each = list(dict.fromkeys(given))
    return dict(zip(each, spread(work, each, scale.jobs), strict=True))
