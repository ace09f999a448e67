"""Judge publications of strict DOCA: multisets of noisy numbers and labels, one per column and window.

Values do not correspond to rows, so only distributions are compared. The error of a number is the root mean squared
difference between the sorted values of a window, as a share of the domain; the error of a label is the share of rows
that would have to change it. Both are 0 if a window is published unchanged.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from castleguard.judge.measure.error import mean_squared_error
from castleguard.judge.reading.originals import Originals, read_originals
from castleguard.judge.reading.values import Codes, Numbers, numbers_of, texts_of
from castleguard.judge.sweep.judgement import NOTHING, Judgement, check_promise
from castleguard.judge.verify.group_values import value_codes
from castleguard.schema.roles import Categorical, Numeric, Schema

Windows = Sequence[tuple[pa.Table, slice]]


def judge_windows(parts: Sequence[pa.Table], original: pa.Table, schema: Schema, *, window: int, k: int) -> Judgement:
    """Check that every number is shared by at least k rows, then measure.

    Part i holds the rows of the i-th window, or none; the last part holds the rows of the final flush.
    """
    windows = _windows(parts, original.num_rows, window)
    if not windows:
        return NOTHING
    originals = read_originals(original, schema)
    fewest = min(map(_fewest_equal, _numbers(windows, schema)), default=None)
    if fewest is not None:
        check_promise({f"numbers shared by fewer than {k} rows": int(fewest < k)})
    errors = [_error(windows, originals, schema, at) for at in range(len(schema.quasi_identifiers))]
    for role in schema.sensitive:
        before = value_codes(original.column(role.name), role)
        errors.append(_changed_share([(value_codes(p.column(role.name), role), before[rows]) for p, rows in windows]))
    error = float(np.mean(errors))
    return Judgement(
        information_loss=error,
        loss=error,
        groups=sum(part.num_rows // k for part, _ in windows),
        smallest_group=fewest,
        mean_risk=None,
        highest_risk=None,
        largest_share=None,
    )


def _windows(parts: Sequence[pa.Table], rows: int, delay: int) -> Windows:
    """Published windows, each with its original rows."""
    found = [(part, slice(at * delay, (at + 1) * delay)) for at, part in enumerate(parts[:-1]) if part.num_rows]
    if parts[-1].num_rows:
        found.append((parts[-1], slice(rows - rows % delay, rows)))
    return found


def _numbers(windows: Windows, schema: Schema) -> list[Numbers]:
    roles = [role for role in schema.quasi_identifiers if isinstance(role, Numeric)]
    return [numbers_of(part.column(role.name), role.kind)[0] for part, _ in windows for role in roles]


def _fewest_equal(numbers: Numbers) -> int:
    return int(np.unique(numbers, return_counts=True)[1].min())


def _error(windows: Windows, originals: Originals, schema: Schema, at: int) -> float:
    """Error of one quasi-identifier."""
    role = schema.quasi_identifiers[at]
    values = np.where(np.isnan(originals.values[at]), role.stand_in, originals.values[at])
    if isinstance(role, Categorical):
        number = {label: leaf for leaf, label in enumerate(role.hierarchy.leaves)}
        pairs = []
        for part, rows in windows:
            texts, codes = texts_of(part.column(role.name))
            leaves = np.array([number[str(text)] for text in texts], dtype=np.int64)
            pairs.append((leaves[codes], values[rows].astype(np.int64)))
        return _changed_share(pairs)
    assert role.domain is not None
    squares = published = 0.0
    for part, rows in windows:
        after = np.sort(numbers_of(part.column(role.name), role.kind)[0])
        squares += mean_squared_error(_quantiles(values[rows], after.size), after) * after.size
        published += after.size
    return float(np.sqrt(squares / published) / (role.domain[1] - role.domain[0]))


def _quantiles(values: Numbers, count: int) -> Numbers:
    """`count` evenly spaced sorted values, because a window may publish fewer rows than arrived in it."""
    at = ((np.arange(count) + 0.5) * values.size / count).astype(np.int64)
    return np.sort(values)[at]


def _changed_share(pairs: Sequence[tuple[Codes, Codes]]) -> float:
    """Share of rows over all windows that would have to change their code, from (published, original) codes."""
    changed = rows = 0.0
    for after, before in pairs:
        many = int(max(after.max(), before.max())) + 1
        shares = [np.bincount(codes, minlength=many) / codes.size for codes in (after, before)]
        changed += float(np.abs(shares[0] - shares[1]).sum()) / 2 * after.size
        rows += after.size
    return changed / rows
