"""Audit section on cost: the detail that the published file has lost."""

from collections.abc import Iterator

import numpy as np

from castleguard.judge.audit.material import Material
from castleguard.judge.measure.information_loss import measure_loss
from castleguard.judge.report.findings import Finding, Section, finding


def cost_section(material: Material) -> Section:
    """Section on missing rows and information loss."""
    return Section(
        id="cost",
        title="What did it cost?",
        about="Privacy costs detail: values become ranges, and rows are missing. A loss of 0 means that exact values "
        "were published, a loss of 1 that the whole domain was.",
        findings=tuple(_findings(material)),
    )


def _findings(material: Material) -> Iterator[Finding]:
    rows, out = material.original.num_rows, material.published.num_rows
    missing = max(rows - out, 0)
    yield finding(
        "missing-rows",
        "How many rows are missing?",
        "passed",
        f"{out:,} of {rows:,} rows were published; {missing:,} are missing ({100 * missing / max(rows, 1):.1f} %).",
        rows=rows,
        published=out,
        missing=missing,
    )
    if material.kind == "points":
        why = "Numbers are noisy means, which have an error instead of a loss."
        yield finding("information-loss", "How wide are the ranges?", "not checked", why)
        return
    if not out:
        yield finding("information-loss", "How wide are the ranges?", "not checked", "Nothing was published.")
        return
    loss = measure_loss(material.published, material.schema, unpublished=missing)
    columns = {f"loss of {each.name}": each.generalised for each in loss.attributes}
    worst = max(loss.attributes, key=lambda each: each.generalised)
    yield Finding(
        id="information-loss",
        title="How wide are the ranges?",
        status="passed",
        sentence=f"Published ranges cover {100 * loss.generalised:.0f} % of their domains on average; the widest "
        f"column is {worst.name} ({100 * worst.generalised:.0f} %). With missing rows counted as 100 %, the average is "
        f"{100 * loss.generalised_of_all:.0f} %.",
        figures={
            "loss": loss.generalised,
            "loss of all": loss.generalised_of_all,
            "groups": loss.groups,
            "rows per group": float(np.round(loss.rows / max(loss.groups, 1), 3)),
            "discernibility": loss.discernibility,
            **columns,
        },
    )
