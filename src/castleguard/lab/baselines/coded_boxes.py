"""Coded rows in, boxes out: code shared by all methods of comparison, and the table that they publish.

The table has the columns that the package publishes, so both can be measured in the same way.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.stages import make_keys
from castleguard.release.encode import Encoder
from castleguard.schema.cells import cell_ends, cell_starts, cells_of
from castleguard.schema.coded import NO_PERSON, CodedRows
from castleguard.schema.decode import Decoder
from castleguard.schema.roles import Categorical, Numeric, Schema

Values = NDArray[np.float64]  # (rows, columns) numbers, and leaf numbers of categories
Codes = NDArray[np.int64]  # (rows,)

NOWHERE = -1
"""Marks a row without a box: it is not published."""


@dataclass(frozen=True, eq=False)
class Coded:
    """Rows that a method works on: those of a table that its schema accepts, in their order."""

    schema: Schema
    rows: CodedRows
    persons: Codes
    """Per row, a small number for its person."""
    payload: pa.Table
    """Sensitive and public columns, published as they are."""
    numbers: Codes
    """Per row, its number in the table; rejected rows count too."""

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.persons.size

    @cached_property
    def widths(self) -> Values:
        """(columns,) width of every domain; 1 for a domain of width 0, which loses nothing."""
        lower, upper = self.domain
        width = upper - lower
        return np.where(width > 0, width, 1.0)

    @cached_property
    def domain(self) -> tuple[Values, Values]:
        """(columns,) public bounds of every column; for observed ones the smallest and largest value."""
        lower, upper = [], []
        for at, role in enumerate(self.schema.quasi_identifiers):
            if isinstance(role, Categorical):
                bounds = (0.0, float(len(role.hierarchy.leaves) - 1))
            else:
                seen = self.rows.quasi[:, at]
                bounds = role.domain or ((float(seen.min()), float(seen.max())) if seen.size else (0.0, 0.0))
            lower.append(bounds[0])
            upper.append(bounds[1])
        return np.array(lower), np.array(upper)

    @cached_property
    def is_one_row_each(self) -> bool:
        """Whether every person has one row."""
        return self.count == int(self.persons.max(initial=-1)) + 1

    @cached_property
    def usable(self) -> Codes:
        """Rows with a value in every column. Rows that can only be published at the root lack one."""
        found: Codes = np.flatnonzero(~self.rows.to_root)
        return found


@dataclass(frozen=True, eq=False)
class Boxed:
    """Decisions of a method: a box for every row, and its time of release."""

    box: Codes
    """Per row, the number of its box; NOWHERE if it is not published."""
    lower: Values
    """(boxes, columns) smallest values, or first leaves."""
    upper: Values
    """(boxes, columns) largest values, or last leaves."""
    released: Codes
    """Per row, the accepted rows that had arrived when it left; undefined for unpublished rows."""


def read(table: pa.Table, schema: Schema, *, seed: int = 0) -> Coded:
    """Code the rows of a table as the stream does."""
    decoded = Decoder(schema, key=make_keys(seed).hashes, strict=False).decode(table)
    _, persons = np.unique(decoded.rows.person, return_inverse=True)
    persons[decoded.rows.person == NO_PERSON] = -1
    numbers = np.delete(np.arange(table.num_rows), decoded.rejected.index)
    return Coded(schema, decoded.rows, persons.astype(np.int64), decoded.payload, numbers)


def bounding_boxes(values: Values, box: Codes) -> tuple[Values, Values]:
    """Smallest and largest values of the rows of every box; every box has a row."""
    boxes = int(box.max(initial=-1)) + 1
    lower, upper = np.full((boxes, values.shape[1]), np.inf), np.full((boxes, values.shape[1]), -np.inf)
    inside = box != NOWHERE
    np.minimum.at(lower, box[inside], values[inside])
    np.maximum.at(upper, box[inside], values[inside])
    return lower, upper


def published(coded: Coded, boxed: Boxed, *, on_grid: bool = False) -> pa.Table:
    """The published table in order of arrival, with exact bounds or bounds widened to the public grid.

    A set of categories is published as the lowest node that covers it.
    """
    lower, upper = boxed.lower.copy(), boxed.upper.copy()
    for at, role in enumerate(coded.schema.quasi_identifiers):
        if isinstance(role, Categorical):
            lower[:, at], upper[:, at] = node_bounds(role, lower[:, at], upper[:, at])
        elif on_grid:
            lower[:, at], upper[:, at] = _grid_bounds(role, lower[:, at], upper[:, at])
    leaving = np.flatnonzero(boxed.box != NOWHERE)
    encoder = Encoder(coded.schema, exact=not on_grid)
    return encoder.encode(lower, upper, boxed.box[leaving], coded.payload.take(pa.array(leaving)))


def node_bounds(role: Categorical, lower: Values, upper: Values) -> tuple[Values, Values]:
    """Leaves of the lowest node above each interval of leaves."""
    tree = role.hierarchy
    pairs, which = np.unique(np.column_stack([lower, upper]).astype(np.int64), axis=0, return_inverse=True)
    nodes = np.array([tree.node(int(low), int(high)) for low, high in pairs], dtype=np.int64)[which.reshape(-1)]
    return tree.first_leaf[nodes].astype(np.float64), tree.last_leaf[nodes].astype(np.float64)


def _grid_bounds(role: Numeric, lower: Values, upper: Values) -> tuple[Values, Values]:
    """The public cells around an interval; the interval itself without a grid."""
    edges = role.edges
    if not edges.size:
        return lower, upper
    return cell_starts(edges, lower), cell_ends(edges, cells_of(edges, upper))
