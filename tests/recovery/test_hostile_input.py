"""Hostile input: a job keeps running and its books balance, or it stops with one clear message.

Every value carries a mark that must not appear in any message, log or repr.
"""

import json
import logging
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from castleguard.cli import main
from castleguard.jobs.assemble import make_job
from castleguard.jobs.endpoints import open_source
from castleguard.jobs.load import load
from castleguard.runtime.stopping import Stop

MARK = "Zm4rk"

JOB = """\
source: {{type: {format}, path: in.{format}, batch_rows: {batch}}}
schema:
  person: who
  quasi_identifiers:
    - {{name: age, lower: 0, upper: 100, step: 5, outside: reject}}
    - {{name: zone, hierarchy: {{all: [Zm4rk-n, Zm4rk-s]}}}}
  sensitive: [what]
privacy: {{algorithm: castle, k: 3, delay: 20}}
sink: {{type: parquet, path: out}}
checkpoint: {{path: state.db, every: 5s}}
dead_letter: {{path: rejects.jsonl}}
"""

BAD_CSV: dict[bytes, str] = {
    b"Zm4rk-cut,41": "2 values instead of 4",
    b"Zm4rk-more,41,Zm4rk-n,Zm4rk-x,Zm4rk-y": "5 values instead of 4",
    b"Zm4rk-\xe9,41,Zm4rk-n,Zm4rk-latin": "not UTF-8",
    b"Zm4rk-\xff\xfe,41,Zm4rk-n,Zm4rk-wide": "not UTF-8",
    b'"Zm4rk-open,41,Zm4rk-n,Zm4rk-x': "an unclosed quote",
    b"Zm4rk-\0": "1 value instead of 4",
}
REJECTED_CSV: dict[bytes, str] = {
    b"Zm4rk-1,Zm4rk-old,Zm4rk-n,Zm4rk-x": "age: invalid",
    b"Zm4rk-2,2020-01-01,Zm4rk-n,Zm4rk-x": "age: invalid",
    b"Zm4rk-3,true,Zm4rk-n,Zm4rk-x": "age: invalid",
    b"Zm4rk-4,nan,Zm4rk-n,Zm4rk-x": "age: invalid",
    b"Zm4rk-5,1e999,Zm4rk-n,Zm4rk-x": "age: invalid",
    b"Zm4rk-6,,Zm4rk-n,Zm4rk-x": "age: null",
    b"Zm4rk-7,12345678901234567890,Zm4rk-n,Zm4rk-x": "age: outside",
    b"Zm4rk-8,41,Zm4rk-nowhere,Zm4rk-x": "zone: unknown",
    b"Zm4rk-9,4\0001,Zm4rk-n,Zm4rk-x": "age: invalid",
    b"Zm4rk-10," + b"9" * 1_000_000 + b",Zm4rk-n,Zm4rk-x": "age: invalid",
    b",,,": "age: null",
}
ODD_CSV = (
    b"Zm4rk-long,41,Zm4rk-n," + b"x" * 1_000_000,
    b'"Zm4rk, ""quoted""",41,Zm4rk-s,"Zm4rk, two"',
    b"Zm4rk-nul\0,41,Zm4rk-n,Zm4rk-\0",
    b",41,Zm4rk-n,",
    "Zm4rk-ü-\U0001f600, 41 ,Zm4rk-n,Zm4rk-x".encode(),
    b"Zm4rk-e,4.1e1,Zm4rk-s,Zm4rk-x\r",
)
BAD_JSON: dict[bytes, str] = {
    b'{"who": "Zm4rk-cut", "age": 4': "not a JSON object",
    b'["Zm4rk-list"]': "not a JSON object",
    b"null": "not a JSON object",
    b'"Zm4rk"': "not a JSON object",
    b'{"who": "Zm4rk-\xe9", "age": 41}': "not UTF-8",
    b'{"who": "Zm4rk-\\ud800", "age": 41}': "half of a surrogate pair",
    b'{"who": "Zm4rk-open, "age": 41}': "not a JSON object",
    b'{"who": "Zm4rk-1"}{"who": "Zm4rk-2"}': "not a JSON object",
    b'{"who": "Zm4rk-nul"}\0': "not a JSON object",
    b'{"who": ' + b"[" * 100_000 + b"]" * 100_000 + b"}": "not a JSON object",
}
REJECTED_JSON: dict[bytes, str] = {
    b'{"who": "Zm4rk-1", "age": "Zm4rk-old", "zone": "Zm4rk-n"}': "age: invalid",
    b'{"who": "Zm4rk-2", "age": [41], "zone": "Zm4rk-n"}': "age: invalid",
    b'{"who": "Zm4rk-3", "age": true, "zone": "Zm4rk-n"}': "age: invalid",
    b'{"who": "Zm4rk-4", "age": NaN, "zone": "Zm4rk-n"}': "age: invalid",
    b'{"who": "Zm4rk-5", "age": 1e999, "zone": "Zm4rk-n"}': "age: invalid",
    b'{"who": "Zm4rk-6", "age": 1234567890123456789012, "zone": "Zm4rk-n"}': "age: outside",
    b'{"who": "Zm4rk-7", "age": null, "zone": "Zm4rk-n"}': "age: null",
    b'{"who": "Zm4rk-8", "zone": "Zm4rk-n"}': "age: null",
    b'{"who": "Zm4rk-9", "age": 41, "zone": {"Zm4rk-n": 1}}': "zone: unknown",
    b"{}": "age: null",
}
ODD_JSON = (
    b'{"who": "Zm4rk-long", "age": 41, "zone": "Zm4rk-n", "what": "' + b"x" * 1_000_000 + b'"}',
    b'{"who": 17, "age": "41", "zone": "Zm4rk-s", "what": {"Zm4rk": [1, 2]}, "more": "Zm4rk-extra"}',
    b'{"who": "Zm4rk\\u0000", "age": 41.0, "zone": "Zm4rk-n", "what": "Zm4rk\\n"}\r',
    b' {"zone": "Zm4rk-n", "age": 41} ',
    b'{"age": 7, "age": 41, "zone": "Zm4rk-n"}',
)


class Hostile(NamedTuple):
    """A file, and the expected outcome of its lines."""

    format: str
    data: bytes
    good: int
    rejected: dict[bytes, str]
    bad: dict[bytes, str]


def _csv() -> Hostile:
    good = [f"Zm4rk-{n % 30},{n % 90},Zm4rk-{'ns'[n % 2]},Zm4rk-{n % 4}".encode() for n in range(200)]
    return Hostile("csv", *_mixed(b"who,age,zone,what\n", good, ODD_CSV, REJECTED_CSV, BAD_CSV))


def _jsonl() -> Hostile:
    rows = [{"who": f"{MARK}-{n % 30}", "age": n % 90, "zone": f"{MARK}-{'ns'[n % 2]}", "what": n} for n in range(200)]
    good = [json.dumps(row).encode() for row in rows]
    return Hostile("jsonl", *_mixed(b"", good, ODD_JSON, REJECTED_JSON, BAD_JSON))


def _mixed(
    start: bytes, good: list[bytes], odd: tuple[bytes, ...], rejected: dict[bytes, str], bad: dict[bytes, str]
) -> tuple[bytes, int, dict[bytes, str], dict[bytes, str]]:
    """A file with bad lines among good ones, and empty lines between."""
    lines = list(good)
    for number, line in enumerate([*bad, *rejected, *odd]):
        lines.insert(5 + 7 * number, line)
        lines.insert(5 + 7 * number, b"" if number % 2 else b"\r")
    return start + b"\n".join(lines) + b"\n\n", len(good) + len(odd), rejected, bad


@pytest.fixture(params=[_csv, _jsonl], ids=["csv", "jsonl"])
def hostile(request: pytest.FixtureRequest) -> Hostile:
    made: Hostile = request.param()
    return made


def write_job(folder: Path, format: str, data: bytes, *, batch: int = 65536) -> Path:
    """Write a job file and its input."""
    (folder / f"in.{format}").write_bytes(data)
    (folder / "job.yaml").write_text(JOB.format(format=format, batch=batch))
    return folder / "job.yaml"


def letters_of(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "rejects.jsonl").read_text().splitlines()]


def published_rows(folder: Path) -> int:
    return sum(pq.read_metadata(part).num_rows for part in folder.glob("out/*.parquet"))


def suppressed(folder: Path) -> int:
    """Number of suppressed rows, which is random."""
    job = make_job(load(folder / "job.yaml"))
    job.close()
    return job.books().suppressed


@pytest.mark.parametrize("batch", [7, 65536])
def test_every_line_of_a_hostile_file_has_one_outcome(
    hostile: Hostile, tmp_path: Path, batch: int, caplog: pytest.LogCaptureFixture
) -> None:
    job = make_job(load(write_job(tmp_path, hostile.format, hostile.data, batch=batch)))
    with caplog.at_level(logging.DEBUG):
        assert job.run() == "finished"
    books = job.books()
    assert books.published + books.suppressed == hostile.good
    assert published_rows(tmp_path) == books.published
    assert books.rejected == dict(Counter(hostile.rejected.values()))
    assert books.malformed == len(hostile.bad)
    assert MARK not in caplog.text + repr(job) + repr(job.status()) + repr(job.stream)


@pytest.mark.parametrize("batch", [7, 65536])
def test_every_unused_line_is_one_dead_letter_with_reason_and_place(
    hostile: Hostile, tmp_path: Path, batch: int
) -> None:
    make_job(load(write_job(tmp_path, hostile.format, hostile.data, batch=batch))).run()
    letters = letters_of(tmp_path)
    raw = [(letter["raw"], letter["reason"]) for letter in letters if "raw" in letter]
    longest = 1 << 16
    wanted = [(line[:longest].decode(errors="backslashreplace"), why) for line, why in hostile.bad.items()]
    assert sorted(raw) == sorted(wanted)
    rows = [letter for letter in letters if "row" in letter]
    assert Counter(str(letter["reason"]) for letter in rows) == Counter(hostile.rejected.values())
    persons = {str(json.loads(json.dumps(letter["row"]))["who"]) for letter in rows}
    assert persons == {f"{MARK}-{n}" for n in range(1, len(rows))} | {"None"}
    places = [str(letter["place"]) for letter in letters]
    assert len(set(places)) == len(places)
    assert all(place.startswith(f"in.{hostile.format}, ") for place in places)


def test_interrupted_hostile_file_gives_the_same_dead_letters(hostile: Hostile, tmp_path: Path) -> None:
    folders = [tmp_path / "whole", tmp_path / "parts"]
    for folder in folders:
        folder.mkdir()
        path = write_job(folder, hostile.format, hostile.data, batch=20)
        while folder.name == "parts" and not stopped_after(path, reads=6):
            pass
        make_job(load(path)).run()
    assert letters_of(folders[0]) == letters_of(folders[1])
    assert all(published_rows(folder) + suppressed(folder) == hostile.good for folder in folders)


class Soon(Stop):
    """A stop flag that is set after a few reads."""

    def __init__(self, reads: int) -> None:
        self._reads = reads

    @property
    def asked(self) -> bool:  # type: ignore[override]
        """Whether the flag is set."""
        self._reads -= 1
        return self._reads < 0


def stopped_after(path: Path, *, reads: int) -> bool:
    """Run a job for so many reads; return whether it finished."""
    return make_job(load(path), stop=Soon(reads)).run() == "finished"


# -- inputs that stop a job --------------------------------------------------------------------------------------------

GOOD = b"".join(f"{MARK}-{n % 30},{n % 90},{MARK}-n,{MARK}-x\n".encode() for n in range(100))
HEADER = b"who,age,zone,what\n"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[Path], tuple[int, str]]]:
    """Run `castleguard run`; return exit code and output."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(path: Path) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["run", str(path), "--quiet"])
        shown = capsys.readouterr()
        assert MARK not in shown.out + shown.err
        return int(ended.value.code or 0), shown.err.replace(f"{path.parent}/", "")

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


Run = Callable[[Path], tuple[int, str]]


def parquet_file(folder: Path) -> bytes:
    rows = {"who": [MARK] * 5000, "age": list(range(5000)), "zone": [f"{MARK}-n"] * 5000, "what": [MARK] * 5000}
    pq.write_table(pa.table(rows), folder / "made.parquet", compression="none", use_dictionary=False)
    return (folder / "made.parquet").read_bytes()


@pytest.mark.parametrize(
    ("format", "data", "sentence"),
    [
        ("csv", b"who,age,zone\nZm4rk,1,Zm4rk-n\n", "in.csv has no column 'what' (it has 3 columns)"),
        (
            "csv",
            b"who;age;zone;what\nZm4rk;1;2;3\n",
            "it seems to be separated by ';': set separator in the csv options",
        ),
        ("csv", b"who,age,zone,what,age\nZm4rk,1,2,3,4\n", "in.csv has two columns named 'age': rename one of them"),
        (
            "csv",
            b"who,age,zone,what\rZm4rk,1,2,3\r",
            "the first line must name the columns, its lines must end in line",
        ),
        ("csv", (HEADER + GOOD).decode().encode("utf-16"), "in.csv is UTF-16: save it as UTF-8"),
        ("csv", b"\n\n", "in.csv is empty: the first line must name the columns"),
        ("jsonl", b'{"who": "Zm4rk", "age": 1, "zone": "Zm4rk-n"}\n', "in.jsonl has no column 'what'"),
        ("parquet", b"", "in.parquet cannot be read: it is not a Parquet file, or it is damaged"),
        ("parquet", HEADER + GOOD, "in.parquet cannot be read: it is not a Parquet file, or it is damaged"),
        ("arrow", b"", "in.arrow cannot be read: "),
        ("arrow", HEADER + GOOD, "in.arrow cannot be read: it is not an Arrow file, or it is damaged"),
    ],
)
def test_unreadable_file_stops_the_job_with_one_message(
    run: Run, tmp_path: Path, format: str, data: bytes, sentence: str
) -> None:
    code, output = run(write_job(tmp_path, format, data))
    assert code == 1
    assert len(output.splitlines()) == 1
    assert sentence in output
    assert not list(tmp_path.glob("out/*.parquet"))


@pytest.mark.parametrize("damage", ["cut", "zeroed", "flipped"])
def test_damaged_parquet_file_stops_the_job_with_one_message(run: Run, tmp_path: Path, damage: str) -> None:
    data = parquet_file(tmp_path)
    middle = len(data) // 3
    damaged = {
        "cut": data[:middle] + data[-middle:],
        "zeroed": data[:16] + bytes(middle) + data[16 + middle :],
        "flipped": data[:4] + bytes(byte ^ 0xFF for byte in data[4:middle]) + data[middle:],
    }
    code, output = run(write_job(tmp_path, "parquet", damaged[damage]))
    assert code == 1
    assert len(output.splitlines()) == 1
    assert "in.parquet cannot be read" in output
    assert "damaged" in output


NOTHING_READ = "castleguard: nothing was published: no rows were read\n"


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_empty_file_is_a_job_without_rows(run: Run, tmp_path: Path, format: str) -> None:
    assert run(write_job(tmp_path, format, b"")) == (0, NOTHING_READ)
    assert published_rows(tmp_path) == 0


def test_header_without_rows_is_a_job_without_rows(run: Run, tmp_path: Path) -> None:
    assert run(write_job(tmp_path, "csv", HEADER)) == (0, NOTHING_READ)


def test_file_that_shrinks_before_a_restart_stops_the_job_and_keeps_the_output(run: Run, tmp_path: Path) -> None:
    path = write_job(tmp_path, "csv", HEADER + GOOD, batch=10)
    assert not stopped_after(path, reads=6)
    before = published_rows(tmp_path)
    (tmp_path / "in.csv").write_bytes(HEADER + GOOD[:200])
    assert run(path) == (1, "castleguard: in.csv cannot be read after row 60: it has shrunk since\n")
    assert published_rows(tmp_path) == before
    (tmp_path / "in.csv").write_bytes(HEADER + GOOD)
    assert run(path)[0] == 0
    assert published_rows(tmp_path) + suppressed(tmp_path) == 100


def test_file_that_is_replaced_before_a_restart_stops_the_job(run: Run, tmp_path: Path) -> None:
    path = write_job(tmp_path, "csv", HEADER + GOOD, batch=10)
    assert not stopped_after(path, reads=6)
    (tmp_path / "in.csv").write_bytes(HEADER + GOOD.replace(b"x", b"y"))
    assert run(path) == (1, "castleguard: in.csv cannot be read after row 60: it is not the same file any more\n")


def test_file_that_disappears_stops_the_job(run: Run, tmp_path: Path) -> None:
    path = write_job(tmp_path, "csv", HEADER + GOOD, batch=10)
    assert not stopped_after(path, reads=6)
    (tmp_path / "in.csv").unlink()
    code, output = run(path)
    assert (code, len(output.splitlines())) == (1, 1)
    assert "in.csv cannot be read" in output


def test_job_stops_at_a_bad_file_and_restores_once_it_is_fixed(run: Run, tmp_path: Path) -> None:
    path = write_job(tmp_path, "csv", b"")
    path.write_text(path.read_text().replace("in.csv", "in"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_bytes(HEADER + GOOD)
    (tmp_path / "in" / "2.csv").write_bytes(HEADER.replace(b"what", b"wath") + GOOD)
    assert run(path) == (1, "castleguard: in/2.csv has no column 'what', did you mean 'wath'?\n")
    (tmp_path / "in" / "2.csv").write_bytes(HEADER + GOOD)
    assert run(path)[0] == 0
    job = make_job(load(path))
    assert job.books().rows_in == 200
    job.close()


def test_repr_of_a_read_shows_no_rows(hostile: Hostile, tmp_path: Path) -> None:
    with closing(open_source(load(write_job(tmp_path, hostile.format, hostile.data)))) as source:
        while (read := source.read(0.0)) is not None:
            shown = repr(read) + repr(read.bad) + repr(source) + "".join(bad.reason + bad.place for bad in read.bad)
            assert MARK not in shown
