"""Books: input rows by outcome, as one value.

A stream reports `Books`; jobs, shards and sites add theirs with `+`. Metrics, `top`, summaries and the warning about an
empty output read them. The numbers depend on unpublished rows: they are for the operator only.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

OUTCOMES = ("published", "suppressed", "sampled_out", "over_budget", "handed_over", "undecided")
"""Final outcomes of an accepted row."""
_SUMS = ("rows_in", *OUTCOMES, "pending", "at_root", "reused", "gate_refused", "received", "groups", "open_clusters")


@dataclass(frozen=True, kw_only=True)
class Books:
    """Row counts of one stream, or of several.

    At any moment, rows_in = published + suppressed + sampled_out + over_budget + sum(rejected) + handed_over +
    undecided + pending.
    """

    rows_in: int = 0
    published: int = 0
    suppressed: int = 0
    """Rows not published because no group could take them, or because the gate refused theirs."""
    sampled_out: int = 0
    over_budget: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    """Rejected rows by column and reason."""
    clamped: dict[str, int] = field(default_factory=dict)
    """Values moved to the nearest bound of their domain, by column; columns without any are left out."""
    handed_over: int = 0
    """Rows published by another site."""
    undecided: int = 0
    """Rows abandoned at their deadline because the relay could not say whether another site publishes them."""
    pending: int = 0
    at_root: int = 0
    """Published rows with all quasi-identifiers fully generalised."""
    reused: int = 0
    """Published rows in a box that was already public."""
    gate_refused: int = 0
    """Suppressed rows that the gate refused."""
    received: int = 0
    """Rows of other sites published here; not part of `rows_in`."""
    groups: int = 0
    """Published groups, without those that reuse a box."""
    information_loss: float | None = None
    """Mean over the rows published here: 0 = unchanged, 1 = fully generalised; None before the first row."""
    oldest_wait: int = 0
    """Longest wait of any row until its decision, or until now, in arrivals."""
    open_clusters: int = 0
    threshold: float = 0.0
    """The information loss up to which a cluster takes in a row, CASTLE's tau; the largest of several streams."""
    malformed: int = 0
    """Input that is not a row, such as a line that cannot be parsed; not part of `rows_in`."""

    def __post_init__(self) -> None:
        """Refuse books that do not balance: a lost row is a bug."""
        out = sum(getattr(self, name) for name in OUTCOMES) + sum(self.rejected.values())
        if out + self.pending != self.rows_in:
            raise AssertionError(f"{self.rows_in} rows came in, {out} are accounted for, {self.pending} are pending")

    def __add__(self, other: "Books") -> "Books":
        """Return the total of both."""
        return Books.total((self, other))

    @classmethod
    def total(cls, books: Iterable["Books"]) -> "Books":
        """Add books: counts are summed, the loss is averaged over rows, waits and thresholds are maxima."""
        every = list(books)
        rows = [one.published + one.received for one in every]
        losses = [(one.information_loss, count) for one, count in zip(every, rows, strict=True)]
        known = sum(count for loss, count in losses if loss is not None)
        lost = sum(loss * count for loss, count in losses if loss is not None)
        return cls(
            **{name: sum(getattr(one, name) for one in every) for name in (*_SUMS, "malformed")},
            rejected=_sum_counts(one.rejected for one in every),
            clamped=_sum_counts(one.clamped for one in every),
            information_loss=lost / known if known else None,
            oldest_wait=max((one.oldest_wait for one in every), default=0),
            threshold=max((one.threshold for one in every), default=0.0),
        )

    @property
    def outcomes(self) -> dict[str, int]:
        """Accepted rows by outcome, without pending ones."""
        return {name: getattr(self, name) for name in OUTCOMES}

    @property
    def rejected_rows(self) -> int:
        """Number of rejected rows."""
        return sum(self.rejected.values())

    def facts(self) -> dict[str, Any]:
        """Return the books as JSON values, for checkpoints and the output of shards."""
        found = asdict(self)
        del found["malformed"]  # counted by the job, not by the stream
        return found

    @classmethod
    def load(cls, facts: Mapping[str, Any]) -> "Books":
        """Load the result of `facts`, also from an earlier version with fewer counts."""
        known = {each.name for each in fields(cls)} - {"malformed"}
        return cls(**{name: value for name, value in facts.items() if name in known})


Report = Books
"""The public name."""


class Tally:
    """Mutable counters of one stream, the basis of its books."""

    def __init__(self) -> None:
        self.rows_in = self.published = self.suppressed = self.sampled_out = self.over_budget = 0
        self.at_root = self.reused = self.gate_refused = self.groups = self.longest_wait = 0
        self.handed_over = self.undecided = self.received = 0
        self.rejected: dict[str, int] = {}
        self.clamped: dict[str, int] = {}
        self.loss = 0.0
        """Information loss, summed over all rows published here."""

    def enter(
        self, rows: int, over_budget: int, sampled_out: int, rejected: Mapping[str, int], clamped: Mapping[str, int]
    ) -> None:
        """Count a batch: its rows, and those that decoding and intake left out or changed."""
        self.rows_in += rows
        self.over_budget += over_budget
        self.sampled_out += sampled_out
        self.rejected = _sum_counts((self.rejected, rejected))
        self.clamped = _sum_counts((self.clamped, clamped))

    def books(self, *, pending: int, waiting: int, open_clusters: int, threshold: float) -> Books:
        """Return the books, given the current state of the stages; `waiting`: arrivals since the oldest pending row."""
        out = self.published + self.received
        return Books(
            **{name: count for name, count in self._counts().items() if name != "longest_wait"},
            rejected=dict(self.rejected),
            clamped=dict(self.clamped),
            pending=pending,
            information_loss=self.loss / out if out else None,
            oldest_wait=max(self.longest_wait, waiting),
            open_clusters=open_clusters,
            threshold=threshold,
        )

    def facts(self) -> dict[str, Any]:
        """Return the counters as JSON values for a snapshot."""
        return {"counts": self._counts(), "rejected": self.rejected, "clamped": self.clamped, "loss": self.loss}

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Restore the result of `facts`."""
        for name in self._counts():
            setattr(self, name, facts["counts"][name])
        self.rejected, self.clamped, self.loss = facts["rejected"], facts["clamped"], facts["loss"]

    def _counts(self) -> dict[str, int]:
        return {name: value for name, value in vars(self).items() if name not in ("rejected", "clamped", "loss")}


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for each in counts:
        found.update(each)
    return dict(found)
