"""Judges what SDGS publishes: true rows in boxes of a public grid, a window at a time.

No column may say which row is which, because that would void the claim. So rows are counted: a cell (a box with one
combination of sensitive values) must have k of them in its window.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from castleguard.algorithms.facts import Publication
from castleguard.judge.reading.boxes import group_numbers, read_boxes
from castleguard.judge.reading.linked import distinct_per_group
from castleguard.judge.reading.values import Codes
from castleguard.judge.sweep.judgement import NOTHING, Judgement, largest_share, published_labels, refuse
from castleguard.schema.roles import Schema


def judge_cells(parts: Sequence[pa.Table], schema: Schema, promised: Publication) -> Judgement:
    """Check k and l of every window, then measure. Every part is one window, or nothing."""
    criteria = promised.criteria
    assert criteria is not None
    windows = [part for part in parts if part.num_rows]
    if not windows:
        return NOTHING
    published = pa.concat_tables(windows)
    window = np.repeat(np.arange(len(windows)), [part.num_rows for part in windows])
    sides = read_boxes(published, schema)
    sensitive = [published_labels(published.column(role.name), role) for role in schema.sensitive]
    groups = _refined(group_numbers(sides), window)
    cells = groups
    for codes in sensitive:
        cells = _refined(cells, codes)
    per_cell, per_group = np.bincount(cells), np.bincount(groups)
    diverse = [distinct_per_group(groups, codes, per_group.size) for codes in sensitive]
    refuse(
        {
            f"cells with fewer than {criteria.k} rows": int(np.count_nonzero(per_cell < criteria.k)),
            f"boxes with fewer than {criteria.l} values of a sensitive attribute": sum(
                int(np.count_nonzero(values < criteria.l)) for values in diverse
            ),
        }
    )
    widths = float(np.mean([side.losses() for side in sides]))
    # A person has one row at most in a window, unless rows are what is protected.
    persons = promised.one_row_per_person
    return Judgement(
        information_loss=widths,
        loss=widths,
        groups=per_group.size,
        smallest_group=int(per_cell.min()),
        mean_risk=float((1 / per_group[groups]).mean()) if persons else None,
        highest_risk=float(1 / per_group.min()) if persons else None,
        largest_share=largest_share(groups, sensitive),
    )


def _refined(groups: Codes, codes: Codes) -> Codes:
    """Groups that are apart where the codes differ."""
    found: Codes = np.unique(groups * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    return found
