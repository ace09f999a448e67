"""Findings on a file of noisy means (DOCA), whose values do not correspond to original rows."""

from collections.abc import Iterator

import numpy as np

from castleguard.judge.audit.material import Material
from castleguard.judge.reading.values import column_of, numbers_of, texts_of
from castleguard.judge.report.findings import Finding, finding, none_of
from castleguard.schema.roles import Categorical

INSIDE = "Do values lie inside their published ranges?"
DELAY = "Was every row released in time?"
_WHY = "Numbers are noisy means and labels are randomised, so published rows do not correspond to original rows."


def mean_findings(material: Material) -> Iterator[Finding]:
    """Findings on the rows and numbers of a file of means."""
    yield none_of(
        "origins",
        "Does the file have at most as many rows as the original?",
        max(material.published.num_rows - material.original.num_rows, 0),
        good="The file has at most as many rows as the original.",
        bad="Published rows in excess of the original rows",
    )
    yield none_of(
        "domain",
        "Are numbers readable and in the public domain?",
        _wrong_numbers(material),
        good="Every published number is readable and lies in the domain that the schema declares."
        if material.policy.strict
        else "Every published number is readable. In paper mode, noise may move it out of the domain.",
        bad="Published numbers that are unreadable or lie outside the domain that the schema declares",
    )
    yield _shared_numbers(material)
    yield finding("containment", INSIDE, "not checked", _WHY)
    yield finding("delay", DELAY, "not checked", "Published rows do not correspond to original rows.")


def labels_finding(material: Material) -> Finding:
    """Check that randomised values are among those that the schema declares."""
    return none_of(
        "labels",
        "Are all labels declared?",
        _unknown_labels(material),
        good="Every published label is declared in the schema.",
        bad="Published labels that the schema does not declare",
    )


def _unknown_labels(material: Material) -> int:
    """Count categories of points that are not leaves, and sensitive values that are not declared."""
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
        texts, codes = texts_of(column_of(material.published, name))
        # Every column may also hold missing values.
        unknown = np.array([text is not None and text not in labels for text in texts], dtype=np.bool_)
        wrong += int(np.count_nonzero(unknown[codes])) if codes.size else 0
    return wrong


def _wrong_numbers(material: Material) -> int:
    """Count unreadable numbers; in strict mode, where noise is clamped, also those outside the domain."""
    wrong = 0
    for role in material.schema.quasi_identifiers:
        if not isinstance(role, Categorical):
            values, _ = numbers_of(column_of(material.published, role.name), role.kind)
            outside = np.isnan(values)
            if material.policy.strict and role.domain is not None:
                outside |= (values < role.domain[0]) | (values > role.domain[1])
            wrong += int(np.count_nonzero(outside))
    return wrong


def _shared_numbers(material: Material) -> Finding:
    """Check that every number has at least k rows: in strict mode, the rows of a run share one number."""
    k, title = material.policy.k, "Is every number shared by k rows?"
    if k is None:
        why = "Paper mode promises no minimum size; a number may have a single row."
        return finding("fewest-persons", title, "not checked", why)
    fewest, wrong = material.published.num_rows, 0
    for role in material.schema.quasi_identifiers:
        if not isinstance(role, Categorical):
            values, _ = numbers_of(column_of(material.published, role.name), role.kind)
            _, rows = np.unique(values, return_counts=True)
            wrong += int(np.count_nonzero(rows < k))
            fewest = int(rows.min(initial=fewest))
    return none_of(
        "fewest-persons",
        title,
        wrong,
        good=f"Every published number occurs in at least {k} rows. Whether it is their mean is not checked.",
        bad=f"Published numbers that occur in fewer than {k} rows",
        asked=k,
        fewest=fewest,
    )
