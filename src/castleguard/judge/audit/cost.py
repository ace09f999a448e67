"""The section on the price: what the published file has lost."""

from collections.abc import Iterator

import numpy as np

from castleguard.judge.audit.material import Material
from castleguard.judge.measure.loss import measure_loss
from castleguard.judge.report.findings import Finding, Section, finding


def cost_section(material: Material) -> Section:
    """What was given up."""
    return Section(
        id="cost",
        title="What did it cost?",
        about="Privacy is paid with detail: ranges instead of values, rows that are missing. 0 means published as it "
        "came, 1 means nothing said.",
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
        why = "Numbers are noisy means, and have an error in place of a loss."
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
        sentence=f"Published values are {100 * loss.generalised:.0f} % as wide as their domains, in the mean; most was "
        f"given up of {worst.name} ({100 * worst.generalised:.0f} %). With missing rows counted as 100 % it is "
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
