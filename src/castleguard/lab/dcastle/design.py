"""Points of the paper's figures, and the data as it describes them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from castleguard.lab import adult
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Schema

CATEGORIES = ("workclass", *adult.CATEGORICAL)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One point of a figure. The defaults are those of the paper's last figures."""

    sites: int = 8
    k: int = 100
    delay: int = 10_000
    columns: int = 10
    """Quasi-identifiers, the paper's |QI|."""
    l: int = 2
    sensitive: str = "workclass"

    @property
    def few(self) -> int:
        """Persons from which on the paper shares a cluster's box: ceil(k / n)."""
        return -(-self.k // self.sites)

    @property
    def without_l(self) -> "Setting":
        """The same quasi-identifiers, k-anonymity only."""
        return replace(self, l=1)

    def __str__(self) -> str:
        return f"n={self.sites}, k={self.k}, delay={self.delay:,}, QI={self.columns}, l={self.l} of {self.sensitive}"


Varied = Literal["columns", "k", "delay", "sites", "l"]
SIGNS: dict[Varied, str] = {"columns": "QI", "k": "k", "delay": "delay", "sites": "n", "l": "l"}
UNITS: dict[Varied, str] = {
    "columns": "quasi-identifiers",
    "k": "k, persons",
    "delay": "delay, rows of a site",
    "sites": "n, sites",
    "l": "l, distinct values",
}


@dataclass(frozen=True)
class Sweep:
    """One figure: the varied parameter, its values, and the fixed ones."""

    varied: Varied
    values: Sequence[int]
    base: Setting

    def settings(self) -> list[Setting]:
        """Its points."""
        changes: list[dict[str, Any]] = [{self.varied: value} for value in self.values]
        return [replace(self.base, **change) for change in changes]

    def of_l(self, l: int) -> "Sweep":
        """The same with another l, unless l is varied."""
        return self if self.varied == "l" else replace(self, base=replace(self.base, l=l))

    def few(self) -> list[Setting]:
        """The ends and the middle, for slow methods."""
        settings = self.settings()
        return list(dict.fromkeys((settings[0], settings[len(settings) // 2], settings[-1])))

    def __str__(self) -> str:
        stays = ", ".join(f"{sign}={getattr(self.base, name):,}" for name, sign in SIGNS.items() if name != self.varied)
        return f"{SIGNS[self.varied]} varied, {stays}, {self.base.sensitive} sensitive"


_COLUMNS, _K, _DELAYS = (2, 4, 6, 8, 10), (20, 50, 100, 200, 400), (1_000, 5_000, 10_000, 20_000, 30_000)
SWEEPS: Mapping[str, Sweep] = {
    "a": Sweep("columns", _COLUMNS, Setting(sites=2)),
    "b": Sweep("columns", _COLUMNS, Setting(sites=10)),
    "c": Sweep("k", _K, Setting(sites=2)),
    "d": Sweep("k", _K, Setting(sites=10)),
    "e": Sweep("delay", _DELAYS, Setting(sites=2)),
    "f": Sweep("delay", _DELAYS, Setting(sites=10)),
    "g": Sweep("sites", range(2, 11), Setting()),
    "h": Sweep("l", (2, 3, 4, 5, 6), Setting()),
    "i": Sweep("l", (2, 4, 6, 8, 10), Setting(sensitive="occupation")),
}
"""Parameters that Figures 5, 6 and 7 vary, by their common letter. Figure 5 ends with g, Figure 6 with h."""

QUICK_ROWS = 300


def shortened(sweep: Sweep) -> Sweep:
    """Only its ends, with k and delay for few rows: a smoke test."""
    ends = (sweep.values[0], sweep.values[-1])
    scaled = tuple(small(sweep.varied, value) for value in ends)
    base = replace(sweep.base, k=small("k", sweep.base.k), delay=small("delay", sweep.base.delay))
    return replace(sweep, values=scaled, base=base)


def small(varied: str, value: int) -> int:
    """Smaller row counts, with k at least any l, and a delay in which sites can agree."""
    least = {"k": 10, "delay": 200}.get(varied)
    return value if least is None else max(value // 20, least)


# -- The data ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Data:
    """Rows and the trees of their categories."""

    table: pa.Table
    trees: Mapping[str, Hierarchy]

    def schema(self, setting: Setting) -> Schema:
        """The paper's columns in its order; k-anonymity has no sensitive one and the same quasi-identifiers."""
        names = [name for name in (*adult.NUMERIC, *CATEGORIES) if name != setting.sensitive]
        return adult.schema(
            adult.STATED,
            names=names[: setting.columns],
            sensitive=setting.sensitive if setting.l > 1 else None,
            trees=self.trees,
        )

    def values(self, column: str) -> int:
        """Number of distinct values of a column."""
        return int(pc.count_distinct(self.table.column(column)).as_py())

    def commonest(self, column: str) -> float:
        """Share of rows with the most frequent value of a column."""
        counts = pc.value_counts(self.table.column(column)).field("counts")
        return int(pc.max(counts).as_py()) / int(self.table.num_rows)

    @cached_property
    def bytes(self) -> int:
        """The size of the rows as CSV."""
        sink = pa.BufferOutputStream()
        options = csv.WriteOptions(include_header=False, quoting_style="none")
        csv.write_csv(self.table.drop_columns([adult.PERSON]), sink, options)
        return int(sink.getvalue().size)


def load(*, quick: bool = False) -> Data:
    """Adult as in the paper: the 30,162 complete rows, or the first of them."""
    return Data(adult.uci(QUICK_ROWS if quick else None), adult.hierarchies())


def distinct(settings: Iterable[Setting]) -> list[Setting]:
    """Distinct values, in their order."""
    return list(dict.fromkeys(settings))
