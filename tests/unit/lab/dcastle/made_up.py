"""Rows in the shape of Adult, and methods with known losses."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from castleguard.lab import adult
from castleguard.lab.dcastle import contenders
from castleguard.lab.dcastle.contenders import Outcome, Runner, Task
from castleguard.lab.dcastle.design import CATEGORIES, Data
from castleguard.schema.hierarchy import Hierarchy

LEAVES = {"workclass": 7, "education": 6, "marital-status": 6, "occupation": 12, "native-country": 6}


def made_up(rows: int) -> Data:
    """Uniform values."""
    random = np.random.default_rng(4)
    columns = {name: random.integers(lower, upper + 1, rows) for name, (lower, upper) in adult.STATED.items()}
    labels = {name: [f"{name} {leaf}" for leaf in range(LEAVES[name])] for name in CATEGORIES}
    drawn = {name: random.choice(leaves, rows) for name, leaves in labels.items()}
    trees = {name: Hierarchy.flat(leaves) for name, leaves in labels.items()}
    return Data(pa.table({**columns, **drawn, "pid": np.arange(rows)}), trees)


def known_method(loss: float, *, l_costs: float = 0.0, sent: int = 0, clusters: int = 0, below: int = 0) -> Runner:
    """A method whose loss grows with k and with l, and its bytes with the number of sites."""

    def run(task: Task) -> Outcome:
        setting = task.setting
        return Outcome(
            loss=loss * setting.k / 100 * (1 + l_costs * (setting.l > 1)) + task.seed / 1000,
            bytes=sent * setting.sites,
            most_clusters=clusters and clusters + setting.sites,
            groups=10,
            groups_below_k=below,
        )

    return run


METHODS: Mapping[str, Runner] = {
    contenders.CENTRALISED: known_method(0.4),
    contenders.DISTRIBUTED: known_method(0.4, l_costs=0.25, sent=3_000, below=2, clusters=30),
    contenders.ALONE: known_method(0.6),
    contenders.CENTRALISED_STRICT: known_method(0.8),
    contenders.STRICT: known_method(0.8, l_costs=0.25, sent=300_000),
    contenders.STRICT_FEW: known_method(0.8, sent=900_000),
    contenders.ALONE_STRICT: known_method(1.2),
}
