"""Judges what CASTLE and CASTLEGUARD publish: boxes of rows that are linked to the original ones."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.algorithms.facts import Publication
from castleguard.judge.reading.linked import Linked, distinct_per_group
from castleguard.judge.reading.linked import link as linked
from castleguard.judge.reading.values import Codes
from castleguard.judge.sweep.judgement import NOTHING, Judgement, largest_share, published_labels, refuse, true_labels
from castleguard.judge.verify.structure import verify
from castleguard.privacy.criteria import Criteria
from castleguard.schema.roles import Schema


def judge_groups(
    parts: Sequence[pa.Table],
    original: pa.Table,
    schema: Schema,
    promised: Publication,
    *,
    link: str,
    every_moment: bool = True,
) -> Judgement:
    """Check k and l of every group, then measure. `link` is the public column that numbers the rows."""
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
        refuse(verdict.violations)
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


def _check_noisy(found: Linked, criteria: Criteria, promised: Publication) -> None:
    """k and l where values are noisy: they speak of what is published, so that nothing can be said of truth."""
    count = found.rows_per_group.size
    diverse = [distinct_per_group(found.groups, codes, count) for codes in _sensitive(found, promised)]
    refuse(
        {
            "rows that are not in the original": int(np.count_nonzero(found.row < 0)),
            "rows published more than once": found.row.size - np.unique(found.row).size,
            f"groups with fewer than {criteria.k} persons": int(np.count_nonzero(found.persons_per_group < criteria.k)),
            f"groups with fewer than {criteria.l} values of a sensitive attribute": sum(
                int(np.count_nonzero(values < criteria.l)) for values in diverse
            ),
        }
    )


def _sensitive(found: Linked, promised: Publication) -> list[Codes]:
    """What counts as one sensitive value, per published row and column: as it was published."""
    if promised.hides_values:
        return [published_labels(found.published.column(role.name), role) for role in found.schema.sensitive]
    return [codes[found.row] for codes in found.originals.sensitive]


def _inside(found: Linked) -> NDArray[np.bool_]:
    """Per quasi-identifier and published row, whether the true value lies in what was published."""
    rows = np.arange(found.row.size)
    sides = zip(found.sides, found.originals.values, strict=True)
    return np.array([side.is_widest() | side.contains(values[found.row], rows) for side, values in sides])


def _changed_labels(found: Linked, promised: Publication) -> int:
    if not promised.hides_values:
        return 0
    pairs = zip(_sensitive(found, promised), found.schema.sensitive, strict=True)
    return sum(
        int(np.count_nonzero(codes != true_labels(found.original.column(role.name), role)[found.row]))
        for codes, role in pairs
    )
