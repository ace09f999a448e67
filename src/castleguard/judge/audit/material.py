"""Input of an audit: two tables, a schema, a policy, and values derived from them that several sections need."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.facts import Publication
from castleguard.algorithms.policy import Policy
from castleguard.errors import InputError, UsageError
from castleguard.judge.attack.longitudinal import LeftOver, by_groups
from castleguard.judge.reading.boxes import Side, group_numbers, read_boxes
from castleguard.judge.reading.linked import Linked, original_rows
from castleguard.judge.reading.originals import Originals, read_originals
from castleguard.judge.reading.values import Codes
from castleguard.judge.verify.unlinked import Bounded, Kept, bound_groups, kept_values
from castleguard.privacy.criteria import Criteria
from castleguard.schema.roles import Schema

Kind = Literal["true boxes", "noisy boxes", "points"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Material:
    """One publication and its original. Raises InputError if a table lacks a required column."""

    original: pa.Table
    published: pa.Table
    """Published rows, in release order."""
    schema: Schema
    policy: Policy
    link: str | None = None
    """Column of both tables that numbers the original rows; None if rows cannot be linked."""
    population: pa.Table | None = None
    """All persons who might be in the data: a table with the quasi-identifiers of the schema."""
    threshold: float = 0.2
    """Count persons whose risk of identification is above this."""
    attack_runs: int = 50
    """Test runs per stream of the enumeration attack; 0 skips it."""
    observed_rows: int = 100_000
    """Original rows published again for the observer of arrival times, at least four delays; 0 skips the attack."""
    confidence: float = 0.95
    seed: int = 0
    unread_lines: int = 0
    """Lines of the published file that are not rows."""
    unread_files: int = 0
    """Files of the published folder that are not parts."""

    def __post_init__(self) -> None:
        for name in (*(role.name for role in self.schema.sensitive), *self.schema.public):
            if name not in self.published.column_names:
                raise InputError(f"the published table has no column {name!r}")
        if not 0 < self.threshold <= 1:
            raise UsageError(f"threshold must be above 0 and at most 1, got {self.threshold}")
        if self.attack_runs < 0:
            raise UsageError(f"attack_runs must not be negative, got {self.attack_runs}")
        if self.observed_rows < 0:
            raise UsageError(f"observed_rows must not be negative, got {self.observed_rows}")

    @cached_property
    def promised(self) -> Publication:
        """Properties that the policy states of its publications."""
        return self.policy.publication(self.schema)

    @property
    def kind(self) -> Kind:
        """Kind of published values."""
        if self.promised.form == "points":
            return "points"
        return "noisy boxes" if self.promised.noisy else "true boxes"

    @property
    def criteria(self) -> Criteria | None:
        """Criteria promised for every group; None without such a promise."""
        return self.promised.criteria

    @cached_property
    def sides(self) -> tuple[Side, ...]:
        """Published boxes, one side per quasi-identifier. Not for points."""
        return read_boxes(self.published, self.schema, closed=self.promised.closed)

    @cached_property
    def groups(self) -> Codes:
        """Group number of each published row."""
        return group_numbers(self.sides)

    @property
    def group_count(self) -> int:
        """Number of groups."""
        return int(self.groups.max(initial=-1)) + 1

    @cached_property
    def originals(self) -> Originals:
        """Original rows as the schema requires them."""
        return read_originals(self.original, self.schema)

    @cached_property
    def accepted(self) -> NDArray[np.bool_]:
        """True for original rows that the stream accepts.

        A stream that claims to hide values accepts all rows, with defaults for unusable values.
        """
        if self.promised.hides_values:
            return np.ones(self.original.num_rows, dtype=np.bool_)
        return ~self.originals.rejected

    @property
    def kept_columns(self) -> tuple[str, ...]:
        """Columns published unchanged: public ones, and sensitive ones unless they are randomised."""
        hidden = self.promised.hides_values
        return (*(() if hidden else (role.name for role in self.schema.sensitive)), *self.schema.public)

    @cached_property
    def row(self) -> Codes | None:
        """Original row of each published row, -1 without one; None without a link."""
        return None if self.link is None else original_rows(self.published, self.original, self.link)

    @cached_property
    def linked(self) -> Linked | None:
        """Both tables, joined by the link; None without a link, and for points."""
        if self.row is None or self.kind == "points":
            return None
        return Linked(self.published, self.original, self.schema, self.sides, self.groups, self.originals, self.row)

    @cached_property
    def followed(self) -> LeftOver | None:
        """Candidates left after intersecting each person's groups; None without a link."""
        return None if self.linked is None else by_groups(self.linked, seed=self.seed)

    @cached_property
    def position(self) -> Codes:
        """Position of each original row among the accepted ones; -1 for the others."""
        place: Codes = np.cumsum(self.accepted) - 1
        return np.where(self.accepted, place, -1)

    @cached_property
    def kept(self) -> Kept:
        """Combinations of unchanged values in both tables."""
        return kept_values(self.published, self.original, self.schema, columns=self.kept_columns, usable=self.accepted)

    @cached_property
    def bounded(self) -> Bounded:
        """Upper bounds on the persons of groups, without a link. For true boxes only."""
        return bound_groups(self.sides, self.groups, self.originals, self.kept)
