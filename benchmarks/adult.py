"""The Adult data for measuring speed: any number of rows; a synthetic stand-in if the data set is missing."""

from pathlib import Path

import numpy as np
import pyarrow as pa

import castleguard as cg
from castleguard.lab import adult, datasets
from castleguard.lab.adult import CATEGORICAL, COLUMNS, NUMERIC

__all__ = ["CATEGORICAL", "COLUMNS", "NUMERIC", "data_folder", "load", "schema"]


def data_folder() -> Path | None:
    """Path of the data set, or None: in the folder that CASTLEGUARD_DATA names, or downloaded."""
    if datasets.missing(["adult"]):
        return None
    path = datasets.find(datasets.ADULT.files[0])
    assert path is not None
    return path.parent.parent


def load(rows: int | None = None) -> pa.Table:
    """The 30,162 complete rows in file order with a running `pid`, repeated up to `rows`, each row a new person."""
    if data_folder() is not None:
        return adult.uci(rows)
    table = _synthetic()
    if rows is not None:
        table = pa.concat_tables([table] * -(-rows // table.num_rows)).slice(0, rows).combine_chunks()
    return table.append_column("pid", pa.array(np.arange(table.num_rows)))


def schema(table: pa.Table, *, categories: bool = False, step: float | None = None) -> cg.Schema:
    """The papers' quasi-identifiers, 6 numeric ones with the domain of the whole data, or all 10."""
    names = (*NUMERIC, *CATEGORICAL) if categories else NUMERIC
    trees = None
    if categories and data_folder() is None:
        trees = {name: cg.Hierarchy.flat(sorted(set(table.column(name).to_pylist()))) for name in CATEGORICAL}
    return adult.schema(adult.observed(table), names=names, trees=trees, step=step)


def _synthetic() -> pa.Table:
    """Rows of similar shape for machines without the data; figures are then not comparable with the papers."""
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
