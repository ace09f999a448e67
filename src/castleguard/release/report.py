"""The books of a stream: every row that came in is in exactly one of the columns."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Report:
    """A stream in numbers, for its operator: the numbers depend on rows that were not published.

    rows_in = published + suppressed + sampled_out + over_budget + sum(rejected) + handed_over + undecided + pending, at
    any moment.
    """

    rows_in: int
    published: int
    suppressed: int
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
    """Rows given up because nobody could say in time whether another site publishes them."""
    pending: int = 0
    at_root: int = 0
    """Of the published rows those whose quasi-identifiers say nothing."""
    reused: int = 0
    """Of the published rows those in a box that had been published before."""
    gate_refused: int = 0
    """Of the suppressed rows those that the gate refused."""
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
    """The information loss up to which a cluster takes in a row, CASTLE's tau."""

    def __post_init__(self) -> None:
        """Refuse books that do not balance: a lost row is a bug, and must not look like a number."""
        out = self.published + self.suppressed + self.sampled_out + self.over_budget + sum(self.rejected.values())
        out += self.handed_over + self.undecided
        if out + self.pending != self.rows_in:
            raise AssertionError(f"{self.rows_in} rows came in, {out} are accounted for, {self.pending} are pending")
