"""Random rows of persons, some of whom have several."""

import numpy as np
import pyarrow as pa

import castleguard as cg

EDUCATION = cg.Hierarchy.from_mapping({"Any": {"School": ["Junior", "Senior"], "University": ["Bachelor", "Master"]}})
PERSONS = cg.Schema(
    person="pid",
    quasi_identifiers=[cg.Numeric("x", lower=0, upper=10), cg.Categorical("education", hierarchy=EDUCATION)],
    sensitive=["illness"],
    public=["row"],
)


def make_rows(seed: int, rows: int) -> pa.Table:
    """Draw rows that fit `PERSONS`."""
    draw = np.random.default_rng(seed)
    return pa.table(
        {
            "pid": draw.integers(0, max(rows // 2, 1), rows),
            "x": draw.integers(0, 11, rows),
            "education": pa.array([EDUCATION.leaves[leaf] for leaf in draw.integers(0, 4, rows)], pa.string()),
            "illness": pa.array([f"i{number}" for number in draw.integers(0, 4, rows)], pa.string()),
            "row": np.arange(rows),
        }
    )
