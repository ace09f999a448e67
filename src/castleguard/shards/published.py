"""Published rows as boxes of public cells with row counts: the only data from which cut points may be learnt.

Only published columns are read. A table with a person column, or without the published bounds, is not a published one
and is refused.
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

_ROWS = "count_all"  # Arrow's name
_INTERVAL = r"^\[(?P<low>[^\[\],]+), (?P<high>[^\[\],]+)\]$"


@dataclass(frozen=True, eq=False)
class Boxes:
    """Distinct boxes, or their intersections with a region. Rows are assumed to be spread evenly over their box."""

    first: Cells
    """(boxes, axes) first cell of every side."""
    last: Cells
    """(boxes, axes) last cell of every side, inclusive."""
    rows: NDArray[np.float64]
    """(boxes,) rows; of an intersection, a proportional share."""

    @property
    def total(self) -> float:
        """Total number of rows."""
        return float(self.rows.sum())

    def below(self, axis: int, cell: int) -> "Boxes":
        """Return the parts below a cell."""
        return self._intersect(axis, self.first[:, axis], np.minimum(self.last[:, axis], cell - 1))

    def above(self, axis: int, cell: int) -> "Boxes":
        """Return the parts from a cell on."""
        return self._intersect(axis, np.maximum(self.first[:, axis], cell), self.last[:, axis])

    def _intersect(self, axis: int, first: Cells, last: Cells) -> "Boxes":
        kept = first <= last
        whole = self.last[kept, axis] - self.first[kept, axis] + 1
        firsts, lasts = self.first[kept], self.last[kept]
        firsts[:, axis], lasts[:, axis] = first[kept], last[kept]
        return Boxes(firsts, lasts, self.rows[kept] * (last - first + 1)[kept] / whole)


def read_boxes(published: pa.Table, schema: Schema, axes: Sequence[Axis], *, numbers: Numbers = "bounds") -> Boxes:
    """Return the boxes of a published table, without fully generalised rows (nulls, the root).

    Raises InputError if the table was not published with this schema.
    """
    if numbers not in get_args(Numbers):
        raise SchemaError(f"numbers must be 'bounds', 'interval' or 'midpoint', got {numbers!r}")
    if schema.person is not None and schema.person in published.column_names:
        raise InputError(
            f"the table has the person column {schema.person!r}, so it is not a published table: "
            f"cut points of original rows would reveal them"
        )
    names = [name for axis in axes for name in _names(axis, numbers)]
    for name in names:
        if name not in published.column_names:
            raise InputError(f"the table has no column {name!r}: use the published table, not the original")
    distinct = _without_dictionaries(published.select(names).drop_null()).group_by(names).aggregate([([], "count_all")])
    sides = [_side(distinct, axis, numbers) for axis in axes]
    first = np.column_stack([side[0] for side in sides])
    last = np.column_stack([side[1] for side in sides])
    informative = np.any((first > 0) | (last < [axis.cells - 1 for axis in axes]), axis=1)
    informative &= np.all(last >= 0, axis=1)
    rows = distinct.column(_ROWS).to_numpy().astype(np.float64)
    return Boxes(first[informative], last[informative], rows[informative])


def _names(axis: Axis, numbers: Numbers) -> tuple[str, ...]:
    """Return the names of the published columns of a quasi-identifier."""
    if isinstance(axis.role, Numeric) and numbers == "bounds":
        return f"{axis.name}_min", f"{axis.name}_max"
    return (axis.name,)


def _without_dictionaries(table: pa.Table) -> pa.Table:
    """Decode dictionary columns: Arrow cannot group by chunks with different dictionaries."""
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(field.type.value_type))
    return table


def _side(distinct: pa.Table, axis: Axis, numbers: Numbers) -> tuple[Cells, Cells]:
    """Return the first and last cell of every box on an axis; the last one is -1 where the value is generalised."""
    columns = [distinct.column(name).combine_chunks() for name in _names(axis, numbers)]
    if isinstance(axis.role, Categorical):
        return _node_side(columns[0], axis.role)
    assert axis.role.domain is not None
    at_root = np.zeros(distinct.num_rows, dtype=np.bool_)
    if numbers == "interval":
        text = columns[0].cast(pa.string())
        at_root = pc.equal(text, "*").to_numpy(zero_copy_only=False)
        parts = pc.extract_regex(pc.if_else(pa.array(at_root), "[0, 0]", text), _INTERVAL)
        columns = [pc.struct_field(parts, "low"), pc.struct_field(parts, "high")]
    low, high = (_numbers(column, axis.role, at_root) for column in (columns[0], columns[-1]))
    first = cells_of(axis.role.edges, low)
    # Paper mode publishes values: a range of one value on an edge lies in the cell above it.
    last = np.maximum(last_cells(axis.role.edges, high), first)
    return first, np.where(at_root, -1, last)


def _numbers(column: pa.Array, role: Numeric, at_root: NDArray[np.bool_]) -> NDArray[np.float64]:
    found = read_numbers(column, role.kind)
    if np.any((found.problem != FINE) & ~at_root):
        raise InputError(f"the published column {role.name!r} has a bound that is not a {role.kind}")
    return found.values


def _node_side(column: pa.Array, role: Categorical) -> tuple[Cells, Cells]:
    tree = role.hierarchy
    found = read_leaves(column, pa.array(tree.labels, pa.large_string()))
    if np.any(found.problem != FINE):
        raise InputError(f"the published column {role.name!r} has a label that is not in its hierarchy")
    nodes = found.values.astype(np.int64)
    return tree.first_leaf[nodes].astype(np.int64), tree.last_leaf[nodes].astype(np.int64)
