"""Rule 7 of Citadel: which groups of a release are published, where something is asked of their sensitive values.

The groups were grown without a look at values. They are arranged into blocks, again without one; only then are values
judged, and all that the judgement can do is to publish groups as one, or not at all.

All children of a node have the same shape and size. So any row of a published group could be exchanged for any other
without a change in what the judgement finds: to an observer, each of them has each value of the group alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from .citadel_space import Point, widest
from .measure import Row

SMALLEST_BLOCK = 8  # groups; fewer are a star

Judge = Callable[[Sequence[Row]], bool]  # do these rows, as one group, keep what is asked?


@dataclass(frozen=True, eq=False)
class Grown:
    """A group as it was grown. Two are the same only if they are one object."""

    number: int
    rows: list[Row]
    centre: Point


@dataclass(frozen=True)
class Published:
    """One or more grown groups that are published as one."""

    number: int  # the lowest of the grown groups' numbers
    rows: list[Row]


def forest(groups: Sequence[Grown], k: int, judge: Judge) -> list[Published]:
    """The groups to publish, by number. Rows that are in none of them are suppressed."""
    blocks, rest = arranged([group for group in groups if len(group.rows) == k])
    odd = [group for group in groups if len(group.rows) != k]
    found: list[Published] = []
    for block in blocks:
        found += tree(block, judge) or []
    found += star(rest, judge) or []
    for group in odd:
        found += star([group], judge) or []
    return sorted(found, key=lambda group: group.number)


def arranged(groups: Sequence[Grown]) -> tuple[list[list[Grown]], list[Grown]]:
    """Blocks of 2^j groups, largest first, and the rest."""
    blocks: list[list[Grown]] = []
    left = list(groups)
    while len(left) >= SMALLEST_BLOCK:
        left = in_line(tuple(left))
        size = largest_power(len(left))
        blocks.append(left[:size])
        left = left[size:]
    return blocks, left


@lru_cache(maxsize=64)
def in_line(groups: tuple[Grown, ...]) -> list[Grown]:
    """Groups in order along the axis on which their centres differ most. Cached: values do not change it."""
    lines = list(zip(*(group.centre for group in groups), strict=True))
    at = widest([max(line) - min(line) for line in lines])
    return sorted(groups, key=lambda group: (group.centre[at], group.number))


def largest_power(count: int) -> int:
    """The largest power of two up to a number."""
    power = 1
    while 2 * power <= count:
        power *= 2
    return power


def tree(groups: Sequence[Grown], judge: Judge) -> list[Published] | None:
    """What a node is published as: its children's groups if both have some, else one group, else nothing."""
    if len(groups) > 1:
        line = in_line(tuple(groups))
        half = len(line) // 2
        first, second = tree(line[:half], judge), tree(line[half:], judge)
        if first is not None and second is not None:
            return first + second
    return as_one(groups, judge)


def star(groups: Sequence[Grown], judge: Judge) -> list[Published] | None:
    """All groups as they are if every one of them may be published, else one group, else nothing."""
    if all(judge(group.rows) for group in groups):
        return [Published(group.number, group.rows) for group in groups]
    return as_one(groups, judge)


def as_one(groups: Sequence[Grown], judge: Judge) -> list[Published] | None:
    rows = [row for group in groups for row in group.rows]
    return [Published(min(group.number for group in groups), rows)] if judge(rows) else None
