"""What is known of a setting after its runs: numbers about the publication, and never a value of a row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from castleguard.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One setting. Shares are of the rows of the sample; what is None does not apply to the policy."""

    rows: int
    published: float
    suppressed: float
    sampled_out: float
    over_budget: float
    rejected: float
    """Could not be read by the schema. The same in all settings, and so not counted as lost."""
    information_loss: float | None
    """Of what was published, 0 = all is said and 1 = nothing; with doca the error. None: nothing was published."""
    loss: float
    """The axis: the same over all rows that could be read. A row that is not published counts as 1, and so does a
    published quasi-identifier that does not hold the true value."""
    untrue: float
    """Share of published values, sensitive ones included, that are not true. 0 where no noise is added to rows."""
    groups: float
    smallest_group: int | None
    """Persons of the smallest group (rows of the smallest cell with sdgs, or that share a number with doca)."""
    mean_risk: float | None
    """Mean over the published rows of 1/(persons of the row's group); 0 if nothing was published."""
    highest_risk: float | None
    largest_share: float | None
    """The largest share that one sensitive value has of the rows of any group."""
    epsilon: float | None
    """What the policy's own guarantee states; None: it claims no differential privacy."""
    delta: float | None
    delay: int | None
    """Arrivals that a row waits at most, as promised; None: the policy counts seconds."""
    longest_wait: int
    """Arrivals that a row did wait."""
    rows_per_second: float

    def as_json(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)


_MANY: dict[str, Callable[[Sequence[Any]], Any]] = {
    "smallest_group": min,
    "highest_risk": max,
    "largest_share": max,
    "longest_wait": max,
}


def from_json(data: Mapping[str, Any]) -> Figures:
    """Figures as they were written. Raises InputError if that is something else."""
    names = {field.name for field in fields(Figures)}
    if set(data) != names or not all(value is None or isinstance(value, int | float) for value in data.values()):
        raise InputError("these are not the figures of a setting")
    return Figures(**data)


def over_runs(runs: Sequence[Figures]) -> Figures:
    """Several runs of one setting as one: means, and the worst of what is a worst case."""
    if len(runs) == 1:
        return runs[0]
    combined: dict[str, Any] = {}
    for field in fields(Figures):
        known = [value for run in runs if (value := getattr(run, field.name)) is not None]
        alike = len(set(known)) == 1
        if not known or alike:
            combined[field.name] = known[0] if known else None
        else:
            combined[field.name] = _MANY.get(field.name, _mean)(known)
    return Figures(**combined)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
