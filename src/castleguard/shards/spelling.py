"""Cut points as people write and read them: a number, a day, a moment, or the label of the first leaf above the cut."""

import datetime as dt
from contextlib import suppress

from castleguard.errors import SchemaError
from castleguard.schema.grid import EPOCH, Bound, coded, kind_of
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, QuasiIdentifier, Schema
from castleguard.shards.tree import Cuts, Path


def spell(role: QuasiIdentifier, at: float) -> str | int | float:
    """A cut point as a file holds it.

    >>> from castleguard.schema.roles import Numeric
    >>> spell(Numeric("born", lower=dt.date(1900, 1, 1), upper=dt.date(2000, 1, 1)), -365.0)
    '1969-01-01'
    """
    if isinstance(role, Categorical):
        return role.hierarchy.leaves[int(at)]
    if role.kind == "date":
        return (EPOCH.date() + dt.timedelta(days=at)).isoformat()
    if role.kind == "timestamp":
        return (EPOCH + dt.timedelta(microseconds=at)).replace(tzinfo=None).isoformat()
    return int(at) if at.is_integer() else at


def unspell(role: QuasiIdentifier, text: object) -> float:
    """The cut point that was spelt so. Raises SchemaError if it is none of this column."""
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


def shard_words(cuts: Cuts, schema: Schema) -> tuple[str, ...]:
    """What lies in each shard, one line each.

    >>> from castleguard.shards.tree import Cut
    >>> from castleguard.schema.roles import Numeric
    >>> schema = Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10)])
    >>> shard_words(Cuts(Cut("age", 40.0, 0, Cut("age", 60.0, 1, 2))), schema)
    ('age below 40', 'age from 40 to below 60', 'age from 60')
    """
    roles = {role.name: role for role in schema.quasi_identifiers}
    words = {shard: _path_words(path, roles) for shard, path in cuts.paths()}
    return tuple(words[shard] for shard in range(cuts.shards))


def _path_words(path: Path, roles: dict[str, QuasiIdentifier]) -> str:
    sides: dict[str, tuple[float | None, float | None]] = {}
    for cut, below in path:
        low, high = sides.get(cut.column, (None, None))
        # Further down a path the same column is only cut inside of what is left of it.
        sides[cut.column] = (low, cut.at) if below else (cut.at, high)
    return ", ".join(_side_words(roles[name], low, high) for name, (low, high) in sides.items()) or "everything"


def _side_words(role: QuasiIdentifier, low: float | None, high: float | None) -> str:
    if isinstance(role, Categorical):
        last = len(role.hierarchy.leaves) - 1
        nodes = _covering(role.hierarchy, int(low or 0), last if high is None else int(high) - 1)
        return f"{role.name} {' or '.join(nodes)}"
    start = "" if low is None else f" from {spell(role, low)}"
    end = "" if high is None else f" below {spell(role, high)}"
    return f"{role.name}{start} to{end}" if start and end else f"{role.name}{start}{end}"


def _covering(tree: Hierarchy, first: int, last: int) -> list[str]:
    """The fewest nodes that have exactly these leaves, in order."""
    found = []
    while first <= last:
        inside = (tree.first_leaf == first) & (tree.last_leaf <= last)
        node = int(inside.argmax())  # parents come before their children
        found.append(tree.labels[node])
        first = int(tree.last_leaf[node]) + 1
    return found
