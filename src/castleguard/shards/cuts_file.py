"""cuts.json: cut points as a file that people can read, review and publish.

    {
      "shards": 3,
      "columns": ["age", "district"],
      "tree": {
        "column": "age", "at": 40,
        "below": {"shard": 0},
        "above": {"column": "district", "at": "Linden", "below": {"shard": 1}, "above": {"shard": 2}}
      }
    }

`at` belongs to `above`: a number, an ISO date or timestamp, or the first leaf above the cut.
"""

import datetime as dt
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from castleguard.errors import ConfigError, OutputError, SchemaError
from castleguard.schema.grid import EPOCH, Bound, coded, kind_of
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, QuasiIdentifier, Schema
from castleguard.shards.cut_tree import Branch, Cut, Cuts, to_dicts
from castleguard.shards.cut_tree import Path as TreePath
from castleguard.shards.routing import check_cuts

_CUT = {"column", "at", "below", "above"}


def cuts_to_json(cuts: Cuts, schema: Schema) -> str:
    """Return the content of the file."""
    roles = {role.name: role for role in schema.quasi_identifiers}
    tree = to_dicts(cuts.root, lambda cut: format_cut(roles[cut.column], cut.at))
    return json.dumps({"shards": cuts.shards, "columns": list(cuts.columns), "tree": tree}, indent=2) + "\n"


def cuts_from_json(text: str, schema: Schema, *, name: str = "cuts.json") -> Cuts:
    """Parse the content of the file. Raises ConfigError, prefixed with `name`, if it does not fit the schema."""
    try:
        return _read(json.loads(text), schema)
    except SchemaError as exc:
        raise ConfigError(f"{name} does not fit the schema: {exc}") from exc
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"{name} is not JSON, or nested too deeply: write it with `castleguard cuts`") from exc


def write_cuts(cuts: Cuts, schema: Schema, path: str | Path) -> None:
    """Write the file."""
    try:
        Path(path).write_text(cuts_to_json(cuts, schema), encoding="utf-8")
    except OSError as exc:
        raise OutputError(f"{path} cannot be written: {exc.strerror}") from exc


def read_cuts(path: str | Path, schema: Schema) -> Cuts:
    """Read the file. Raises ConfigError if it cannot be read or does not fit the schema."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path} cannot be read: it is not UTF-8 text") from exc
    return cuts_from_json(text, schema, name=str(path))


def _read(data: Any, schema: Schema) -> Cuts:
    if not isinstance(data, dict) or set(data) != {"shards", "columns", "tree"}:
        raise SchemaError("it needs the keys shards, columns and tree, and no others")
    cuts = Cuts(_branch(data["tree"], {role.name: role for role in schema.quasi_identifiers}))
    if data["shards"] != cuts.shards:
        raise SchemaError(f"its key shards is {data['shards']!r}, but its tree has {cuts.shards} shards")
    if data["columns"] != list(cuts.columns):
        raise SchemaError(f"its key columns differs from its tree, which has {', '.join(cuts.columns) or 'none'}")
    check_cuts(cuts, schema)
    return cuts


def _branch(data: Any, roles: dict[str, QuasiIdentifier]) -> Branch:
    if not isinstance(data, dict):
        raise SchemaError("a part of its tree is neither a cut nor a shard")
    if set(data) == {"shard"}:
        shard = data["shard"]
        if isinstance(shard, bool) or not isinstance(shard, int):
            raise SchemaError(f"a shard must be a whole number, got {shard!r}")
        return shard
    if set(data) != _CUT:
        raise SchemaError('a part of its tree needs the keys column, at, below and above, or "shard" alone')
    role = roles.get(data["column"]) if isinstance(data["column"], str) else None
    if role is None:
        known = ", ".join(roles)
        raise SchemaError(f"it cuts {data['column']!r}, which is not a quasi-identifier (choose from {known})")
    below, above = (_branch(data[side], roles) for side in ("below", "above"))
    return Cut(role.name, parse_cut(role, data["at"]), below, above)


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

    >>> from castleguard.shards.cut_tree import Cut
    >>> from castleguard.schema.roles import Numeric
    >>> schema = Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10)])
    >>> describe_shards(Cuts(Cut("age", 40.0, 0, Cut("age", 60.0, 1, 2))), schema)
    ('age below 40', 'age from 40 to below 60', 'age from 60')
    """
    roles = {role.name: role for role in schema.quasi_identifiers}
    regions = {shard: _describe_path(path, roles) for shard, path in cuts.paths()}
    return tuple(regions[shard] for shard in range(cuts.shards))


def _describe_path(path: TreePath, roles: dict[str, QuasiIdentifier]) -> str:
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
