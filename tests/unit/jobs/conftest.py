"""A small job on disk, with the connectors of files."""

from collections.abc import Callable
from pathlib import Path

import pytest

SECTIONS = {
    "name": "visits",
    "source": "{type: csv, path: visits.csv}",
    "schema": "{person: patient, quasi_identifiers: [{name: age, lower: 0, upper: 90, step: 5}], sensitive: [illness]}",
    "privacy": "{algorithm: castle, k: 2, delay: 20}",
    "sink": "{type: csv, path: out}",
    "checkpoint": "{path: state/job.db}",
}
ROWS = 60


@pytest.fixture
def write_job(tmp_path: Path) -> Callable[..., Path]:
    """Write a job file with some sections in another way; None leaves one out."""
    rows = "".join(f"{number % 20},{20 + number % 40},{('flu', 'cold')[number % 2]}\n" for number in range(ROWS))
    (tmp_path / "visits.csv").write_text(f"patient,age,illness\n{rows}", encoding="utf-8")
    (tmp_path / "state").mkdir(mode=0o700)

    def write(**sections: str | None) -> Path:
        chosen = {**SECTIONS, **sections}
        text = "".join(f"{key}: {value}\n" for key, value in chosen.items() if value is not None)
        (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
        return tmp_path / "job.yaml"

    return write
