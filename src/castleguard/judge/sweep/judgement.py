"""What one publication costs and protects, whatever published it; and the error if it breaks a promise."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from castleguard.errors import CastleguardError
from castleguard.judge.reading.values import Codes, numbers_of, texts_of
from castleguard.schema.sensitive import Sensitive


class Judgement(NamedTuple):
    """The names are those of `Figures`. `loss` is over the published rows only."""

    information_loss: float | None
    loss: float
    groups: int
    smallest_group: int | None
    mean_risk: float | None
    highest_risk: float | None
    largest_share: float | None
    untrue: float = 0.0


NOTHING = Judgement(None, 0.0, 0, None, 0.0, 0.0, None)
"""Nothing was published: nobody is at risk, and all is lost."""


def refuse(violations: Mapping[str, int]) -> None:
    """Raise if something is wrong with a publication. This would be a bug, and its figures must not be believed."""
    wrong = [f"{count:,} {what}" for what, count in violations.items() if count]
    if wrong:
        raise CastleguardError(f"a publication of the sweep did not keep its promise: {'; '.join(wrong)}")


def largest_share(groups: Codes, columns: Sequence[Codes]) -> float | None:
    """The largest share that one value of one column has of the rows of any group; None without a column."""
    if not columns or not groups.size:
        return None
    rows = np.bincount(groups)
    found = 0.0
    for codes in columns:
        _, small = np.unique(codes, return_inverse=True)
        many = int(small.max()) + 1
        pairs, counts = np.unique(groups * many + small, return_counts=True)
        found = max(found, float((counts / rows[pairs // many]).max()))
    return found


def published_labels(column: pa.ChunkedArray, role: Sensitive) -> Codes:
    """The numbers of published labels; one more than there are for a missing one."""
    texts, codes = texts_of(column)
    return _numbers(texts, role)[codes]


def true_labels(column: pa.ChunkedArray, role: Sensitive) -> Codes:
    """The numbers of the labels that the original values have."""
    if role.edges is None:
        return published_labels(column, role)
    numbers, _ = numbers_of(column, role.kind)
    bins: Codes = (numbers[:, None] >= role.edges[None, :]).sum(axis=1)
    return np.where(np.isnan(numbers), len(role.labels or ()), bins)


def _numbers(texts: Sequence[str | None], role: Sensitive) -> Codes:
    labels = [str(label) for label in role.labels or ()]
    at = {label: number for number, label in enumerate(labels)}
    return np.array([len(labels) if text is None else at.get(text, len(labels)) for text in texts], dtype=np.int64)
