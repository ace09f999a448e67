"""The Adult data as CASTLE and dCASTLE use them: rows, domains and hierarchies.

CASTLE's UCI-Adult is the 30,162 complete rows of the training file. Its SFU-Adult adds the 15,060 complete rows of the
test file; their order in the paper is unknown. The hierarchies follow Fung, Wang and Yu (2005), cited by both papers,
in a version published by others: the file of 2005 was not found. They have 41 countries, as the data do; dCASTLE counts
40.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from castleguard.lab.datasets import ADULT, File, read
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive

# fmt: off
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)
# fmt: on
NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
CATEGORICAL = ("education", "marital-status", "occupation", "native-country")
"""Categories among CASTLE's ten quasi-identifiers; dCASTLE puts workclass before them."""
PERSON = "pid"

Domains = Mapping[str, tuple[int, int]]

STATED: Domains = {
    "age": (0, 100),
    "fnlwgt": (0, 1_500_000),
    "education-num": (0, 20),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (0, 100),
}
"""Domains stated in dCASTLE's paper. CASTLE takes the ranges of the data: `observed`."""

_TRAINING, _TEST, _TREES = ADULT.files
_RACE = "race"


def uci(rows: int | None = None) -> pa.Table:
    """The 30,162 complete rows of the training file in file order, with a running `pid`.

    `rows` sets their number: the file is repeated, with new persons each time.
    """
    return _numbered(_complete(_TRAINING), rows)


def sfu(rows: int | None = None) -> pa.Table:
    """The 45,222 complete rows of the training file, then of the test file, with a running `pid`; `rows` as above."""
    return _numbered(pa.concat_tables([_complete(_TRAINING), _complete(_TEST)]), rows)


def observed(table: pa.Table) -> Domains:
    """The range of every numeric column, CASTLE's domain."""
    columns = {name: table.column(name).to_numpy() for name in NUMERIC}
    return {name: (int(values.min()), int(values.max())) for name, values in columns.items()}


def hierarchies() -> dict[str, Hierarchy]:
    """Trees by column, each with the root "*"."""
    trees = json.loads(read(_TREES))
    found = {}
    for key, tree in trees.items():
        name = key.replace("_", "-")
        grown = {"*": [_branch(child, name) for child in tree["leaves"]]}
        found[name] = Hierarchy.from_mapping(grown)
    return found


def schema(
    domains: Domains,
    *,
    names: Sequence[str] = NUMERIC,
    sensitive: str | None = None,
    trees: Mapping[str, Hierarchy] | None = None,
    step: float | None = None,
) -> Schema:
    """A schema with these columns as quasi-identifiers, in this order; `sensitive` is another category.

    The trees are read if a category needs them and they are not given. `domains` are those of `observed`, or `STATED`.
    """
    categories = [name for name in (*names, sensitive) if name is not None and name not in domains]
    known = hierarchies() if categories and trees is None else trees or {}
    roles: list[Numeric | Categorical] = []
    for name in names:
        if name in domains:
            lower, upper = domains[name]
            roles.append(Numeric(name, lower=lower, upper=upper, step=step))
        else:
            roles.append(Categorical(name, hierarchy=known[name]))
    protected = [] if sensitive is None else [Sensitive(sensitive, hierarchy=known[sensitive])]
    return Schema(person=PERSON, quasi_identifiers=roles, sensitive=protected)


def _complete(file: File) -> pa.Table:
    """Rows without a missing value. The test file begins with a remark and ends incomes with a full stop."""
    content = read(file).replace(b", ", b",").replace(b".\n", b"\n")
    table = csv.read_csv(
        pa.BufferReader(content),
        read_options=csv.ReadOptions(column_names=COLUMNS),
        parse_options=csv.ParseOptions(invalid_row_handler=lambda row: "skip"),
    )
    for name in COLUMNS:
        if name not in NUMERIC:
            table = table.filter(pc.not_equal(table.column(name), "?"))
    return table


def _numbered(table: pa.Table, rows: int | None) -> pa.Table:
    if rows is not None:
        table = pa.concat_tables([table] * -(-rows // table.num_rows)).slice(0, rows)
    table = table.combine_chunks()
    return table.append_column(PERSON, pa.array(np.arange(table.num_rows)))


def _branch(node: Mapping[str, Any], name: str) -> Any:
    """A node of the file in the form of `Hierarchy.from_mapping`."""
    label = node["parent"]
    if not node["leaves"]:
        return label
    # The file names this one node with a slur.
    label = "Non-White" if name == _RACE else label
    return {label: [_branch(child, name) for child in node["leaves"]]}
