"""The methods compared: CASTLE at one site, at several that talk, and at several that do not, as printed and strict.

A method is a function of a task that can be sent to another process: a function of this module, or a partial of one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from castleguard.algorithms.castle.engine import CastleEngine
from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.algorithms.policy import Mode
from castleguard.algorithms.stages import make_keys
from castleguard.lab.dcastle.design import Setting
from castleguard.lab.transcriptions.dcastle.network import PaperNetwork
from castleguard.lab.transcriptions.dcastle.paper_policy import PaperPolicy
from castleguard.schema.coded import CodedRows
from castleguard.schema.roles import Schema
from castleguard.sites.simulation import simulate

CLUSTERS, CLUSTERS_ALONE, LOSS_WINDOW = 25, 50, 100


@dataclass(frozen=True, eq=False)
class Task:
    """Input of a method."""

    table: pa.Table
    schema: Schema
    setting: Setting
    seed: int

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters that every policy takes from the setting."""
        setting = self.setting
        return {"k": setting.k, "l": setting.l, "delay": setting.delay, "loss_window": LOSS_WINDOW}

    def rows(self, policy: Castle) -> CodedRows:
        """Rows in the form that the engine of a policy takes."""
        decoder = policy.stages(self.schema, make_keys(seed=0)).decoder
        decoder.change_key(np.arange(2, dtype=np.uint64))
        return decoder.decode(self.table).rows


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a method. Fields that do not apply (bytes of a method without messages) are 0."""

    loss: float
    messages: int = 0
    bytes: int = 0
    most_clusters: int = 0
    groups: int = 0
    groups_below_k: int = 0
    suppressed: int = 0
    """Rows that are not published, or published at the root."""


Runner = Callable[[Task], Outcome]


def alone(task: Task, *, mode: Mode, divided: bool) -> Outcome:
    """Methods without messages: one site has all rows, or every site anonymises its own."""
    policy = Castle(**task.parameters, max_clusters=CLUSTERS_ALONE, mode=mode)
    sites = task.setting.sites if divided else 1
    rows = task.rows(policy)
    count, loss, dropped = rows.person.size, 0.0, 0
    for site in range(sites):
        key = np.random.default_rng([task.seed, site]).integers(0, 2**32, 8, dtype=np.uint32)
        engine = CastleEngine(task.schema, policy, key=key)
        own = rows.take(np.arange(site, count, sites))
        for decisions in (engine.push(own, 0.0), engine.flush()):
            loss += float(np.sum(decisions.loss[decisions.group]))
            dropped += decisions.dropped.size
    return Outcome(loss=(loss + dropped) / count, suppressed=dropped)


def as_printed(task: Task) -> Outcome:
    """dCASTLE as its paper prints it."""
    policy = PaperPolicy(**task.parameters, sites=task.setting.sites, max_clusters=CLUSTERS)
    run = PaperNetwork(task.schema, policy, seed=task.seed).run_round_robin(task.table)
    return Outcome(
        loss=1.0 if run.information_loss is None else run.information_loss,
        messages=run.messages,
        bytes=run.bytes,
        most_clusters=run.most_clusters,
        groups=run.groups,
        groups_below_k=run.groups_below_k,
        suppressed=run.suppressed,
    )


def strict(task: Task, *, shared_from: Literal["k", "k/n"]) -> Outcome:
    """The strict protocol; its groups are counted in the joint output of all sites, independently of their reports."""
    policy = Dcastle(
        **task.parameters,
        sites=task.setting.sites,
        max_clusters=CLUSTERS,
        share_threshold=None if shared_from == "k" else task.setting.few,
    )
    found = simulate(task.table, task.schema, policy, seed=task.seed)
    published = found.output.num_rows
    suppressed, undecided = found.total("suppressed"), found.total("undecided")
    # An undecided row may have been published by another site; every other row has a known outcome.
    if not 0 <= task.table.num_rows - published - suppressed <= undecided:
        raise RuntimeError(f"{task.setting}: {published:,} rows are published, the sites' reports say otherwise")
    lost = (found.information_loss or 0.0) * published + suppressed + undecided
    sizes = rows_per_box(found.output, task.schema)
    return Outcome(
        loss=lost / (published + suppressed + undecided),
        messages=found.messages,
        bytes=found.bytes,
        groups=len(sizes),
        groups_below_k=pc.sum(pc.less(sizes, policy.k)).as_py() or 0,
        suppressed=suppressed + undecided,
    )


def rows_per_box(output: pa.Table, schema: Schema) -> pa.ChunkedArray:
    """Rows per box: rows with the same published quasi-identifiers.

    Every row of Adult is a person, so a box has as many persons as rows; with several rows per person, the original
    persons would have to be counted.
    """
    sensitive = {role.name for role in schema.sensitive}
    box = [name for name in output.column_names if name not in sensitive]
    return output.group_by(box).aggregate([([], "count_all")]).column("count_all")


CENTRALISED, DISTRIBUTED, ALONE = "centralised", "distributed", "w/o communication"
CENTRALISED_STRICT, ALONE_STRICT = f"{CENTRALISED}, strict", f"{ALONE}, strict"
STRICT, STRICT_FEW = "distributed, strict, from k", "distributed, strict, from k/n"
METHODS: Mapping[str, Runner] = {
    CENTRALISED: partial(alone, mode="paper", divided=False),
    DISTRIBUTED: as_printed,
    ALONE: partial(alone, mode="paper", divided=True),
    CENTRALISED_STRICT: partial(alone, mode="strict", divided=False),
    STRICT: partial(strict, shared_from="k"),
    STRICT_FEW: partial(strict, shared_from="k/n"),
    ALONE_STRICT: partial(alone, mode="strict", divided=True),
}


AT_ONE_SITE = frozenset({CENTRALISED, CENTRALISED_STRICT})
"""Methods with all rows at one site, for any number of sites."""
PROMISE_K = frozenset({STRICT, STRICT_FEW})
"""Methods for which a published group below k is a fault."""
