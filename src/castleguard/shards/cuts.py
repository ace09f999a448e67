"""Choice of cut points from public information: the domain, or rows published earlier. Never from raw rows.

Both functions cut the space of quasi-identifiers in two, recursively, until each shard has one region. `cut_domain`
halves the widest side; `cut_published` balances the published rows on both sides and crosses few published boxes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, log2, prod
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.errors import InputError, SchemaError
from castleguard.release.encode import Numbers
from castleguard.schema.axes import Axis
from castleguard.schema.roles import Numeric, QuasiIdentifier, Schema
from castleguard.shards.cut_tree import Branch, Cut, Cuts
from castleguard.shards.published import Boxes, read_boxes

OVERLOAD = 1.1
"""Maximum load of a shard, as a multiple of its fair share of the published rows, where cuts allow it."""

Side = tuple[int, int]  # first and last cell


@dataclass(frozen=True)
class Region:
    """A region of the space: a range of cells on every axis."""

    axes: tuple[Axis, ...]
    sides: tuple[Side, ...]

    @property
    def cells(self) -> int:
        """Number of cells, which is the maximum number of shards."""
        return prod(last - first + 1 for first, last in self.sides)

    def width(self, axis: int) -> float:
        """Return the length of a side as a share of the domain."""
        first, last = self.sides[axis]
        return (last - first + 1) / self.axes[axis].cells

    def cut(self, axis: int, cell: int) -> "tuple[Region, Region]":
        """Return the regions below and above a cut before `cell`."""
        first, last = self.sides[axis]
        return self._with(axis, (first, cell - 1)), self._with(axis, (cell, last))

    def _with(self, axis: int, side: Side) -> "Region":
        return replace(self, sides=(*self.sides[:axis], side, *self.sides[axis + 1 :]))


class Choice(NamedTuple):
    """A cut of a region, and how many of its shards lie below it."""

    axis: int
    cell: int
    shards_below: int


def cut_domain(schema: Schema, shards: int, *, columns: Sequence[str] | None = None) -> Cuts:
    """Choose cut points from the declared domain alone, by repeatedly halving the widest side.

    `columns`: the quasi-identifiers that may be cut; all but timestamps by default. Raises SchemaError if a number has
    no declared domain, or the domain has fewer cells than shards.

    >>> from castleguard.schema.roles import Numeric
    >>> age = Numeric("age", lower=0, upper=100, step=10)
    >>> cut_domain(Schema(person=None, quasi_identifiers=[age]), 2)
    Cuts(root=Cut(column='age', at=50.0, below=0, above=1))
    """
    region = _domain(axes_of(schema, columns), shards)
    return Cuts(_grow(region, None, shards, first_shard=0, tolerance=1.0))


def cut_published(
    published: pa.Table,
    schema: Schema,
    shards: int,
    *,
    numbers: Numbers = "bounds",
    columns: Sequence[str] | None = None,
) -> Cuts:
    """Choose cut points from a table that castleguard has published with this schema.

    `numbers`: the form of its ranges. Regions without published rows are halved. Raises SchemaError as `cut_domain`
    does, and InputError if the table is not a published one, or is fully generalised in these columns.
    """
    axes = axes_of(schema, columns)
    region = _domain(axes, shards)
    boxes = read_boxes(published, schema, axes, numbers=numbers)
    if boxes.rows.size == 0:
        raise InputError("the published rows are fully generalised in the columns to cut: cut the domain instead")
    tolerance = OVERLOAD ** (1 / max(ceil(log2(shards)), 1))
    return Cuts(_grow(region, boxes, shards, first_shard=0, tolerance=tolerance))


def shares(cuts: Cuts, published: pa.Table, schema: Schema, *, numbers: Numbers = "bounds") -> tuple[float, ...]:
    """Return the share of the published rows in each shard; a box that is cut is split between both sides."""
    axes = axes_of(schema, cuts.columns)
    boxes = read_boxes(published, schema, axes, numbers=numbers)
    found = np.zeros(cuts.shards)
    for shard, path in cuts.paths():
        part = boxes
        for cut, below in path:
            at = cuts.columns.index(cut.column)
            cell = axes[at].cell_at(cut.at)
            assert cell is not None
            part = part.below(at, cell) if below else part.above(at, cell)
        found[shard] = part.total
    return tuple((found / max(found.sum(), 1.0)).tolist())


def axes_of(schema: Schema, columns: Sequence[str] | None = None) -> tuple[Axis, ...]:
    """Quasi-identifiers that may be cut: the named ones, or all except timestamps.

    A timestamp usually advances with the stream, so all rows of one hour would go to one shard; it is used only by name
    or if there is no other column. Raises SchemaError if a number has no declared domain.
    """
    if columns is None:
        roles = [role for role in schema.quasi_identifiers if not _is_timestamp(role)]
        return tuple(map(_axis, roles or schema.quasi_identifiers))
    known = {role.name: role for role in schema.quasi_identifiers}
    for name in columns:
        if name not in known:
            raise SchemaError(
                f"column {name!r} is not a quasi-identifier and cannot be cut (these can be: {', '.join(known)})"
            )
    return tuple(_axis(known[name]) for name in dict.fromkeys(columns))


def _axis(role: QuasiIdentifier) -> Axis:
    if isinstance(role, Numeric) and role.domain is None:
        raise SchemaError(
            f"column {role.name!r} needs lower and upper to be cut: "
            f"a cut point of an observed domain would reveal values of rows"
        )
    return Axis(role)


def _is_timestamp(role: QuasiIdentifier) -> bool:
    return isinstance(role, Numeric) and role.kind == "timestamp"


def _domain(axes: tuple[Axis, ...], shards: int) -> Region:
    """Return the whole domain as a region. Raises SchemaError if it has fewer cells than shards."""
    if isinstance(shards, bool) or not isinstance(shards, int) or shards < 1:
        raise SchemaError(f"shards must be a whole number of at least 1, got {shards}")
    region = Region(axes, tuple((0, axis.cells - 1) for axis in axes))
    if region.cells < shards:
        raise SchemaError(
            f"the columns to cut have {region.cells} cells together, too few for {shards} shards: "
            f"use fewer shards or a smaller step"
        )
    return region


def _grow(region: Region, boxes: Boxes | None, shards: int, *, first_shard: int, tolerance: float) -> Branch:
    """Build the tree of one region, with its shards numbered from `first_shard` on."""
    if shards == 1:
        return first_shard
    if boxes is None or boxes.total == 0:
        boxes, chosen = None, _by_width(region, shards)
    else:
        chosen = _by_rows(region, boxes, shards, tolerance)
    axis, cell, below = chosen
    lower, upper = region.cut(axis, cell)
    low, high = (None, None) if boxes is None else (boxes.below(axis, cell), boxes.above(axis, cell))
    return Cut(
        column=region.axes[axis].name,
        at=region.axes[axis].start(cell),
        below=_grow(lower, low, below, first_shard=first_shard, tolerance=tolerance),
        above=_grow(upper, high, shards - below, first_shard=first_shard + below, tolerance=tolerance),
    )


def _by_width(region: Region, shards: int) -> Choice:
    """Halve the widest side; among equally wide ones, that of the first column."""
    open_axes = [axis for axis in range(len(region.axes)) if region.sides[axis][0] < region.sides[axis][1]]
    axis = max(open_axes, key=region.width)
    first, last = region.sides[axis]
    size = last - first + 1
    places = region.axes[axis].places(first, last)
    # Integer arithmetic: every machine must choose the same of two equally good places.
    cell = int(places[np.argmin(np.abs((places - first) * shards - size * (shards // 2)))])
    return Choice(axis, cell, _shards_below(region, axis, cell, (cell - first) * shards / size, shards))


def _by_rows(region: Region, boxes: Boxes, shards: int, tolerance: float) -> Choice:
    """Choose the cut that crosses the fewest rows in relation to its balance, among those within the tolerance.

    Without such a cut, choose the most balanced one.
    """
    best, found = (np.inf, np.inf), None
    for axis in range(len(region.axes)):
        first, last = region.sides[axis]
        if first == last:
            continue
        places = region.axes[axis].places(first, last)
        share, through = _split_shares(boxes, axis, first, last)
        share, through = share[places - first], through[places - first]
        below = np.clip(np.rint(share * shards), 1, shards - 1)
        overload = np.maximum(share * shards / below, (1 - share) * shards / (shards - below))
        rank = np.where(overload <= tolerance, 0.0, overload)
        parting = share * (1 - share)
        cost = np.divide(through, parting, out=np.full(share.shape, np.inf), where=parting > 0)
        at = int(np.lexsort((cost, rank))[0])
        if (rank[at], cost[at]) < best:
            best, found = (rank[at], cost[at]), (axis, int(places[at]), float(below[at]))
    assert found is not None  # a region with several cells has a side with several cells
    axis, cell, wanted = found
    return Choice(axis, cell, _shards_below(region, axis, cell, wanted, shards))


def _split_shares(boxes: Boxes, axis: int, first: int, last: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For a cut before each cell of a side: the share of rows below it, and of rows whose box it crosses."""
    size = last - first + 1
    low, high = boxes.first[:, axis] - first, boxes.last[:, axis] - first
    per_cell = boxes.rows / (high - low + 1)
    density = np.cumsum(
        np.bincount(low, per_cell, minlength=size + 1) - np.bincount(high + 1, per_cell, minlength=size + 1)
    )[:size]
    below = np.concatenate([[0.0], np.cumsum(density)[:-1]])
    # A cut crosses a box if it lies after its first cell and not after its last.
    opened = np.bincount(low + 1, boxes.rows, minlength=size + 2)
    closed = np.bincount(high + 1, boxes.rows, minlength=size + 2)
    through = np.cumsum(opened - closed)[:size]
    return np.clip(below / boxes.total, 0.0, 1.0), np.maximum(through / boxes.total, 0.0)


def _shards_below(region: Region, axis: int, cell: int, wanted: float, shards: int) -> int:
    """Round `wanted`, with no more shards on either side than it has cells."""
    lower, upper = region.cut(axis, cell)
    return int(min(max(round(wanted), 1, shards - upper.cells), shards - 1, lower.cells))
