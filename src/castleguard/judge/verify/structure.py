"""Verify the promise by counting: the published rows of every group against their original rows.

Independent of engine and gate, using plain group-by operations, so that anyone with the published and the original file
can repeat it. The result holds counts and never a value.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castleguard.judge.reading.boxes import Side, read_boxes
from castleguard.judge.reading.linked import Linked
from castleguard.judge.reading.linked import link as link_rows
from castleguard.judge.reading.values import Codes, Numbers, column_of, common_codes, numbers_of
from castleguard.judge.verify.leaks import declared_columns
from castleguard.schema.roles import Numeric, Schema


@dataclass(frozen=True)
class Verification:
    """Counts of a verification. `ok` is the verdict, `sentence` puts it into words."""

    k: int
    l: int
    rows: int
    groups: int
    fewest_persons: int | None
    """Distinct persons in the smallest group; None if nothing was published."""
    fewest_values: int | None
    """Distinct sensitive values in the least diverse group; None without a sensitive column."""
    information_loss: float
    violations: dict[str, int]
    """Count of each kind of violation; empty if the promise was kept."""
    persons_per_group: tuple[int, ...] = field(repr=False)
    """Distinct persons in every group."""

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
        diverse = f" and {self.l} values of each sensitive column" if self.fewest_values is not None else ""
        return (
            f"verified: {self.rows:,} rows in {self.groups:,} groups, each with at least {self.k} persons{diverse}; "
            "every row was published once, and its values lie inside its published box"
        )

    def __str__(self) -> str:
        return self.sentence


def verify(  # noqa: PLR0913  # independent facts about the publication
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
    With `every_moment` the tables count as published one after another, and every group must have its k persons and l
    values in the first table that contains it.
    """
    tables = [published] if isinstance(published, pa.Table) else list(published)
    whole = pa.concat_tables(tables)
    linked = link_rows(whole, original, schema, by=link, closed=closed)
    persons, values = linked.persons_per_group, linked.values_per_group
    wrong = {
        "undeclared columns": len(set(whole.column_names) - declared_columns(schema, whole.column_names)),
        **wrong_rows(linked),
        "published rows that should have been rejected": int(
            np.count_nonzero(linked.originals.rejected[linked.row[linked.known]])
        ),
        **small_groups(persons, values, k=k, l=l),
        "values outside their published range": int(np.count_nonzero(outside(linked))),
        "bounds outside the domain": bounds_outside_domain(linked.sides),
        "ranges of width 0": boxes_without_width(linked.sides),
        "changed sensitive or public values": changed_values(
            whole, original, linked.row, {*kept_columns(schema)} - {link}
        ),
    }
    if every_moment:
        table = np.repeat(np.arange(len(tables)), [each.num_rows for each in tables])
        first = linked.only(first_rows(linked.groups, table))
        few = (first.persons_per_group < k) | (first.values_per_group < l)
        wrong["groups too small in their first table"] = int(np.count_nonzero(few))
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
    """Mean over rows and quasi-identifiers of the published share of the domain; NaN for an empty table."""
    return _mean_loss(read_boxes(published, schema))


def _mean_loss(sides: tuple[Side, ...]) -> float:
    losses = np.mean([side.losses() for side in sides], axis=0)
    return float(losses.mean()) if losses.size else float("nan")


def wrong_rows(linked: Linked) -> dict[str, int]:
    """Count published rows without an original, and rows published more than once."""
    rows = linked.row[linked.known]
    return {
        "rows that are not in the original": linked.row.size - rows.size,
        "rows published more than once": rows.size - int(np.unique(rows).size),
    }


def small_groups(persons: Codes, values: Codes, *, k: int, l: int) -> dict[str, int]:
    """Count groups with fewer than k persons, or fewer than l values of their least diverse sensitive column."""
    return {
        f"groups with fewer than {k} persons": int(np.count_nonzero(persons < k)),
        f"groups with fewer than {l} values of a sensitive column": int(np.count_nonzero(values < l)),
    }


def first_rows(groups: Codes, moment: Codes) -> NDArray[np.bool_]:
    """True for rows published at the same moment as the first row of their group."""
    first = np.full(int(groups.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, groups, moment)
    early: NDArray[np.bool_] = moment == first[groups]
    return early


def outside(linked: Linked) -> NDArray[np.bool_]:
    """(quasi-identifiers, known rows) True where a value is outside its row's box.

    A row that belongs to the root must have the widest box.
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
    """Count bounds outside the public domain, and ranges whose minimum exceeds their maximum."""
    return sum(
        int(np.count_nonzero((side.low < side.domain[0]) | (side.high > side.domain[1]) | (side.low > side.high)))
        for side in sides
    )


def bounds_off_grid(sides: tuple[Side, ...], schema: Schema) -> tuple[int, tuple[str, ...]]:
    """Count bounds that are not edges of the public grid, and name their columns.

    Such a bound is a value of the data. Observed domains have no grid and are skipped.
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
    """Count ranges of cells with two equal bounds, which publish a value, unless the domain itself is one point."""
    return sum(
        int(np.count_nonzero(side.low == side.high)) for side in sides if side.cells and side.domain[0] < side.domain[1]
    )


def _on(bounds: Numbers, edges: Numbers) -> NDArray[np.bool_]:
    """True for bounds that are edges, up to the rounding of text output."""
    after = np.clip(np.searchsorted(edges, bounds), 1, max(edges.size - 1, 1))
    near = np.minimum(np.abs(bounds - edges[after - 1]), np.abs(bounds - edges[min(1, edges.size - 1) * after]))
    close: NDArray[np.bool_] = near <= 1e-12 * np.maximum(1.0, np.abs(bounds))
    return close


def kept_columns(schema: Schema) -> tuple[str, ...]:
    """Columns that are published unchanged if nothing is randomised."""
    return (*(role.name for role in schema.sensitive), *schema.public)


def changed_values(published: pa.Table, original: pa.Table, row: Codes, columns: Collection[str]) -> int:
    """Count values of these columns that differ from the original row."""
    found = row >= 0
    changed = 0
    for name in sorted(columns):
        after = column_of(published, name).filter(pa.array(found))
        before = original.column(name).take(pa.array(row[found]))
        changed += _differences(before, after)
    return changed


def _differences(before: pa.ChunkedArray, after: pa.ChunkedArray) -> int:
    """Count differing values; a text file may change the type of a column, and turns missing values into ""."""
    short = next((each.type for each in (before, after) if each.type in (pa.float16(), pa.float32())), None)
    if short is not None:
        # The text of a short float has fewer digits than the same number as a double.
        return _far_apart(before, after, 16 if short == pa.float16() else 32)
    left, right = common_codes(before, after)
    return int(np.count_nonzero(left != right))


def _far_apart(before: pa.ChunkedArray, after: pa.ChunkedArray, bits: int) -> int:
    """Count numbers that differ even as floats of `bits` bits."""
    (one, no_one), (other, no_other) = (numbers_of(column, "number") for column in (before, after))
    kind = np.float16 if bits == 16 else np.float32
    same = (one.astype(kind) == other.astype(kind)) | (no_one & no_other) | (np.isnan(one) & np.isnan(other))
    return int(np.count_nonzero(~same))
