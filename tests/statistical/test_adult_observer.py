"""Attack by an observer of arrival times on the Adult data with k = 10 and a delay of 1,000: rows released alone.

Means over eight seeds: with reuse 1.62 % of rows have fewer than 10 persons in their box and release (1.33 to 1.76 %),
and the occupation of 1.63 % is certain; 1.45 and 1.44 % without the link. With reuse off no row has fewer, and the
occupation of 0.004 % is certain (one group of 10 rows in one of eight runs).
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import castleguard as cg
from castleguard.algorithms.castle.policy import Reuse
from castleguard.judge.audit.material import Material
from castleguard.judge.audit.observer_section import Observed, observe
from castleguard.lab import adult

pytestmark = pytest.mark.compiled


def observed(reuse: Reuse) -> Observed:
    table = adult.uci()
    schema = cg.Schema(
        person=adult.PERSON,
        quasi_identifiers=[
            cg.Numeric(name, lower=low, upper=high) for name, (low, high) in adult.observed(table).items()
        ],
        sensitive=["occupation"],
    )
    nothing = pa.table({name: pa.array([], pa.string()) for name in schema.columns})
    policy = cg.Castle(k=10, delay=1_000, reuse=reuse)
    found = observe(Material(original=table, published=nothing, schema=schema, policy=policy))
    assert isinstance(found, Observed)
    assert found.releases.row.size == 30_162
    return found


def test_castle_releases_one_or_two_percent_of_rows_alone(data_folder: Path) -> None:
    found = observed("paper")
    assert np.mean(found.cells.persons < 10) == pytest.approx(0.0162, abs=0.005)
    assert np.mean(found.cells.values[0].certain) == pytest.approx(0.0163, abs=0.005)
    assert np.mean(found.worked_out.persons < 10) == pytest.approx(0.0145, abs=0.005)
    assert np.mean(found.worked_out.learnt[0]) == pytest.approx(0.0144, abs=0.005)


def test_with_reuse_off_no_row_is_released_alone(data_folder: Path) -> None:
    found = observed("off")
    assert found.cells.persons.min() >= 10
    assert found.worked_out.persons.min() >= 10
    assert np.mean(found.cells.values[0].certain) < 0.001
    assert np.mean(found.worked_out.learnt[0]) < 0.001
