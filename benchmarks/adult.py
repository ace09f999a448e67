"""The Adult data of the papers, as tables and schemas; a synthetic stand-in where the data folder is missing."""

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa

import castleguard as cg

# fmt: off
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)
# fmt: on
NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
CATEGORICAL = ("education", "marital-status", "occupation", "native-country")


def data_folder() -> Path | None:
    """Where the data sets are, if CASTLEGUARD_DATA says so."""
    named = os.environ.get("CASTLEGUARD_DATA")
    return Path(named) if named and (Path(named) / "adult").is_dir() else None


def load(rows: int | None = None) -> pa.Table:
    """The 30,162 complete rows in file order with a running `pid`, repeated up to `rows`, each row a new person."""
    folder = data_folder()
    table = _synthetic() if folder is None else _read(folder / "adult" / "adult.data.gz")
    if rows is not None:
        table = pa.concat_tables([table] * -(-rows // table.num_rows)).slice(0, rows).combine_chunks()
    return table.append_column("pid", pa.array(np.arange(table.num_rows)))


def schema(table: pa.Table, *, categories: bool = False, step: float | None = None) -> cg.Schema:
    """The papers' quasi-identifiers, 6 numeric ones with the domain of the whole data, or all 10."""
    roles: list[cg.Numeric | cg.Categorical] = []
    for name in NUMERIC:
        values = table.column(name).to_numpy()
        roles.append(cg.Numeric(name, lower=int(values.min()), upper=int(values.max()), step=step))
    folder = data_folder()
    if categories:
        for name in CATEGORICAL:
            if folder is not None:
                tree = cg.Hierarchy.from_csv(folder / "adult" / "hierarchies" / f"tds_{name}.csv")
            else:
                tree = cg.Hierarchy.flat(sorted(set(table.column(name).to_pylist())))
            roles.append(cg.Categorical(name, hierarchy=tree))
    return cg.Schema(person="pid", quasi_identifiers=roles)


def _read(path: Path) -> pa.Table:
    with gzip.open(path, "rt") as file:
        lines = [[field.strip() for field in line.split(",")] for line in file if line.strip()]
    rows = [row for row in lines if "?" not in row]
    columns: dict[str, pa.Array] = {}
    for number, name in enumerate(COLUMNS):
        texts = [row[number] for row in rows]
        columns[name] = pa.array([int(text) for text in texts]) if name in NUMERIC else pa.array(texts)
    return pa.table(columns)


def _synthetic() -> pa.Table:
    """Rows of about the same shape: for machines without the data; figures are then not those of the papers."""
    draw = np.random.default_rng(0)
    rows = 30_162
    columns: dict[str, pa.Array] = {
        "age": pa.array(np.clip(draw.normal(38, 13, rows), 17, 90).astype(np.int64)),
        "fnlwgt": pa.array(np.clip(draw.lognormal(12, 0.6, rows), 13_769, 1_484_705).astype(np.int64)),
        "education-num": pa.array(np.clip(draw.normal(10, 2.5, rows), 1, 16).astype(np.int64)),
        "capital-gain": pa.array(np.where(draw.random(rows) < 0.08, draw.integers(114, 99_999, rows), 0)),
        "capital-loss": pa.array(np.where(draw.random(rows) < 0.05, draw.integers(155, 4_356, rows), 0)),
        "hours-per-week": pa.array(np.clip(draw.normal(40, 12, rows), 1, 99).astype(np.int64)),
    }
    for name, leaves in zip(CATEGORICAL, (16, 7, 14, 41), strict=True):
        columns[name] = pa.array([f"{name} {leaf}" for leaf in draw.integers(0, leaves, rows)])
    return pa.table(columns)
