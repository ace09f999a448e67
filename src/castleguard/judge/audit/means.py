"""What can be asked of a file of noisy means (DOCA): its values stand for themselves, and belong to no row."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from castleguard.errors import InputError
from castleguard.judge.audit.material import Material
from castleguard.judge.reading.values import numbers_of, texts_of
from castleguard.judge.report.findings import Finding, finding, none_of
from castleguard.schema.roles import Categorical

_WHY = "Numbers are noisy means and labels are randomised: no published row stands for an original one."


def mean_findings(material: Material) -> Iterator[Finding]:
    """Numbers and labels of a file of means."""
    yield none_of(
        "origins",
        "Are there no more rows than in the original?",
        max(material.published.num_rows - material.original.num_rows, 0),
        good="There are no more published rows than original ones.",
        bad="more rows were published than the original has.",
    )
    yield none_of(
        "domain",
        "Are numbers numbers, and in the public domain?",
        _wrong_numbers(material),
        good="Every published number can be read, and lies in the domain that the schema declares."
        if material.policy.strict
        else "Every published number can be read. In paper mode noise may carry it out of the domain.",
        bad="published numbers cannot be read, or lie outside the domain that the schema declares.",
    )
    yield _alike(material)
    yield finding("containment", "Do rows lie inside what was published for them?", "not checked", _WHY)
    yield finding("delay", "Did rows leave in time?", "not checked", "No published row stands for an original one.")


def labels_finding(material: Material) -> Finding:
    """Where values are randomised, what comes out is one of those that the schema declares, and never anything else."""
    return none_of(
        "labels",
        "Are labels public ones?",
        _unknown_labels(material),
        good="Every published label is one that the schema declares.",
        bad="published labels are none that the schema declares.",
    )


def _unknown_labels(material: Material) -> int:
    """Categories of points that are no leaf, and sensitive values that are none of their column's."""
    declared: dict[str, set[str]] = {}
    if material.kind == "points":
        for role in material.schema.quasi_identifiers:
            if isinstance(role, Categorical):
                declared[role.name] = set(role.hierarchy.leaves)
    for column in material.schema.sensitive:
        if column.labels is not None:
            declared[column.name] = {str(label) for label in column.labels}
    wrong = 0
    for name, labels in declared.items():
        texts, codes = texts_of(_column(material, name))
        # Missing is a value that every column has besides its own.
        unknown = np.array([text is not None and text not in labels for text in texts], dtype=np.bool_)
        wrong += int(np.count_nonzero(unknown[codes])) if codes.size else 0
    return wrong


def _wrong_numbers(material: Material) -> int:
    """Numbers that cannot be read; in strict mode also those outside of the domain, where noise is cut off."""
    wrong = 0
    for role in material.schema.quasi_identifiers:
        if not isinstance(role, Categorical):
            values, _ = numbers_of(_column(material, role.name), role.kind)
            outside = np.isnan(values)
            if material.policy.strict and role.domain is not None:
                outside |= (values < role.domain[0]) | (values > role.domain[1])
            wrong += int(np.count_nonzero(outside))
    return wrong


def _alike(material: Material) -> Finding:
    """In strict mode the rows of a run share one number, so no number of the file has fewer than k rows."""
    k, title = material.policy.k, "Do k rows share every number?"
    if k is None:
        return finding("fewest-persons", title, "not checked", "Paper mode promises no least size: it may be one row.")
    fewest, wrong = material.published.num_rows, 0
    for role in material.schema.quasi_identifiers:
        if not isinstance(role, Categorical):
            values, _ = numbers_of(_column(material, role.name), role.kind)
            _, rows = np.unique(values, return_counts=True)
            wrong += int(np.count_nonzero(rows < k))
            fewest = int(rows.min(initial=fewest))
    return none_of(
        "fewest-persons",
        title,
        wrong,
        good=f"Every published number stands in at least {k} rows. That they share it because it is their mean is not "
        f"checked.",
        bad=f"published numbers stand in fewer than {k} rows.",
        asked=k,
        fewest=fewest,
    )


def _column(material: Material, name: str) -> pa.ChunkedArray:
    if name not in material.published.column_names:
        raise InputError(f"the published table has no column {name!r}")
    return material.published.column(name)
