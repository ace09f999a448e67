"""Nothing that is published changes: 300 made-up cases and kept snapshots, against their record.

Where a change of published rows is meant, record anew with `python -m tests.golden.record` and say so in the commit.
"""

import pytest

from tests.golden.cases import COUNT, PLAN
from tests.golden.record import check_case, check_snapshot, recorded
from tests.golden.snapshots import FOLDER, SNAPSHOTS, Kept

_CHUNKS = 30
_LEAST_ROWS = 50


@pytest.mark.compiled
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_cases_publish_what_they_did(chunk: int) -> None:
    found = [check_case(entry) for entry in recorded()["cases"][chunk::_CHUNKS]]
    assert not [line for line in found if line], "\n".join(line for line in found if line)


@pytest.mark.parametrize("kept", SNAPSHOTS, ids=lambda kept: kept.name)
def test_snapshots_restore_and_publish_what_they_did(kept: Kept) -> None:
    line = check_snapshot(kept, recorded()["snapshots"][kept.name])
    assert line is None, line


def test_every_case_and_snapshot_is_recorded() -> None:
    known = recorded()
    assert [entry["case"] for entry in known["cases"]] == list(range(COUNT))
    assert sum(len(kinds) * repeats for _, kinds, repeats in PLAN) == COUNT == 300
    assert set(known["snapshots"]) == {kept.name for kept in SNAPSHOTS}
    assert {path.name for path in FOLDER.iterdir()} == {kept.path.name for kept in SNAPSHOTS}


def test_every_case_publishes_rows() -> None:
    known = recorded()
    few = {entry["case"]: entry["count"] for entry in known["cases"] if entry["count"] < _LEAST_ROWS}
    assert not few
    assert all(entry["count"] >= _LEAST_ROWS for entry in known["snapshots"].values())
