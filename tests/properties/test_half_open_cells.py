"""Published numbers are whole half-open cells of the public grid; two values of a cell cannot be distinguished."""

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import castleguard as cg
from tests.properties.streams import examples

Values = NDArray[np.float64]
Kind = str

_DAY = dt.date(2020, 2, 27)
_MOMENT = dt.datetime(2020, 2, 27, 23, 59, 58)
_SECOND = 1_000_000


@dataclass(frozen=True)
class Column:
    """A numeric quasi-identifier with its raw values as multiples of its resolution, and their written form."""

    role: cg.Numeric
    kind: Kind
    ticks: tuple[int, ...]  # per row: a place on the axis below
    axis: Values  # every possible value in coded units, ascending

    @property
    def coded(self) -> Values:
        return self.axis[list(self.ticks)]

    def written(self) -> pa.Array:
        values = self.coded
        if self.kind == "integer":
            return pa.array(values.astype(np.int64))
        if self.kind == "float":
            return pa.array(values)
        if self.kind == "date":
            return pa.array(values.astype(np.int32)).cast(pa.date32())
        # The clock may be finer than microseconds; rounding must not move a value into the next cell.
        nanoseconds = values.astype(np.int64) * 1000 + 999
        return pa.array(nanoseconds, pa.timestamp("ns"))

    def moved(self, shift: int) -> "Column":
        """Replace every value by another one of its cell."""
        edges, starts = self.role.edges, []
        for tick in self.ticks:
            cell = max(cell_of(edges, float(self.axis[tick])), 0)
            same = [at for at, value in enumerate(self.axis) if cell_of(edges, float(value)) == cell]
            starts.append(same[(same.index(tick) + shift) % len(same)])
        return Column(self.role, self.kind, tuple(starts), self.axis)


def cell_of(edges: Values, value: float) -> int:
    """Cell of a value, by linear search."""
    for cell in range(edges.size - 1):
        last = cell == edges.size - 2
        if edges[cell] <= value < edges[cell + 1] or (last and value == edges[-1]):
            return cell
    return 0  # of a single point


@st.composite
def columns(draw: st.DrawFn, name: str, rows: int) -> Column:
    kind = draw(st.sampled_from(("integer", "float", "date", "timestamp")))
    width, step = draw(st.integers(0, 30)), draw(st.integers(1, 12))
    bounds: dict[str, Any]
    if kind == "integer":
        start = draw(st.integers(-5, 5))
        bounds = {"lower": start, "upper": start + width, "step": step}
        axis = np.arange(start, start + width + 1, dtype=np.float64)
    elif kind == "float":
        bounds = {"lower": -0.5, "upper": width / 10 - 0.5, "step": step / 10}
        axis = np.unique(np.append(np.round(np.arange(0, 4 * width) / 40 - 0.5, 6), width / 10 - 0.5))
    elif kind == "date":
        bounds = {"lower": _DAY, "upper": _DAY + dt.timedelta(days=width), "step": step}
        axis = (_DAY - dt.date(1970, 1, 1)).days + np.arange(width + 1, dtype=np.float64)
    else:
        bounds = {"lower": _MOMENT, "upper": _MOMENT + dt.timedelta(seconds=width), "step": step}
        start = int((_MOMENT - dt.datetime(1970, 1, 1)).total_seconds()) * _SECOND
        # Moments on and right before every second; the last one is the end of the domain.
        axis = np.unique(start + np.append(np.arange(width + 1) * _SECOND, np.arange(1, width + 1) * _SECOND - 1))
        axis = axis.astype(np.float64)
    role = cg.Numeric(name, **bounds)
    pool = draw(st.lists(st.integers(0, axis.size - 1), min_size=1, max_size=5))
    ticks = draw(st.lists(st.sampled_from(pool), min_size=rows, max_size=rows))
    return Column(role, kind, tuple(ticks), axis)


@dataclass(frozen=True)
class Made:
    """A table and the policy it is published under."""

    columns: tuple[Column, ...]
    policy: cg.Castle | cg.Sdgs
    persons: tuple[int, ...]
    batch: int

    @property
    def schema(self) -> cg.Schema:
        # SDGS publishes no column that identifies a row.
        public = [] if isinstance(self.policy, cg.Sdgs) else ["row"]
        return cg.Schema(person="p", quasi_identifiers=[column.role for column in self.columns], public=public)

    def publish(self, *, shift: int = 0) -> pa.Table:
        moved = [column.moved(shift) for column in self.columns]
        table = pa.table(
            {
                "p": list(self.persons),
                **{column.role.name: column.written() for column in moved},
                "row": np.arange(len(self.persons)),
            }
        )
        stream = cg.Anonymiser(self.schema, self.policy, seed=7)
        out = [stream.push(table.slice(at, self.batch), now=float(at)) for at in range(0, table.num_rows, self.batch)]
        out.append(stream.flush())
        return pa.concat_tables([part.cast(out[-1].schema) for part in out])


@st.composite
def tables(draw: st.DrawFn) -> Made:
    rows = draw(st.integers(1, 60))
    names = ("a", "b")[: draw(st.integers(1, 2))]
    k = draw(st.integers(2, 4))
    policy: cg.Castle | cg.Sdgs
    if draw(st.integers(0, 4)) == 0:
        policy = cg.Sdgs(k=2, sample_rate=0.9, epsilon=2.5, window=20, window_unit="rows", start_cells=4)
    else:
        policy = cg.Castle(
            k=k,
            delay=draw(st.integers(k, 30)),
            max_clusters=draw(st.integers(1, 6)),
            reuse=draw(st.sampled_from(("paper", "paper", "off"))),
        )
    persons = draw(st.lists(st.integers(0, 20), min_size=rows, max_size=rows))
    made = tuple(draw(columns(name, rows)) for name in names)
    return Made(made, policy, tuple(persons), draw(st.sampled_from((1, 7, 60))))


def coded_bounds(out: pa.Table, column: Column) -> tuple[list[float], list[float]]:
    ends = []
    for side in ("min", "max"):
        values = out.column(f"{column.role.name}_{side}")
        if column.kind == "date":
            values = values.cast(pa.int32())
        elif column.kind == "timestamp":
            values = values.cast(pa.timestamp("us")).cast(pa.int64())
        ends.append([float(value) for value in values.to_pylist()])
    return ends[0], ends[1]


@examples(1)
@given(tables())
def test_a_published_range_is_made_of_whole_cells_around_its_row(made: Made) -> None:
    out = made.publish()
    for column in made.columns:
        edges = column.role.edges
        lower, upper = coded_bounds(out, column)
        for low, high in zip(lower, upper, strict=True):
            assert low in edges
            assert high in edges
            assert low < high or edges.size == 1
        if "row" in out.column_names:
            for row, low, high in zip(out.column("row").to_pylist(), lower, upper, strict=True):
                value = float(column.coded[row])
                assert low <= value
                assert value < high or (value == high == edges[-1])


@examples(1)
@given(tables(), st.integers(1, 40))
def test_a_value_moved_inside_its_cell_changes_nothing(made: Made, shift: int) -> None:
    assert made.publish(shift=shift).equals(made.publish())
