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
from castleguard.judge.reading.boxes import Side, read_boxes
from castleguard.judge.reading.linked import Linked
from castleguard.judge.reading.linked import link as link_rows
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
    linked = link_rows(whole, original, schema, by=link, closed=closed)
    persons, values = linked.persons_per_group, linked.values_per_group
    wrong = {
        "columns that were not declared": len(set(whole.column_names) - declared_columns(schema, whole.column_names)),
        **wrong_rows(linked),
        "rows published though they had to be refused": int(
            np.count_nonzero(linked.originals.refused[linked.row[linked.known]])
        ),
        **small_groups(persons, values, k=k, l=l),
        "values outside what was published for them": int(np.count_nonzero(outside(linked))),
        "bounds outside the domain": bounds_outside_domain(linked.sides),
        "ranges of width 0": boxes_without_width(linked.sides),
        "sensitive or public values that changed": changed_values(
            whole, original, linked.row, {*kept_columns(schema)} - {link}
        ),
    }
    if every_moment:
        table = np.repeat(np.arange(len(tables)), [each.num_rows for each in tables])
        first = linked.only(first_rows(linked.groups, table))
        few = (first.persons_per_group < k) | (first.values_per_group < l)
        wrong["groups that were too small at first"] = int(np.count_nonzero(few))
    return Verification(
        k=k,
        l=l,
        rows=whole.num_rows,
        groups=persons.size,
        fewest_persons=int(persons.min()) if persons.size else None,
        fewest_values=int(values.min()) if persons.size and schema.sensitive else None,
        information_loss=_mean_loss(linked.sides),
        violations={what: count for what, count in wrong.items() if count},
        persons_per_group=tuple(persons.tolist()),
    )


def information_loss(published: pa.Table, schema: Schema) -> float:
    """The mean over rows of the mean over attributes of the share of the domain that was published; NaN if empty."""
    return _mean_loss(read_boxes(published, schema))


def _mean_loss(sides: tuple[Side, ...]) -> float:
    losses = np.mean([side.losses() for side in sides], axis=0)
    return float(losses.mean()) if losses.size else float("nan")


def wrong_rows(linked: Linked) -> dict[str, int]:
    """Published rows that are not in the original, and those that came out before."""
    rows = linked.row[linked.known]
    return {
        "rows that are not in the original": linked.row.size - rows.size,
        "rows published more than once": rows.size - int(np.unique(rows).size),
    }


def small_groups(persons: Codes, values: Codes, *, k: int, l: int) -> dict[str, int]:
    """Groups below k persons and below l values of their least diverse sensitive attribute."""
    return {
        f"groups with fewer than {k} persons": int(np.count_nonzero(persons < k)),
        f"groups with fewer than {l} values of a sensitive attribute": int(np.count_nonzero(values < l)),
    }


def first_rows(groups: Codes, moment: Codes) -> NDArray[np.bool_]:
    """The rows that came out at the same moment as the first row of their group."""
    first = np.full(int(groups.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, groups, moment)
    early: NDArray[np.bool_] = moment == first[groups]
    return early


def outside(linked: Linked) -> NDArray[np.bool_]:
    """(quasi-identifiers, known rows) whether a value does not lie in its row's box; a row that is for the root only
    must have the widest box.
    """
    known = linked.known
    row = linked.row[known]
    at_root = linked.originals.to_root[row]
    inside = [
        np.where(at_root, side.is_widest()[known], side.contains(values[row], known))
        for side, values in zip(linked.sides, linked.originals.values, strict=True)
    ]
    return ~np.array(inside, dtype=np.bool_)


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
