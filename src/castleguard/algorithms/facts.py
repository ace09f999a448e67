"""Values in which a policy answers: what is published, what shards promise, what the membership game plays."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from castleguard.privacy.closeness import Closeness
from castleguard.privacy.criteria import Criteria

LONGEST_LAG = 10.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Presence:
    """Windows of the clock, at whose edges everything is released. They do not depend on rows."""

    window: float
    """Seconds."""

    def number_at(self, now: float) -> int:
        """The number of the window that `now` lies in."""
        return math.floor(now / self.window)

    def edge_after(self, now: float) -> float:
        """The end of the window that `now` lies in: the first moment of the next one."""
        window = self.number_at(now)
        edge = (window + 1) * float(self.window)
        while self.number_at(edge) <= window:  # a product that was rounded down
            edge = math.nextafter(edge, math.inf)
        return edge

    @property
    def lag(self) -> float:
        """Seconds from the end of a window to its delivery by a job: time for the work, so that the moment of delivery
        does not show how much work there was.
        """
        return min(self.window / 10, LONGEST_LAG)


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What a published table is made of, and what it can be held to. Read by `judge`."""

    form: Literal["boxes", "cells", "points"]
    """Groups of rows in boxes; boxes of a public grid with rows counted by value and window; or numbers."""
    criteria: Criteria | None
    """The promise about groups; None: there is none."""
    noisy: bool = False
    """Whether quasi-identifiers are randomised before they are grouped."""
    hides_values: bool = False
    """Whether sensitive values are randomised, and no row is rejected for its values."""
    publishes_labels: bool = False
    """Whether sensitive columns hold labels of declared values, in place of what came."""
    closed: bool = False
    """Whether ranges include their upper bounds, as papers print them."""
    window_rows: int | None = None
    """Rows of one window; None: windows, if any, do not count rows."""
    one_row_per_person: bool = False
    """Whether a person has at most one row in a window, so that rows count as persons."""
    delay: int | None = None
    """Arrivals after which every row has left, if a table can show that."""
    why_no_delay: str = ""
    """Why it cannot."""
    alone: bool = True
    """Whether one stream publishes by itself, so that publishing again shows what it does."""
    each_release: Literal["nothing", "persons", "shares"] = "nothing"
    """What every box of every release has by itself, without earlier releases: nothing is promised; the persons and
    values of the criteria; or also that no person has more than 1/k of its rows."""
    counts_rows: bool = False
    """Whether distributions of sensitive values are those of all rows of a group; otherwise a person counts once for a
    value."""
    due_rows: bool = False
    """Whether rows leave only when `delay` makes a row leave, and with that row: a release of one row is then the one
    that arrived `delay` rows before."""
    refused_by_sweep: str | None = None
    """Why its loss cannot be weighed against a risk."""


@dataclass(frozen=True, kw_only=True)
class Joint:
    """How the streams of several sites publish together."""

    sites: int
    k: int
    delay: int
    max_wait: float | None
    reserve: float
    """The share of the delay that is kept for agreeing."""
    step: int
    """The most rows that may arrive at a site before it listens to the others again."""
    threshold: int
    """Persons that a cluster must have before other sites are told its box."""
    shares_boxes: bool
    """Whether a box that one site has published is used again by others."""
    refused: str | None = None
    """Why sites cannot publish so; None: they can."""


class ShardPromise(NamedTuple):
    """What a policy means for a stream that is cut into shards."""

    refused: str | None = None
    """Why it cannot be cut; None: it can."""
    closeness: Closeness | None = None
    """The closeness that each shard judges by itself."""
    judges_shape: bool = False
    """Whether the distribution of values is judged in each group."""
    counts_persons: bool = False
    """Whether rows of a person are left out if there are too many."""
    hides_presence: bool = False
    """Whether neighbours have one row, or one person, more or less."""
    has_window: bool = False
    """Whether something is counted in windows of seconds."""


class PrintedClaim(NamedTuple):
    """What a paper claims about the algorithm as printed."""

    whose: str
    epsilon: float
    dp_delta: float


@dataclass(frozen=True, kw_only=True)
class MembershipGame:
    """What the game against a policy needs to know of it."""

    replaced: bool = False
    """Without a claim of its own: whether neighbours differ in values, not by a row."""
    printed: Callable[[float | None], PrintedClaim] | None = None
    """The claim of the paper, at an epsilon if that may be chosen."""
    any_epsilon: bool = False
    """Whether the paper's claim gives a delta for every epsilon."""
    window_rows: float | None = None
    """Arrivals of one window, within which all rows of a person must lie."""
    critical_group: int | None = None
    """Size of the group at which the claim is tightest; None: none is known."""
    rows_per_group: float = 1.0
    """Rows that must arrive for a group to be published."""
    longest_delay: int = 0
    """Arrivals after which the first row has left."""
    fills_windows: int | None = None
    """Windows that the background fills to the edge of being published; None: rows arrive evenly."""
    l: int = 1
    period: float | None = None
    """Seconds of a window or of the longest wait; None: any."""
