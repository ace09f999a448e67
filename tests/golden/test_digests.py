"""Published rows stay the same: 335 made-up cases, kept snapshots and kept checkpoints against their record.

If published rows are meant to change, record them again with `python -m tests.golden.record` and say so in the commit.
"""

from dataclasses import asdict

import pyarrow as pa
import pytest

from tests.golden.cases import COUNT, PLAN, Case
from tests.golden.checkpoints import CHECKPOINTS, KeptCheckpoint
from tests.golden.outcomes import Outcome, digests_of
from tests.golden.record import check_case, check_kept, differing, recorded
from tests.golden.shim import built_in
from tests.golden.snapshots import SNAPSHOTS, Kept

_CHUNKS = 30
_LEAST_ROWS = 50


@pytest.mark.compiled
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_cases_publish_what_they_did(chunk: int) -> None:
    found = [check_case(entry) for entry in recorded()["cases"][chunk::_CHUNKS]]
    assert not [line for line in found if line], "\n".join(line for line in found if line)


@pytest.mark.parametrize("kept", SNAPSHOTS, ids=lambda kept: kept.name)
def test_snapshots_restore_and_publish_what_they_did(kept: Kept) -> None:
    line = check_kept(kept, recorded()["snapshots"][kept.name])
    assert line is None, line


@pytest.mark.compiled
@pytest.mark.parametrize("kept", CHECKPOINTS, ids=lambda kept: kept.name)
def test_checkpoints_restore_and_publish_what_they_did(kept: KeptCheckpoint) -> None:
    line = check_kept(kept, recorded()["checkpoints"][kept.name])
    assert line is None, line


def test_every_algorithm_has_a_snapshot_and_a_checkpoint() -> None:
    for kept in (SNAPSHOTS, CHECKPOINTS):
        assert {one.policy["algorithm"] for one in kept} - {"local noise"} == set(built_in())


def test_every_case_and_kept_file_is_recorded() -> None:
    known = recorded()
    assert [entry["case"] for entry in known["cases"]] == list(range(COUNT))
    assert sum(len(kinds) * repeats for _, kinds, repeats in PLAN) == COUNT == 335
    for section, kept in (("snapshots", SNAPSHOTS), ("checkpoints", CHECKPOINTS)):
        assert set(known[section]) == {one.name for one in kept}
        assert set(kept[0].path.parent.iterdir()) == {one.path for one in kept}


def test_every_case_publishes_rows() -> None:
    known = recorded()
    few = {entry["case"]: entry["count"] for entry in known["cases"] if entry["count"] < _LEAST_ROWS}
    assert not few
    assert all(entry["count"] >= _LEAST_ROWS for entry in known["snapshots"].values())
    assert all(entry["count"] >= _LEAST_ROWS for entry in known["checkpoints"].values())


def _outcome(*rows: str, books: int = 1, columns: str = "age: int64") -> Outcome:
    outcome = Outcome(books=[books])
    outcome.add_rows([columns], list(rows))
    return outcome


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (_outcome("a", "b", "b"), []),
        (_outcome("a", "b", "c"), ["published values"]),
        (_outcome("b", "a", "b"), ["the order of rows, or the call that returned them"]),
        (_outcome("a", "b", "b", columns="age: int32"), ["names or types of columns"]),
        (_outcome("a", "b", "b", books=2), ["the books"]),
        (_outcome("a", "b"), ["published values", "3 rows before, 2 now"]),
    ],
)
def test_difference_is_named(changed: Outcome, words: list[str]) -> None:
    entry = asdict(digests_of(_outcome("a", "b", "b")))
    assert differing(entry, digests_of(changed)) == words


def test_digest_tells_types_and_every_bit_of_a_float() -> None:
    values = [pa.array([1]), pa.array([1.0]), pa.array(["1"]), pa.array([1.0 + 2**-52]), pa.array([True])]
    found = set()
    for value in values:
        outcome = Outcome()
        outcome.add_table(pa.table({"x": value}))
        found.add(digests_of(outcome).rows)
    assert len(found) == len(values)


def test_case_is_the_same_each_time_it_is_made() -> None:
    found = []
    for case in (Case(40), Case(40), Case(41)):
        outcome = Outcome(books=[case.schema, case.policy])
        outcome.add_table(case.rows)
        found.append(digests_of(outcome))
    assert found[0] == found[1] != found[2]
