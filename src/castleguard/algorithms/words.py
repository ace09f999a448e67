"""Descriptions of boxed columns for `explain`."""

import pyarrow as pa

from castleguard.release.encode import Numbers, numeric_type, numeric_values
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier


def boxed(role: QuasiIdentifier, numbers: Numbers | None, *, closed: bool = False, randomised: bool = False) -> str:
    """Describe a quasi-identifier published as a range or a node.

    `closed`: ranges are a group's own values, as in the papers.
    """
    first = ", randomised first" if randomised else ""
    if isinstance(role, Categorical):
        return f"{_node(role)}{first}"
    if role.edges.size == 0:
        return "the range of its group's own values"
    if closed:
        return f"the range of its group's own values, both ends included, {domain(role)}"
    cells = role.edges.size - 1
    return f"{_range(role, numbers)}, {domain(role)} on a public grid of {cells} cell{'s' if cells > 1 else ''}{first}"


def domain(role: Numeric) -> str:
    """Describe the domain of a number."""
    return f"from {role.lower} to {role.upper}" if role.domain else "over the range of the data"


def _range(role: Numeric, numbers: Numbers | None) -> str:
    low, high = _example(role, numeric_type(role))
    if numbers in (None, "bounds"):
        return f"a range such as {low} to {high}"
    return f"a range such as [{low}, {high}]" if numbers == "interval" else "the middle of a range"


def _example(role: Numeric, kind: pa.DataType) -> tuple[str, str]:
    """Format two edges of the grid as an example, independent of any row."""
    at = role.edges.size // 3
    edges = role.edges[[at, min(at + 2, role.edges.size - 1)]]
    values = numeric_values(role, kind, edges).to_pylist()
    return str(values[0]), str(values[1])


def _node(role: Categorical) -> str:
    tree = role.hierarchy
    inner = [label for label in tree.labels[1:] if label not in tree.leaves]
    above = f"a node above it such as {inner[0]}, or {tree.labels[0]}" if inner else f"{tree.labels[0]}"
    return f"one of {len(tree.leaves)} labels such as {tree.leaves[0]}, or {above} if the labels in a group differ"
