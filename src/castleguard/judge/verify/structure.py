"""Does what was published keep the promise? Checked against the original rows, by counting.

Written independently of engine and gate, with plain group-by: whoever holds the published file and the original one
can repeat it. The result holds counts and never a value.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.errors import InputError
from castleguard.judge.reading.boxes import Side, group_numbers, read_boxes
from castleguard.judge.reading.identities import NOBODY
from castleguard.judge.reading.linked import distinct_per_group, original_rows
from castleguard.judge.reading.originals import Originals, read_originals
from castleguard.judge.reading.values import Codes, Numbers, comparable, numbers_of, texts_of
from castleguard.judge.verify.leaks import declared_columns
from castleguard.schema.roles import Numeric, Schema


@dataclass(frozen=True)
class Verification:
    """What was counted. `ok` is the verdict, `sentence` says it in words."""

    k: int
    l: int
    rows: int
    groups: int
    fewest_persons: int | None
    """Distinct persons of the smallest group; None if nothing was published."""
    fewest_values: int | None
    """Distinct sensitive values of the least diverse group; None without a sensitive column."""
    information_loss: float
    violations: dict[str, int]
    """What was found wrong, and how often. Empty if nothing was."""
    persons_per_group: tuple[int, ...] = field(repr=False)
    """Distinct persons of every group."""

    @property
    def ok(self) -> bool:
        """Whether the promise was kept."""
        return not self.violations

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if not self.ok:
            return "VIOLATED: " + "; ".join(f"{count:,} {what}" for what, count in self.violations.items())
        if not self.rows:
            return "verified: nothing was published"
        diverse = f" and {self.l} values of each sensitive attribute" if self.fewest_values is not None else ""
        return (
            f"verified: {self.rows:,} rows in {self.groups:,} groups, each with at least {self.k} persons{diverse}; "
            "every row was published once and lies inside what was published for it"
        )

    def __str__(self) -> str:
        return self.sentence


def verify(  # noqa: PLR0913  # each says one thing about the publication
    published: pa.Table | Sequence[pa.Table],
    original: pa.Table,
    schema: Schema,
    *,
    k: int,
    l: int = 1,
    link: str,
    every_moment: bool = False,
    closed: bool = False,
) -> Verification:
    """Check a published table against its original. `link` is a public column that numbers the rows.

    Numbers are read as ranges of half-open cells, or with `closed` (paper mode) as closed intervals.
    With `every_moment` the tables are taken as published one after the other, and every group must have its k persons
    and l values as soon as its first table is out.
    """
    tables = [published] if isinstance(published, pa.Table) else list(published)
    whole = pa.concat_tables(tables)
    sides = read_boxes(whole, schema, closed=closed)
    originals = read_originals(original, schema)
    row = original_rows(whole, original, link)
    found = row >= 0
    groups = group_numbers(sides)
    persons, values = _counts(groups, row, originals)
    wrong = {
        "columns that were not declared": len(set(whole.column_names) - declared_columns(schema, whole.column_names)),
        "rows that are not in the original": int(np.count_nonzero(~found)),
        "rows published more than once": int(np.count_nonzero(found) - np.unique(row[found]).size),
        "rows published though they had to be refused": int(np.count_nonzero(originals.refused[row[found]])),
        f"groups with fewer than {k} persons": int(np.count_nonzero(persons < k)),
        f"groups with fewer than {l} values of a sensitive attribute": int(np.count_nonzero(values < l)),
        "values outside what was published for them": values_outside(sides, row, originals),
        "bounds outside the domain": bounds_outside_domain(sides),
        "ranges of width 0": boxes_without_width(sides),
        "sensitive or public values that changed": changed_values(
            whole, original, row, {*kept_columns(schema)} - {link}
        ),
    }
    if every_moment:
        early = _first_part(groups, np.repeat(np.arange(len(tables)), [table.num_rows for table in tables]))
        first_persons, first_values = _counts(groups[early], row[early], originals)
        few = (first_persons < k) | (first_values < l)
        wrong["groups that were too small at first"] = int(np.count_nonzero(few))
    return Verification(
        k=k,
        l=l,
        rows=whole.num_rows,
        groups=persons.size,
        fewest_persons=int(persons.min()) if persons.size else None,
        fewest_values=int(values.min()) if persons.size and schema.sensitive else None,
        information_loss=_mean_loss(sides),
        violations={what: count for what, count in wrong.items() if count},
        persons_per_group=tuple(persons.tolist()),
    )


def information_loss(published: pa.Table, schema: Schema) -> float:
    """The mean over rows of the mean over attributes of the share of the domain that was published; NaN if empty."""
    return _mean_loss(read_boxes(published, schema))


def _mean_loss(sides: tuple[Side, ...]) -> float:
    losses = np.mean([side.losses() for side in sides], axis=0)
    return float(losses.mean()) if losses.size else float("nan")


def _counts(groups: Codes, row: Codes, originals: Originals) -> tuple[Codes, Codes]:
    """Per group: distinct persons, and distinct values of its least diverse sensitive attribute (if there is one)."""
    count = int(groups.max(initial=-1)) + 1
    # A row that is not in the original, or has no person, adds nobody to its group.
    groups, row = groups[row >= 0], row[row >= 0]
    named = originals.persons[row] != NOBODY
    groups, row = groups[named], row[named]
    persons = distinct_per_group(groups, originals.persons[row], count)
    values = np.full(count, np.iinfo(np.int64).max, dtype=np.int64)
    for codes in originals.sensitive:
        values = np.minimum(values, distinct_per_group(groups, codes[row], count))
    return persons, values


def _first_part(groups: Codes, table: Codes) -> NDArray[np.bool_]:
    """The rows that came out in the same table as the first row of their group."""
    first = np.full(int(groups.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, groups, table)
    early: NDArray[np.bool_] = table == first[groups]
    return early


def values_outside(sides: tuple[Side, ...], row: Codes, originals: Originals) -> int:
    """Values that do not lie in their row's box; a row that is for the root only must have the widest box."""
    found = np.flatnonzero(row >= 0)
    at_root = originals.to_root[row[found]]
    wrong = 0
    for side, values in zip(sides, originals.values, strict=True):
        inside = np.where(at_root, side.is_widest()[found], side.contains(values[row[found]], found))
        wrong += int(np.count_nonzero(~inside))
    return wrong


def bounds_outside_domain(sides: tuple[Side, ...]) -> int:
    """Bounds that lie outside the public domain, or whose minimum lies above their maximum."""
    return sum(
        int(np.count_nonzero((side.low < side.domain[0]) | (side.high > side.domain[1]) | (side.low > side.high)))
        for side in sides
    )


def bounds_off_grid(sides: tuple[Side, ...], schema: Schema) -> tuple[int, tuple[str, ...]]:
    """Bounds that lie on no edge of the public grid, and the columns that have them: such a bound is a value of the
    data. An observed domain has no grid to lie on.
    """
    wrong, columns = 0, []
    for side, role in zip(sides, schema.quasi_identifiers, strict=True):
        if not isinstance(role, Numeric) or not role.edges.size:
            continue
        off = sum(int(np.count_nonzero(~_on(bounds, role.edges))) for bounds in (side.low, side.high))
        wrong += off
        columns += [role.name] if off else []
    return wrong, tuple(columns)


def boxes_without_width(sides: tuple[Side, ...]) -> int:
    """Ranges of cells with two equal bounds, though the domain is no single point: such a range is a value."""
    return sum(
        int(np.count_nonzero(side.low == side.high)) for side in sides if side.cells and side.domain[0] < side.domain[1]
    )


def _on(bounds: Numbers, edges: Numbers) -> NDArray[np.bool_]:
    """Whether each bound is an edge, but for what a text may have rounded."""
    after = np.clip(np.searchsorted(edges, bounds), 1, max(edges.size - 1, 1))
    near = np.minimum(np.abs(bounds - edges[after - 1]), np.abs(bounds - edges[min(1, edges.size - 1) * after]))
    close: NDArray[np.bool_] = near <= 1e-12 * np.maximum(1.0, np.abs(bounds))
    return close


def kept_columns(schema: Schema) -> tuple[str, ...]:
    """The columns that are published as they came, where nothing is randomised."""
    return (*(role.name for role in schema.sensitive), *schema.public)


def changed_values(published: pa.Table, original: pa.Table, row: Codes, columns: Collection[str]) -> int:
    """Values of these columns that are not those of the original row."""
    found = row >= 0
    changed = 0
    for name in sorted(columns):
        if name not in published.column_names:
            raise InputError(f"the published table has no column {name!r}")
        before = original.column(name).take(pa.array(row[found]))
        after = published.column(name).filter(pa.array(found))
        changed += _differences(before, after)
    return changed


def _differences(before: pa.ChunkedArray, after: pa.ChunkedArray) -> int:
    """How many values differ; a file of text may have changed the type of a column, and makes "" of a missing one."""
    short = next((each.type for each in (before, after) if each.type in (pa.float16(), pa.float32())), None)
    if short is not None:
        # The text of a short float is shorter than the same number as a long one.
        return _far_apart(before, after, 16 if short == pa.float16() else 32)
    before_texts, before_codes = texts_of(before)
    after_texts, after_codes = texts_of(after)
    numbers: dict[object, int] = {}
    left = np.array([numbers.setdefault(comparable(text), len(numbers)) for text in before_texts], dtype=np.int64)
    right = np.array([numbers.setdefault(comparable(text), len(numbers)) for text in after_texts], dtype=np.int64)
    return int(np.count_nonzero(left[before_codes] != right[after_codes])) if len(before) else 0


def _far_apart(before: pa.ChunkedArray, after: pa.ChunkedArray, bits: int) -> int:
    """How many numbers differ even as floats of so many bits."""
    (one, no_one), (other, no_other) = (numbers_of(column, "number") for column in (before, after))
    kind = np.float16 if bits == 16 else np.float32
    same = (one.astype(kind) == other.astype(kind)) | (no_one & no_other) | (np.isnan(one) & np.isnan(other))
    return int(np.count_nonzero(~same))
