"""Information loss: the four measures by which anonymised tables are usually compared.

The generalised loss (CASTLE, section 2.2) and the normalised certainty penalty (Xu et al. 2006) measure the width of
published values; discernibility (Bayardo and Agrawal 2005) and the average group size (LeFevre et al. 2006) measure the
size of groups. They need only the published table and the number of missing rows, and no link.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from castleguard.errors import PolicyError, UsageError
from castleguard.judge.reading.boxes import Side, group_numbers, read_boxes
from castleguard.judge.reading.values import Codes, Numbers
from castleguard.privacy.parameters import check_count, is_number
from castleguard.schema.roles import Categorical, Schema


@dataclass(frozen=True, kw_only=True)
class AttributeLoss:
    """Loss of one quasi-identifier, as means over the published rows; NaN without rows."""

    name: str
    generalised: float
    """VInfoLoss: for a number, width as a share of the domain; for a category, (leaves - 1) / (all leaves - 1)."""
    penalty: float
    """Certainty penalty: the same for a number; for a category, leaves / all leaves, or 0 for a single leaf."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Loss of a whole table."""

    rows: int
    """Published rows."""
    groups: int
    unpublished: int
    """Original rows that were not published, for any reason."""
    generalised: float
    """Mean over published rows and attributes, between 0 and 1; NaN if nothing was published."""
    generalised_of_all: float
    """Mean over all original rows, with 1 for unpublished ones; otherwise, publishing fewer rows would look better."""
    penalty_total: float
    """Sum of the normalised certainty penalty over all published rows."""
    penalty: float
    """The sum as a share of its maximum, between 0 and 1; NaN if nothing was published."""
    discernibility: int
    """Number of indistinguishable pairs of rows; an unpublished row is indistinguishable from all rows."""
    attributes: tuple[AttributeLoss, ...]


def measure_loss(
    published: pa.Table, schema: Schema, *, unpublished: int = 0, weights: Mapping[str, float] | None = None
) -> Loss:
    """All measures of a published table. `unpublished`: number of original rows missing in it.

    `weights`: weight of each attribute in the certainty penalty; 1 by default.
    """
    check_count("unpublished", unpublished, least=0)
    sides = read_boxes(published, schema)
    groups = group_numbers(sides)
    rows = published.num_rows
    each = [side.losses() for side in sides]
    penalties = [penalty_of(side, is_category=kind) for side, kind in zip(sides, _categories(schema), strict=True)]
    factors = _weights(schema, weights or {})
    total = float(sum(factor * values.sum() for factor, values in zip(factors, penalties, strict=True)))
    lost = float(np.mean(each, axis=0).sum())
    return Loss(
        rows=rows,
        groups=int(groups.max(initial=-1)) + 1,
        unpublished=unpublished,
        generalised=_share(lost, rows),
        generalised_of_all=_share(lost + unpublished, rows + unpublished),
        penalty_total=total,
        penalty=_share(total, rows * sum(factors)),
        discernibility=discernibility(groups, unpublished=unpublished),
        attributes=tuple(
            AttributeLoss(name=role.name, generalised=_share(loss.sum(), rows), penalty=_share(values.sum(), rows))
            for role, loss, values in zip(schema.quasi_identifiers, each, penalties, strict=True)
        ),
    )


def discernibility(groups: Codes, *, unpublished: int = 0) -> int:
    """Sum of the squared group sizes, plus the size of the whole table for each unpublished row.

    `groups`: group number of each published row. Smaller is better; the minimum is the number of rows.

    >>> discernibility(np.array([0, 0, 0, 1, 1]), unpublished=2)
    27
    """
    sizes = np.bincount(groups).astype(np.int64) if groups.size else np.zeros(0, dtype=np.int64)
    return int((sizes * sizes).sum()) + unpublished * (groups.size + unpublished)


def average_group_size(groups: Codes, *, k: int) -> float:
    """C_avg: mean group size as a multiple of k. 1 is the optimum; NaN if nothing was published.

    >>> average_group_size(np.array([0, 0, 0, 1, 1]), k=2)
    1.25
    """
    size = check_count("k", k)
    return _share(groups.size, int(groups.max(initial=-1) + 1) * size)


def penalty_of(side: Side, *, is_category: bool) -> Numbers:
    """Normalised certainty penalty of one attribute for every row."""
    if not is_category:
        return side.losses()
    leaves = side.high - side.low + 1
    # A single leaf is certain, whether published as itself or as a node with no other leaf.
    penalties: Numbers = np.where(leaves > 1, leaves / (side.domain[1] + 1), 0.0)
    return penalties


def _categories(schema: Schema) -> list[bool]:
    return [isinstance(role, Categorical) for role in schema.quasi_identifiers]


def _weights(schema: Schema, weights: Mapping[str, float]) -> list[float]:
    names = [role.name for role in schema.quasi_identifiers]
    for name, weight in weights.items():
        if name not in names:
            raise UsageError(f"weights names {name!r}, which is not a quasi-identifier of the schema")
        if not is_number(weight) or not 0 <= weight < np.inf:
            raise PolicyError(f"the weight of {name!r} must be a finite number of at least 0, got {weight}")
    factors = [float(weights.get(name, 1.0)) for name in names]
    if not sum(factors):
        raise PolicyError("the weights of all quasi-identifiers are 0: at least one must be positive")
    return factors


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else float("nan")
