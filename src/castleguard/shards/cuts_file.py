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

import json
from pathlib import Path
from typing import Any

from castleguard.errors import ConfigError, OutputError, SchemaError
from castleguard.schema.roles import QuasiIdentifier, Schema
from castleguard.shards.routing import check_cuts
from castleguard.shards.spelling import format_cut, parse_cut
from castleguard.shards.tree import Branch, Cut, Cuts, to_dicts

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
