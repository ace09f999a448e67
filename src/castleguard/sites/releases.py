"""Releases across sites, as one site sees them: those it coordinates, and those it has offered rows to.

Who may publish a row: its own site while the row is not locked, and the coordinator of the one release that it is
locked for, if that is committed on the log with this site in it. Nobody else, and never both.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.sites.messages import Bounds, Prepared

Positions = NDArray[np.int64]
Stage = Literal["asking", "deciding", "late"]
"""Of a release that is coordinated here: answers are awaited; it waits for its place on the log; its rows were due
before the log could be reached, and have been given up unless the log says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the log says about a release."""

    offers: dict[str, int] = field(default_factory=dict)
    """How many rows of which offers are published by it, in the order in which they were offered; its coordinator's are
    under its own name. None, if it was aborted. An offer is named, not its site: one that is made later for the same
    release, because the question came twice, is another one."""
    loss: float = 0.0
    """Of the group."""

    def takes(self, offer: str, rows: int) -> NDArray[np.bool_]:
        """Which of the rows of an offer are published."""
        return np.arange(rows) < self.offers.get(offer, 0)

    def to_bytes(self) -> bytes:
        """As it stands on the log."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Verdict":
        """The verdict in a record."""
        return cls(**json.loads(data))


ABORT = Verdict()


@dataclass(eq=False, kw_only=True)
class Offer:
    """Rows of this site that are locked for a release which another site coordinates."""

    name: str
    release: str
    positions: Positions
    """In the order in which they are offered: the deepest in the boxes first, the oldest of these first."""
    answer: bytes = field(repr=False)
    """The message with the rows; to be sent once the lock is on disk."""
    coordinator: str
    began: int = 0
    """Arrivals when it was made."""
    made: float
    """When that was, in seconds."""
    sent: bool = False


@dataclass(eq=False, kw_only=True)
class Outcome:
    """A release as it will be published."""

    lower: Bounds
    upper: Bounds
    rows: int
    payload: pa.Table = field(repr=False)
    """Of all rows, in their final order."""
    verdict: Verdict


@dataclass(eq=False, kw_only=True)
class Lead:
    """A release that this site coordinates."""

    release: str
    cluster: int
    positions: Positions
    """The own rows that it locks, the deepest in the boxes first."""
    levels: NDArray[np.int64]
    """(rows,) the smallest box that each lies in."""
    lower: Bounds
    """(boxes, columns), the smallest first."""
    upper: Bounds
    losses: NDArray[np.float64]
    otherwise: float
    """About what the own rows would lose without it."""
    awaited: set[str] = field(default_factory=set)
    answers: dict[str, Prepared] = field(default_factory=dict)
    began: int = 0
    """Arrivals when it was proposed."""
    made: float
    """When that was, in seconds."""
    stage: Stage = "asking"
    tried: bool = False
    """Whether the log was asked to commit it: until then it is not committed."""
    outcome: Outcome | None = None


def unique_name(site: str, epoch: str, number: int) -> str:
    """A name that no other release or offer has."""
    return f"{site}.{epoch}.{number}"


def facts_of(lead: Lead) -> dict[str, Any]:
    """What JSON can hold of a release."""
    facts: dict[str, Any] = {"release": lead.release, "stage": lead.stage, "made": lead.made}
    if lead.outcome is not None:
        facts |= {"rows": lead.outcome.rows, "verdict": asdict(lead.outcome.verdict)}
    return facts
