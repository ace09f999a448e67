"""Cut points as text: a number, a date, a timestamp, or the label of the first leaf above the cut."""

import datetime as dt
from contextlib import suppress

from castleguard.errors import SchemaError
from castleguard.schema.grid import EPOCH, Bound, coded, kind_of
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, QuasiIdentifier, Schema
from castleguard.shards.tree import Cuts, Path


def format_cut(role: QuasiIdentifier, at: float) -> str | int | float:
    """Format a cut point for cuts.json.

    >>> from castleguard.schema.roles import Numeric
    >>> format_cut(Numeric("born", lower=dt.date(1900, 1, 1), upper=dt.date(2000, 1, 1)), -365.0)
    '1969-01-01'
    """
    if isinstance(role, Categorical):
        return role.hierarchy.leaves[int(at)]
    if role.kind == "date":
        return (EPOCH.date() + dt.timedelta(days=at)).isoformat()
    if role.kind == "timestamp":
        return (EPOCH + dt.timedelta(microseconds=at)).replace(tzinfo=None).isoformat()
    return int(at) if at.is_integer() else at


def parse_cut(role: QuasiIdentifier, text: object) -> float:
    """Parse a cut point of cuts.json. Raises SchemaError if it does not fit the column."""
    if isinstance(role, Categorical):
        if text not in role.hierarchy.leaves:
            raise SchemaError(f"column {role.name!r}: a cut point must be a leaf of its hierarchy, got {text!r}")
        return float(role.hierarchy.leaves.index(str(text)))
    bound: Bound | None = None
    if role.kind == "number":
        bound = text if isinstance(text, int | float) and not isinstance(text, bool) else None
    elif isinstance(text, str):
        with suppress(ValueError):
            bound = dt.date.fromisoformat(text) if role.kind == "date" else dt.datetime.fromisoformat(text)
    if bound is None or kind_of(bound) != role.kind:
        raise SchemaError(f"column {role.name!r}: a cut point must be a {role.kind}, got {text!r}")
    return float(coded(bound))


def describe_shards(cuts: Cuts, schema: Schema) -> tuple[str, ...]:
    """Describe the region of each shard in one line.

    >>> from castleguard.shards.tree import Cut
    >>> from castleguard.schema.roles import Numeric
    >>> schema = Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10)])
    >>> describe_shards(Cuts(Cut("age", 40.0, 0, Cut("age", 60.0, 1, 2))), schema)
    ('age below 40', 'age from 40 to below 60', 'age from 60')
    """
    roles = {role.name: role for role in schema.quasi_identifiers}
    regions = {shard: _describe_path(path, roles) for shard, path in cuts.paths()}
    return tuple(regions[shard] for shard in range(cuts.shards))


def _describe_path(path: Path, roles: dict[str, QuasiIdentifier]) -> str:
    sides: dict[str, tuple[float | None, float | None]] = {}
    for cut, below in path:
        low, high = sides.get(cut.column, (None, None))
        # A later cut of the same column lies within the range left by the earlier ones.
        sides[cut.column] = (low, cut.at) if below else (cut.at, high)
    return ", ".join(_describe_side(roles[name], low, high) for name, (low, high) in sides.items()) or "everything"


def _describe_side(role: QuasiIdentifier, low: float | None, high: float | None) -> str:
    if isinstance(role, Categorical):
        last = len(role.hierarchy.leaves) - 1
        nodes = _covering(role.hierarchy, int(low or 0), last if high is None else int(high) - 1)
        return f"{role.name} {' or '.join(nodes)}"
    start = "" if low is None else f" from {format_cut(role, low)}"
    end = "" if high is None else f" below {format_cut(role, high)}"
    return f"{role.name}{start} to{end}" if start and end else f"{role.name}{start}{end}"


def _covering(tree: Hierarchy, first: int, last: int) -> list[str]:
    """Return the fewest nodes that cover exactly these leaves, in order."""
    found = []
    while first <= last:
        inside = (tree.first_leaf == first) & (tree.last_leaf <= last)
        node = int(inside.argmax())  # parents come before their children
        found.append(tree.labels[node])
        first = int(tree.last_leaf[node]) + 1
    return found
