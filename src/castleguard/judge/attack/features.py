"""Features of published rows, as an observer can compute them.

Half of the features describe the output as a whole. The others search it for one row that may or may not have been in
the input and whose values the observer knows. The observer does not know persons or arrivals, but if the output is in
input order, knows the position that the row would have.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.judge.reading.boxes import Side, group_numbers, read_boxes
from castleguard.judge.reading.originals import read_originals
from castleguard.judge.reading.values import Numbers, numbers_of, texts_of
from castleguard.schema.roles import Numeric, Schema

Row = Mapping[str, object]
Published = Sequence[pa.Table]
"""Published tables, one per call."""
Flags = NDArray[np.bool_]  # (rows,)

Features = Callable[[Published], Mapping[str, float]]
"""Function from published tables to named numbers; all outputs of neighbouring streams have the same names."""

_NEAR = 0.1  # share of the domain


class Observer:
    """Features of an output for rows with known values.

    `place`: position of the first such row in the input. `closed`: numbers are closed intervals (paper mode).
    """

    def __init__(self, schema: Schema, known: Sequence[Row], *, place: int, closed: bool = False) -> None:
        self._schema = schema
        self._closed = closed
        self._known = read_originals(_as_table(known, schema), schema)
        self._values = [[_text(row[role.name]) for row in known] for role in schema.sensitive]
        self._place = place

    def __call__(self, published: Published) -> dict[str, float]:
        whole = pa.concat_tables(published)
        sides = read_boxes(whole, self._schema, closed=self._closed)
        columns = [texts_of(whole.column(role.name)) for role in self._schema.sensitive]
        found = {"rows": float(whole.num_rows), "boxes": float(group_numbers(sides).max(initial=-1) + 1)}
        found |= {f"rows of release {at}": float(table.num_rows) for at, table in enumerate(published)}
        for role, side in zip(self._schema.quasi_identifiers, sides, strict=True):
            found |= _overall(role.name, side) | self._in_place(role.name, side)
        for number in range(self._known.persons.size):
            has = [_is(column, values[number]) for column, values in zip(columns, self._values, strict=True)]
            found |= {f"{name} ({number})": value for name, value in self._about(number, sides, has).items()}
        return found

    def _about(self, number: int, sides: tuple[Side, ...], has: list[Flags]) -> dict[str, float]:
        """Features about one known row."""
        found, every = {}, np.arange(sides[0].low.size)
        inside = np.ones(every.size, dtype=np.bool_)
        for role, side, values in zip(self._schema.quasi_identifiers, sides, self._known.values, strict=True):
            around = side.contains(np.full(every.size, values[number]), every)
            inside &= around
            found[f"rows around its {role.name}"] = _count(around)
            found[f"bounds at its {role.name}"] = _count((side.low == values[number]) | (side.high == values[number]))
        losses = np.mean([side.losses() for side in sides], axis=0)
        found["rows around it"] = _count(inside)
        found["loss of the smallest box around it"] = float(losses[inside].min(initial=1.0))
        for column, flags in zip(self._schema.sensitive, has, strict=True):
            found[f"rows with its {column.name}"] = _count(flags)
            found[f"rows around it with its {column.name}"] = _count(flags & inside)
            found[f"its {column.name} in its place"] = _count(flags[self._place : self._place + 1])
        return found

    def _in_place(self, name: str, side: Side) -> dict[str, float]:
        """Bounds of the row at the position of the known one, if the output is in input order."""
        low, high = side.low[self._place : self._place + 1], side.high[self._place : self._place + 1]
        return {f"lower {name} in its place": float(low.sum()), f"upper {name} in its place": float(high.sum())}


class PointObserver:
    """Features of noisy points, which DOCA publishes in place of boxes, for rows with known values."""

    def __init__(self, schema: Schema, known: Sequence[Row]) -> None:
        self._numbers = [role for role in schema.quasi_identifiers if isinstance(role, Numeric)]
        self._labels = [name for name in schema.described if name not in {role.name for role in self._numbers}]
        self._known = {role.name: _coded([row[role.name] for row in known], role.kind) for role in self._numbers}
        self._texts = {
            name: [texts_of(pa.chunked_array([[row[name]]]))[0][0] for row in known] for name in self._labels
        }

    def __call__(self, published: Published) -> Mapping[str, float]:
        whole = pa.concat_tables(published)
        found = {"rows": float(whole.num_rows)}
        found |= {f"rows of release {at}": float(table.num_rows) for at, table in enumerate(published)}
        for role in self._numbers:
            points, _ = numbers_of(whole.column(role.name), role.kind)
            points = points[~np.isnan(points)]
            found |= _points_overall(role.name, points)
            low, high = role.domain or (0.0, 1.0)
            for number, value in enumerate(self._known[role.name]):
                far = np.abs(points - value)
                found[f"distance of the nearest {role.name} ({number})"] = float(far.min(initial=high - low))
                found[f"{role.name} near its own ({number})"] = float(np.count_nonzero(far <= _NEAR * (high - low)))
        for name in self._labels:
            labels, codes = texts_of(whole.column(name))
            for number, text in enumerate(self._texts[name]):
                count = np.count_nonzero(codes == labels.index(text)) if text in labels else 0
                found[f"rows with its {name} ({number})"] = float(count)
        return found


def standing_together(schema: Schema, pairs: Sequence[tuple[object, object]]) -> Features:
    """Return a feature: how many of these pairs of values of the first sensitive column share a published box."""
    wanted = [(_text(one), _text(other)) for one, other in pairs]

    def features(published: Published) -> dict[str, float]:
        whole = pa.concat_tables(published)
        boxes = group_numbers(read_boxes(whole, schema))
        values = texts_of(whole.column(schema.sensitive[0].name))
        together = sum(
            bool(np.intersect1d(boxes[_is(values, one)], boxes[_is(values, other)]).size) for one, other in wanted
        )
        return {"pairs in one box": float(together)}

    return features


def _overall(name: str, side: Side) -> dict[str, float]:
    """Extremes and mean width of all boxes; without rows, the ends of the domain in reverse."""
    return {
        f"lowest {name}": float(side.low.min(initial=side.domain[1])),
        f"highest {name}": float(side.high.max(initial=side.domain[0])),
        f"width of {name}": float(side.losses().mean()) if side.low.size else 0.0,
    }


def _as_table(rows: Sequence[Row], schema: Schema) -> pa.Table:
    return pa.table({name: [row[name] for row in rows] for name in schema.columns})


def _is(column: tuple[list[str | None], NDArray[np.int64]], text: str | None) -> Flags:
    """True for rows with this value."""
    labels, codes = column
    return codes == labels.index(text) if text in labels else np.zeros(codes.size, dtype=np.bool_)


def _text(value: object) -> str | None:
    """A value as formatted by `texts_of`."""
    return texts_of(pa.chunked_array([[value]]))[0][0]


def _count(flags: Flags) -> float:
    return float(np.count_nonzero(flags))


def _points_overall(name: str, points: Numbers) -> dict[str, float]:
    """Mean and extremes of the points, number of distinct points, and counts of the rarest and most frequent."""
    different, counts = np.unique(points, return_counts=True)
    some = points if points.size else np.zeros(1)
    return {
        f"mean {name}": float(some.mean()),
        f"lowest {name}": float(some.min()),
        f"highest {name}": float(some.max()),
        f"different {name}": float(different.size),
        f"rows of the rarest {name}": float(counts.min(initial=points.size)),
        f"rows of the most frequent {name}": float(counts.max(initial=0)),
    }


def _coded(values: Sequence[object], kind: str) -> Numbers:
    return numbers_of(pa.chunked_array([list(values)]), kind)[0]
