"""One frame for every way of publishing: the same rows in, the same judge at the end.

A method gets a task and returns what it would publish. What that is worth is measured from the published table and the
original one by `castleguard.judge`, which knows no method.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from castleguard.algorithms.base import Mode
from castleguard.algorithms.castle.policy import Castle
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
    """Rows to publish, and what is to be promised. Made by `make_task`."""

    table: pa.Table
    schema: Schema
    k: int
    delay: int
    """Rows that may arrive before a row has to leave."""
    l: int = 1
    seed: int = 0
    sites: int = 4
    """Among how many the rows are dealt out, where a method is about sites."""
    epsilon: float = 1.0
    """Of a row, where a method adds noise."""
    on_grid: bool = False
    """Whether methods that publish exact bounds widen them to the public grid, as CASTLE does in strict mode."""

    def policy(self, mode: Mode = "strict", *, delay: int | None = None) -> Castle:
        """The task as CASTLE takes it."""
        return Castle(k=self.k, l=self.l, delay=self.delay if delay is None else delay, mode=mode)


class Options(NamedTuple):
    """What only some of the methods ask for; see Task."""

    seed: int = 0
    sites: int = 4
    epsilon: float = 1.0
    on_grid: bool = False


def make_task(
    table: pa.Table, schema: Schema, *, k: int, delay: int, l: int = 1, options: Options | None = None
) -> Task:
    """A task with rows that are numbered, so that every published one can be found again.

    Every method must be measured by the same domain, so one that is only observed is refused.
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
    task.policy()  # refuses what nobody could promise
    return task


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What a method has made of a task."""

    published: pa.Table | None
    """As the package publishes; None if the method publishes numbers and no boxes."""
    closed: bool = False
    """Whether numbers are published as closed intervals of values; otherwise as half-open cells of the public grid."""
    released: Codes | None = None
    """Per published row how many rows of the table had arrived at least when it left; None: each left at once."""
    seconds: float
    """Processor time, from raw rows to published ones."""
    error: float | None = None
    """Without boxes: the mean distance of a published number from the true one, as a share of its domain."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Method:
    """A way of publishing."""

    key: str
    """Its name on the command line."""
    title: str
    promise: str
    """What it claims of its output, in a few words."""
    publish: Callable[[Task], Outcome] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What an outcome is worth, and what was found broken in it. Without boxes most of it is None."""

    rows: int
    """Rows that the schema accepts."""
    published: int
    suppressed: int
    loss: float | None = None
    """Mean information loss of all rows, a suppressed one counting as 1."""
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
    """Rows that do not lie in their own box."""
    late: int | None = None
    """Rows that left, for certain, after more than `delay` others had arrived."""
    other: dict[str, int] = field(default_factory=dict)
    """What else does not fit the original, by kind."""
    error: float | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def rows_per_second(self) -> float:
        """Of processor time."""
        return self.rows / self.seconds if self.seconds > 0 else float("inf")

    @property
    def broken(self) -> dict[str, int]:
        """All that was found wrong, in words, and how often."""
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
    """Groups that reach k persons only by rows which left later than their first ones."""
    persons = linked.only(first_rows(linked.groups, released)).persons_per_group
    return int(np.count_nonzero((persons < k) & (linked.persons_per_group >= k)))


def _late(linked: Linked, released: Codes | None, delay: int) -> int:
    """Rows whose time was over before they left. Rows that the schema refuses do not count as arrivals."""
    if released is None:
        return 0
    known, arrivals = linked.known, np.cumsum(~linked.originals.rejected)
    waits: Codes = arrivals[released[known] - 1] - arrivals[linked.row[known]]
    return int(np.count_nonzero(waits > delay))


def _other_faults(published: pa.Table, task: Task, *, closed: bool) -> dict[str, int]:
    """What `verify` finds beyond groups and boxes, such as a row that was published twice."""
    found = verify(published, task.table, task.schema, k=task.k, l=task.l, link=LINK, closed=closed).violations
    counted = ("groups with fewer", "values outside their")
    return {what: count for what, count in found.items() if not what.startswith(counted)}
