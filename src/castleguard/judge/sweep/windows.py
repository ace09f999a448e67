"""Judges what strict DOCA publishes: bags of noisy numbers and labels, one bag per column and window.

No value belongs to a row, so that only distributions can be compared. A number's error is the root of the mean squared
difference between the sorted values of a window, as a share of the domain; a label's is the share of rows that would
have to change it. Both are 0 if a window came out as it went in.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from castleguard.judge.measure.error import mean_squared_error
from castleguard.judge.reading.originals import Originals, read_originals
from castleguard.judge.reading.values import Codes, Numbers, numbers_of, texts_of
from castleguard.judge.sweep.judgement import NOTHING, Judgement, refuse
from castleguard.judge.verify.group_values import value_codes
from castleguard.schema.roles import Categorical, Numeric, Schema

Windows = Sequence[tuple[pa.Table, slice]]


def judge_windows(parts: Sequence[pa.Table], original: pa.Table, schema: Schema, *, window: int, k: int) -> Judgement:
    """Check that no number stands for fewer than k rows, then measure.

    Part i is what the i-th window published, or nothing; the last part is what the flush published of the last one.
    """
    windows = _windows(parts, original.num_rows, window)
    if not windows:
        return NOTHING
    originals = read_originals(original, schema)
    fewest = min(map(_fewest_equal, _numbers(windows, schema)), default=None)
    if fewest is not None:
        refuse({f"numbers that stand for fewer than {k} rows": int(fewest < k)})
    errors = [_error(windows, originals, schema, at) for at in range(len(schema.quasi_identifiers))]
    for role in schema.sensitive:
        before = value_codes(original.column(role.name), role)
        errors.append(_apart([(value_codes(p.column(role.name), role), before[rows]) for p, rows in windows]))
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
    """Published windows, each with the original rows that it stands for."""
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
    """The error of one quasi-identifier."""
    role = schema.quasi_identifiers[at]
    values = np.where(np.isnan(originals.values[at]), role.stand_in, originals.values[at])
    if isinstance(role, Categorical):
        number = {label: leaf for leaf, label in enumerate(role.hierarchy.leaves)}
        pairs = []
        for part, rows in windows:
            texts, codes = texts_of(part.column(role.name))
            leaves = np.array([number[str(text)] for text in texts], dtype=np.int64)
            pairs.append((leaves[codes], values[rows].astype(np.int64)))
        return _apart(pairs)
    assert role.domain is not None
    squares = published = 0.0
    for part, rows in windows:
        after = np.sort(numbers_of(part.column(role.name), role.kind)[0])
        squares += mean_squared_error(_quantiles(values[rows], after.size), after) * after.size
        published += after.size
    return float(np.sqrt(squares / published) / (role.domain[1] - role.domain[0]))


def _quantiles(values: Numbers, count: int) -> Numbers:
    """So many of the sorted values, at even distances: a window with fewer rows stands for all that arrived in it."""
    at = ((np.arange(count) + 0.5) * values.size / count).astype(np.int64)
    return np.sort(values)[at]


def _apart(pairs: Sequence[tuple[Codes, Codes]]) -> float:
    """Published and original codes by window: the share of rows that would have to change theirs, over all windows."""
    changed = rows = 0.0
    for after, before in pairs:
        many = int(max(after.max(), before.max())) + 1
        shares = [np.bincount(codes, minlength=many) / codes.size for codes in (after, before)]
        changed += float(np.abs(shares[0] - shares[1]).sum()) / 2 * after.size
        rows += after.size
    return changed / rows
