"""Mondrian (LeFevre, DeWitt and Ramakrishnan, ICDE 2006) on windows of a stream, each published whole at its end.

The rows of a window are cut in two at the median of their widest column, and so are the parts, until every cut would
leave too few persons on one side. Strict: rows with the same value stay together. docs/concepts/baselines.md lists our
readings of open points.
"""

import numpy as np

from castleguard.lab.baselines.coded_boxes import NOWHERE, Boxed, Coded, Codes, Values, bounding_boxes
from castleguard.lab.baselines.enough import Enough
from castleguard.privacy.parameters import check_count
from castleguard.schema.roles import Categorical


def mondrian(coded: Coded, *, k: int, delay: int, l: int = 1) -> Boxed:
    """Group the rows of every window of `delay` + 1 rows, so that the first row waits for `delay` others.

    A window with fewer than k persons or l values, mostly the last one, is not published: earlier windows have left
    already.
    """
    window = check_count("delay", delay, least=0) + 1
    enough = Enough(coded, k, l)
    box = np.full(coded.count, NOWHERE, dtype=np.int64)
    usable = coded.usable
    boxes = 0
    for start in range(0, coded.count, window):
        rows = usable[np.searchsorted(usable, start) : np.searchsorted(usable, start + window)]
        if not enough(rows):
            continue
        for part in partition(coded, rows, enough):
            box[part] = boxes
            boxes += 1
    lower, upper = bounding_boxes(coded.rows.quasi, box)
    ends = np.minimum((np.arange(coded.count) // window + 1) * window, coded.count)
    return Boxed(box, lower, upper, ends)


def partition(coded: Coded, rows: Codes, enough: Enough) -> list[Codes]:
    """Partition these rows into parts that cannot be cut further; all of them together must be enough."""
    values, widths = coded.rows.quasi, coded.widths
    done: list[Codes] = []
    waiting = [rows]
    while waiting:
        part = waiting.pop()
        parts = _cut(coded, values[part], widths, part, enough)
        if parts is None:
            done.append(part)
        else:
            waiting.extend(parts)
    return done


def _cut(coded: Coded, values: Values, widths: Values, rows: Codes, enough: Enough) -> list[Codes] | None:
    """Parts of the first allowed cut, widest column first; None if no cut is allowed."""
    if rows.size < 2 * enough.k:
        return None
    spread = (values.max(axis=0) - values.min(axis=0)) / widths
    # Equally wide columns keep the order of the schema.
    for column in np.argsort(-spread, kind="stable").tolist():
        if spread[column] <= 0:
            return None
        role = coded.schema.quasi_identifiers[column]
        which = _children(role, values[:, column]) if isinstance(role, Categorical) else _halves(values[:, column])
        parts = [rows[which == number] for number in np.unique(which).tolist()]
        if len(parts) > 1 and all(map(enough, parts)):
            return parts
    return None


def _halves(values: Values) -> Codes:
    """0 up to the median and 1 above it; the lower median of an even number of values."""
    middle = (values.size - 1) // 2
    above: Codes = (values > np.partition(values, middle)[middle]).astype(np.int64)
    return above


def _children(role: Categorical, leaves: Values) -> Codes:
    """The child of their lowest common node that each leaf is under."""
    tree = role.hierarchy
    node = tree.node(int(leaves.min()), int(leaves.max()))
    starts = tree.first_leaf[np.flatnonzero(tree.parents == node)]
    found: Codes = np.searchsorted(starts, leaves, side="right")
    return found
