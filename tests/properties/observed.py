"""Small publications with the moments of their releases, made up or from a real stream.

Each exists in two forms: the input of the attack, and that of its slow reference.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from castleguard.judge.attack.observer import UNKNOWN, Releases
from castleguard.judge.reading.boxes import read_boxes
from castleguard.judge.reading.originals import read_originals
from castleguard.judge.verify.group_values import value_codes
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from tests.reference import observer as slow

TREE = Hierarchy.from_mapping({"Any": {"Care": ["Nurse", "Carer"], "Other": ["Cook", "Smith"]}})
SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[
        Numeric("age", lower=0, upper=20, step=5, null="root", outside="root"),
        Categorical("job", hierarchy=TREE, null="root"),
    ],
    sensitive=["illness", "fee"],
)
JOBS = ["Nurse", "Carer", "Cook", "Smith"]
NODES = {"Any": (0, 3), "Care": (0, 1), "Other": (2, 3), **{job: (at, at) for at, job in enumerate(JOBS)}}
KINDS = {"pid": pa.string(), "age": pa.int64(), "job": pa.string(), "illness": pa.string(), "fee": pa.int64()}

Row = dict[str, Any]


@dataclass(frozen=True)
class Publication:
    """Rows in order of arrival, and their outcomes."""

    rows: list[Row]
    published: pa.Table
    row: list[int]
    release: list[int]
    moments: list[slow.Moment]
    delay: int

    @property
    def seen(self) -> Releases:
        """Input of the attack."""
        return Releases(
            sides=read_boxes(self.published, SCHEMA),
            values=tuple(value_codes(self.published.column(role.name), role) for role in SCHEMA.sensitive),
            release=np.array(self.release, dtype=np.int64),
            arrived=np.array([each.arrived for each in self.moments], dtype=np.int64),
            turn=np.array([UNKNOWN if each.turn is None else each.turn for each in self.moments], dtype=np.int64),
            originals=read_originals(table_of(self.rows), SCHEMA),
            row=np.array(self.row, dtype=np.int64),
        )

    @property
    def arrived(self) -> list[slow.Arrived]:
        """Input of the reference."""
        return [slow.Arrived(row["pid"], _quasi(row)) for row in self.rows]

    @property
    def left(self) -> list[slow.Left]:
        """Input of the reference."""
        return [
            slow.Left(release, _box(out), (out["illness"], out["fee"]), row)
            for out, row, release in zip(self.published.to_pylist(), self.row, self.release, strict=True)
        ]


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Rows as a table of fixed types, even if there are none."""
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in KINDS.items()})


def _quasi(row: Row) -> tuple[float | None, ...]:
    if row["age"] is None or row["age"] > 20 or row["job"] is None:
        return None, None
    return float(row["age"]), float(JOBS.index(row["job"]))


def _box(out: Row) -> slow.Box:
    low, high = out["age_min"], out["age_max"]
    first, last = NODES[out["job"]]
    age = slow.Range(low, high, ends=high == 20, whole=(low, high) == (0, 20))
    return age, slow.Range(first, last, ends=True, whole=(first, last) == (0, 3))


def rows(*, persons: int = 6) -> st.SearchStrategy[list[Row]]:
    """Rows of few persons and few values; some have no person, some may be published at the root only."""
    return st.lists(
        st.fixed_dictionaries(
            {
                "pid": st.sampled_from([*"abcdefghijklmnop"[:persons], None]),
                "age": st.sampled_from([0, 1, 4, 5, 9, 10, 12, 15, 17, 19, 20, 20, 30, None]),
                "job": st.sampled_from([*JOBS, *JOBS, None]),
                "illness": st.sampled_from(["flu", "flu", "rash"]),
                "fee": st.sampled_from([1, 2, 3]),
            }
        ),
        min_size=1,
        max_size=24,
    )


@st.composite
def publications(draw: st.DrawFn) -> Publication:
    """Rows that leave in time, once, inside their box; some never leave, some leave alone."""
    arrived, delay = draw(rows()), draw(st.integers(0, 8))
    groups: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for place in range(len(arrived)):
        if draw(st.integers(0, 9)):  # else it is suppressed
            waits = draw(st.integers(0, delay))
            # Moment, release of that moment, group of that release.
            key = min(place + 1 + waits, len(arrived)), draw(st.integers(0, 1)), draw(st.integers(0, 2))
            groups[key].append(place)
    out: list[tuple[Row, int, int]] = []
    releases = sorted({key[:2] for key in groups})
    for key, members in sorted(groups.items()):
        box = draw(_boxes([arrived[place] for place in members]))
        kept = [{name: arrived[place][name] for name in ("illness", "fee")} for place in members]
        out += [({**box, **k}, place, releases.index(key[:2])) for k, place in zip(kept, members, strict=True)]
    moments = []
    for number, (moment, _) in enumerate(releases):
        leaving = [place for _, place, release in out if release == number]
        due = moment - 1 - delay
        told = draw(st.booleans()) and (len(leaving) > 1 or leaving == [due])
        moments.append(slow.Moment(moment, due if told and due >= 0 else None))
    names = ("age_min", "age_max", "job", "illness", "fee")
    columns = {name: pa.array([row[name] for row, _, _ in out], _KIND_OUT[name]) for name in names}
    return Publication(arrived, pa.table(columns), [at for _, at, _ in out], [r for _, _, r in out], moments, delay)


_KIND_OUT = {"age_min": pa.float64(), "age_max": pa.float64(), **KINDS}


@st.composite
def _boxes(draw: st.DrawFn, members: Sequence[Row]) -> Row:
    """A box of whole cells around rows, of any width; the root if one of them is root-only."""
    if any(None in _quasi(row) for row in members):
        return {"age_min": 0.0, "age_max": 20.0, "job": "Any"}
    cells = [min(row["age"] // 5, 3) for row in members]
    low, high = draw(st.integers(0, min(cells))), draw(st.integers(max(cells) + 1, 4))
    leaves = [JOBS.index(row["job"]) for row in members]
    around = [name for name, (first, last) in NODES.items() if first <= min(leaves) and max(leaves) <= last]
    return {"age_min": 5.0 * low, "age_max": 5.0 * high, "job": draw(st.sampled_from(around))}
