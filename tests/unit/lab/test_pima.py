"""Pima: rows with persons, and a protected outcome."""

from pathlib import Path

import pytest

from castleguard.lab import pima
from castleguard.schema.roles import Numeric

ROWS = b"""\
pregnancies,glucose,bloodPressure,skinThickness,insulin,bmi,diabetesPedigree,age,outcome
6,148,72,35,0,33.6,0.627,50,1
1,85,66,29,0,26.6,0.351,31,0
"""


def test_rows_are_persons_and_ranges_are_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pima, "read", lambda file: ROWS)
    table = pima.load()
    assert table["pid"].to_pylist() == [0, 1]
    schema = pima.schema(table)
    assert [role.name for role in schema.quasi_identifiers] == list(pima.FEATURES)
    glucose = schema.quasi_identifiers[1]
    assert isinstance(glucose, Numeric)
    assert glucose.domain == (85, 148)
    assert schema.sensitive[0].values is None
    assert pima.schema(table, strict=True).sensitive[0].values == (0, 1)


def test_the_real_file_has_the_papers_rows(data_folder: Path) -> None:
    table = pima.load()
    assert table.num_rows == 768
    assert sum(table["outcome"].to_pylist()) == 268
