"""Audit of one publication: all sections that apply to its policy."""

from collections.abc import Iterator, Mapping

import numpy as np

from castleguard.judge.attack import linkage
from castleguard.judge.audit.attacks import attack_section, uniformity
from castleguard.judge.audit.cost import cost_section
from castleguard.judge.audit.material import Material
from castleguard.judge.audit.observer_section import Observed, observe, observer_section
from castleguard.judge.audit.persons import linkage_section, longitudinal_section
from castleguard.judge.audit.promise import structure_section
from castleguard.judge.publishing import in_words
from castleguard.judge.report.findings import Audit

_MOST_DRAWN = 100_000


def audit(material: Material, *, names: Mapping[str, str] | None = None) -> Audit:
    """Run all checks and attacks. `names`: origins of the tables, for the heading of a report.

    Raises InputError or UsageError if a table does not have the form that the policy publishes.
    """
    seen = observe(material)
    promise = material.policy.guarantee(material.schema, seeded=False)
    sections = (
        structure_section(material),
        attack_section(material),
        observer_section(material, seen),
        linkage_section(material),
        longitudinal_section(material),
        cost_section(material),
    )
    subject = {
        **(names or {}),
        "original rows": f"{material.original.num_rows:,}",
        "published rows": f"{material.published.num_rows:,}",
        "policy": in_words(material.policy),
        "rows linked by": material.link or "none (broken promises can be found, but kept promises cannot be proved)",
    }
    drawn = {name: _thin(values) for name, values in _distributions(material, seen) if len(values)}
    return Audit(subject=subject, promise=str(promise), sections=sections, distributions=drawn)


def _distributions(material: Material, seen: Observed | str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the named numbers to draw."""
    if material.kind == "points":
        return
    if isinstance(seen, Observed):
        yield "persons per group of a release", seen.persons_per_cell
    yield "rows per group", np.bincount(material.groups)
    for role, side in zip(material.schema.quasi_identifiers, material.sides, strict=True):
        yield f"loss of {role.name}", side.losses()
    yield "loss per row", np.mean([side.losses() for side in material.sides], axis=0)
    uniform = uniformity(material)
    for each in uniform:
        of = "" if len(uniform) == 1 else f" ({each.column})"
        yield f"largest share of one value per group{of}", each.shares
    linked = material.linked
    if linked is None:
        return
    yield "persons per group", linked.persons_per_group
    yield "prosecutor risk per person", linkage.prosecutor(linked, threshold=material.threshold).per_person
    if material.followed is not None:
        yield "longitudinal set size", material.followed.sizes


def _thin(values: np.ndarray) -> tuple[float, ...]:
    """Reduce to the number of values that a picture needs, evenly spaced in sorted order."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    if ordered.size > _MOST_DRAWN:
        ordered = ordered[np.linspace(0, ordered.size - 1, _MOST_DRAWN).astype(np.int64)]
    return tuple(ordered.tolist())
