"""The promises of `connectors/base.py` about sources, tested on every source."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from castleguard.connectors.base import Position, Read
from tests.contract.sources import (
    COLUMNS,
    MOST_READS,
    SOURCES,
    Bad,
    Entry,
    Row,
    SourceAdapter,
    entries_in,
    read_all,
    read_one,
    sources_that,
)
from tests.patience import PATIENCE, eventually, fastest

ROWS = [Row(number) for number in range(20)]
MIXED: list[Entry] = [
    Bad("bad-a"),
    *ROWS[:5],
    Bad("bad-b"),
    Bad("bad-c"),
    *ROWS[5:12],
    Bad("bad-d"),
    *ROWS[12:],
    Bad("bad-e"),
]


@pytest.fixture(params=SOURCES)
def adapter(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SourceAdapter]:
    """Every source."""
    adapter: SourceAdapter = SOURCES[request.param](tmp_path)
    yield adapter
    adapter.close()


@pytest.fixture(params=sources_that("replays"))
def replaying(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SourceAdapter]:
    """Every source that has positions."""
    adapter: SourceAdapter = SOURCES[request.param](tmp_path)
    yield adapter
    adapter.close()


@pytest.fixture(params=sources_that("grows"))
def growing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SourceAdapter]:
    """Every source that can grow while it is open."""
    adapter: SourceAdapter = SOURCES[request.param](tmp_path)
    yield adapter
    adapter.close()


def entries_for(adapter: SourceAdapter) -> Sequence[Entry]:
    """Rows, and bad entries where the source can hold them."""
    return MIXED if adapter.holds_bad else ROWS


def rows_of(reads: Sequence[Read]) -> list[int]:
    return [int(value) for read in reads for value in read.rows.column("number").to_pylist()]


def bad_of(reads: Sequence[Read]) -> list[str]:
    """The marks of the bad rows that were handed out."""
    raws = [bad.raw.decode() for read in reads for bad in read.bad]
    return [next(entry.mark for entry in MIXED if isinstance(entry, Bad) and entry.mark in raw) for raw in raws]


def expected_bad(adapter: SourceAdapter) -> list[str]:
    return [entry.mark for entry in entries_for(adapter) if isinstance(entry, Bad)]


def through_json(position: Position) -> Position:
    stored: Position = json.loads(json.dumps(position))
    return stored


def read_whole(adapter: SourceAdapter) -> list[Read]:
    """Everything that the adapter holds, read by one source."""
    adapter.add(entries_for(adapter))
    adapter.end()
    source = adapter.open()
    reads = read_all(adapter, source, len(entries_for(adapter)))
    source.close()
    return reads


def test_all_rows_arrive_once_and_in_order(adapter: SourceAdapter) -> None:
    reads = read_whole(adapter)
    assert rows_of(reads) == list(range(20))
    assert len(reads) > 3, "the suite needs small reads"


def test_bad_rows_are_handed_out_once_and_in_order(adapter: SourceAdapter) -> None:
    reads = read_whole(adapter)
    assert bad_of(reads) == expected_bad(adapter)
    assert all(bad.reason and bad.place for read in reads for bad in read.bad)


def test_read_has_the_declared_columns_in_their_order(adapter: SourceAdapter) -> None:
    assert {tuple(read.rows.schema.names) for read in read_whole(adapter)} == {tuple(COLUMNS)}


def test_every_row_has_its_own_place(adapter: SourceAdapter) -> None:
    adapter.add(ROWS)
    adapter.end()
    source = adapter.open()
    places = [read.place(row) for read in read_all(adapter, source, 20) for row in range(read.rows.num_rows)]
    source.close()
    assert len(set(places)) == 20
    assert not any("Zanzibar" in place for place in places)


def test_repr_never_shows_a_row(adapter: SourceAdapter) -> None:
    adapter.add(entries_for(adapter))
    adapter.end()
    source = adapter.open()
    reads = read_all(adapter, source, len(entries_for(adapter)))
    printed = [repr(thing) for read in reads for thing in (read, *read.bad)]
    printed += [repr(source), str(source)]
    source.close()
    assert not any("Zanzibar" in text or "bad-" in text for text in printed)


def test_every_position_restores_exactly(replaying: SourceAdapter) -> None:
    replaying.add(entries_for(replaying))
    replaying.end()
    source = replaying.open()
    seen: list[Read] = []
    taken = [(through_json(source.position()), 0)]
    total = len(entries_for(replaying))
    while (read := read_one(replaying, source, total - entries_in(seen))) is not None and len(seen) < MOST_READS:
        seen.append(read)
        taken.append((through_json(source.position()), len(seen)))
    source.close()
    for position, reads in taken:
        later = replaying.open(position)
        rest = read_all(replaying, later, total - entries_in(seen[:reads]))
        later.close()
        assert rows_of(seen[:reads]) + rows_of(rest) == list(range(20))
        assert bad_of(seen[:reads]) + bad_of(rest) == expected_bad(replaying)


def test_crash_after_every_read_loses_and_repeats_no_row(replaying: SourceAdapter) -> None:
    replaying.add(entries_for(replaying))
    replaying.end()
    seen: list[Read] = []
    position: Position | None = None
    while True:
        source = replaying.open(position)
        read = read_one(replaying, source, len(entries_for(replaying)) - entries_in(seen))
        position = through_json(source.position())
        source.close()
        if read is None or len(seen) == MOST_READS:
            break
        seen.append(read)
    assert rows_of(seen) == list(range(20))
    assert bad_of(seen) == expected_bad(replaying)


def test_unused_position_changes_nothing(replaying: SourceAdapter) -> None:
    """Rows read after the position are read again."""
    replaying.add(ROWS)
    replaying.end()
    source = replaying.open()
    first = source.read(PATIENCE)
    position = source.position()
    kept = json.dumps(position)
    assert first is not None
    left = 20 - entries_in([first])
    read_all(replaying, source, left)
    source.close()
    assert json.dumps(position) == kept, "a position must not change after it was given"
    again = replaying.open(position)
    assert rows_of([first, *read_all(replaying, again, left)]) == list(range(20))
    again.close()


def test_position_at_the_end_gives_no_rows(replaying: SourceAdapter) -> None:
    replaying.add(entries_for(replaying))
    replaying.end()
    source = replaying.open()
    read_all(replaying, source, len(entries_for(replaying)))
    assert source.read(0.0) is None
    position = through_json(source.position())
    source.close()
    later = replaying.open(position)
    assert later.read(0.0) is None
    assert later.finished == replaying.ends
    later.close()


def test_source_finishes_when_all_rows_are_read(adapter: SourceAdapter) -> None:
    adapter.add(ROWS)
    adapter.end()
    source = adapter.open()
    assert not source.finished
    read_all(adapter, source, 20)
    assert source.finished == adapter.ends
    assert source.read(0.0) is None
    source.close()


def test_silent_source_returns_nothing_in_time(growing: SourceAdapter) -> None:
    growing.add(ROWS)
    source = growing.open()
    read_all(growing, source, 20)

    def ask() -> None:
        assert source.read(0.0) is None
        assert source.read(0.05) is None

    assert fastest(ask, 2.0) < 2.0
    assert not source.finished
    source.close()


def test_later_rows_are_read(growing: SourceAdapter) -> None:
    growing.add(ROWS[:8])
    source = growing.open()
    reads = read_all(growing, source, 8)
    assert source.read(0.0) is None
    growing.add(ROWS[8:])

    def all_are_read() -> bool:
        if (read := source.read(0.5)) is not None:
            reads.append(read)
        return len(rows_of(reads)) >= 20

    eventually(all_are_read, "what comes later is not read")
    source.close()
    assert rows_of(reads) == list(range(20))


def test_acknowledging_does_not_change_rows(replaying: SourceAdapter) -> None:
    replaying.add(ROWS)
    replaying.end()
    source = replaying.open()
    source.acknowledge(source.position())
    first = source.read(PATIENCE)
    position = through_json(source.position())
    source.acknowledge(position)
    source.acknowledge(position)
    second = source.read(PATIENCE)
    source.close()
    assert first is not None
    assert second is not None
    assert rows_of([first, second]) == list(range(len(rows_of([first, second]))))
    later = replaying.open(position)
    assert rows_of([first, *read_all(replaying, later, 20 - entries_in([first]))]) == list(range(20))
    later.close()


def test_lag_is_unknown_or_a_number_of_rows(adapter: SourceAdapter) -> None:
    adapter.add(ROWS)
    adapter.end()
    source = adapter.open()
    before = source.lag()
    read_all(adapter, source, 20)
    after = source.lag()
    source.close()
    assert before is None or 0 <= before <= 20
    assert after in (None, 0)


def test_closing_twice_is_harmless(adapter: SourceAdapter) -> None:
    adapter.add(ROWS)
    source = adapter.open()
    source.read(PATIENCE)
    source.close()
    source.close()


def test_unread_source_can_be_closed(adapter: SourceAdapter) -> None:
    adapter.add(ROWS)
    source = adapter.open()
    source.close()
    source.close()
