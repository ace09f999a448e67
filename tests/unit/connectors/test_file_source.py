"""Files as a source: order of files, positions, hostile folders."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from castleguard.connectors import files, line_files
from castleguard.connectors.base import Position, Read, Source
from castleguard.connectors.file_source import CHECK_SECONDS, POLL_SECONDS, Clock, FileSource
from castleguard.connectors.files import ARROW, CSV, JSONL, PARQUET, FileSourceOptions
from castleguard.connectors.formats import open_reader, open_writer
from castleguard.connectors.listing import list_files
from castleguard.connectors.registry import Connector, find
from castleguard.connectors.resumable import Mark, ResumableFile
from castleguard.errors import InputError, SchemaError, UnavailableError


def open_source(
    path: Path,
    position: Position | None = None,
    *,
    connector: Connector = CSV,
    follow: bool = False,
    batch_rows: int = 2,
    columns: str = "a",
) -> Source:
    assert connector.open_source is not None
    options = FileSourceOptions(path=path, follow=follow, batch_rows=batch_rows)
    return connector.open_source(options, columns.split(), position)


def drop(folder: Path, name: str, *values: object) -> None:
    """A CSV file that is renamed when it is complete."""
    hidden = folder / f".{name}"
    hidden.write_text("a\n" + "".join(f"{value}\n" for value in values))
    os.rename(hidden, folder / name)


def values(read: Read | None) -> list[str | None]:
    found: list[str | None] = [] if read is None else read.rows.column("a").to_pylist()
    return found


def rest(source: Source) -> list[str | None]:
    """All values that can be read now; closes the source."""
    found: list[str | None] = []
    while (read := source.read(0.0)) is not None:
        found += values(read)
    source.close()
    return found


class ManualClock:
    """Clock that advances with each sleep; `then` has actions for the sleeps."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []
        self.then: list[Callable[[], Any]] = []

    def clock(self) -> Clock:
        return Clock(lambda: self.time, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        if self.then:
            self.then.pop(0)()


def followed(folder: Path, manual: ManualClock, position: Position | None = None) -> FileSource:
    listing = list_files(folder)
    return FileSource(
        listing, lambda path: open_reader(path, ["a"], batch_rows=2), position, follow=True, clock=manual.clock()
    )


@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet", "arrow"])
def test_registry_finds_every_format(name: str) -> None:
    assert find(name) is getattr(files, name.upper())


def test_rows_and_bad_lines_have_places(tmp_path: Path) -> None:
    (tmp_path / "trips.csv").write_text("a,b\nbad\n1,1\n2,2\nworse\n3,3\n")
    source = open_source(tmp_path / "trips.csv")
    first, second = source.read(0.0), source.read(0.0)
    source.close()
    assert first is not None
    assert second is not None
    assert [first.place(0), first.place(1), second.place(0)] == [
        "trips.csv, row 1",
        "trips.csv, row 2",
        "trips.csv, row 3",
    ]
    assert [bad.place for bad in first.bad] == ["trips.csv, line 2", "trips.csv, line 5"]
    assert second.bad == ()


def test_files_are_read_by_name_not_by_age(tmp_path: Path) -> None:
    for age, name in enumerate(["b.csv", "c.csv", "a.csv"]):
        drop(tmp_path, name, name)
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
    assert rest(open_source(tmp_path)) == ["a.csv", "b.csv", "c.csv"]


def test_position_of_a_folder_stays_small(tmp_path: Path) -> None:
    for number in range(200):
        drop(tmp_path, f"{number:03d}.csv", number)
    source = open_source(tmp_path)
    for _ in range(150):
        source.read(0.0)
    assert len(json.dumps(source.position())) < 200
    assert rest(open_source(tmp_path, source.position())) == [str(number) for number in range(150, 200)]
    source.close()


def test_later_files_are_not_read_without_follow(tmp_path: Path) -> None:
    drop(tmp_path, "b.csv", 1)
    source = open_source(tmp_path)
    drop(tmp_path, "c.csv", 2)
    assert rest(source) == ["1"]
    assert source.finished


def test_finished_file_may_be_removed(tmp_path: Path) -> None:
    drop(tmp_path, "a.csv", 1)
    drop(tmp_path, "b.csv", 2)
    source = open_source(tmp_path)
    source.read(0.0)
    source.read(0.0)
    position = source.position()
    source.close()
    (tmp_path / "a.csv").unlink()
    assert rest(open_source(tmp_path, position)) == []


def test_position_restores_with_another_batch_size(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n" + "".join(f"{i},x\n" if i % 3 else "bad\n" for i in range(40)))
    source = open_source(tmp_path / "a.csv", batch_rows=5)
    seen = values(source.read(0.0)) + values(source.read(0.0))
    later = open_source(tmp_path / "a.csv", source.position(), batch_rows=7)
    again = later.read(0.0)
    assert again is not None
    assert again.bad == (), "they all came with the first read"
    assert seen + values(again) + rest(later) == [str(i) for i in range(40) if i % 3]
    source.close()


# Changes between two runs


@pytest.fixture
def stopped(tmp_path: Path) -> tuple[Path, Position]:
    """A file of ten rows, and a position after four of them."""
    path = tmp_path / "a.csv"
    drop(tmp_path, "a.csv", *range(10))
    source = open_source(path)
    source.read(0.0)
    source.read(0.0)
    source.close()
    return path, json.loads(json.dumps(source.position()))


def test_file_that_grew_while_read_is_read_to_its_end(stopped: tuple[Path, Position]) -> None:
    path, position = stopped
    with path.open("a") as file:
        file.write("10\n")
    assert rest(open_source(path, position)) == [str(number) for number in range(4, 11)]


def test_file_that_shrank_is_an_error(stopped: tuple[Path, Position]) -> None:
    path, position = stopped
    os.truncate(path, 8)
    with pytest.raises(InputError, match=r"a\.csv cannot be read after row 4: it has shrunk"):
        open_source(path, position)


def test_another_file_of_the_same_name_is_an_error(stopped: tuple[Path, Position]) -> None:
    path, position = stopped
    drop(path.parent, "a.csv", *range(100, 200))
    with pytest.raises(InputError, match="after row 4: it is not the same file any more"):
        open_source(path, position)


@pytest.mark.parametrize("by", ["file", "folder"])
def test_missing_file_at_the_position_is_an_error(stopped: tuple[Path, Position], by: str) -> None:
    path, position = stopped
    path.unlink()
    with pytest.raises(InputError, match="no such file"):
        open_source(path if by == "file" else path.parent, position)


def test_file_with_fewer_rows_than_were_read_is_an_error(tmp_path: Path, stopped: tuple[Path, Position]) -> None:
    """Same beginning and size, but fewer rows, because lines were joined."""
    path, position = stopped
    position["reading"]["rows"] = 11
    source = open_source(path, position)
    for _ in range(2):
        with pytest.raises(InputError, match="fewer rows than were read"):
            source.read(0.0)
    source.close()


def test_position_of_another_source_is_an_error(tmp_path: Path) -> None:
    drop(tmp_path, "a.csv", 1)
    with pytest.raises(InputError, match="the job had another source"):
        open_source(tmp_path, {"offset": 3})


# Changes after a file was read to its end


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)
    os.utime(path, (5e9, 5e9))  # later than any other time in the test


def ended(path: Path, **options: Any) -> Position:
    """The position after everything was read."""
    source = open_source(path, **options)
    rest(source)
    assert source.finished
    position: Position = json.loads(json.dumps(source.position()))
    return position


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
@pytest.mark.parametrize("by", ["file", "folder"])
def test_rows_added_after_the_end_are_read(tmp_path: Path, by: str, ending: str) -> None:
    opened = gzip.open if ending.endswith("gz") else open
    path = tmp_path / f"b{ending}"
    drop(tmp_path, "a.csv", "first")
    position: Position | None = None
    for number in range(3):
        with opened(path, "at") as file:
            file.write("a\n0\n" if not number else f"{number}\nbad,bad\n")
        where = path if by == "file" else tmp_path
        source = open_source(where, position)
        assert not source.finished
        assert rest(source)[-1] == str(number)
        assert source.finished
        position = json.loads(json.dumps(source.position()))
    assert rest(open_source(where, position)) == []


def test_added_rows_can_be_read_in_several_runs(tmp_path: Path) -> None:
    drop(tmp_path, "a.csv", *range(3))
    position = ended(tmp_path)
    append(tmp_path / "a.csv", "3\n4\n5\n")
    seen: list[str | None] = []
    for _ in range(2):
        source = open_source(tmp_path, position)
        untouched = source.position()
        source.close()
        source = open_source(tmp_path, untouched)
        seen += values(source.read(0.0))
        position = source.position()
        source.close()
    assert seen == ["3", "4", "5"]


def test_files_after_a_grown_one_are_read(tmp_path: Path) -> None:
    drop(tmp_path, "a.csv", 0)
    position = ended(tmp_path)
    append(tmp_path / "a.csv", "1\n")
    drop(tmp_path, "b.csv", 2)
    assert rest(open_source(tmp_path, position)) == ["1", "2"]


def test_empty_file_that_grew_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    position = ended(tmp_path / "a.csv")
    append(tmp_path / "a.csv", "a\n1\n")
    assert rest(open_source(tmp_path / "a.csv", position)) == ["1"]


def test_rows_added_while_the_end_is_read_are_read_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows written between the last read of a file and the moment at which it is marked as done."""
    drop(tmp_path, "a.csv", 0)
    end_mark = ResumableFile.end_mark

    def late(file: ResumableFile) -> Mark:
        append(tmp_path / "a.csv", "1\n")
        return end_mark(file)

    monkeypatch.setattr(ResumableFile, "end_mark", late)
    position = ended(tmp_path)
    monkeypatch.undo()
    assert rest(open_source(tmp_path, position)) == ["1"]


def test_last_line_that_grew_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n2")
    position = ended(tmp_path)
    append(tmp_path / "a.csv", "3\n")
    with pytest.raises(InputError, match=r"a\.csv cannot be read after row 2: its last line had no end"):
        open_source(tmp_path, position)
    (tmp_path / "a.csv").write_text("a\n1\n2\n3\n")
    assert rest(open_source(tmp_path, position)) == ["3"], "only the end of the line was missing"


def other_rows(folder: Path) -> None:
    drop(folder, "b.csv", "other", "rows")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(other_rows, id="another file"),
        pytest.param(lambda folder: os.truncate(folder / "b.csv", 3), id="shrunk"),
        pytest.param(lambda folder: append(folder / "a.csv", "1\n"), id="an earlier one grew"),
        pytest.param(lambda folder: append(folder / "aa.csv", "a\n1\n"), id="one that sorts before"),
    ],
)
def test_changes_that_are_not_read_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Callable[[Path], object]
) -> None:
    drop(tmp_path, "a.csv", "a")
    drop(tmp_path, "b.csv", "b")
    position = ended(tmp_path)
    assert rest(open_source(tmp_path, position)) == []
    assert caplog.messages == []
    change(tmp_path)
    assert rest(open_source(tmp_path, position)) == []
    assert len(caplog.messages) == 1
    assert "added rows are not read" in caplog.text


def test_grown_typed_file_is_not_read_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for values_ in ([1], [1, 2]):
        writer = open_writer(tmp_path / "a.parquet")
        writer.write(pa.table({"a": values_}))
        writer.close()
        if values_ == [1]:
            position = ended(tmp_path, connector=PARQUET)
    assert rest(open_source(tmp_path, position, connector=PARQUET)) == []
    assert len(caplog.messages) == 1


def test_grown_file_of_a_followed_folder_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Files are complete when they appear."""
    manual = ManualClock()
    drop(tmp_path, "a.csv", 0)
    source = followed(tmp_path, manual)
    assert values(source.read(0.0)) == ["0"]
    assert source.read(CHECK_SECONDS + 1.0) is None
    append(tmp_path / "a.csv", "1\n")
    assert source.read(3 * CHECK_SECONDS) is None
    assert len(caplog.messages) == 1
    source.close()
    assert rest(followed(tmp_path, manual, source.position())) == []
    assert len(caplog.messages) == 2, "and once by the next process"


# Followed folders


def test_new_files_are_read_as_they_arrive(tmp_path: Path) -> None:
    manual = ManualClock()
    source = followed(tmp_path, manual)
    manual.then = [lambda: None, lambda: drop(tmp_path, "a.csv", 1)]
    assert values(source.read(10.0)) == ["1"]
    assert manual.slept == [POLL_SECONDS] * 2
    assert not source.finished
    source.close()


def test_waiting_ends_with_the_timeout(tmp_path: Path) -> None:
    manual = ManualClock()
    source = followed(tmp_path, manual)
    assert source.read(0.0) is None
    assert manual.slept == []
    assert source.read(0.5) is None
    assert manual.slept == pytest.approx([0.2, 0.2, 0.1])
    assert source.lag() == 0
    source.close()


def test_new_file_that_sorts_before_finished_ones_is_read(tmp_path: Path) -> None:
    manual = ManualClock()
    drop(tmp_path, "m.csv", "m")
    source = followed(tmp_path, manual)
    assert values(source.read(0.0)) == ["m"]
    drop(tmp_path, "z.csv", "z")
    drop(tmp_path, "a.csv", "a")
    assert [values(source.read(0.0)), values(source.read(0.0))] == [["a"], ["z"]]
    source.close()
    drop(tmp_path, "b.csv", "b")
    assert rest(followed(tmp_path, manual, source.position())) == ["b"]


def test_new_file_waits_for_the_current_one(tmp_path: Path) -> None:
    manual = ManualClock()
    drop(tmp_path, "m.csv", *range(5))
    source = followed(tmp_path, manual)
    seen = values(source.read(0.0))
    drop(tmp_path, "a.csv", "late")
    assert seen + rest(source) == ["0", "1", "2", "3", "4", "late"]


def test_unfinished_file_waits_for_its_rename(tmp_path: Path) -> None:
    manual = ManualClock()
    source = followed(tmp_path, manual)
    (tmp_path / "a.csv.part").write_text("a\n1\n")
    assert source.read(1.0) is None
    os.rename(tmp_path / "a.csv.part", tmp_path / "a.csv")
    assert values(source.read(0.0)) == ["1"]
    source.close()


def test_removed_files_are_forgotten(tmp_path: Path) -> None:
    manual = ManualClock()
    source = followed(tmp_path, manual)
    for number in range(50):
        drop(tmp_path, f"{number:02d}.csv", number)
        assert values(source.read(0.0)) == [str(number)]
        (tmp_path / f"{number:02d}.csv").unlink()
    assert source.read(0.0) is None
    drop(tmp_path, "next.csv", 1)
    source.read(0.0)
    source.read(0.0)
    assert list(source.position()["done"]) == ["next.csv"]
    source.close()


def test_remounted_folder_is_not_read_again(tmp_path: Path) -> None:
    """Publishing rows twice would be a leak."""
    manual = ManualClock()
    folder = tmp_path / "in"
    folder.mkdir()
    drop(folder, "a.csv", 1)
    source = followed(folder, manual)
    assert values(source.read(0.0)) == ["1"]
    os.rename(folder, tmp_path / "away")
    with pytest.raises(UnavailableError, match="in cannot be listed"):
        source.read(1.0)
    folder.mkdir()
    assert source.read(1.0) is None
    folder.rmdir()
    os.rename(tmp_path / "away", folder)
    assert source.read(1.0) is None
    source.close()


def test_file_removed_before_it_was_read_is_skipped(tmp_path: Path) -> None:
    drop(tmp_path, "a.csv", 1)
    drop(tmp_path, "b.csv", 2)
    source = followed(tmp_path, ManualClock())
    (tmp_path / "a.csv").unlink()
    assert rest(source) == ["2"]


def test_removed_file_is_an_error_without_follow(tmp_path: Path) -> None:
    drop(tmp_path, "a.csv", 1)
    source = open_source(tmp_path)
    (tmp_path / "a.csv").unlink()
    for _ in range(2):
        with pytest.raises(InputError, match=r"a\.csv cannot be read: no such file"):
            source.read(0.0)
    source.close()


def test_follow_may_change_between_runs(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        drop(tmp_path, f"{name}.csv", name)
    source = open_source(tmp_path)
    for _ in range(3):
        source.read(0.0)
    source.close()
    source = open_source(tmp_path, source.position(), follow=True)
    assert rest(source) == ["d"]
    drop(tmp_path, "ab.csv", "ab")
    source = open_source(tmp_path, source.position())
    assert rest(source) == ["ab"]
    assert source.finished
    assert rest(open_source(tmp_path, source.position())) == []


def test_file_cannot_be_followed(tmp_path: Path) -> None:
    drop(tmp_path, "a.csv", 1)
    with pytest.raises(InputError, match=r"a\.csv cannot be followed: it is a file"):
        open_source(tmp_path / "a.csv", follow=True)


def test_followed_folder_keeps_one_file_in_memory(tmp_path: Path) -> None:
    """Only the name of a finished file is kept."""
    manual = ManualClock()
    source = followed(tmp_path, manual)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for number in range(100):
        drop(tmp_path, f"{number:03d}.csv", number)
        source.read(0.0)
    assert (len(os.listdir("/proc/self/fd")) if before else 0) <= before + 1
    source.close()


# Hostile content


def test_empty_text_file_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    drop(tmp_path, "b.csv", 1)
    (tmp_path / "c.csv").touch()
    source = open_source(tmp_path)
    assert rest(source) == ["1"]
    assert source.finished


@pytest.mark.parametrize("connector", [PARQUET, ARROW])
def test_empty_typed_file_is_damaged(tmp_path: Path, connector: Connector) -> None:
    (tmp_path / "a").touch()
    source = open_source(tmp_path / "a", connector=connector)
    with pytest.raises(InputError, match="cannot be read"):
        source.read(0.0)
    source.close()


@pytest.mark.parametrize("pattern", ["", "*.csv"])
def test_folder_without_files_is_an_error_unless_it_is_followed(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(InputError, match="no such file"):
        open_source(tmp_path / pattern)
    source = open_source(tmp_path / pattern, follow=True)
    assert source.read(0.0) is None
    source.close()


def test_missing_column_names_the_file(tmp_path: Path) -> None:
    drop(tmp_path, "a.csv", 1)
    (tmp_path / "b.csv").write_text("other\n1\n")
    source = open_source(tmp_path)
    assert values(source.read(0.0)) == ["1"]
    for _ in range(2):
        with pytest.raises(SchemaError, match=r"b\.csv has no column 'a'"):
            source.read(0.0)
    position = source.position()
    assert (position["done"], position["reading"]) == ("a.csv", None), "nothing of it was read: it can be mended"
    (tmp_path / "b.csv").write_text("a\n2\n")
    assert rest(source) == ["2"]


def test_extra_column_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("extra,a\n9,1\n")
    assert rest(open_source(tmp_path)) == ["1"]


def test_bad_lines_cost_only_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_files, "LONGEST_LINE", 3_000_000)
    million = b"m" * 1_000_000
    (tmp_path / "a.csv").write_bytes(
        b"a,b\n"
        b"1,x\n"
        b"2\n"  # a value is missing
        b"3,x,y\n"  # one too many
        b"\xff4,x\n"  # another encoding
        + million
        + b",x\n"  # long, but a row
        + b"5,"
        + 4 * million
        + b"\n"  # too long
        b'6,x\n7,"x\n'  # an unclosed quote in the last value is forgiven
        b"truncat"
    )
    source = open_source(tmp_path, batch_rows=100)
    found: list[str | None] = []
    reasons: list[str] = []
    while (read := source.read(0.0)) is not None:
        found += values(read)
        reasons += [bad.reason for bad in read.bad]
    source.close()
    assert found == ["1", million.decode(), "6", "7"]
    assert reasons == [
        "1 value instead of 2",
        "3 values instead of 2",
        "not UTF-8",
        "longer than 16 MiB",
        "1 value instead of 2",
    ]


def test_mixed_types_of_json_are_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"a": 1}\n{"a": "x"}\n{"a": [2]}\n{"a": null}\n{"b": 1}\n')
    assert rest(open_source(tmp_path / "a", connector=JSONL)) == ["1", "x", "[2]", None, None]


def test_damaged_archive_fails_every_time(tmp_path: Path) -> None:
    """A failed reader must not look like one at its end."""
    packed = gzip.compress(b"a\n" + b"".join(b"%d\n" % (number * 7919) for number in range(500_000)))
    (tmp_path / "a.csv.gz").write_bytes(packed[: len(packed) // 2])
    drop(tmp_path, "b.csv", 1)
    source = open_source(tmp_path, batch_rows=65536)
    seen = len(values(source.read(0.0)))
    with pytest.raises(InputError, match="compression is damaged"):
        rest(source)
    for _ in range(2):
        with pytest.raises(InputError, match="compression is damaged"):
            source.read(0.0)
    assert source.position()["reading"]["rows"] >= seen > 0
    source.close()


def test_damaged_parquet_file_is_an_error(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "a.parquet")
    writer.write(pa.table({"a": list(range(1000))}))
    writer.close()
    content = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(content[: len(content) // 2])
    source = open_source(tmp_path, connector=PARQUET)
    with pytest.raises(InputError, match="not a Parquet file, or it is damaged"):
        source.read(0.0)
    source.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
@pytest.mark.parametrize("connector", [CSV, JSONL, PARQUET, ARROW])
def test_unreadable_file_is_an_error(tmp_path: Path, connector: Connector) -> None:
    (tmp_path / "a").write_text("a\n1\n")
    (tmp_path / "a").chmod(0)
    source = open_source(tmp_path / "a", connector=connector)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        source.read(0.0)
    source.close()


def test_batch_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="batch_rows must be at least 1, got 0"):
        FileSourceOptions(path=Path("a"), batch_rows=0)
