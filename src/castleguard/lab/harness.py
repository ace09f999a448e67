"""One frame for every method: the same rows in, the same measures at the end.

A method gets a task and returns its output. `castleguard.judge`, which knows no method, measures the output against the
original table.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.policy import Mode
from castleguard.errors import UsageError
from castleguard.judge.measure.information_loss import measure_loss
from castleguard.judge.reading.linked import Linked, link
from castleguard.judge.reading.values import Codes
from castleguard.judge.verify.structure import first_rows, outside, verify
from castleguard.privacy.parameters import check_count, check_positive
from castleguard.schema.roles import Numeric, Schema

LINK = "castleguard_row"
"""The public column that numbers the rows of a task."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """Rows to publish and the guarantee asked for. Made by `make_task`."""

    table: pa.Table
    schema: Schema
    k: int
    delay: int
    """Rows that may arrive before a row has to leave."""
    l: int = 1
    seed: int = 0
    sites: int = 4
    """Number of sites that the rows are dealt to, for methods with sites."""
    epsilon: float = 1.0
    """Budget of a row, for methods that add noise."""
    on_grid: bool = False
    """Whether methods with exact bounds widen them to the public grid, as CASTLE does in strict mode."""

    def policy(self, mode: Mode = "strict", *, delay: int | None = None) -> Castle:
        """The task as a CASTLE policy."""
        return Castle(k=self.k, l=self.l, delay=self.delay if delay is None else delay, mode=mode)


class Options(NamedTuple):
    """Fields of a task that only some methods use; see Task."""

    seed: int = 0
    sites: int = 4
    epsilon: float = 1.0
    on_grid: bool = False


def make_task(
    table: pa.Table, schema: Schema, *, k: int, delay: int, l: int = 1, options: Options | None = None
) -> Task:
    """A task whose rows are numbered, so that every published row can be traced back.

    Observed domains are refused: every method must be measured by the same domain.
    """
    chosen = options or Options()
    for role in schema.quasi_identifiers:
        if isinstance(role, Numeric) and role.domain is None:
            raise UsageError(f"column {role.name!r} needs lower and upper: methods are compared by a common domain")
    numbered = table.select(schema.columns).append_column(LINK, pa.array(np.arange(table.num_rows)))
    public = Schema(
        person=schema.person_role,
        quasi_identifiers=schema.quasi_identifiers,
        sensitive=schema.sensitive,
        public=(*schema.public, LINK),
    )
    check_count("sites", chosen.sites, least=1)
    check_positive("epsilon", chosen.epsilon)
    task = Task(table=numbered, schema=public, k=k, delay=delay, l=l, **chosen._asdict())
    task.policy()  # refuses impossible parameters
    return task


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """Output of a method for a task."""

    published: pa.Table | None
    """Published table in the package's form; None if the method publishes numbers without boxes."""
    closed: bool = False
    """Whether numbers are published as closed intervals of values; otherwise as half-open cells of the public grid."""
    released: Codes | None = None
    """Per published row, a lower bound of the rows that had arrived when it left; None: each left at once."""
    seconds: float
    """Processor time from raw to published rows."""
    error: float | None = None
    """Without boxes: mean distance of a published number from the true one, as a share of its domain."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Method:
    """A publishing method."""

    key: str
    """Name on the command line."""
    title: str
    promise: str
    """Its claim about the output, in a few words."""
    publish: Callable[[Task], Outcome] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Utility of an outcome, and broken promises. Most fields are None without boxes."""

    rows: int
    """Rows accepted by the schema."""
    published: int
    suppressed: int
    loss: float | None = None
    """Mean information loss of all rows; a suppressed row counts as 1."""
    published_loss: float | None = None
    """The same over published rows only."""
    ncp: float | None = None
    """Normalised certainty penalty of published rows, as a share of the largest possible."""
    discernibility: int | None = None
    groups: int | None = None
    below_k: int | None = None
    """Groups with fewer than k distinct persons."""
    below_l: int | None = None
    """Groups with fewer than l distinct values of a sensitive column."""
    too_small_at_first: int | None = None
    """Groups that had fewer than k persons when their first rows left."""
    outside: int | None = None
    """Rows outside their own box."""
    late: int | None = None
    """Rows that certainly left after more than `delay` others had arrived."""
    other: dict[str, int] = field(default_factory=dict)
    """Other deviations from the original, by kind."""
    error: float | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def rows_per_second(self) -> float:
        """Rows per second of processor time."""
        return self.rows / self.seconds if self.seconds > 0 else float("inf")

    @property
    def broken(self) -> dict[str, int]:
        """Broken promises in words, with their counts."""
        found = {
            "groups below k persons": self.below_k,
            "groups below l values": self.below_l,
            "groups below k persons at first": self.too_small_at_first,
            "rows outside their own box": self.outside,
            "rows too late": self.late,
            **self.other,
        }
        return {what: count for what, count in found.items() if count}


def measure(outcome: Outcome, task: Task) -> Measured:
    """Judge an outcome against its task."""
    if outcome.published is None:
        return Measured(
            rows=task.table.num_rows,
            published=task.table.num_rows,
            suppressed=0,
            late=0,
            error=outcome.error,
            seconds=outcome.seconds,
            notes=outcome.notes,
        )
    linked = link(outcome.published, task.table, task.schema, by=LINK, closed=outcome.closed)
    rows = int(np.count_nonzero(~linked.originals.rejected))
    suppressed = rows - int(np.unique(linked.row[linked.known]).size)
    lost = measure_loss(outcome.published, task.schema, unpublished=suppressed)
    return Measured(
        rows=rows,
        published=outcome.published.num_rows,
        suppressed=suppressed,
        loss=lost.generalised_of_all,
        published_loss=lost.generalised,
        ncp=lost.penalty,
        discernibility=lost.discernibility,
        groups=lost.groups,
        below_k=int(np.count_nonzero(linked.persons_per_group < task.k)),
        below_l=int(np.count_nonzero(linked.values_per_group < task.l)),
        too_small_at_first=0 if outcome.released is None else _small_at_first(linked, outcome.released, task.k),
        outside=int(np.count_nonzero(outside(linked).any(axis=0))),
        late=_late(linked, outcome.released, task.delay),
        other=_other_faults(outcome.published, task, closed=outcome.closed),
        seconds=outcome.seconds,
        notes=outcome.notes,
    )


def _small_at_first(linked: Linked, released: Codes, k: int) -> int:
    """Groups that reach k persons only through rows that left after their first ones."""
    persons = linked.only(first_rows(linked.groups, released)).persons_per_group
    return int(np.count_nonzero((persons < k) & (linked.persons_per_group >= k)))


def _late(linked: Linked, released: Codes | None, delay: int) -> int:
    """Rows that left after their deadline. Rejected rows do not count as arrivals."""
    if released is None:
        return 0
    known, arrivals = linked.known, np.cumsum(~linked.originals.rejected)
    waits: Codes = arrivals[released[known] - 1] - arrivals[linked.row[known]]
    return int(np.count_nonzero(waits > delay))


def _other_faults(published: pa.Table, task: Task, *, closed: bool) -> dict[str, int]:
    """Other faults that `verify` finds, such as a row published twice."""
    found = verify(published, task.table, task.schema, k=task.k, l=task.l, link=LINK, closed=closed).violations
    counted = ("groups with fewer", "values outside their")
    return {what: count for what, count in found.items() if not what.startswith(counted)}
