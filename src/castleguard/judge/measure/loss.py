"""How much detail was given up: the four measures by which anonymised tables are usually compared.

The generalised loss (CASTLE, section 2.2) and the normalised certainty penalty (Xu et al. 2006) look at how wide every
published value is; discernibility (Bayardo and Agrawal 2005) and the average group size (LeFevre et al. 2006) at how
many rows look alike. All of them need the published table and the number of rows that are missing in it, and nothing
else: no link between the rows.
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
    """What was given up of one quasi-identifier, as means over the published rows; NaN if there are none."""

    name: str
    generalised: float
    """VInfoLoss: the width of a number as a share of its domain; of a category (leaves - 1) / (all leaves - 1)."""
    penalty: float
    """The same, but a category counts as leaves / all leaves, and as 0 if it is a single leaf."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What was given up of a whole table."""

    rows: int
    """Published."""
    groups: int
    unpublished: int
    """Rows of the original that were not published, for whatever reason."""
    generalised: float
    """The mean over published rows of the mean over attributes, between 0 and 1; NaN if nothing was published."""
    generalised_of_all: float
    """The same over all rows of the original, where one that was not published counts as 1. Without it, whoever
    publishes less would look better."""
    penalty_total: float
    """The normalised certainty penalty of all published rows together."""
    penalty: float
    """That as a share of the largest possible, between 0 and 1; NaN if nothing was published."""
    discernibility: int
    """How many pairs of rows cannot be told apart; every unpublished row is taken for like all others."""
    attributes: tuple[AttributeLoss, ...]


def measure_loss(
    published: pa.Table, schema: Schema, *, unpublished: int = 0, weights: Mapping[str, float] | None = None
) -> Loss:
    """All measures of a published table. `unpublished` rows of its original are missing in it.

    `weights` say how much an attribute counts in the certainty penalty, and are 1 where there is none.
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
    """The sum over groups of the square of their size, plus the size of the whole table per unpublished row.

    `groups` has the number of its group for every published row. Smaller is better; all rows alone gives their number.

    >>> discernibility(np.array([0, 0, 0, 1, 1]), unpublished=2)
    27
    """
    sizes = np.bincount(groups).astype(np.int64) if groups.size else np.zeros(0, dtype=np.int64)
    return int((sizes * sizes).sum()) + unpublished * (groups.size + unpublished)


def average_group_size(groups: Codes, *, k: int) -> float:
    """C_avg: the mean size of a group as a multiple of k. 1 is the best that k allows; NaN if nothing was published.

    >>> average_group_size(np.array([0, 0, 0, 1, 1]), k=2)
    1.25
    """
    size = check_count("k", k)
    return _share(groups.size, int(groups.max(initial=-1) + 1) * size)


def penalty_of(side: Side, *, is_category: bool) -> Numbers:
    """The normalised certainty penalty of one attribute for every row."""
    if not is_category:
        return side.losses()
    leaves = side.high - side.low + 1
    # One leaf is certain, whether it was published as itself or as a node that has it alone.
    penalties: Numbers = np.where(leaves > 1, leaves / (side.domain[1] + 1), 0.0)
    return penalties


def _categories(schema: Schema) -> list[bool]:
    return [isinstance(role, Categorical) for role in schema.quasi_identifiers]


def _weights(schema: Schema, weights: Mapping[str, float]) -> list[float]:
    names = [role.name for role in schema.quasi_identifiers]
    for name, weight in weights.items():
        if name not in names:
            raise UsageError(f"weights names {name!r}, which is no quasi-identifier of the schema")
        if not is_number(weight) or not 0 <= weight < np.inf:
            raise PolicyError(f"the weight of {name!r} must be a finite number of at least 0, got {weight}")
    factors = [float(weights.get(name, 1.0)) for name in names]
    if not sum(factors):
        raise PolicyError("the weights of all quasi-identifiers are 0: one at least must count")
    return factors


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else float("nan")
