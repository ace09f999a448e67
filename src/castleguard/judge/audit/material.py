"""What an audit looks at: two tables, a schema, a policy, and what all sections need to know of them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.base import Policy
from castleguard.algorithms.facts import Publication
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
    """One publication beside its original. Raises InputError where a table lacks a column that it must have."""

    original: pa.Table
    published: pa.Table
    """In the order of publication."""
    schema: Schema
    policy: Policy
    link: str | None = None
    """A column of both tables that numbers the original rows; None: nobody knows which row became which."""
    population: pa.Table | None = None
    """Whoever might be in the data: a table with the quasi-identifiers of the schema."""
    threshold: float = 0.2
    """The risk of being found again above which persons are counted."""
    attack_runs: int = 50
    """Runs on either stream in which guesses are judged; 0: the attack that publishes anew is not played."""
    observed_rows: int = 100_000
    """Original rows that are published again for the observer who knows when, or four delays if that is more; 0: none.
    """
    confidence: float = 0.95
    seed: int = 0
    unread_lines: int = 0
    """Lines of the published file that are no rows."""
    unread_files: int = 0
    """Files of the published folder that are none of its parts."""

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
        """What the policy says of its publications."""
        return self.policy.publication(self.schema)

    @property
    def kind(self) -> Kind:
        """What the published rows are made of."""
        if self.promised.form == "points":
            return "points"
        return "noisy boxes" if self.promised.noisy else "true boxes"

    @property
    def criteria(self) -> Criteria | None:
        """What is promised of a group; None where nothing is."""
        return self.promised.criteria

    @cached_property
    def sides(self) -> tuple[Side, ...]:
        """What was published, one side per quasi-identifier. Not for points."""
        return read_boxes(self.published, self.schema, closed=self.promised.closed)

    @cached_property
    def groups(self) -> Codes:
        """Per published row the number of its group."""
        return group_numbers(self.sides)

    @property
    def group_count(self) -> int:
        """How many groups there are."""
        return int(self.groups.max(initial=-1)) + 1

    @cached_property
    def originals(self) -> Originals:
        """What each original row should have become."""
        return read_originals(self.original, self.schema)

    @cached_property
    def accepted(self) -> NDArray[np.bool_]:
        """Original rows that the stream takes in: where values are claimed to be hidden it takes all, with a default
        for what it cannot read.
        """
        if self.promised.hides_values:
            return np.ones(self.original.num_rows, dtype=np.bool_)
        return ~self.originals.rejected

    @property
    def kept_columns(self) -> tuple[str, ...]:
        """The columns that are published as they came: sensitive ones too, unless they are randomised."""
        hidden = self.promised.hides_values
        return (*(() if hidden else (role.name for role in self.schema.sensitive)), *self.schema.public)

    @cached_property
    def row(self) -> Codes | None:
        """Per published row its original row, -1 if there is none; None if nobody knows."""
        return None if self.link is None else original_rows(self.published, self.original, self.link)

    @cached_property
    def linked(self) -> Linked | None:
        """Both tables beside each other; None without a link, and for points."""
        if self.row is None or self.kind == "points":
            return None
        return Linked(self.published, self.original, self.schema, self.sides, self.groups, self.originals, self.row)

    @cached_property
    def followed(self) -> LeftOver | None:
        """Who is left of those that are followed from group to group; None without a link."""
        return None if self.linked is None else by_groups(self.linked, seed=self.seed)

    @cached_property
    def position(self) -> Codes:
        """Per original row its place among those that were taken in; -1 for the others."""
        place: Codes = np.cumsum(self.accepted) - 1
        return np.where(self.accepted, place, -1)

    @cached_property
    def kept(self) -> Kept:
        """Combinations of values that are published as they are."""
        return kept_values(self.published, self.original, self.schema, columns=self.kept_columns, usable=self.accepted)

    @cached_property
    def bounded(self) -> Bounded:
        """What groups can hold at most, without a link. Of true boxes only."""
        return bound_groups(self.sides, self.groups, self.originals, self.kept)
