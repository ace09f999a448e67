"""Batches of any types and values: rows are coded or rejected, or the batch is refused in one sentence.

Values decide the outcome of a row, never whether the stream continues, and no message quotes one.
"""

import datetime as dt
import logging
import re
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import castleguard as cg
from castleguard.algorithms.policy import Policy
from castleguard.connectors.bad_lines import BadLine, KeepsBadLines
from castleguard.connectors.formats import Format, open_reader
from castleguard.errors import CastleguardError, InputError, SchemaError
from tests.properties.streams import examples

MARK = "Xq7mark"
MARKED_NUMBER = 918273645
_MARKS = (MARK, str(MARKED_NUMBER))

# -- arrays of any type ------------------------------------------------------------------------------------------------

_TEXTS = st.sampled_from(
    (MARK, "3", " 4.5 ", "a", "b", "", "nan", "-inf", "1e400", "2020-02-30", "2020-01-05T10:00+01")
)
_TEXT = _TEXTS | st.text(max_size=6)
_BYTES = st.binary(max_size=5) | _TEXT.map(str.encode)
_WIDTHS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_UNSIGNED = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


@dataclass(frozen=True)
class Kind:
    """Arrays of one type: a strategy for their values, and a constructor."""

    name: str
    values: st.SearchStrategy[Any]
    make: Callable[[list[Any]], pa.Array]


def _of(kind: pa.DataType, values: st.SearchStrategy[Any]) -> Kind:
    return Kind(str(kind), values, lambda found: pa.array(found, kind))


def _ticks(kind: pa.DataType, bits: int) -> Kind:
    """Times by their ticks, because Python's calendar is shorter than Arrow's."""
    near = st.integers(-20_000, 20_000) | st.sampled_from((1_578_000_000, 1_578_000_000_000_000))
    ticks = st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) | near.filter(lambda tick: abs(tick) < 2 ** (bits - 1))
    return Kind(str(kind), ticks, lambda found: pa.array(found, _WIDTHS[bits]).view(kind))


def _wrapped(name: str, inner: Kind, wrap: Callable[[pa.Array], pa.Array]) -> Kind:
    return Kind(f"{name} of {inner.name}", inner.values, lambda found: wrap(inner.make(found)))


def _numbers() -> list[Kind]:
    usual = st.sampled_from((0, 1, 3, 7, 100))
    kinds = [_of(kind, usual | st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)) for bits, kind in _WIDTHS.items()]
    kinds += [_of(kind, usual | st.integers(0, 2**bits - 1)) for bits, kind in _UNSIGNED.items()]
    kinds += [_of(pa.int64(), usual | st.just(MARKED_NUMBER))]
    floats = st.floats(width=16).map(np.float16)
    kinds += [_of(pa.float16(), floats), _of(pa.float32(), st.floats(width=32)), _of(pa.float64(), st.floats())]
    return kinds + [
        _of(kind, st.decimals(min_value=-(10**20), max_value=10**20, places=kind.scale))
        for kind in (pa.decimal128(38, 0), pa.decimal128(30, 3), pa.decimal256(60, 30))
    ]


def _times() -> list[Kind]:
    units = ("s", "ms", "us", "ns")
    kinds = [_ticks(pa.timestamp(unit, zone), 64) for unit in units for zone in (None, "UTC", "America/New_York")]
    kinds += [
        _ticks(pa.date32(), 32),
        _ticks(pa.date64(), 64),
        _ticks(pa.time32("ms"), 32),
        _ticks(pa.time64("ns"), 64),
    ]
    return [*kinds, *(_ticks(pa.duration(unit), 64) for unit in units)]


def _others() -> list[Kind]:
    number, text = st.integers(0, 9), _of(pa.string(), _TEXT)
    whole = _of(pa.int64(), number | st.just(MARKED_NUMBER))
    kinds = [text] * 4 + [_of(kind, _TEXT) for kind in (pa.large_string(), pa.string_view())]
    kinds += [_of(kind, _BYTES) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())]
    kinds += [_of(pa.binary(2), st.binary(min_size=2, max_size=2)), _of(pa.bool_(), st.booleans())]
    kinds += [_of(pa.null(), st.none())]
    kinds += [
        _of(pa.list_(pa.string()), st.lists(_TEXT, max_size=2)),
        _of(pa.map_(pa.string(), pa.int64()), st.just([])),
    ]
    kinds += [_of(pa.struct([("x", pa.string())]), st.builds(dict, x=_TEXT))]
    kinds += [_of(pa.month_day_nano_interval(), st.tuples(number, number, number))]
    kinds += [_wrapped("dictionary", inner, lambda array: array.dictionary_encode()) for inner in (text, whole)]
    kinds += [_wrapped("runs", inner, pc.run_end_encode) for inner in (text, whole)]
    identity = _of(pa.binary(16), st.binary(min_size=16, max_size=16))
    return [*kinds, _wrapped("uuid", identity, lambda array: pa.ExtensionArray.from_storage(pa.uuid(), array))]


KINDS = [*_numbers(), *_times(), *_others()]


@st.composite
def tables(draw: st.DrawFn, columns: tuple[str, ...]) -> pa.Table:
    """Up to five different rows, each up to eight times, in one chunk or in several; any type for any column."""
    rows, times = draw(st.integers(0, 5)), draw(st.integers(1, 8))
    chunks = draw(st.booleans())
    arrays = []
    for _ in columns:
        kind = draw(st.sampled_from(KINDS))
        values = draw(st.lists(kind.values | st.none(), min_size=rows, max_size=rows))
        arrays.append(pa.chunked_array([kind.make(values)] * times) if chunks else kind.make(values * times))
    return pa.table(arrays, names=list(columns))


# -- streams -----------------------------------------------------------------------------------------------------------

_QUASI: tuple[cg.Numeric | cg.Categorical, ...] = (
    cg.Numeric("n", lower=0, upper=100, step=5),
    cg.Numeric("d", lower=dt.date(2020, 1, 1), upper=dt.date(2021, 1, 1), outside="root", null="root"),
    cg.Numeric("t", lower=dt.datetime(2020, 1, 1, tzinfo=dt.UTC), upper=dt.datetime(2021, 1, 1, tzinfo=dt.UTC)),
    cg.Categorical("c", hierarchy=cg.Hierarchy.from_mapping({"*": ["a", "b", "3"]}), null="root", unknown="root"),
)
_ROOTED = tuple(
    cg.Numeric(role.name, lower=role.lower, upper=role.upper, null="root", outside="root", invalid="root")
    for role in _QUASI
    if isinstance(role, cg.Numeric)
)
_DECLARED = (cg.Sensitive("s", values=["a", "b", "3"]), cg.Sensitive("f", bins=[10, 20]))
_LABELS = (cg.Sensitive("s", values=["a", "b", "3"]),)


class Case(NamedTuple):
    """A schema and a policy."""

    schema: cg.Schema
    policy: Policy


def _schema(sensitive: tuple[cg.Sensitive | str, ...], quasi: tuple[Any, ...] = _QUASI, public: str = "p") -> cg.Schema:
    return cg.Schema(person="id", quasi_identifiers=quasi, sensitive=sensitive, public=[public] if public else [])


CASES = {
    "castle": Case(_schema(("s", cg.Sensitive("f", bins=[10, 20]))), cg.Castle(k=2, l=2, delay=6)),
    "castle at the root": Case(_schema(("s",), _ROOTED), cg.Castle(k=2, delay=6)),
    "castleguard": Case(_schema(_DECLARED), cg.Castleguard(k=2, delay=6, epsilon=5.0, sample_rate=0.9)),
    "sdgs": Case(
        _schema(_DECLARED, public=""),
        cg.Sdgs(k=2, sample_rate=0.5, epsilon=1.0, window=8, window_unit="rows", unit="row"),
    ),
    "doca": Case(_schema(_LABELS, public=""), cg.Doca(epsilon=2.0, k=2, delay=6)),
    "doca of the paper": Case(_schema((), _QUASI[:1]), cg.Doca(epsilon=2.0, delay=6, mode="paper", sensitivity=100.0)),
}


class _Logged(logging.Handler):
    """Collects all log messages."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@given(data=st.data())
@examples(1)
def test_any_table_gives_balanced_books_or_a_one_sentence_error(case: Case, data: st.DataObject) -> None:
    stream = cg.Anonymiser(case.schema, case.policy, seed=5)
    said = _Logged()
    logger = logging.getLogger("castleguard")
    logger.addHandler(said)
    rows_in = published = 0
    try:
        for _ in range(data.draw(st.integers(1, 3))):
            table = data.draw(tables(case.schema.columns))
            try:
                published += stream.push(table, now=0.0).num_rows
            except CastleguardError as exc:
                said.lines.append(str(exc))
                continue
            rows_in += table.num_rows
            assert len(stream.rejected()) <= table.num_rows
        if data.draw(st.booleans()):
            stream = cg.Anonymiser.restore(case.schema, case.policy, stream.snapshot())
        published += stream.flush().num_rows
    finally:
        logger.removeHandler(said)
    books = stream.report()
    rejected = sum(books.rejected.values())
    assert (books.rows_in, books.published, books.pending) == (rows_in, published, 0)
    assert rows_in == published + books.suppressed + books.sampled_out + books.over_budget + rejected
    assert not [line for line in (*said.lines, repr(stream)) if any(mark in line for mark in _MARKS)]


# -- bytes -------------------------------------------------------------------------------------------------------------

_CSV_PIECES = (
    b'"',
    b",",
    b"\n",
    b"\r\n",
    b"\r",
    b"1",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xc3\xa9",
    b" ",
    b'"x"',
    b"1,2\n",
    b'"1","\n"\n',
)
_CSV_STARTS = (b"a,b\n", b"a,b\n", b"a,b\r\n", b"b,c,a\n", b"\xef\xbb\xbfa,b\n", b"")
_JSON_PIECES = (
    *(b"{", b"}", b'"a"', b'"b"', b":", b",", b"[", b"]", b"\n", b"\r\n", b" ", b"\0", b"\xff", b'"\\ud800"'),
    *(b"1", b"1e999", b"NaN", b"-Infinity", b"null", b"true", b"12345678901234567890123", b'"2020-01-01"'),
    *(b'{"a":1,"b":2}\n', b'{"a":"x","b":2.5}\n', b'{"a":{},"b":[1]}\n', b'{"a":1,"b":2}'),
)
_JSON_STARTS = (b'{"a":1,"b":2}\n', b"", b"null\n")


def files(starts: tuple[bytes, ...], pieces: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    """Files with a valid start, meaningful pieces, and arbitrary bytes."""
    some = st.lists(st.sampled_from(pieces) | st.sampled_from(pieces) | st.binary(max_size=3), max_size=14)
    return st.builds(lambda start, rest: start + b"".join(rest), st.sampled_from(starts), some)


def read_all(data: bytes, format: Format, batch_rows: int) -> tuple[list[pa.RecordBatch], list[BadLine]]:
    """All rows and all bad lines of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in"
        path.write_bytes(data)
        with closing(open_reader(path, ["a", "b"], format=format, batch_rows=batch_rows, keep_bad=True)) as reader:
            assert isinstance(reader, KeepsBadLines)
            batches: list[pa.RecordBatch] = []
            bad: list[BadLine] = []
            for batch in reader:
                batch.validate(full=True)
                batches.append(batch)
                bad += reader.take_bad()
            assert reader.malformed == len(bad)
            return batches, bad


@given(data=files(_CSV_STARTS, _CSV_PIECES), batch_rows=st.sampled_from((1, 3, 100)))
@examples(3)
def test_every_line_of_any_csv_file_is_a_row_or_bad_or_blank(data: bytes, batch_rows: int) -> None:
    try:
        batches, bad = read_all(data, "csv", batch_rows)
    except (InputError, SchemaError):
        return
    found = sum(batch.num_rows for batch in batches) + len(bad)
    lines = re.split(rb"\r\n|\r|\n", data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n"))[1:]
    filled = sum(1 for line in lines if line)
    if b'"' not in data:
        assert found == filled
    else:  # a quoted value may contain line ends
        assert min(filled, 1) <= found <= filled


@given(data=files(_JSON_STARTS, _JSON_PIECES), batch_rows=st.sampled_from((1, 3, 100)))
@example(data=b"null\n", batch_rows=3)
@examples(3)
def test_every_line_of_any_json_file_is_a_row_or_bad_or_blank(data: bytes, batch_rows: int) -> None:
    try:
        batches, bad = read_all(data, "jsonl", batch_rows)
    except (InputError, SchemaError):
        return
    found = sum(batch.num_rows for batch in batches) + len(bad)
    assert found == sum(1 for line in data.split(b"\n") if line.strip())
