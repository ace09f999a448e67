"""The JSON Schema for editors: it accepts what the loader accepts, and is not stale."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from castleguard.algorithms.lookup import names
from castleguard.cli import commands
from castleguard.config.document import read_document
from castleguard.config.editor_schema import job_schema
from castleguard.connectors.nats.nats_options import Access
from tests.unit.config.test_job_file import BROKER, WHOLE, job
from tests.unit.fake_connectors import Offered

PINNED = Path(__file__).parents[3] / "docs" / "reference" / "job.schema.json"
SCHEMA = job_schema(Offered(), lambda: Access)
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
    "boolean": (bool,), "null": (type(None),),
}  # fmt: skip


def accepts(node: dict[str, Any], value: Any) -> bool:
    """Whether a value fits a schema: as much of the standard as the schema uses. Dates are texts to it."""
    known = {"maximum", "exclusiveMinimum", "exclusiveMaximum",
             "$ref", "type", "const", "enum", "pattern", "minLength", "minimum", "properties", "required", "items",
             "additionalProperties", "anyOf", "oneOf", "description", "default", "title", "format",
             "$schema", "definitions"}  # fmt: skip
    assert node.keys() <= known, node.keys() - known
    if "$ref" in node:
        return accepts(SCHEMA["definitions"][node["$ref"].removeprefix("#/definitions/")], value)
    value = value.isoformat() if hasattr(value, "isoformat") else value
    named = node.get("type")
    if named and (not isinstance(value, TYPES[named]) or (isinstance(value, bool) and named != "boolean")):
        return False
    checks = [
        "const" not in node or value == node["const"],
        "enum" not in node or value in node["enum"],
        "pattern" not in node or re.search(node["pattern"], value) is not None,
        "minLength" not in node or len(value) >= node["minLength"],
        not isinstance(value, int | float) or _within(node, value),
        "anyOf" not in node or any(accepts(below, value) for below in node["anyOf"]),
        "oneOf" not in node or sum(accepts(below, value) for below in node["oneOf"]) == 1,
        not isinstance(value, list) or all(accepts(node.get("items", {}), item) for item in value),
        not isinstance(value, dict) or _fits(node, value),
    ]
    return all(checks)


def _within(node: dict[str, Any], value: float) -> bool:
    at_least, at_most = node.get("minimum", value), node.get("maximum", value)
    above, below = node.get("exclusiveMinimum", value - 1), node.get("exclusiveMaximum", value + 1)
    return bool(at_least <= value <= at_most and above < value < below)


def _fits(node: dict[str, Any], value: dict[str, Any]) -> bool:
    properties, others = node.get("properties", {}), node.get("additionalProperties", True)
    if any(key not in value for key in node.get("required", [])):
        return False
    for key, below in value.items():
        rule = properties.get(key, others)
        if rule is False or (isinstance(rule, dict) and not accepts(rule, below)):
            return False
    return True


def data(folder: Path, text: str) -> object:
    path = folder / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return read_document(path).data


GOOD = {
    "whole": WHOLE,
    "least": job(),
    "broker": job(source=BROKER),
    "not installed": job(source="{type: nats, unknown: 5}"),
    "variables": job(privacy='{algorithm: castle, k: "${K}", delay: 9, mode: "${MODE}"}', metrics='{port: "${PORT}"}'),
    "closeness": job(privacy="{algorithm: castle, k: 5, delay: 9, closeness: {t: 0.3, distance: ordered}}"),
    "doca": job(privacy="{algorithm: doca, epsilon: 1, delay: 9, mode: paper, sensitivity: {age: 5}}"),
    "sdgs": job(privacy="{algorithm: sdgs, k: 5, sample_rate: 0.1, epsilon: 1, window: 1h}"),
}
BAD_POLICIES = {
    "wrong number": "{algorithm: castle, k: ten, delay: 9}",
    "number too small": "{algorithm: castle, k: 1, delay: 9}",
    "number too large": "{algorithm: castle, k: 5, delay: 9, closeness: {t: 3}}",
    "zero seconds": "{algorithm: castle, k: 5, delay: 9, max_wait: 0}",
    "parameter of another": "{algorithm: castle, k: 5, delay: 9, phi: 3}",
    "no algorithm": "{k: 5, delay: 9}",
}
BAD = {
    "unknown key": job(nme="x"),
    "unknown type": job(source="{type: cvs}"),
    "no source": job(source=""),
    "option of another": job(source="{type: csv, path: x, topic: y}"),
    "missing option": job(source="{type: csv}"),
    **{name: job(privacy=policy) for name, policy in BAD_POLICIES.items()},
    "wrong duration": job(checkpoint="{path: x, every: soon}"),
    "wrong column": job().replace("lower: 0", "lowr: 0"),
    "wrong name": job(name="My Trips"),
}


@pytest.mark.parametrize("name", GOOD)
def test_files_that_the_loader_accepts_fit_the_schema(tmp_path: Path, name: str) -> None:
    assert accepts(SCHEMA, data(tmp_path, GOOD[name]))


@pytest.mark.parametrize("name", BAD)
def test_files_that_the_loader_refuses_for_their_form_do_not_fit(tmp_path: Path, name: str) -> None:
    assert not accepts(SCHEMA, data(tmp_path, BAD[name]))


def test_keys_are_explained_by_their_field_declarations() -> None:
    offered, files = SCHEMA["properties"]["privacy"]["oneOf"], SCHEMA["properties"]["source"]["oneOf"][0]
    castle = offered[names().index("castle")]
    assert castle["properties"]["algorithm"] == {"const": "castle"}
    assert castle["properties"]["k"]["description"].startswith("Distinct persons per published group.")
    assert castle["properties"]["delay"]["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 1 << 30}
    assert castle["properties"]["max_clusters"]["default"] == 50
    assert files["properties"]["type"] == {"const": "csv"}
    assert files["properties"]["path"]["description"] == "A file, a folder or a pattern."


def test_every_algorithm_is_offered() -> None:
    offered = [node["properties"]["algorithm"]["const"] for node in SCHEMA["properties"]["privacy"]["oneOf"]]
    assert offered == names()


def test_the_copy_in_the_documentation_is_up_to_date() -> None:
    """If it is not: castleguard schema --output docs/reference/job.schema.json."""
    shown = CliRunner().invoke(commands, ["schema"])
    assert shown.exit_code == 0
    assert json.loads(PINNED.read_text(encoding="utf-8")) == json.loads(shown.output)


def test_it_can_be_written_to_a_file(tmp_path: Path) -> None:
    shown = CliRunner().invoke(commands, ["schema", "--output", str(tmp_path / "job.schema.json")])
    assert (shown.exit_code, shown.output) == (0, "")
    assert json.loads((tmp_path / "job.schema.json").read_text(encoding="utf-8"))["required"][0] == "source"
