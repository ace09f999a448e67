"""Values returned by policies: publication, guarantees of shards, parameters of the membership game."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from castleguard.privacy.closeness import Closeness
from castleguard.privacy.criteria import Criteria

LONGEST_LAG = 10.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Presence:
    """Clock windows. Everything is released at their ends, which do not depend on rows."""

    window: float
    """Seconds."""

    def number_at(self, now: float) -> int:
        """Number of the window that contains `now`."""
        return math.floor(now / self.window)

    def edge_after(self, now: float) -> float:
        """End of the window that contains `now`: the first moment of the next window."""
        window = self.number_at(now)
        edge = (window + 1) * float(self.window)
        while self.number_at(edge) <= window:  # the product was rounded down
            edge = math.nextafter(edge, math.inf)
        return edge

    @property
    def lag(self) -> float:
        """Seconds between the end of a window and its delivery by a job.

        The fixed lag covers the processing time, so that the time of delivery does not reveal the number of rows.
        """
        return min(self.window / 10, LONGEST_LAG)


@dataclass(frozen=True, kw_only=True)
class Publication:
    """Form and checkable properties of a published table. Read by `judge`."""

    form: Literal["boxes", "cells", "points"]
    """Groups of rows in boxes; boxes of a public grid with rows counted by value and window; or numbers."""
    criteria: Criteria | None
    """Criteria that every group meets; None: no such guarantee."""
    noisy: bool = False
    """Whether quasi-identifiers are randomised before grouping."""
    hides_values: bool = False
    """Whether sensitive values are randomised, and no row is rejected for its values."""
    publishes_labels: bool = False
    """Whether sensitive columns contain labels of declared values instead of the input values."""
    closed: bool = False
    """Whether ranges include their upper bounds, as in the papers."""
    window_rows: int | None = None
    """Rows per window; None if windows are not counted in rows."""
    one_row_per_person: bool = False
    """Whether a person has at most one row per window, so that rows count as persons."""
    delay: int | None = None
    """Number of arrivals after which every row has left; None if a table cannot show that."""
    why_no_delay: str = ""
    """Why a table cannot show the delay."""
    alone: bool = True
    """Whether a single stream publishes, so that publishing the same rows again reproduces its behaviour."""
    each_release: Literal["nothing", "persons", "shares"] = "nothing"
    """Guarantee for every box of a single release, without earlier releases: none; the persons and values of the
    criteria; or also that no person has more than 1/k of its rows."""
    counts_rows: bool = False
    """Whether distributions of sensitive values count all rows of a group; otherwise a person counts once per value."""
    due_rows: bool = False
    """Whether rows leave only when `delay` forces a row out, together with that row: a release of one row then contains
    the one that arrived `delay` rows earlier."""
    refused_by_sweep: str | None = None
    """Why a sweep cannot compare its loss with a risk."""


@dataclass(frozen=True, kw_only=True)
class Joint:
    """Parameters of releases across several sites."""

    sites: int
    k: int
    delay: int
    max_wait: float | None
    reserve: float
    """Share of the delay reserved for agreement between sites."""
    step: int
    """Maximum number of rows a site accepts between two reads of messages from other sites."""
    threshold: int
    """Minimum number of persons in a cluster whose box is sent to other sites."""
    shares_boxes: bool
    """Whether a box published by one site is reused by others."""
    refused: str | None = None
    """Why sites cannot publish together; None: they can."""


class ShardPromise(NamedTuple):
    """Properties of a policy for a sharded stream."""

    refused: str | None = None
    """Why the stream cannot be sharded; None: it can."""
    closeness: Closeness | None = None
    """Closeness that each shard judges by its own rows."""
    judges_shape: bool = False
    """Whether each group has criteria on the distribution of values."""
    counts_persons: bool = False
    """Whether the number of rows per person is limited."""
    hides_presence: bool = False
    """Whether neighbouring streams differ by one row or person, not by values."""
    has_window: bool = False
    """Whether the policy uses windows of seconds."""


class PrintedClaim(NamedTuple):
    """Claim of a paper about the algorithm as printed."""

    whose: str
    epsilon: float
    dp_delta: float


@dataclass(frozen=True, kw_only=True)
class MembershipGame:
    """Parameters of the membership game against a policy."""

    replaced: bool = False
    """Without a claim of the policy: whether neighbours differ in values instead of by a row."""
    printed: Callable[[float | None], PrintedClaim] | None = None
    """Claim of the paper, at an epsilon if that can be chosen."""
    any_epsilon: bool = False
    """Whether the paper's claim gives a delta for every epsilon."""
    window_rows: float | None = None
    """Arrivals per window; all rows of a person must lie in one."""
    critical_group: int | None = None
    """Size of the group at which the claim is tightest; None: unknown."""
    rows_per_group: float = 1.0
    """Arrivals needed before a group is published."""
    longest_delay: int = 0
    """Arrivals after which the first row has left."""
    fills_windows: int | None = None
    """Number of windows that the background fills to just below publication; None: rows arrive evenly."""
    l: int = 1
    period: float | None = None
    """Seconds of a window or of the longest wait; None: any."""


class NoiseError(NamedTuple):
    """What the noise of a column does to a value on average."""

    column: str
    size: float
    """A number: its mean distance from the true value, in its own units (days and seconds for dates and times). A
    label: the probability that it is another one."""
    is_label: bool

    def __str__(self) -> str:
        return f"{self.column} {self.size:.0%} replaced" if self.is_label else f"{self.column} off by {self.size:.3g}"
