"""Makes the file of a hierarchy from a column of data."""

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from castleguard.config.document import read_document
from castleguard.connectors.csv_detect import detect_csv
from castleguard.connectors.csv_input import PLAIN
from castleguard.connectors.formats import format_of, open_reader
from castleguard.durable import write_durably
from castleguard.errors import InputError, SchemaError
from castleguard.schema.column import as_text
from castleguard.schema.hierarchy import Hierarchy, check_rows, label_text
from castleguard.schema.tree_makers import Ancestries, DatePart, by_bins, by_date, by_frequency, by_prefix, by_table

RARE = 5  # rows


@dataclass(frozen=True)
class Plan:
    """How the tree is made: exactly one of these."""

    prefixes: tuple[int, ...] | None = None
    """Lengths; empty: all."""
    dates: tuple[DatePart, ...] | None = None
    bins: int | None = None
    frequent: int | None = None
    lookup: Path | None = None
    """CSV with the value in its first column, and what is above it in the others."""
    tree: Path | None = None
    """YAML with a nested mapping, as in a schema."""


@dataclass(frozen=True)
class Grown:
    """A tree, and what is to be known about it. It shows no value of the data."""

    rows: Ancestries
    values: int
    rare: int
    """Values with fewer than five rows: the file would repeat data about few persons."""
    unmapped: int
    """Values that a table does not have."""
    unmapped_rows: int

    def write(self, path: Path) -> None:
        """Write the file that a schema names, readable by its owner alone. Raises SchemaError, OutputError."""
        check_rows(self.rows)
        text = io.StringIO()
        csv.writer(text, delimiter=";", lineterminator="\n").writerows(self.rows)
        write_durably(path, text.getvalue().encode(), private=True)

    def __str__(self) -> str:
        levels = max(map(len, self.rows), default=1) - 1
        lines = [f"{self.values:,} values in {levels} level{'s' if levels != 1 else ''}"]
        if self.unmapped:
            lines.append(f"{self.unmapped:,} values in {self.unmapped_rows:,} rows are not in the table: under other")
        if self.rare:
            lines.append(f"{self.rare:,} values have fewer than {RARE} rows: protect the file like the data")
        return "\n".join(lines)


def grow(column: str, data: Path, plan: Plan) -> Grown:
    """Make a tree of the values of a column. Raises InputError, SchemaError, ConfigError."""
    counts = count_values(column, data)
    if not counts:
        raise InputError(f"{data} has no values in column {column!r}")
    unmapped: list[str] = []
    if plan.prefixes is not None:
        rows = by_prefix(counts, plan.prefixes)
    elif plan.dates is not None:
        rows = by_date(counts, plan.dates)
    elif plan.bins is not None:
        rows = by_bins(counts, plan.bins)
    elif plan.frequent is not None:
        rows = by_frequency(counts, plan.frequent)
    else:
        rows, unmapped = by_table(counts, _parents(plan))
    return Grown(
        rows=rows,
        values=len(counts),
        rare=sum(count < RARE for count in counts.values()),
        unmapped=len(unmapped),
        unmapped_rows=sum(counts[value] for value in unmapped),
    )


def count_values(column: str, data: Path) -> Counter[str]:
    """Rows of each value of a column, as text."""
    csv_options = detect_csv(data) if format_of(data, InputError) == "csv" and data.exists() else PLAIN
    counts: Counter[str] = Counter()
    with closing(open_reader(data, [column], csv=csv_options)) as reader:
        for batch in reader:
            text = as_text(batch.column(0))
            if text is None:
                raise InputError(f"column {column!r} has values that cannot be labels")
            for each in pc.value_counts(pc.utf8_trim_whitespace(text.drop_null())):
                counts[each["values"].as_py()] += each["counts"].as_py()
    del counts[""]
    return counts


def _parents(plan: Plan) -> Mapping[str, Sequence[str]]:
    """What is above each value, by a lookup table or a tree."""
    if plan.tree is not None:
        nested = read_document(plan.tree).data
        if not isinstance(nested, dict):
            raise SchemaError(
                f"{plan.tree} must be a nested mapping, such as {{all: {{north: [oslo], south: [rome]}}}}"
            )
        tree = Hierarchy.from_mapping(nested)
        return {leaf: _above(tree, number) for number, leaf in enumerate(tree.leaves)}
    assert plan.lookup is not None
    try:
        with open(plan.lookup, encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8"
        raise InputError(f"{plan.lookup} cannot be read: {why}") from exc
    separator = ";" if ";" in text.partition("\n")[0] else ","
    found: dict[str, Sequence[str]] = {}
    for row in csv.reader(io.StringIO(text), delimiter=separator):
        cells = [cell.strip() for cell in row if cell.strip()]
        if len(cells) > 1:
            found[label_text(cells[0])] = cells[1:]
    if not found:
        raise SchemaError(f"{plan.lookup} has no row with a value and what is above it")
    return found


def _above(tree: Hierarchy, leaf: int) -> list[str]:
    node, found = int(tree.parents[tree.leaf_nodes[leaf]]), []
    while node > 0:
        found.append(tree.labels[node])
        node = int(tree.parents[node])
    return found
