"""What somebody who sees published points can read off them: DOCA publishes numbers, not boxes.

Like `evaluate.features.Observer`, it has numbers about the output as a whole and about one row that may or may not have
been there: how many points there are, where they begin and end, and how near one comes to a known value.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from castleguard.judge.attack.features import Published, Row
from castleguard.judge.reading.values import Numbers, numbers_of, texts_of
from castleguard.schema.roles import Numeric, Schema

_SHARE = 0.1  # of a domain: what is called near


class PointObserver:
    """Looks at noisy points for rows with known values."""

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
            found |= _overall(role.name, points)
            low, high = role.domain or (0.0, 1.0)
            for number, value in enumerate(self._known[role.name]):
                far = np.abs(points - value)
                found[f"distance of the nearest {role.name} ({number})"] = float(far.min(initial=high - low))
                found[f"{role.name} near its own ({number})"] = float(np.count_nonzero(far <= _SHARE * (high - low)))
        for name in self._labels:
            labels, codes = texts_of(whole.column(name))
            for number, text in enumerate(self._texts[name]):
                count = np.count_nonzero(codes == labels.index(text)) if text in labels else 0
                found[f"rows with its {name} ({number})"] = float(count)
        return found


def _overall(name: str, points: Numbers) -> dict[str, float]:
    """Where the points lie, how many different ones there are, and how many rows the rarest of them has."""
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
