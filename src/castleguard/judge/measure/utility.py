"""Utility of a published table compared with its original, as a list of figures with their meaning."""

import math
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from castleguard.errors import UsageError
from castleguard.judge.measure.error import numeric_errors
from castleguard.judge.measure.information_loss import Loss, average_group_size, measure_loss
from castleguard.judge.measure.learning import Learning, learning_utility
from castleguard.judge.measure.queries import Workload, workload_error, workload_error_in_order
from castleguard.judge.reading.boxes import group_numbers, read_boxes
from castleguard.judge.reading.linked import Linked, original_rows
from castleguard.judge.reading.linked import link as link_rows
from castleguard.judge.reading.values import Codes
from castleguard.judge.report.findings import wrapped
from castleguard.schema.roles import Schema

_MOST_DIGITS = 1e6  # larger numbers are shown in scientific notation


class Figure(NamedTuple):
    """One figure."""

    section: str
    name: str
    value: float | int
    deviation: float
    """Standard deviation between runs; NaN with a single run."""
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Optional measurements."""

    link: str | None = None
    """Public column that numbers the original rows."""
    k: int | None = None
    """Promised k, for the average group size."""
    workload: Workload | None = None
    """COUNT queries; None to skip them."""
    label: str | None = None
    """Column to be predicted by classifiers; None to skip learning."""
    learning: Learning | None = None


@dataclass(frozen=True)
class Utility:
    """Results of the measurements."""

    figures: tuple[Figure, ...]
    left_out: tuple[str, ...]
    """Measures that do not apply, each with the reason."""
    notes: tuple[str, ...]
    """Remarks on the figures."""

    def as_json(self) -> dict[str, Any]:
        """JSON form, by section; null for undefined figures."""
        sections: dict[str, dict[str, Any]] = {}
        for figure in self.figures:
            value: Any = None if isinstance(figure.value, float) and math.isnan(figure.value) else figure.value
            if not math.isnan(figure.deviation):
                value = {"mean": value, "deviation": figure.deviation}
            sections.setdefault(figure.section, {})[figure.name] = value
        return {**sections, "notes": list(self.notes), "left out": list(self.left_out)}

    def __str__(self) -> str:
        """Output of `castleguard measure`: the figures by section, each with its meaning."""
        names = max(len(figure.name) for figure in self.figures)
        values = max(len(_number(figure)) for figure in self.figures)
        lines: list[str] = []
        for section, figures in groupby(self.figures, key=lambda figure: figure.section):
            lines += ["", section] if lines else [section]
            shown: set[str] = set()
            for each in figures:
                # Do not repeat the same meaning for every column.
                meaning = "" if each.meaning in shown else each.meaning
                shown.add(each.meaning)
                lines.append(f"  {each.name:<{names}}  {_number(each):>{values}}  {meaning}".rstrip())
        for title, sentences in (("notes", self.notes), ("left out", self.left_out)):
            if sentences:
                lines += ["", title]
                lines += [wrapped(sentence, "  ", "    ") for sentence in sentences]
        return "\n".join(lines)


class _Tables(NamedTuple):
    """Tables to measure."""

    published: pa.Table
    original: pa.Table
    schema: Schema
    linked: Linked | None
    """None without a link or without published ranges."""
    row: Codes | None
    """Original row of each published row; None without a link."""


def measure_utility(published: pa.Table, original: pa.Table, schema: Schema, asked: Asked | None = None) -> Utility:
    """Compute all measures that apply to the two tables."""
    wanted = asked or Asked()
    row = None if wanted.link is None else original_rows(published, original, wanted.link)
    matched = published.num_rows if row is None else int(np.unique(row[row >= 0]).size)
    missing = max(0, original.num_rows - matched)
    try:
        groups = group_numbers(read_boxes(published, schema))
    except UsageError:
        tables = _Tables(published, original, schema, None, row)
        reason = "lost detail, queries and learning: the table has numbers instead of ranges"
        return _together(_rows(tables, missing, None), _numbers(tables), Utility((), (reason,), ()))
    linked = None if wanted.link is None else link_rows(published, original, schema, by=wanted.link)
    tables = _Tables(published, original, schema, linked, row)
    return _together(
        _rows(tables, missing, int(groups.max(initial=-1)) + 1),
        _lost_detail(measure_loss(published, schema, unpublished=missing), groups, wanted.k),
        Utility((), (), ()) if wanted.workload is None else _queries(tables, wanted.workload),
        _numbers(tables),
        _learning(tables, wanted.label, wanted.learning),
    )


def _rows(tables: _Tables, missing: int, groups: int | None) -> Utility:
    figures = [
        _figure("rows", "original", tables.original.num_rows, "rows of the original table"),
        _figure("rows", "published", tables.published.num_rows, "rows of the published table"),
        _figure("rows", "not published", missing, "suppressed, sampled out or rejected"),
    ]
    if groups is not None:
        figures.append(_figure("rows", "groups", groups, "rows with equal quasi-identifiers form a group"))
    return Utility(tuple(figures), (), ())


def _lost_detail(loss: Loss, groups: Codes, k: int | None) -> Utility:
    figures = [
        _figure("lost detail", "generalised loss", loss.generalised, "mean share of the domain that a value covers"),
        *(
            _figure("lost detail", f"generalised loss: {each.name}", each.generalised, "the same for one column")
            for each in loss.attributes
        ),
        _figure("lost detail", "loss of all rows", loss.generalised_of_all, "with unpublished rows counted as 1"),
        _figure("lost detail", "certainty penalty", loss.penalty, "a category counts by its share of the leaves"),
        _figure("lost detail", "discernibility", loss.discernibility, "indistinguishable pairs of rows"),
    ]
    if k is None:
        return Utility(tuple(figures), ("the average group size: needs k",), ())
    size = average_group_size(groups, k=k)
    figures.append(_figure("lost detail", "average group size", size, f"rows per group as a multiple of {k}"))
    return Utility(tuple(figures), (), ())


def _queries(tables: _Tables, workload: Workload) -> Utility:
    if tables.linked is None:
        found = workload_error_in_order(tables.published, tables.original, tables.schema, workload)
    else:
        found = workload_error(tables.linked, workload)
    meaning = f"median relative error of {workload.queries:,} COUNT queries of selectivity {workload.selectivity:g}"
    again = _figure("queries", "drawn again", found.skipped, "queries that count no row, and have no relative error")
    if len(found.windows) < 2:
        return Utility((_figure("queries", "workload error", found.mean, meaning), again), (), ())
    meaning += f", mean of {len(found.windows)} windows" + ("" if tables.linked else " in output order")
    worst = max((window.error for window in found.windows if window.queries), default=float("nan"))
    figures = (
        _figure("queries", "workload error", found.mean, meaning),
        _figure("queries", "worst window", worst, "largest error of a window"),
        again,
    )
    return Utility(figures, (), ())


def _numbers(tables: _Tables) -> Utility:
    errors = numeric_errors(tables.published, tables.original, tables.schema, row=tables.row)
    figures = []
    for each in errors:
        if tables.row is not None:
            figures += [
                _figure("numbers", f"{each.name}: squared error", each.mean_squared_error, "mean, in squared units"),
                _figure("numbers", f"{each.name}: error", each.root_share, "its root, as a share of the domain"),
            ]
        figures.append(_figure("numbers", f"{each.name}: histogram", each.histogram, "common area of both histograms"))
    unknown = "the mean squared error: needs a link"
    return Utility(tuple(figures), (unknown,) if errors and tables.row is None else (), ())


def _learning(tables: _Tables, label: str | None, settings: Learning | None) -> Utility:
    if label is None:
        return Utility((), ("learning: needs a label column",), ())
    if tables.linked is None:
        return Utility((), ("learning: needs a link",), ())
    learned = learning_utility(tables.linked, label=label, settings=settings)
    section = f"learning {label}"
    figures = [
        Figure(section, "majority", *learned.majority[:2], "accuracy of always predicting the most frequent class")
    ]
    for score in learned.scores:
        name = f"{score.model}{', scaled' if score.scaled else ''}, {score.trained_on}"
        figures += [
            Figure(section, f"{name}: accuracy", *score.accuracy[:2], "share of unseen rows classified correctly"),
            Figure(section, f"{name}: AUC", *score.auc[:2], "area under the ROC curve; 0.5 is guessing"),
        ]
    return Utility(tuple(figures), (), learned.notes)


def _together(*parts: Utility) -> Utility:
    return Utility(
        tuple(figure for part in parts for figure in part.figures),
        tuple(sentence for part in parts for sentence in part.left_out),
        tuple(sentence for part in parts for sentence in part.notes),
    )


def _figure(section: str, name: str, value: float, meaning: str) -> Figure:
    return Figure(section, name, value, float("nan"), meaning)


def _number(figure: Figure) -> str:
    if isinstance(figure.value, int):
        return f"{figure.value:,}"
    if math.isnan(figure.value):
        return "-"
    spread = "" if math.isnan(figure.deviation) else f" ± {figure.deviation:.4f}"
    return (f"{figure.value:.3e}" if figure.value >= _MOST_DIGITS else f"{figure.value:.4f}") + spread
