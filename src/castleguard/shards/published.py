"""What was published before, as boxes of public cells with a number of rows each: all that cut points may be learnt of.

Only published columns are read. A table that still has the person, or that lacks the published bounds, is not what was
published, and is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from castleguard.errors import InputError, SchemaError
from castleguard.release.encode import Numbers
from castleguard.schema.axes import Axis
from castleguard.schema.categories import read_leaves
from castleguard.schema.cells import Cells, cells_of, last_cells
from castleguard.schema.column import FINE
from castleguard.schema.numbers import read_numbers
from castleguard.schema.roles import Categorical, Numeric, Schema

_ROWS = "count_all"  # as Arrow names it
_INTERVAL = r"^\[(?P<low>[^\[\],]+), (?P<high>[^\[\],]+)\]$"


@dataclass(frozen=True, eq=False)
class Boxes:
    """Distinct boxes, or the parts of them that lie in a region. The rows of a box are taken to be spread evenly."""

    first: Cells
    """(boxes, axes) the first cell of every side."""
    last: Cells
    """(boxes, axes) the last one, inclusive."""
    rows: NDArray[np.float64]
    """(boxes,) rows, or the share of them that lies in the region."""

    @property
    def total(self) -> float:
        """All rows."""
        return float(self.rows.sum())

    def below(self, axis: int, cell: int) -> "Boxes":
        """The parts before a cell."""
        return self._part(axis, self.first[:, axis], np.minimum(self.last[:, axis], cell - 1))

    def above(self, axis: int, cell: int) -> "Boxes":
        """The parts from a cell on."""
        return self._part(axis, np.maximum(self.first[:, axis], cell), self.last[:, axis])

    def _part(self, axis: int, first: Cells, last: Cells) -> "Boxes":
        kept = first <= last
        whole = self.last[kept, axis] - self.first[kept, axis] + 1
        firsts, lasts = self.first[kept], self.last[kept]
        firsts[:, axis], lasts[:, axis] = first[kept], last[kept]
        return Boxes(firsts, lasts, self.rows[kept] * (last - first + 1)[kept] / whole)


def read_boxes(published: pa.Table, schema: Schema, axes: Sequence[Axis], *, numbers: Numbers = "bounds") -> Boxes:
    """The boxes of a published table. Rows that say nothing (nulls, the root) are left out.

    Raises InputError if the table cannot be what was published with this schema.
    """
    if numbers not in get_args(Numbers):
        raise SchemaError(f"numbers must be 'bounds', 'interval' or 'midpoint', got {numbers!r}")
    if schema.person is not None and schema.person in published.column_names:
        raise InputError(
            f"the table has the column {schema.person!r} of persons, so it is not what was published: "
            f"cut points of original rows would tell of them"
        )
    names = [name for axis in axes for name in _names(axis, numbers)]
    for name in names:
        if name not in published.column_names:
            raise InputError(f"the published table has no column {name!r}: give what was published, not the original")
    distinct = _plain(published.select(names).drop_null()).group_by(names).aggregate([([], "count_all")])
    sides = [_side(distinct, axis, numbers) for axis in axes]
    first = np.column_stack([side[0] for side in sides])
    last = np.column_stack([side[1] for side in sides])
    telling = np.any((first > 0) | (last < [axis.cells - 1 for axis in axes]), axis=1)
    telling &= np.all(last >= 0, axis=1)
    rows = distinct.column(_ROWS).to_numpy().astype(np.float64)
    return Boxes(first[telling], last[telling], rows[telling])


def _names(axis: Axis, numbers: Numbers) -> tuple[str, ...]:
    """The published columns of a quasi-identifier."""
    if isinstance(axis.role, Numeric) and numbers == "bounds":
        return f"{axis.name}_min", f"{axis.name}_max"
    return (axis.name,)


def _plain(table: pa.Table) -> pa.Table:
    """Without dictionaries, which cannot be grouped by in parts."""
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(field.type.value_type))
    return table


def _side(distinct: pa.Table, axis: Axis, numbers: Numbers) -> tuple[Cells, Cells]:
    """The first and the last cell of every box; the last one is -1 where nothing is said."""
    columns = [distinct.column(name).combine_chunks() for name in _names(axis, numbers)]
    if isinstance(axis.role, Categorical):
        return _node_side(columns[0], axis.role)
    assert axis.role.domain is not None
    unsaid = np.zeros(distinct.num_rows, dtype=np.bool_)
    if numbers == "interval":
        text = columns[0].cast(pa.string())
        unsaid = pc.equal(text, "*").to_numpy(zero_copy_only=False)
        parts = pc.extract_regex(pc.if_else(pa.array(unsaid), "[0, 0]", text), _INTERVAL)
        columns = [pc.struct_field(parts, "low"), pc.struct_field(parts, "high")]
    low, high = (_numbers(column, axis.role, unsaid) for column in (columns[0], columns[-1]))
    first = cells_of(axis.role.edges, low)
    # Paper mode publishes values: a range of one value on an edge lies in the cell above it.
    last = np.maximum(last_cells(axis.role.edges, high), first)
    return first, np.where(unsaid, -1, last)


def _numbers(column: pa.Array, role: Numeric, unsaid: NDArray[np.bool_]) -> NDArray[np.float64]:
    found = read_numbers(column, role.kind)
    if np.any((found.problem != FINE) & ~unsaid):
        raise InputError(f"the published column {role.name!r} has a bound that is no {role.kind}")
    return found.values


def _node_side(column: pa.Array, role: Categorical) -> tuple[Cells, Cells]:
    tree = role.hierarchy
    found = read_leaves(column, pa.array(tree.labels, pa.large_string()))
    if np.any(found.problem != FINE):
        raise InputError(f"the published column {role.name!r} has a label that is no node of its hierarchy")
    nodes = found.values.astype(np.int64)
    return tree.first_leaf[nodes].astype(np.int64), tree.last_leaf[nodes].astype(np.int64)
