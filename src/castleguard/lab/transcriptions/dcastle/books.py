"""What the sites of dCASTLE have published together: the merged stream of the paper's Figure 1, in numbers."""

from collections.abc import Hashable
from dataclasses import dataclass

from castleguard.lab.transcriptions.dcastle.messages import Release
from castleguard.lab.transcriptions.dcastle.policy import PaperPolicy
from castleguard.lab.transcriptions.dcastle.rows import Rows
from castleguard.lab.transcriptions.dcastle.space import Box, Space
from castleguard.schema.coded import NOBODY


@dataclass(frozen=True, kw_only=True)
class PaperRun:
    """What became of the rows, and what it took."""

    information_loss: float | None
    """Mean over rows and attributes, 0 = published as they were, 1 = nothing said, as suppressed rows; None: no row."""
    published: int
    """Rows in a generalisation that says something."""
    suppressed: int
    """Rows that were output at the most general values, which is how the paper suppresses."""
    rejected: int
    """Rows that no site got: the schema cannot code them, or lets them be published at the most general values only."""
    groups: int
    """Different generalisations over all sites, the most general one aside."""
    groups_below_k: int
    """Those of them with fewer than k persons."""
    groups_below_l: int
    """Those of them with fewer than l sensitive values."""
    messages: int
    """Sent by the sites; what the relay sends on is not counted."""
    bytes: int
    """Of these messages."""
    most_clusters: int
    """The most clusters that a site has worked on at a time: the paper's beta+."""


class Books:
    """Takes down releases of all sites."""

    def __init__(self, policy: PaperPolicy, space: Space) -> None:
        self._policy = policy
        self._space = space
        self._loss = 0.0  # summed over rows and attributes
        self._suppressed = self._rows = 0
        self._persons: dict[Box, set[Hashable]] = {}
        self._values: dict[Box, set[Hashable]] = {}

    def enter(self, release: Release, rows: Rows) -> None:
        """One release, and the rows of its site."""
        self._rows += len(release.rows)
        self._loss += release.loss * len(release.rows)
        if release.box == self._space.root:
            self._suppressed += len(release.rows)
            return
        self._persons.setdefault(release.box, set()).update(
            person for row in release.rows if (person := rows.persons[row]) != NOBODY
        )
        self._values.setdefault(release.box, set()).update(rows.values[row] for row in release.rows)

    def close(self, *, rejected: int, messages: int, bytes: int, most_clusters: int) -> PaperRun:
        """The numbers so far, with those that are counted elsewhere."""
        return PaperRun(
            information_loss=self._loss / (self._rows * self._space.columns) if self._rows else None,
            published=self._rows - self._suppressed,
            suppressed=self._suppressed,
            rejected=rejected,
            groups=len(self._persons),
            groups_below_k=sum(len(persons) < self._policy.k for persons in self._persons.values()),
            groups_below_l=sum(len(values) < self._policy.l for values in self._values.values()),
            messages=messages,
            bytes=bytes,
            most_clusters=most_clusters,
        )
