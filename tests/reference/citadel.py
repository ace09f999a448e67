"""Citadel: rows wait until they are due, and groups are grown around them from what is pending.

The slow twin of the compiled engine: same rows, same settings and same draws must give the same releases, row for row.
A release is made in six steps, which `Settlement` and `Citadel.settle` follow in order:

1. the order of the seeds, which are the rows that are due        4. rows that fit nowhere: the root, or dropped
2. a group around every seed                                      5. sensitive values (`citadel_forest.py`)
3. left-over seeds join a group                                   6. the order of output

Only step 5 looks at sensitive values, and it decides neither which rows leave nor what is remembered without reuse.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from .chacha import Ratcheting
from .citadel_forest import SMALLEST_BLOCK, Grown, forest
from .citadel_growth import NOWHERE, Pace, grow, joining_cost, keeps_share, needed, spreads
from .citadel_library import Entry, Library
from .citadel_space import F, Space
from .measure import Attribute, Box, Domain, Row, around, persons
from .shape import Shape

NO_PERSON = 2**64 - 1  # in digests
WHOLE = 16  # groups of a tree, if the pending rows suffice

Kind = Literal["new", "reuse", "root"]
T = TypeVar("T")


class Choices(Protocol):
    """Where random choices come from."""

    def pick(self, purpose: str, position: int, n: int, content: bytes | None = None) -> int:
        """A number in [0, n) that belongs to this address; asked only with n >= 2."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The policy."""

    k: int
    delay: int
    l: int = 1
    max_wait: float | None = None
    release_every: int | None = None  # arrivals between two releases
    reuse: Literal["off", "narrow"] = "off"
    slack: float = 0.2  # how much wider than the narrowest box a reused one may be
    max_reusable: int = 1000
    suppression: Literal["root", "drop"] = "root"
    shape: Shape | None = None  # what is asked of the distribution of sensitive values

    def __post_init__(self) -> None:
        if not 1 <= self.every <= self.delay:
            raise ValueError(f"release_every must be between 1 and delay, got {self.every}")
        if self.reuse == "narrow" and self.shape is not None:
            raise ValueError("a row that joins a published box could change the distribution of its values")

    @property
    def every(self) -> int:
        judged = self.l > 1 or self.shape is not None
        return self.release_every or max(1, self.delay // (4 if judged else 8))

    @property
    def judges_values(self) -> bool:
        return self.l > 1 or self.shape is not None


@dataclass(frozen=True)
class Group:
    """Rows that are published under one box."""

    kind: Kind
    box: Box  # as published
    rows: list[int]  # positions, ascending
    loss: float


@dataclass(frozen=True)
class Release:
    """All that leaves at one moment."""

    arrivals: int  # rows that had arrived
    groups: list[Group]
    order: list[int]  # positions, as they are output
    dropped: list[int]  # positions, ascending


class Citadel:
    """One stream. Rows are pushed with positions 0, 1, 2, ...; every present row leaves in exactly one release."""

    def __init__(self, attributes: Sequence[Attribute], settings: Settings, choices: Choices) -> None:
        self.settings = settings
        self.domain = Domain(attributes)
        self.space = Space(attributes)
        self.choices = choices
        self._ratchet = choices.ratchet if isinstance(choices, Ratcheting) else None
        self.library = Library(self.domain, settings.max_reusable)
        self.arrivals = 0
        self.pending: dict[int, Row] = {}  # in order of position
        self.arrived: dict[int, float] = {}  # when
        self.left: list[Row] = []  # every row of an earlier release, published or not
        self._shares: dict[int, list[float]] = {}  # among these rows, by column; emptied at every release

    # -- when rows are due ---------------------------------------------------------------------------------------------

    def push(self, rows: Iterable[Row | None], now: float = 0.0) -> list[Release]:
        """Rows arrive together; None is a row that only moves the clock."""
        releases = self.tick(now)
        for row in rows:
            releases += self.arrive(row, now)
        return releases

    def arrive(self, row: Row | None, now: float = 0.0) -> list[Release]:
        """One row. At every multiple of `every` rows leave that could not wait for the next one."""
        position = self.arrivals
        if self._ratchet is not None:
            self._ratchet(position)
        self.arrivals += 1
        if row is not None:
            if row.position != position:
                raise ValueError(f"positions are consecutive: expected {position}, got {row.position}")
            self.pending[position] = row
            self.arrived[position] = now
        if self.arrivals % self.settings.every != 0:
            return []
        return self.settle_below(position + self.settings.every - self.settings.delay)

    def tick(self, now: float) -> list[Release]:
        """Rows leave that have waited `max_wait`, up to the first one that has not."""
        max_wait = self.settings.max_wait
        if max_wait is None:
            return []
        patient = [position for position in self.pending if self.arrived[position] + max_wait > now]
        return self.settle_below(min(patient, default=self.arrivals))

    def flush(self) -> list[Release]:
        """Nothing is pending afterwards."""
        return self.settle_below(self.arrivals)

    def settle_below(self, limit: int) -> list[Release]:
        """The pending rows at positions below `limit` leave."""
        due = [row for row in self.pending.values() if row.position < limit]
        return [self.settle(due, limit)] if due else []

    # -- one release ---------------------------------------------------------------------------------------------------

    def settle(self, due: Sequence[Row], limit: int) -> Release:
        """These rows leave, with as much company as they need."""
        made = Settlement(self, Pace(self.settings.k, self.settings.delay, limit))
        for seed in made.order_seeds(due):  # step 1
            if seed.position in made.company or seed.person is None:
                made.place(seed)  # step 2
        made.join_left_over()  # step 3
        made.suppress()  # step 4
        made.top_up()
        return self._publish(made)

    def _publish(self, made: Settlement) -> Release:
        """Steps 5 and 6; the rows are no longer pending."""
        groups = [Group("reuse", entry.box, [row.position], entry.loss) for entry, row in made.reused]
        groups += [self._new_group(rows) for rows in self._judged(made.groups)]
        if made.root and (not self.settings.judges_values or self.keeps_criteria(made.root)):
            groups.append(Group("root", self.domain.root(), positions_of(made.root), 1.0))
        leaving = made.leaving()
        listed = [position for group in groups for position in group.rows]
        dropped = sorted(leaving - set(listed))
        order = list(listed)
        shuffle(self.choices, "shuffle", self.arrivals, order, whole_content([self.pending[p] for p in listed]))
        self.left += [self.pending.pop(position) for position in sorted(leaving)]
        self._shares.clear()
        if self.settings.reuse == "narrow":
            for group in groups:
                if group.kind == "new":
                    self.library.admit(group.box)
        return Release(self.arrivals, groups, order, dropped)

    def _new_group(self, rows: Sequence[Row]) -> Group:
        box = self.domain.published(around(rows))
        return Group("new", box, positions_of(rows), self.domain.loss(box))

    def _judged(self, groups: Sequence[list[Row]]) -> list[list[Row]]:
        """The groups to publish."""
        if not self.settings.judges_values:
            return list(groups)
        grown = [Grown(number, rows, self.space.centre(self.space.bounds(rows))) for number, rows in enumerate(groups)]
        return [group.rows for group in forest(grown, self.settings.k, self.keeps_criteria)]

    def keeps_criteria(self, rows: Sequence[Row]) -> bool:
        """Whether these rows, as one group, have the sensitive values that are asked for."""
        columns = range(len(rows[0].sensitive))
        if any(distinct_for_certain(rows, column) < self.settings.l for column in columns):
            return False
        shape = self.settings.shape
        if shape is None:
            return True
        if len(self.left) < shape.burn_in:
            return False
        return all(shape.lack_by_row(rows, column, self._shares_of(shape, column)) == 0 for column in columns)

    def _shares_of(self, shape: Shape, column: int) -> list[float]:
        if column not in self._shares:
            self._shares[column] = shape.shares(self.left, column)
        return self._shares[column]


class Settlement:
    """A release in the making: who leaves, and with whom. Sensitive values are not looked at."""

    def __init__(self, stream: Citadel, pace: Pace) -> None:
        self.stream = stream
        self.settings = stream.settings
        self.space = stream.space
        self.pace = pace
        self.company = {row.position: row for row in stream.pending.values() if is_company(row)}  # not left yet
        self.groups: list[list[Row]] = []  # in order of their numbers
        self.reused: list[tuple[Entry, Row]] = []
        self.left_over: list[Row] = []
        self.for_root: list[Row] = []
        self.root: list[Row] = []
        self.dropped: list[Row] = []

    def leaving(self) -> set[int]:
        """The positions of all rows that leave."""
        rows = [row for group in [*self.groups, self.root, self.dropped] for row in group]
        return {row.position for row in [*rows, *(row for _, row in self.reused)]}

    # -- step 1 --------------------------------------------------------------------------------------------------------

    def order_seeds(self, due: Sequence[Row]) -> list[Row]:
        """The rows that are due in random order, those in dense neighbourhoods first; root rows are left over."""
        self.left_over = [row for row in due if row.to_root]
        seeds = [row for row in due if not row.to_root]
        shuffle(self.stream.choices, "seed_bucket", self.stream.arrivals, seeds, blind_content(due))
        spread = spreads(self.space, list(self.company.values()))
        return sorted(seeds, key=lambda row: spread.get(row.position, NOWHERE))

    # -- step 2 --------------------------------------------------------------------------------------------------------

    def place(self, seed: Row) -> None:
        """The seed leaves in a group of its own, or in a published box that is narrower, or is left over."""
        entries = self.stream.library.containing(seed)
        if entries:
            self._reuse_unless_narrower(seed, entries)
            return
        group = self.all_that_is_left(seed) or self.grown(seed)
        if group is None:
            self.left_over.append(seed)
        else:
            self._leave_as_group(group)

    def all_that_is_left(self, seed: Row) -> list[Row] | None:
        """All company rows as one group, where they are too few for two."""
        if not self.settings.k <= len(self.company) < 2 * self.settings.k:
            return None
        group = [seed, *(row for row in self.company.values() if row is not seed)]
        return group if keeps_share(group, self.settings.k) else None

    def grown(self, seed: Row) -> list[Row] | None:
        return grow(self.space, seed, self.company.values(), self.pace)

    def _leave_as_group(self, group: list[Row]) -> None:
        self.groups.append(group)
        self._leave(group)

    def _leave(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.company.pop(row.position, None)

    # -- narrow reuse --------------------------------------------------------------------------------------------------

    def _reuse_unless_narrower(self, seed: Row, entries: list[Entry]) -> None:
        """The seed takes a published box that contains it, unless a group of its own is narrower than all of them."""
        best = min(entry.loss for entry in entries)
        if self._has_near_company(seed, best):
            group = self.grown(seed)
            if group is not None and self.stream.domain.loss(self.stream.domain.published(around(group))) < best:
                self._leave_as_group(group)
                return
        narrow = [entry for entry in entries if entry.loss <= best * (1 + self.settings.slack)]
        at = self.stream.choices.pick("reuse", seed.position, len(narrow)) if len(narrow) > 1 else 0
        self.stream.library.use(narrow[at])
        self.reused.append((narrow[at], seed))
        self._leave([seed])

    def _has_near_company(self, seed: Row, loss: float) -> bool:
        """Whether enough rows are so near that a group of them could be narrower than a box of this loss."""
        hint = F(0.3) * F(loss * len(self.space.axes))
        others = [row for row in self.company.values() if row is not seed]
        near = [row for row in others if self.space.distance(row, seed) <= hint]
        return len(near) >= needed(seed, self.settings.k)

    # -- step 3 --------------------------------------------------------------------------------------------------------

    def join_left_over(self) -> None:
        """Left-over rows join the group where they cost least; the others, and root rows, are for the root."""
        for row in self.left_over:
            fitting = [] if row.to_root else [g for g in self.groups if keeps_share([*g, row], self.settings.k)]
            if not fitting:
                self.for_root.append(row)
                continue
            costs = [joining_cost(self.space, self.space.bounds(group), len(group), row) for group in fitting]
            fitting[costs.index(min(costs))].append(row)
            self._leave([row])

    # -- step 4 --------------------------------------------------------------------------------------------------------

    def suppress(self) -> None:
        """Rows for the root leave as one group, completed by the oldest pending rows; or are dropped."""
        first = one_per_person(self.for_root)
        root = [*first, *self._completion(first)]
        if self.settings.suppression == "drop" or persons(root) < self.settings.k:
            root = []
            self.dropped = self.for_root
        else:
            for row in self.for_root:
                if row not in first:
                    (root if keeps_share([*root, row], self.settings.k) else self.dropped).append(row)
        self.root = root
        self._leave([*self.root, *self.dropped])

    def top_up(self) -> None:
        """Where values are judged: further groups around the oldest rows, up to a number without a small remainder."""
        if self.settings.reuse == "narrow" or not self.settings.judges_values:
            return
        count = len([group for group in self.groups if len(group) == self.settings.k])
        spare = len(self.company) // self.settings.k
        steps = [WHOLE >> halved for halved in range(WHOLE.bit_length()) if WHOLE >> halved >= SMALLEST_BLOCK]
        missing = next((-count % step for step in steps if count and -count % step <= spare), 0)
        for seed in list(self.company.values()):
            if missing == 0:
                break
            if seed.position not in self.company:
                continue
            group = self.grown(seed)
            if group is None:
                break
            self._leave_as_group(group)
            missing -= 1

    def _completion(self, root: Sequence[Row]) -> list[Row]:
        """The oldest rows that bring the root to k persons; all that bring a person if there are not enough."""
        if not root:
            return []
        missing = self.settings.k - persons(root)
        known = {row.person for row in root}
        oldest = one_per_person(row for row in self.company.values() if row.person not in known)
        return oldest[: max(missing, 0)]


def distinct_for_certain(rows: Sequence[Row], column: int) -> int:
    """How many values remain whichever rows are taken away, as many as are of NO_PERSON: the rarest values go first.

    NO_PERSON must not add to l. Counting without its rows would tell them apart: a published group would then reveal
    something about their values that it does not reveal about the rest.
    """
    counts = sorted(Counter(row.sensitive[column] for row in rows).values())
    unnamed = len([row for row in rows if row.person is None])
    while counts and counts[0] <= unnamed:
        unnamed -= counts.pop(0)
    return len(counts)


def is_company(row: Row) -> bool:
    """Whether a pending row can be in the group of another one."""
    return not row.to_root and row.person is not None


def one_per_person(rows: Iterable[Row]) -> list[Row]:
    """The first row of each person; NO_PERSON is one."""
    first: dict[object, Row] = {}
    for row in rows:
        first.setdefault(row.person, row)
    return list(first.values())


def positions_of(rows: Iterable[Row]) -> list[int]:
    return sorted(row.position for row in rows)


# -- draws -------------------------------------------------------------------------------------------------------------


def shuffle(choices: Choices, purpose: str, position: int, items: list[T], content: bytes) -> None:
    """Put items into a random order (Fisher and Yates), which belongs to this content."""
    for last in range(len(items) - 1, 0, -1):
        other = choices.pick(purpose, position, last + 1, content)
        items[last], items[other] = items[other], items[last]


def whole_content(rows: Iterable[Row]) -> bytes:
    """Where rows stand in the stream and what is in them, 64 bits each."""
    return b"".join(
        _head(row) + struct.pack(f"<{len(row.quasi)}d{len(row.sensitive)}q", *row.quasi, *row.sensitive) for row in rows
    )


def blind_content(rows: Iterable[Row]) -> bytes:
    """The same without sensitive values: who leaves must not depend on them."""
    return b"".join(_head(row) + struct.pack(f"<{len(row.quasi)}d", *row.quasi) for row in rows)


def _head(row: Row) -> bytes:
    return struct.pack("<qQ", row.position, NO_PERSON if row.person is None else row.person)
