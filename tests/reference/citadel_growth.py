"""How Citadel orders the rows that are due, and grows a group around one of them.

No function here looks at a sensitive value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .citadel_space import Bounds, F, Space, widest
from .measure import Row, persons

PART = 32  # rows of a part at most
NOWHERE = F(1e9)  # spread around a row of NO_PERSON, who is company for no group


# -- dense neighbourhoods first ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Neighbouring rows, with bounds that may be wider than they are."""

    rows: list[Row]
    bounds: Bounds


def spreads(space: Space, company: Sequence[Row]) -> dict[int, np.float32]:
    """By position: the spread of the part that a company row lies in."""
    if not company:
        return {}
    parts = [Part(list(company), space.bounds(company))]
    for _ in range(depth(len(company))):
        parts = [half for part in parts for half in halves(space, part)]
    return {row.position: space.spread(space.bounds(part.rows)) for part in parts for row in part.rows}


def depth(rows: int) -> int:
    """How often the company is halved until no part is larger than PART."""
    found = 0
    while -(-rows // 2**found) > PART:
        found += 1
    return found


def halves(space: Space, part: Part) -> tuple[Part, Part]:
    """The part, cut in two along the axis on which its bounds are widest."""
    at = widest(space.extents(part.bounds))
    rows = sorted(part.rows, key=lambda row: (space.point(row)[at], row.position))
    first, rest = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    low, high = part.bounds[at]
    return (
        Part(first, _with(part.bounds, at, (low, space.point(first[-1])[at]))),
        Part(rest, _with(part.bounds, at, (space.point(rest[0])[at], high))),
    )


def _with(bounds: Bounds, at: int, span: tuple[np.float32, np.float32]) -> Bounds:
    return (*bounds[:at], span, *bounds[at + 1 :])


# -- growth ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pace:
    """What growth has to know of the stream."""

    k: int
    delay: int
    limit: int  # one more than the highest position that is due


def grow(space: Space, seed: Row, company: Iterable[Row], pace: Pace) -> list[Row] | None:
    """The seed and enough rows near it, each of another person; None if there are not enough persons."""
    missing = needed(seed, pace.k)
    candidates = near_candidates(space, seed, company, pace.k)
    if candidates is None:
        return None
    handicap = {row.position: handicap_of(space, seed, row, pace) for row in candidates}
    point = {row.position: space.point(row) for row in candidates}
    points = set(point.values())
    group = [seed]
    while missing > 0:
        batch = max(1, missing // 8)
        bounds = space.bounds(group)
        enlargement = {at: space.enlargement(bounds, at) for at in points}
        taken = {member.person for member in group}
        ranked = sorted(
            (row for row in candidates if row.person not in taken),
            key=lambda row: (enlargement[point[row.position]] + handicap[row.position], row.position),
        )
        for row in ranked:
            if batch > 0 and row.person not in taken:
                group.append(row)
                taken.add(row.person)
                batch -= 1
                missing -= 1
    return group


def needed(seed: Row, k: int) -> int:
    """How many persons the seed lacks: all k if it is of NO_PERSON."""
    return k if seed.person is None else k - 1


def near_candidates(space: Space, seed: Row, company: Iterable[Row], k: int) -> list[Row] | None:
    """The rows nearest to the seed, as few as have enough persons; None if all of them have too few."""
    others = [row for row in company if row is not seed]
    others.sort(key=lambda row: (space.distance(row, seed), row.position))
    count = 3 * (k + 10)
    while True:
        nearest = others[:count]
        if persons(row for row in nearest if row.person != seed.person) >= needed(seed, k):
            return nearest
        if count >= len(others):
            return None
        count *= 8


def handicap_of(space: Space, seed: Row, row: Row, pace: Pace) -> np.float32:
    """What speaks against a candidate: its distance from the seed, and how long it could still wait."""
    youth = F(max(0, row.position - pace.limit))
    return F(0.1) * space.distance(row, seed) + F(0.02 / pace.delay) * youth


# -- left-over rows ----------------------------------------------------------------------------------------------------


def joining_cost(space: Space, bounds: Bounds, rows: int, row: Row) -> np.float32:
    """What it costs a group of so many rows to take in one more."""
    return space.width(bounds) + space.enlargement(bounds, space.point(row)) * F(rows + 1)


def keeps_share(rows: Iterable[Row], k: int) -> bool:
    """Rule 2: k persons other than NO_PERSON, and no person, NO_PERSON being one, has more than 1/k of the rows."""
    members = list(rows)
    of = [row.person for row in members]
    most = max((of.count(person) for person in set(of)), default=0)
    return persons(members) >= k and len(members) >= k * most
