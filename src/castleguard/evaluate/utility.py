"""Everything that two files can say about the use of what was published, as a list of figures with their meaning."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from castleguard.errors import UsageError
from castleguard.evaluate.boxes import group_numbers, read_boxes
from castleguard.evaluate.learning import Learning, LearningUtility, learning_utility
from castleguard.evaluate.linked import Linked, original_rows
from castleguard.evaluate.linked import link as link_rows
from castleguard.evaluate.loss import Loss, average_group_size, measure_loss
from castleguard.evaluate.middles import numeric_errors
from castleguard.evaluate.queries import Workload, WorkloadError, workload_error, workload_error_in_order
from castleguard.schema.roles import Schema


class Figure(NamedTuple):
    """One number."""

    section: str
    name: str
    value: float | int
    deviation: float
    """Between runs; NaN if there is one run only."""
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be measured, beyond what always is."""

    link: str | None = None
    """A public column that numbers the original rows."""
    k: int | None = None
    """What was promised, for the average group size."""
    workload: Workload | None = None
    """COUNT queries; None: none."""
    label: str | None = None
    """The column that classifiers learn; None: none does."""
    learning: Learning | None = None


@dataclass(frozen=True)
class Utility:
    """What was found."""

    figures: tuple[Figure, ...]
    left_out: tuple[str, ...]
    """What could not be measured, and why: a sentence each."""
    notes: tuple[str, ...]
    """What a reader must know about the figures."""


def measure_utility(published: pa.Table, original: pa.Table, schema: Schema, asked: Asked | None = None) -> Utility:
    """Measure all that the two tables allow."""
    wanted = asked or Asked()
    figures: list[Figure] = []
    left_out: list[str] = []
    notes: list[str] = []
    row = None if wanted.link is None else original_rows(published, original, wanted.link)
    matched = published.num_rows if row is None else int(np.unique(row[row >= 0]).size)
    missing = max(0, original.num_rows - matched)
    figures += [
        _figure("rows", "original", original.num_rows, "rows that came in"),
        _figure("rows", "published", published.num_rows, "rows that came out"),
        _figure("rows", "not published", missing, "suppressed, sampled out or refused"),
    ]
    try:
        groups = group_numbers(read_boxes(published, schema))
    except UsageError:
        left_out.append("lost detail, queries and learning: numbers were published in the place of ranges")
    else:
        figures += _loss_figures(measure_loss(published, schema, unpublished=missing))
        if wanted.k is None:
            left_out.append("the average group size: it is a multiple of k, which was not given")
        else:
            size = average_group_size(groups, k=wanted.k)
            figures.append(
                _figure("lost detail", "average group size", size, f"rows per group as a multiple of {wanted.k}")
            )
        linked = None if wanted.link is None else link_rows(published, original, schema, by=wanted.link)
        if wanted.workload is not None:
            figures += _query_figures(published, original, schema, wanted.workload, linked)
        if wanted.label is None:
            left_out.append("learning: no column was given as the label to be learned")
        elif linked is None:
            left_out.append("learning: without a link nobody knows what was published for the rows to learn from")
        else:
            learned = learning_utility(linked, label=wanted.label, settings=wanted.learning)
            figures += _learning_figures(learned)
            notes += learned.notes
    if row is None:
        left_out.append("the mean squared error: without a link nobody knows which row became which")
    figures += [
        figure
        for each in numeric_errors(published, original, schema, row=row)
        for figure in (
            _figure("numbers", f"{each.name}: squared error", each.mean_squared_error, "mean of it, in squared units"),
            _figure("numbers", f"{each.name}: error", each.root_share, "the root of that, as a share of the domain"),
            _figure("numbers", f"{each.name}: histogram", each.histogram, "share of area that both have in common"),
        )
        if not (row is None and math.isnan(figure.value))
    ]
    return Utility(tuple(figures), tuple(left_out), tuple(notes))


def _loss_figures(loss: Loss) -> Iterator[Figure]:
    section = "lost detail"
    yield _figure("rows", "groups", loss.groups, "rows that look alike are one group")
    yield _figure(section, "generalised loss", loss.generalised, "mean share of the domain that a value covers")
    yield _figure(
        section, "generalised loss of all rows", loss.generalised_of_all, "a row that was not published counts as 1"
    )
    for each in loss.attributes:
        yield _figure(section, f"generalised loss: {each.name}", each.generalised, "of this column")
    yield _figure(section, "certainty penalty", loss.penalty, "a category counts by its share of the leaves")
    yield _figure(section, "discernibility", loss.discernibility, "pairs of rows that cannot be told apart")


def _query_figures(
    published: pa.Table, original: pa.Table, schema: Schema, workload: Workload, linked: Linked | None
) -> Iterator[Figure]:
    found: WorkloadError
    if linked is None:
        found = workload_error_in_order(published, original, schema, workload)
    else:
        found = workload_error(linked, workload)
    windows = len(found.windows)
    meaning = f"median relative error of {workload.queries:,} COUNT queries of selectivity {workload.selectivity:g}"
    if windows > 1:
        meaning += f", mean of {windows} windows" + ("" if linked else " by order of output")
    yield _figure("queries", "workload error", found.mean, meaning)
    if windows > 1:
        errors = [window.error for window in found.windows if window.queries]
        yield _figure("queries", "worst window", max(errors, default=float("nan")), "the largest of them")
    yield _figure("queries", "drawn again", found.skipped, "queries that count no row have no relative error")


def _learning_figures(learned: LearningUtility) -> Iterator[Figure]:
    section = f"learning {learned.label}"
    yield Figure(section, "majority", *learned.majority[:2], "accuracy of always naming the commonest class")
    for score in learned.scores:
        name = f"{score.model}{', scaled' if score.scaled else ''}, {score.trained_on}"
        yield Figure(section, f"{name}: accuracy", *score.accuracy[:2], "share of unseen rows named rightly")
        yield Figure(section, f"{name}: AUC", *score.auc[:2], "area under the ROC curve; 0.5 is guessing")


def _figure(section: str, name: str, value: float, meaning: str) -> Figure:
    return Figure(section, name, value, float("nan"), meaning)
