"""A schema from YAML: the same roles as in Python, with hierarchies by path.

    person: pid                       # or {name: pid, case: exact}; or null: every row is its own person
    quasi_identifiers:
      - {name: age, lower: 0, upper: 100, step: 5}
      - {name: education, hierarchy: education.csv}     # relative to this file; or a nested mapping, or a list
    sensitive: [occupation, {name: fare, bins: [0, 10, 20]}, {name: outcome, values: [ill, well]}]
    public: [vendor]

Every error names the file, the line and the key; all of them are reported at once.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from castleguard.config.document import Document, Place, read_document
from castleguard.config.environment import Variables
from castleguard.config.problems import Problem, explain, report
from castleguard.config.schema_model import (
    KNOWN_KEYS,
    CategoricalEntry,
    NumericEntry,
    PersonEntry,
    PublicEntry,
    SchemaEntry,
    SensitiveEntry,
)
from castleguard.connectors.csv_input import PLAIN, CsvInput
from castleguard.errors import SchemaError
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.person import Person
from castleguard.schema.roles import Categorical, Numeric, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Public, Sensitive

CONFIRM = "is false: check the guesses in this file, then set confirmed: true (or delete the line)"
"""The problem of a proposed file that is not confirmed."""
OPEN = "?"
"""In place of the person's column: it is not chosen yet."""


class SchemaFile(NamedTuple):
    """What a schema file or a job file says about the columns, and about CSV files that hold them."""

    schema: Schema
    csv: CsvInput = PLAIN


def load_schema(path: str | Path) -> Schema:
    """Read the schema of a schema file or a job file; raises ConfigError with one line per problem."""
    return read_schema_file(path).schema


def read_schema_file(path: str | Path) -> SchemaFile:
    """Read a schema file, or the schema and the `csv` of the source of a job file. Raises ConfigError."""
    document = read_document(path)
    data = document.data
    if not isinstance(data, dict) or "schema" not in data or "quasi_identifiers" in data:
        return SchemaFile(schema_section(document, data))
    variables = Variables(os.environ)
    filled = variables.fill({"schema": data["schema"], "csv": _csv_section(data)})
    problems = list(variables.problems)
    if data.get("confirmed", True) is not True:
        problems.append(Problem(("confirmed",), CONFIRM))
    if problems:
        raise report(document, problems)
    schema = build_schema(filled["schema"], ("schema",), problems, document.path.parent)
    csv = PLAIN
    try:
        csv = CsvInput(**filled["csv"])
    except (TypeError, ValueError) as exc:
        problems.append(Problem(("source", "csv"), f"cannot work: {exc}"))
    if schema is None or problems:
        # Values from the environment are masked, as in the errors of a job.
        raise report(document, [Problem(place, variables.mask(sentence)) for place, sentence in problems])
    return SchemaFile(schema, csv)


def _csv_section(job: dict[str, Any]) -> dict[str, Any]:
    """The options of CSV in the source of a job."""
    source = job.get("source")
    csv = source.get("csv") if isinstance(source, dict) else None
    return csv if isinstance(csv, dict) else {}


def schema_section(document: Document, data: object, section: Place = ()) -> Schema:
    """The schema at `section` of a document, where `data` was read. Raises ConfigError."""
    problems: list[Problem] = []
    schema = build_schema(data, section, problems, document.path.parent)
    if schema is None:
        raise report(document, problems)
    return schema


def build_schema(data: object, section: Place, problems: list[Problem], folder: Path) -> Schema | None:
    """The schema; None if it has problems, which are appended. Paths of hierarchies are relative to `folder`."""
    try:
        entry = SchemaEntry.model_validate(data)
    except ValidationError as exc:
        problems += explain(exc, KNOWN_KEYS, section)
        return None
    if entry.person == OPEN:
        problems.append(
            Problem((*section, "person"), "is not chosen: name the column that identifies persons, or null")
        )
        return None
    builder = _Builder(folder, section)
    quasi_identifiers = [builder.quasi_identifier(at, column) for at, column in enumerate(entry.quasi_identifiers)]
    sensitive = [builder.sensitive(at, column) for at, column in enumerate(entry.sensitive)]
    if builder.problems:
        problems += builder.problems
        return None
    try:
        return Schema(
            person=Person(**person.model_dump()) if isinstance(person := entry.person, PersonEntry) else person,
            quasi_identifiers=[role for role in quasi_identifiers if role is not None],
            sensitive=[role for role in sensitive if role is not None],
            public=[Public(**one.model_dump()) if isinstance(one, PublicEntry) else one for one in entry.public],
        )
    except SchemaError as exc:
        problems.append(Problem(section, f"cannot work: {exc}"))
        return None


class _Builder:
    """Builds roles and collects all of their problems."""

    def __init__(self, folder: Path, section: Place) -> None:
        self.problems: list[Problem] = []
        self._folder = folder
        self._section = section

    def quasi_identifier(self, at: int, entry: NumericEntry | CategoricalEntry) -> QuasiIdentifier | None:
        place = (*self._section, "quasi_identifiers", at)
        if isinstance(entry, CategoricalEntry):
            hierarchy = self._hierarchy((*place, "hierarchy"), entry.hierarchy)
            if hierarchy is None:
                return None
        try:
            if isinstance(entry, CategoricalEntry):
                return Categorical(**{**entry.model_dump(), "hierarchy": hierarchy})
            return Numeric(**entry.model_dump())
        except SchemaError as exc:
            self.problems.append(Problem(place, f"cannot work: {exc}"))
            return None

    def sensitive(self, at: int, entry: SensitiveEntry | str) -> Sensitive | None:
        if isinstance(entry, str):
            return Sensitive(entry)
        place = (*self._section, "sensitive", at)
        hierarchy = None
        if entry.hierarchy is not None:
            hierarchy = self._hierarchy((*place, "hierarchy"), entry.hierarchy)
            if hierarchy is None:
                return None
        try:
            return Sensitive(entry.name, bins=entry.bins, values=entry.values, hierarchy=hierarchy, type=entry.type)
        except SchemaError as exc:
            self.problems.append(Problem(place, f"cannot work: {exc}"))
            return None

    def _hierarchy(self, place: Place, tree: str | dict[str, Any] | list[Any]) -> Hierarchy | None:
        unclear = _unclear_labels(tree, place)
        if unclear:
            self.problems.extend(unclear)
            return None
        try:
            if isinstance(tree, str):
                return Hierarchy.from_csv(self._folder / tree)
            return Hierarchy.from_mapping(tree) if isinstance(tree, dict) else Hierarchy.flat(tree)
        except SchemaError as exc:
            self.problems.append(Problem(place, f"cannot work: {exc}"))
            return None


def _unclear_labels(tree: object, place: Place) -> list[Problem]:
    """Labels that YAML reads as another type (yes, no, dates): they would never match the data, which is text."""
    if isinstance(tree, dict):
        parts = [(key, below) for key, below in tree.items() if below is not None]  # a key without children is a leaf
        return [problem for key, below in parts for problem in _unclear_labels(below, (*place, key))]
    if isinstance(tree, list):
        return [problem for at, item in enumerate(tree) for problem in _unclear_labels(item, (*place, at))]
    if isinstance(tree, bool) or not isinstance(tree, str | int | float):
        return [Problem(place, "is not text in YAML: put the label in quotes")]
    return []
