"""Joint output of the sites of dCASTLE, the merged stream of the paper's Figure 1, in numbers."""

from collections.abc import Hashable
from dataclasses import dataclass

from castleguard.lab.transcriptions.dcastle.messages import Release
from castleguard.lab.transcriptions.dcastle.policy import PaperPolicy
from castleguard.lab.transcriptions.dcastle.rows import Rows
from castleguard.lab.transcriptions.dcastle.space import Box, Space
from castleguard.schema.coded import NOBODY


@dataclass(frozen=True, kw_only=True)
class PaperRun:
    """Outcomes of the rows, and their cost."""

    information_loss: float | None
    """Mean over rows and attributes, 0 = published unchanged, 1 = root or suppressed; None: no row."""
    published: int
    """Rows in a generalisation below the root."""
    suppressed: int
    """Rows output at the most general values, the paper's form of suppression."""
    rejected: int
    """Rows that no site got: the schema rejects them, or allows them at the most general values only."""
    groups: int
    """Distinct generalisations over all sites, without the most general one."""
    groups_below_k: int
    """Generalisations with fewer than k persons."""
    groups_below_l: int
    """Generalisations with fewer than l sensitive values."""
    messages: int
    """Messages sent by the sites, without those that the relay forwards."""
    bytes: int
    """Bytes of these messages."""
    most_clusters: int
    """Most clusters of a site at any time: the paper's beta+."""


class Books:
    """Counter for the releases of all sites."""

    def __init__(self, policy: PaperPolicy, space: Space) -> None:
        self._policy = policy
        self._space = space
        self._loss = 0.0  # summed over rows and attributes
        self._suppressed = self._rows = 0
        self._persons: dict[Box, set[Hashable]] = {}
        self._values: dict[Box, set[Hashable]] = {}

    def enter(self, release: Release, rows: Rows) -> None:
        """Add one release, with the rows of its site."""
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
        """The numbers so far, with those counted elsewhere."""
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
