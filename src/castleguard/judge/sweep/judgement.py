"""Loss and risk of one publication of boxes: CASTLE and CASTLEGUARD by groups, SDGS by cells of a window.

Every judgement first verifies the promise; a broken one is a bug, and its figures must not be used.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.facts import Publication
from castleguard.errors import CastleguardError
from castleguard.judge.reading.boxes import group_numbers, read_boxes
from castleguard.judge.reading.linked import Linked, distinct_per_group
from castleguard.judge.reading.linked import link as linked
from castleguard.judge.reading.values import Codes, refine
from castleguard.judge.verify.group_values import tally, value_codes
from castleguard.judge.verify.structure import small_groups, verify, wrong_rows
from castleguard.privacy.criteria import Criteria
from castleguard.schema.roles import Schema


class Judgement(NamedTuple):
    """Figures of one publication, named as in `Figures`. `loss` covers the published rows only."""

    information_loss: float | None
    loss: float
    groups: int
    smallest_group: int | None
    mean_risk: float | None
    highest_risk: float | None
    largest_share: float | None
    untrue: float = 0.0


NOTHING = Judgement(None, 0.0, 0, None, 0.0, 0.0, None)
"""Judgement of an empty publication: no risk."""


def check_promise(violations: Mapping[str, int]) -> None:
    """Raise CastleguardError if a publication has violations, which would be a bug."""
    wrong = [f"{count:,} {what}" for what, count in violations.items() if count]
    if wrong:
        raise CastleguardError(f"a publication of the sweep broke its promise: {'; '.join(wrong)}")


def largest_share(groups: Codes, columns: Sequence[Codes]) -> float | None:
    """Largest share of a group's rows with the same value in a column; None without columns or rows."""
    if not columns or not groups.size:
        return None
    found = 0.0
    for codes in columns:
        counted = tally(groups, np.unique(codes, return_inverse=True)[1], None, count=int(groups.max()) + 1)
        found = max(found, float((counted.largest / counted.totals).max()))
    return found


def judge_groups(
    parts: Sequence[pa.Table],
    original: pa.Table,
    schema: Schema,
    promised: Publication,
    *,
    link: str,
    every_moment: bool = True,
) -> Judgement:
    """Check k and l of every group, then measure. `link`: public column that numbers the rows."""
    published = pa.concat_tables(parts)
    if not published.num_rows:
        return NOTHING
    found = linked(published, original, schema, by=link, closed=promised.closed)
    criteria = promised.criteria
    assert criteria is not None
    noisy = promised.noisy
    if noisy:
        _check_noisy(found, criteria, promised)
    else:
        verdict = verify(
            parts,
            original,
            schema,
            k=criteria.k,
            l=criteria.l,
            link=link,
            every_moment=every_moment,
            closed=promised.closed,
        )
        check_promise(verdict.violations)
    persons = found.persons_per_group
    risk = 1 / persons[found.groups]
    widths = np.array([side.losses() for side in found.sides])
    inside = _inside(found) if noisy else np.ones(widths.shape, dtype=np.bool_)
    wrong = int(np.count_nonzero(~inside)) + (_changed_labels(found, promised) if noisy else 0)
    return Judgement(
        information_loss=float(widths.mean()),
        loss=float(np.where(inside, widths, 1.0).mean()),
        groups=persons.size,
        smallest_group=int(persons.min()),
        mean_risk=float(risk.mean()),
        highest_risk=float(risk.max()),
        largest_share=largest_share(found.groups, _sensitive(found, promised)),
        untrue=wrong / (published.num_rows * len(schema.described)),
    )


def judge_cells(parts: Sequence[pa.Table], schema: Schema, promised: Publication) -> Judgement:
    """Check k and l of every window, then measure. Every part is one window, or empty.

    SDGS publishes no column that links rows, because that would void its claim. So rows are counted instead of persons:
    a cell (a box with one combination of sensitive values) must have k rows in its window.
    """
    criteria = promised.criteria
    assert criteria is not None
    windows = [part for part in parts if part.num_rows]
    if not windows:
        return NOTHING
    published = pa.concat_tables(windows)
    window = np.repeat(np.arange(len(windows)), [part.num_rows for part in windows])
    sides = read_boxes(published, schema)
    sensitive = [value_codes(published.column(role.name), role) for role in schema.sensitive]
    groups = refine(group_numbers(sides), window)
    cells = groups
    for codes in sensitive:
        cells = refine(cells, codes)
    per_cell, per_group = np.bincount(cells), np.bincount(groups)
    values = _fewest_values(groups, sensitive, per_group.size)
    check_promise(
        {
            f"cells with fewer than {criteria.k} rows": int(np.count_nonzero(per_cell < criteria.k)),
            f"boxes with fewer than {criteria.l} values of a sensitive column": int(
                np.count_nonzero(values < criteria.l)
            ),
        }
    )
    widths = float(np.mean([side.losses() for side in sides]))
    # A person has at most one row in a window, unless the policy protects rows.
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


def _check_noisy(found: Linked, criteria: Criteria, promised: Publication) -> None:
    """Check k and l of noisy values: both concern published values, so true values are not compared."""
    values = _fewest_values(found.groups, _sensitive(found, promised), found.rows_per_group.size)
    check_promise({**wrong_rows(found), **small_groups(found.persons_per_group, values, k=criteria.k, l=criteria.l)})


def _fewest_values(groups: Codes, columns: Sequence[Codes], count: int) -> Codes:
    """Distinct published values per group, of its least diverse column; without a column, no limit."""
    fewest = np.full(count, np.iinfo(np.int64).max, dtype=np.int64)
    for codes in columns:
        fewest = np.minimum(fewest, distinct_per_group(groups, codes, count))
    return fewest


def _sensitive(found: Linked, promised: Publication) -> list[Codes]:
    """Codes of the published sensitive values, one array per column."""
    if promised.hides_values:
        return [value_codes(found.published.column(role.name), role) for role in found.schema.sensitive]
    return [codes[found.row] for codes in found.originals.sensitive]


def _inside(found: Linked) -> NDArray[np.bool_]:
    """(quasi-identifiers, published rows) True where the true value lies in its published range."""
    rows = np.arange(found.row.size)
    sides = zip(found.sides, found.originals.values, strict=True)
    return np.array([side.is_widest() | side.contains(values[found.row], rows) for side, values in sides])


def _changed_labels(found: Linked, promised: Publication) -> int:
    if not promised.hides_values:
        return 0
    pairs = zip(_sensitive(found, promised), found.schema.sensitive, strict=True)
    return sum(
        int(np.count_nonzero(codes != value_codes(found.original.column(role.name), role)[found.row]))
        for codes, role in pairs
    )
