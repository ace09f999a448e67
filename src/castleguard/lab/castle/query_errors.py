"""Errors of queries on published rows, and the output of dynamicGroup: sections 5.2 and 5.3.

Published rows follow from the engine's decisions before the gate: a row at the root counts as published there, as in
the paper; a row dropped in strict mode is missing.
"""

from dataclasses import dataclass

import numpy as np

from castleguard.judge.measure.queries import Workload, workload_error
from castleguard.judge.reading.linked import link
from castleguard.lab.baselines.coded_boxes import Boxed, Coded, bounding_boxes, published
from castleguard.lab.baselines.condensation import HISTORY, condensation, condense
from castleguard.lab.castle.paper_streams import ROW, Stream, rows_of
from castleguard.lab.castle.repeated_runs import Run, box_rows
from castleguard.lab.result import Scale

QUERIES, FULL, QUICK = 500, 5_000, 50
"""Queries per window, as many as the paper has for a full run. Every run asks different ones."""


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """A run of dynamicGroup."""

    stream: Stream
    k: int
    history: int = HISTORY
    scaled: bool = True
    """Whether distances are shares of the domains, or in the units of the columns."""
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A method, and the queries on its output."""

    method: Run | Grouping
    selectivity: float = 0.1
    window: int | None = None
    """Rows of a window; None: one window with all rows."""
    queries: int = QUERIES


def queries_of(scale: Scale) -> int:
    """Number of queries per window."""
    return QUICK if scale.quick else FULL if scale.full else QUERIES


def answer(asked: Asked) -> float:
    """The workload error."""
    table, coded = rows_of(asked.method.stream)
    linked = link(published(coded, boxes_of(coded, asked.method)), table, coded.schema, by=ROW, closed=True)
    workload = Workload(
        selectivity=asked.selectivity, queries=asked.queries, window=asked.window, seed=asked.method.seed
    )
    return workload_error(linked, workload).mean


def grouping_loss(grouping: Grouping) -> float:
    """Mean information loss of all rows, each in the bounding box of its group."""
    _, coded = rows_of(grouping.stream)
    boxed = boxes_of(coded, grouping)
    losses = ((boxed.upper - boxed.lower) / coded.widths).mean(axis=1)
    return float(losses[boxed.box].mean())


def boxes_of(coded: Coded, method: Run | Grouping) -> Boxed:
    """Boxes chosen by a method."""
    if isinstance(method, Run):
        return box_rows(coded, method)
    if method.scaled:
        return condensation(coded, k=method.k, history=method.history, seed=method.seed)
    values = coded.rows.quasi
    box = condense(values, k=method.k, history=method.history, seed=method.seed)
    lower, upper = bounding_boxes(values, box)
    return Boxed(box, lower, upper, np.full(coded.count, coded.count, dtype=np.int64))
