"""JSON Schema of job files, with which editors complete, explain and check keys.

It is built from the models that check a file. It cannot check how values fit together (delay and k, a column and its
role): `castleguard validate` does.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from castleguard.algorithms.lookup import built_in, find, names
from castleguard.config.expected import Entry
from castleguard.config.job_file import NAME, NEEDED, Connectors, own_model
from castleguard.config.job_model import Checkpoint, DeadLetter, Metrics, Numbers
from castleguard.config.policy_section import policy_model
from castleguard.config.schema_model import SchemaEntry
from castleguard.config.sections import options_model
from castleguard.config.sites_section import sites_model
from castleguard.config.spark_section import Spark
from castleguard.errors import ConfigError

Node = dict[str, Any]

_DESCRIPTIONS = {
    "name": "The job's name in metrics and logs; default: the file name.",
    "confirmed": "false in a proposed file: check its guesses, then set it to true or delete it.",
    "source": "Where rows come from: the type of a connector and its options.",
    "schema": "The role of every column, or the file that has them. Undeclared columns are dropped.",
    "privacy": "The promise: an algorithm and its parameters.",
    "sink": "Where published rows go: the type of a connector and its options.",
    "sites": "The sites that publish one stream together; each runs `castleguard site` with the same file.",
    "spark": "How rows are spread over shards in Apache Spark; run the job with `castleguard spark`.",
    "numbers": "Publish a range as two columns, as one string or as its midpoint.",
}
_VARIABLE = {"$ref": "#/definitions/variable"}
_NESTED = ("anyOf", "oneOf")


def job_schema(connectors: Connectors, relay: Callable[[], type], algorithms: Sequence[str] = ()) -> Node:
    """The JSON Schema of job files with these connectors, and this relay between sites.

    It describes the parameters of the plug-ins in `algorithms`; other plug-ins may have any parameters.
    """
    made = _Maker()
    described = (*built_in(), *algorithms)
    properties: Node = {
        "name": {"type": "string", "pattern": NAME},
        "confirmed": {"type": "boolean"},
        "source": {"oneOf": made.endpoints(connectors, "source")},
        "schema": {"oneOf": [_tagged({"additionalProperties": False}, "file"), made.section(SchemaEntry)]},
        "privacy": {
            "oneOf": [
                _tagged(_privacy(made, name) if name in described else {}, "algorithm", name)
                for name in dict.fromkeys((*names(), *algorithms))
            ]
        },
        "sink": {"oneOf": made.endpoints(connectors, "sink")},
        "checkpoint": made.section(own_model(Checkpoint)),
        "dead_letter": made.section(own_model(DeadLetter)),
        "metrics": made.section(own_model(Metrics)),
        "numbers": {"enum": list(get_args(Numbers))},
        "sites": made.section(sites_model()),
        "spark": made.section(own_model(Spark)),
    }
    properties["sites"]["properties"]["relay"] |= {"type": "object", **made.section(options_model(relay()))}
    for key, description in _DESCRIPTIONS.items():
        properties[key] = {"description": description, **properties[key]}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A castleguard job",
        "type": "object",
        "additionalProperties": False,
        "required": list(NEEDED),
        "properties": properties,
        "definitions": made.definitions,
    }


def _privacy(made: "_Maker", algorithm: str) -> Node:
    node = made.section(policy_model(algorithm))
    if find(algorithm).several_sites:  # the number of sites follows from sites.names
        node["required"] = [name for name in node["required"] if name != "sites"]
    return node


class _Maker:
    """Turns models into schemas, and collects their shared definitions."""

    def __init__(self) -> None:
        self.definitions: Node = {
            "variable": {
                "description": "An environment variable. Its value is never printed.",
                "type": "string",
                "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}",
            }
        }

    def section(self, model: type[Entry]) -> Node:
        """The schema of one section."""
        node = model.model_json_schema()
        for name, definition in node.pop("$defs", {}).items():
            self.definitions[name] = _cleaned(definition)
        return _cleaned(node)

    def endpoints(self, connectors: Connectors, direction: Literal["source", "sink"]) -> list[Node]:
        """One schema for each connector that has this direction."""
        found = []
        for kind in connectors:
            try:
                options = getattr(connectors[kind], direction)
            except ConfigError:  # not installed here, but the file may run elsewhere
                found.append(_tagged({}, "type", kind))
                continue
            if options is not None:
                found.append(_tagged(self.section(options_model(options)), "type", kind))
        return found


def _tagged(section: Node, key: str, value: str | None = None) -> Node:
    """The schema of a mapping in which `key` has this value; None for any text."""
    tag = {"type": "string"} if value is None else {"const": value}
    return {
        "type": "object",
        **section,
        "properties": {key: tag, **section.get("properties", {})},
        "required": [key, *section.get("required", [])],
    }


def _cleaned(node: Node) -> Node:
    """The schema without pydantic's titles, and with variables allowed in place of numbers, flags and enums."""
    cleaned: Node = {}
    for key, value in node.items():
        if key == "title" or (key == "default" and value is None):
            continue
        if key == "properties":
            cleaned[key] = {name: _cleaned(below) for name, below in value.items()}
        elif key in _NESTED:
            cleaned[key] = [_bare(below) for below in value]
        elif isinstance(value, dict):
            cleaned[key] = _cleaned(value)
        else:
            cleaned[key] = value.replace("$defs", "definitions") if key == "$ref" else value
    if any(map(_is_scalar, cleaned.get("anyOf", []))):
        cleaned["anyOf"].append(_VARIABLE)
    if not _is_scalar(cleaned):
        return cleaned
    about: Node = {key: cleaned.pop(key) for key in ("description", "default") if key in cleaned}
    return {**about, "anyOf": [cleaned, _VARIABLE]}


def _bare(node: Node) -> Node:
    """One of several alternatives; the caller adds the variable once for all of them."""
    return node if _is_scalar(node) else _cleaned(node)


def _is_scalar(node: Node) -> bool:
    """Whether the schema is a number, a flag or an enum."""
    return node.get("type") in ("integer", "number", "boolean") or "enum" in node
