"""The points of the paper's figures, and the data as it describes them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

import castleguard as cg
from benchmarks import adult

DOMAINS = {
    "age": 100,
    "fnlwgt": 1_500_000,
    "education-num": 20,
    "capital-gain": 100_000,
    "capital-loss": 5_000,
    "hours-per-week": 100,
}
CATEGORIES = ("workclass", "education", "marital-status", "occupation", "native-country")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One point of a figure. The defaults are those that the paper's last figures state."""

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
        return f"n={self.sites}, k={self.k}, delay={self.delay:,}, |QI|={self.columns}, l={self.l} of {self.sensitive}"


Varied = Literal["sites", "k", "delay", "columns", "l"]
SIGNS: dict[Varied, str] = {"sites": "n", "k": "k", "delay": "delay", "columns": "|QI|", "l": "l"}


@dataclass(frozen=True)
class Sweep:
    """One figure: what is varied, over which values, and what stays."""

    varied: Varied
    values: Sequence[int]
    base: Setting

    def settings(self) -> list[Setting]:
        """Its points."""
        changes: list[dict[str, Any]] = [{self.varied: value} for value in self.values]
        return [replace(self.base, **change) for change in changes]

    @property
    def sign(self) -> str:
        """What is varied, as the paper writes it."""
        return SIGNS[self.varied]

    def __str__(self) -> str:
        stays = ", ".join(f"{sign}={getattr(self.base, name):,}" for name, sign in SIGNS.items() if name != self.varied)
        return f"{self.sign} varied, {stays}, {self.base.sensitive} sensitive"


SWEEPS = (
    Sweep("sites", range(2, 11), Setting()),
    *(Sweep("k", (20, 50, 100, 200, 400), Setting(sites=sites)) for sites in (2, 10)),
    *(Sweep("delay", (1_000, 5_000, 10_000, 20_000, 30_000), Setting(sites=sites)) for sites in (2, 10)),
    *(Sweep("columns", (2, 4, 6, 8, 10), Setting(sites=sites)) for sites in (2, 10)),
    Sweep("l", (2, 3, 4, 5, 6), Setting()),
    Sweep("l", (2, 4, 6, 8, 10), Setting(sensitive="occupation")),
)


def shortened(sweep: Sweep) -> Sweep:
    """Its ends only: to see that the benchmark works."""
    return replace(sweep, values=(sweep.values[0], sweep.values[-1]))


def make_schema(table: pa.Table, setting: Setting) -> cg.Schema:
    """The paper's columns in its order; k-anonymity has no sensitive one, and the same quasi-identifiers."""
    folder = adult.data_folder()
    roles: list[cg.Numeric | cg.Categorical] = [
        cg.Numeric(name, lower=0, upper=upper) for name, upper in DOMAINS.items()
    ]
    trees: dict[str, cg.Hierarchy] = {}
    for name in CATEGORIES:
        if folder is not None:
            trees[name] = cg.Hierarchy.from_csv(folder / "adult" / "hierarchies" / f"tds_{name}.csv")
        else:
            trees[name] = cg.Hierarchy.flat(sorted(set(table.column(name).to_pylist())))
    roles += [cg.Categorical(name, hierarchy=tree) for name, tree in trees.items() if name != setting.sensitive]
    sensitive = cg.Sensitive(setting.sensitive, hierarchy=trees[setting.sensitive])
    return cg.Schema(
        person="pid",
        quasi_identifiers=roles[: setting.columns],
        sensitive=[sensitive] if setting.l > 1 else [],
    )
