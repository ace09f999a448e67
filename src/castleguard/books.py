"""Books: the rows that came in and what became of them, as one value.

A stream reports `Books`; a job, several shards and several sites add theirs with `+`. Metrics, `top`, summaries and the
warning about an empty output read them. The numbers depend on rows that were not published: they are for the operator.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

OUTCOMES = ("published", "suppressed", "sampled_out", "over_budget", "handed_over", "undecided")
"""What can become of an accepted row, besides waiting."""
_SUMS = ("rows_in", *OUTCOMES, "pending", "at_root", "reused", "gate_refused", "received", "groups", "open_clusters")


@dataclass(frozen=True, kw_only=True)
class Books:
    """A stream, or several, in numbers.

    rows_in = published + suppressed + sampled_out + over_budget + sum(rejected) + handed_over + undecided + pending, at
    any moment.
    """

    rows_in: int = 0
    published: int = 0
    suppressed: int = 0
    """Not published: no group could take the row, or the gate refused it."""
    sampled_out: int = 0
    over_budget: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    """Rows that could not be used, by column and reason."""
    clamped: dict[str, int] = field(default_factory=dict)
    """Values that were moved to the nearest bound of their domain, by column; only of columns where that happened."""
    handed_over: int = 0
    """Rows that another site has published."""
    undecided: int = 0
    """Rows given up because no site could say in time whether another one publishes them."""
    pending: int = 0
    at_root: int = 0
    """Published rows whose quasi-identifiers say nothing."""
    reused: int = 0
    """Published rows in a box that had been published before."""
    gate_refused: int = 0
    """Suppressed rows that the gate refused."""
    received: int = 0
    """Rows of other sites that were published here; not among the rows that came in."""
    groups: int = 0
    """Groups published as new ones."""
    information_loss: float | None = None
    """Mean over the rows published here, 0 = published as they were, 1 = nothing said; None before the first row."""
    oldest_wait: int = 0
    """The most arrivals that a row has waited to be decided, or is waiting."""
    open_clusters: int = 0
    threshold: float = 0.0
    """The information loss up to which a cluster takes in a row, CASTLE's tau; the largest of several streams."""
    malformed: int = 0
    """What a source read that is not a row: a line that cannot be parsed. Not among the rows that came in."""

    def __post_init__(self) -> None:
        """Refuse books that do not balance: a lost row is a bug, and must not look like a number."""
        out = sum(getattr(self, name) for name in OUTCOMES) + sum(self.rejected.values())
        if out + self.pending != self.rows_in:
            raise AssertionError(f"{self.rows_in} rows came in, {out} are accounted for, {self.pending} are pending")

    def __add__(self, other: "Books") -> "Books":
        """Books of both."""
        return Books.total((self, other))

    @classmethod
    def total(cls, books: Iterable["Books"]) -> "Books":
        """Books of all of them: counts are added, the loss is the mean over rows, waits and thresholds the largest."""
        every = list(books)
        rows = [one.published + one.received for one in every]
        told = [(one.information_loss, count) for one, count in zip(every, rows, strict=True)]
        known = sum(count for loss, count in told if loss is not None)
        lost = sum(loss * count for loss, count in told if loss is not None)
        return cls(
            **{name: sum(getattr(one, name) for one in every) for name in (*_SUMS, "malformed")},
            rejected=_added(one.rejected for one in every),
            clamped=_added(one.clamped for one in every),
            information_loss=lost / known if known else None,
            oldest_wait=max((one.oldest_wait for one in every), default=0),
            threshold=max((one.threshold for one in every), default=0.0),
        )

    @property
    def outcomes(self) -> dict[str, int]:
        """Accepted rows by what became of them; those that wait are not among them."""
        return {name: getattr(self, name) for name in OUTCOMES}

    @property
    def rejected_rows(self) -> int:
        """Rows that could not be used."""
        return sum(self.rejected.values())

    def facts(self) -> dict[str, Any]:
        """As JSON holds them, in checkpoints and in the output of shards."""
        found = asdict(self)
        del found["malformed"]  # a job keeps it apart: it does not belong to a stream
        return found

    @classmethod
    def load(cls, facts: Mapping[str, Any]) -> "Books":
        """From what `facts` returned, in this version or in an earlier one that had fewer numbers."""
        known = {each.name for each in fields(cls)} - {"malformed"}
        return cls(**{name: value for name, value in facts.items() if name in known})


Report = Books
"""The public name."""


@dataclass(kw_only=True)
class Tally:
    """The running count of one stream, from which its books are made."""

    rows_in: int = 0
    published: int = 0
    suppressed: int = 0
    sampled_out: int = 0
    over_budget: int = 0
    at_root: int = 0
    reused: int = 0
    gate_refused: int = 0
    groups: int = 0
    longest_wait: int = 0
    handed_over: int = 0
    undecided: int = 0
    received: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    clamped: dict[str, int] = field(default_factory=dict)
    loss: float = 0.0
    """The sum over all rows that were published here."""

    def enter(
        self, rows: int, over_budget: int, sampled_out: int, rejected: Mapping[str, int], clamped: Mapping[str, int]
    ) -> None:
        """Count a batch that came in, with what its decoding and its intake left out or changed."""
        self.rows_in += rows
        self.over_budget += over_budget
        self.sampled_out += sampled_out
        self.rejected = _added((self.rejected, rejected))
        self.clamped = _added((self.clamped, clamped))

    def books(self, *, pending: int, waiting: int, open_clusters: int, threshold: float) -> Books:
        """The books, with what the stages hold now; `waiting`: arrivals since the oldest pending row."""
        out = self.published + self.received
        return Books(
            **{name: getattr(self, name) for name in _TALLIED if name != "longest_wait"},
            rejected=dict(self.rejected),
            clamped=dict(self.clamped),
            pending=pending,
            information_loss=self.loss / out if out else None,
            oldest_wait=max(self.longest_wait, waiting),
            open_clusters=open_clusters,
            threshold=threshold,
        )

    def facts(self) -> dict[str, Any]:
        """As a snapshot holds it."""
        counts = {name: getattr(self, name) for name in _TALLIED}
        return {"counts": counts, "rejected": self.rejected, "clamped": self.clamped, "loss": self.loss}

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Go on from what `facts` returned."""
        for name in _TALLIED:
            setattr(self, name, facts["counts"][name])
        self.rejected, self.clamped, self.loss = facts["rejected"], facts["clamped"], facts["loss"]


_TALLIED = tuple(each.name for each in fields(Tally) if each.name not in ("rejected", "clamped", "loss"))


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for each in counts:
        found.update(each)
    return dict(found)
