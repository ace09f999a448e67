"""Figures of a setting after its runs: numbers about the publication, never a value of a row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from castleguard.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of one setting. Shares are of the sample's rows; None if a figure does not apply to the policy."""

    rows: int
    published: float
    suppressed: float
    sampled_out: float
    over_budget: float
    rejected: float
    """Share of rows that the schema rejects. It is the same in all settings, and so not part of the loss."""
    information_loss: float | None
    """Loss of the published rows: 0 for exact values, 1 for whole domains; with doca, the error. None without rows."""
    loss: float
    """Loss over all accepted rows, for the axis. Unpublished rows count as 1, and so do quasi-identifiers whose true
    value lies outside their published range."""
    untrue: float
    """Share of published values, including sensitive ones, that are not true; 0 without noise on rows."""
    groups: float
    smallest_group: int | None
    """Persons of the smallest group (with sdgs, rows of the smallest cell; with doca, rows that share a number)."""
    mean_risk: float | None
    """Mean over published rows of 1/(persons of the row's group); 0 if nothing was published."""
    highest_risk: float | None
    largest_share: float | None
    """Largest share of a group's rows with the same sensitive value."""
    epsilon: float | None
    """Epsilon of the policy's guarantee; None without a claim of differential privacy."""
    delta: float | None
    delay: int | None
    """Promised maximum delay in arrivals; None if the policy counts seconds."""
    longest_wait: int
    """Measured maximum delay in arrivals."""
    rows_per_second: float

    def as_json(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


_WORST: dict[str, Callable[[Sequence[Any]], Any]] = {
    "smallest_group": min,
    "highest_risk": max,
    "largest_share": max,
    "longest_wait": max,
}


def from_json(data: Mapping[str, Any]) -> Figures:
    """Read figures from their JSON form. Raises InputError if it is something else."""
    names = {field.name for field in fields(Figures)}
    if set(data) != names or not all(value is None or isinstance(value, int | float) for value in data.values()):
        raise InputError("not the figures of a setting")
    return Figures(**data)


def over_runs(runs: Sequence[Figures]) -> Figures:
    """Combine several runs of one setting: means, and the worst value of worst-case figures."""
    if len(runs) == 1:
        return runs[0]
    combined: dict[str, Any] = {}
    for field in fields(Figures):
        known = [value for run in runs if (value := getattr(run, field.name)) is not None]
        alike = len(set(known)) == 1
        if not known or alike:
            combined[field.name] = known[0] if known else None
        else:
            combined[field.name] = _WORST.get(field.name, _mean)(known)
    return Figures(**combined)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
