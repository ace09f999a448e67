"""The same person has the same hash in any type of column. k depends on this."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from castleguard.errors import SchemaError
from castleguard.kernels.siphash import NO_PERSON, hash_strings
from castleguard.schema.canonical import canonical
from castleguard.schema.column import distinct
from castleguard.schema.identities import Hashes, hash_persons, hash_values
from castleguard.schema.table import to_table

KEY = np.array([0x0706050403020100, 0x0F0E0D0C0B0A0908], dtype=np.uint64)


def hashes(array: pa.Array | pa.ChunkedArray) -> list[int]:
    column = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
    found = distinct(column)
    spread: Hashes = found.spread(hash_persons(found.values, KEY))
    assert spread.dtype == np.uint64
    return [int(value) for value in spread]


def reference(text: str | None) -> int:
    data = np.frombuffer((text or "").encode(), np.uint8).copy()
    valid = np.array([text is not None])
    if text is None:
        return int(NO_PERSON)
    return int(hash_strings(data, np.array([0, data.size]), valid, KEY)[0])


NUMBERS = [12, 0, 7, -3, 2**40, 12]
EXPECTED = [reference(str(number)) for number in NUMBERS]
AS_TEXT = pa.array([str(number) for number in NUMBERS])


@pytest.mark.parametrize(
    "array",
    [
        pa.array(NUMBERS),
        pa.array([float(number) for number in NUMBERS]),
        pa.array([Decimal(number) for number in NUMBERS]),
        pa.array([Decimal(number).quantize(Decimal("0.01")) for number in NUMBERS]),
        AS_TEXT,
        AS_TEXT.cast(pa.large_string()),
        AS_TEXT.cast(pa.string_view()),
        AS_TEXT.cast(pa.binary()),
        AS_TEXT.cast(pa.large_binary()),
        AS_TEXT.dictionary_encode(),
        pa.array(NUMBERS).dictionary_encode(),
        pa.array([float(number) for number in NUMBERS]).dictionary_encode(),
        pa.array([f" {number}\t" for number in NUMBERS]),
        pa.array([f"{number}.0" for number in NUMBERS]),
        pa.array([f"{number}." for number in NUMBERS]),
        pa.array([f"{number:+05d}" for number in NUMBERS]),
        pa.array([f"{number:e}" if abs(number) < 1000 else str(number) for number in NUMBERS]),
        pa.chunked_array([pa.array(NUMBERS[:2]), pa.array(NUMBERS[2:])]),
        pa.chunked_array([AS_TEXT[:2].dictionary_encode(), AS_TEXT[2:].dictionary_encode()]),
        pa.chunked_array([AS_TEXT[:0], AS_TEXT[:5], AS_TEXT[5:]]),
    ],
    ids=lambda array: str(array.type),
)
def test_the_same_person_has_the_same_hash_in_every_type(array: pa.Array) -> None:
    assert hashes(array) == EXPECTED


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()])
def test_the_width_of_an_integer_does_not_matter(kind: pa.DataType) -> None:
    assert hashes(pa.array([12, 0, None], kind)) == [reference("12"), reference("0"), reference(None)]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_the_width_of_a_float_does_not_matter(kind: pa.DataType) -> None:
    found = hashes(pa.array([12.0, 0.5, -0.0, None, float("nan")], kind))
    assert found == [reference("12"), reference(None), reference("0"), reference(None), reference(None)]


def test_pandas_polars_and_dicts_agree() -> None:
    persons: list[float | None] = [12, 7, 12, None]
    expected = [reference("12"), reference("7"), reference("12"), reference(None)]
    batches: list[object] = [
        pd.DataFrame({"p": persons}),  # NaN turns the column into floats
        pd.DataFrame({"p": pd.array(persons, dtype="Int64")}),
        pd.DataFrame({"p": ["12", "7", "12", None]}),
        pd.DataFrame({"p": ["12", 7, 12.0, None]}),
        pd.DataFrame({"p": pd.Categorical(["12", "7", "12", None])}),
        pl.DataFrame({"p": persons}),
        pl.DataFrame({"p": [12.0, 7.0, 12.0, float("nan")]}),
        pl.DataFrame({"p": ["12", "7", "12", ""]}),
        pl.DataFrame({"p": pl.Series(["12", "7", "12", None], dtype=pl.Categorical)}),
        [{"p": person} for person in persons],
        [{"p": 12}, {"p": "7"}, {"p": 12.0}, {}],
        [{"p": 12.0}, {"p": "7"}, {"p": b"12"}, {"p": float("nan")}],
        [{"p": np.int64(12)}, {"p": 7}, {"p": "012"}, {"p": " "}],
    ]
    for batch in batches:
        assert hashes(to_table(batch).column("p")) == expected


def test_missing_empty_blank_and_nan_persons_are_no_person() -> None:
    missing = reference(None)
    assert hashes(pa.array([None, "", "  ", "nan", "NaN"])) == [missing] * 5
    assert hashes(pa.array([None, float("nan")])) == [missing] * 2
    assert hashes(pa.array([None, None])) == [missing] * 2
    assert hashes(pa.array(["a", None, "a"]).dictionary_encode())[1] == missing
    assert hashes(pa.array(["", None, "a"]).dictionary_encode())[:2] == [missing] * 2
    assert missing not in hashes(pa.array(["a", "0", "null", "None"]))


def test_null_inside_a_dictionary_is_no_person() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1, 0]), pa.array([None, "a"]))
    assert hashes(values) == [reference(None), reference("a"), reference(None), reference("a"), reference(None)]


def test_float_that_cannot_tell_neighbours_apart_is_no_person() -> None:
    large = 2.0**53
    assert hashes(pa.array([large, large - 1, 1e300, float("inf")])) == [
        reference(None), reference(str(2**53 - 1)), reference(None), reference(None),
    ]  # fmt: skip
    assert hashes(pa.array([2.0**24, 2.0**24 - 1], pa.float32())) == [reference(None), reference(str(2**24 - 1))]
    assert hashes(pa.array(["inf", "-Infinity"])) == [reference(None)] * 2
    assert hashes(pa.array([f"{large:.1f}", "1e300"])) == [reference(str(2**53)), reference("1e300")]


def test_long_numbers_as_text_or_integers_keep_every_digit() -> None:
    long = [2**63 - 1, 2**63 - 2, 2**53 + 1]
    expected = [reference(str(number)) for number in long]
    assert hashes(pa.array(long)) == hashes(pa.array(long, pa.uint64())) == expected
    assert hashes(pa.array([f"000{number}" for number in long])) == expected
    assert hashes(pa.array([2**64 - 1], pa.uint64())) == [reference(str(2**64 - 1))]
    assert hashes(pa.array(["9" * 41, "1" + "0" * 40, "9" * 40 + ".0"])) == [
        reference("9" * 41 + "e0"),
        reference("1e40"),
        reference("9" * 40),
    ]
    assert hashes(pa.array(["+" + "9" * 40, "-" + "0" * 30 + "9" * 40])) == [
        reference("9" * 40),
        reference("-" + "9" * 40),
    ]


@pytest.mark.parametrize(
    "text",
    ["a", "person-12", "12a", "a12", "1-2", "1.2.3", "12e", "0x12", "+", "-", ".", "e", "nanny", "café", "x y", "--1"],
)
def test_text_that_is_not_a_number_is_hashed_unchanged(text: str) -> None:
    assert hashes(pa.array([text, "0.5"])) == [reference(text), reference("0.5")]


def test_fractions_agree_between_text_and_floats() -> None:
    texts = ["0.10", "00.1", "1e-1", ".1", "0.1"]
    assert hashes(pa.array(texts)) == [reference("0.1")] * 5
    values = [hash_values(pa.array([0.1], kind), KEY).tolist() for kind in (pa.float64(), pa.float32())]
    assert values == [[reference("0.1")]] * 2
    assert hashes(pa.array([Decimal("0.10")])) == [reference("0.1")]


def test_the_unit_and_zone_of_a_timestamp_do_not_matter() -> None:
    moment = dt.datetime(2020, 1, 2, 3, 0, 0)
    for kind in (pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")):
        assert hashes(pa.array([moment], kind)) == [reference("@1577934000")]
    aware = moment.replace(tzinfo=dt.UTC)
    assert hashes(pa.array([aware], pa.timestamp("us", "Asia/Tokyo"))) == [reference("@1577934000")]
    assert hashes(to_table([{"p": aware}, {"p": "x"}]).column("p"))[0] == reference("@1577934000")
    half = moment.replace(microsecond=500000)
    mixed = to_table([{"p": half}, {"p": "x"}]).column("p")
    assert hashes(mixed)[0] == hashes(pa.array([half]))[0] == reference("@1577934000.5")


DAY = dt.date(2020, 1, 2)
MIDNIGHT = dt.datetime(2020, 1, 2, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([DAY], pa.date32()),
        pa.array([DAY], pa.date64()),
        *(pa.array([MIDNIGHT], pa.timestamp(unit, "Asia/Tokyo")) for unit in ("s", "ms", "us", "ns")),
        pa.array([MIDNIGHT.replace(tzinfo=None)]),
        pa.array([DAY]).dictionary_encode(),
        *(pa.array([20200102], kind) for kind in (pa.int32(), pa.int64(), pa.uint64(), pa.float64())),
        pa.array([Decimal("20200102.0")]),
        *(
            pa.array([text])
            for text in ("20200102", "2020-01-02", "2020-01-01T24:00:00", "2020-1-2", "2020/01/02", "2020.1.2")
        ),
        pa.array([b"2020-1-2"]),
    ],
    ids=lambda array: str(array.type),
)
def test_a_day_is_one_person_as_a_date_its_midnight_its_text_and_its_digits(array: pa.Array) -> None:
    assert hashes(array) == [reference("20200102")]
    assert [int(code) for code in hash_values(distinct(pa.chunked_array([array])).values, KEY)][:1] == hashes(array)


def test_days_and_moments_have_the_same_hashes_together_and_alone() -> None:
    ends = [dt.date.min, dt.date(999, 12, 31), dt.date(1969, 12, 31), dt.date(2000, 2, 29), dt.date.max]
    days = pa.array([*ends, None], pa.date32())
    expected = [*(reference(f"{day:%Y%m%d}".lstrip("0")) for day in ends[2:]), reference(None)]
    assert hashes(days) == [reference("10101"), reference("9991231"), *expected]
    beyond = pa.array([-719163, 2932897], pa.int32()).cast(pa.date32())
    assert hashes(beyond) == [reference("@-62135683200"), reference("@253402300800")]
    mixed = pa.array([0, 1, 86_400_000, None, 86_400_500], pa.timestamp("ms"))
    assert hashes(mixed) == [reference(text) for text in ("19700101", "@0.001", "19700102", None, "@86400.5")]


@pytest.mark.parametrize("text", ["12:30", "T12:30", "T1230", "t123000", "12:30Z", "12:30 PM"])
def test_a_time_of_day_is_one_person_with_a_leading_t_or_without(text: str) -> None:
    kinds = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
    assert {hashes(pa.array([dt.time(12, 30)], kind))[0] for kind in kinds} == {hashes(pa.array([text]))[0]}


@pytest.mark.parametrize("text", ["- 12", "-\u00a012", "12-", "12 -", "\u2212 12"])
def test_a_leading_and_a_trailing_minus_are_the_same_person(text: str) -> None:
    assert hashes(pa.array([text])) == hashes(pa.array([-12])) == [reference("-12")]


def test_booleans_are_the_numbers_that_other_formats_write_for_them() -> None:
    assert hashes(pa.array([True, False, None])) == [reference("1"), reference("0"), reference(None)]
    assert hashes(pa.array(["True", "false"])) == [reference("1"), reference("0")]


def test_bytes_that_are_not_utf8_are_no_person() -> None:
    assert hashes(pa.array([b"\xff", b"a", None])) == [reference(None), reference("a"), reference(None)]


def test_a_slice_hashes_like_a_copy() -> None:
    array = pa.array(["x", "12", None, "", "y", "012"])
    assert hashes(array[1:5]) == [reference("12"), reference(None), reference(None), reference("y")]


@pytest.mark.parametrize("array", [pa.array([["secret"]]), pa.array([{"a": "secret"}])])
def test_a_type_without_text_is_refused_by_its_type(array: pa.Array) -> None:
    with pytest.raises(SchemaError, match="cannot be compared") as caught:
        hashes(array)
    assert "secret" not in str(caught.value)


def test_another_key_gives_other_hashes() -> None:
    array = pa.array(["a"])
    assert int(hash_persons(array, KEY + np.uint64(1))[0]) != hashes(array)[0]


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), max_size=6))
def test_integers_have_the_same_hash_in_any_spelling(numbers: list[int | None]) -> None:
    as_integers = hashes(pa.array(numbers, pa.int64()))
    as_text = [None if number is None else str(number) for number in numbers]
    assert as_integers == hashes(pa.array(as_text, pa.string()))
    assert as_integers == hashes(pa.array(as_text, pa.string()).dictionary_encode())
    assert as_integers == [reference(text) for text in as_text]


@given(st.lists(st.floats(width=64) | st.integers(-(2**54), 2**54).map(float), max_size=6))
def test_floats_hash_like_their_text_or_are_no_person(numbers: list[float]) -> None:
    found = hashes(pa.array(numbers, pa.float64()))
    as_text = hashes(pa.array([repr(number) for number in numbers], pa.string()))
    exact = [number.is_integer() and abs(number) < 2**53 for number in numbers]
    expected = [code if known else int(NO_PERSON) for code, known in zip(as_text, exact, strict=True)]
    assert found == expected


# Texts that resemble numbers, times, UUIDs and words in all ways that a scan of bytes could misread.
LOOKALIKES = st.one_of(
    st.text(alphabet="0123456789.-+eE", max_size=12),
    st.text(alphabet="019.-+eE:TtZz /_", max_size=26),
    st.text(alphabet="0123 ,'.-+`", max_size=12),
    st.from_regex(r"[12][0-9]{3}[-/.]?W?[0-3]?[0-9][-/.]?[0-3]?[0-9]", fullmatch=True),
    st.from_regex(r"([12][0-9]{3}-?[01][0-9]-?[0-3][0-9][Tt ])?[Tt]?[0-2]?[0-9]:?([0-5][0-9])?(:?[0-6][0-9])?([.,]0)?"
                  r" ?([AaPp]\.?[Mm])?([Zz]|UTC)?([+-][01]?[0-9]:?[0-5]?[0-9]?)?", fullmatch=True),
    st.from_regex(r"[Tt][0-9]{1,8}[a-z]?|[0-9]{6,9}[ TtZzUuGgXx+-]{0,2}[0-9]{0,4}", fullmatch=True),
    st.text(alphabet="09aAeEfF-{}()", min_size=30, max_size=46),
    st.from_regex(r"[0-9]{39,43}(\.[0-9]{0,3})?", fullmatch=True),
    st.from_regex(r"(?i:-?(nan|inf|infinity|true|false))", fullmatch=True),
    st.from_regex(r"(?i:[0-9]{8}(-[0-9]{4}){3}-[0-9e]{12})", fullmatch=True),
    st.text(max_size=8),
)  # fmt: skip


@example(text=".", fold=False, whole=True)
@given(text=LOOKALIKES, fold=st.booleans(), whole=st.booleans())
def test_the_scan_of_bytes_agrees_with_the_canonical_form(text: str, fold: bool, whole: bool) -> None:
    form = canonical(text, fold=fold)
    array = pa.array([text, "x"])
    assert int(hash_persons(array, KEY, exact_case=not fold)[0]) == reference(form)
    value = canonical(text, fold=False, whole=whole)
    expected = hash_values(pa.array([None], pa.string()), KEY)[0] if value is None else reference(value)
    assert int(hash_values(array, KEY, whole=whole)[0]) == expected


PERSONS = st.one_of(
    st.none(), st.text(max_size=8), st.integers(), st.floats(), st.booleans(), st.binary(max_size=4), st.decimals(),
    st.decimals(-1000, 1000, places=2), st.datetimes(), st.dates(), st.times(), st.uuids(),
    st.integers(-99, 99).map(float),
)  # fmt: skip


@given(st.lists(PERSONS, max_size=5))
def test_a_person_has_the_same_hash_alone_and_among_others(persons: list[object]) -> None:
    together = hashes(to_table([{"p": person} for person in persons], columns=("p",), person="p").column("p"))
    alone = [hashes(to_table([{"p": person}], person="p").column("p"))[0] for person in persons]
    assert together == alone
