"""The canonical form of one text."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castleguard.schema.canonical import canonical, reads_as

SAME = [
    ["0", "-0", "-000", "+0", "0.0", "00", "0e5", "\uff10", "\u22120"],
    ["12345678901234567", "12345678901234567.0", "012345678901234567", "1.2345678901234567e16"],
    ["1e20", "1E+20", "100000000000000000000", "100e18", "100000000000000000000.00"],
    ["12", "\uff11\uff12", " 12\u00a0", "\ufeff12", "1\u200b2", "12\0\0", "\u0661\u0662"],
    [
        "Jane Doe",
        "jane  doe",
        "JANE\u00a0DOE",
        "jane\tdoe ",
        "Ja\u00adne Doe",
        "\uff4a\uff41\uff4e\uff45 doe",
        "jane\u2003doe",
    ],
    ["straße", "STRASSE", "Strasse"],
    ["Å", "A\u030a", "\u212b", "å"],
    [
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "6BA7B810-9DAD-11D1-80B4-00C04FD430C8",
        "6ba7b8109dad11d180b400c04fd430c8",
        "{6BA7B810-9DAD-11D1-80B4-00C04FD430C8}",
        "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "6ba7b810\u20109dad\u201011d1\u201080b4\u201000c04fd430c8",
    ],
    ["2020-01-02", "2020-01-02T00:00:00Z", "2020-01-02 00:00", "2020-01-02T01:00+01:00", "20200102T000000.000Z",
     "20200102", "20200102.0", "2020-1-2", "2020/01/02", "2020/1/2", "2020.01.02", "2020.1.2", "2020-002", "2020-W01-4",
     "2020W014", "2020-01-01T24:00:00", "2020-01-01 24:00Z", "2020-01-01T23:59:60Z", "2020-01-02Z", "20200102T00",
     "2020-01-02 12:00 AM", "2020-01-02T00:30 GMT+0030", "2020-01-01T23:06:32-00:53:28",
     "2020 01 02", "2020_01_02", "2020:01:02", "2020-01-02, 00:00", "2020-01-02T01:00+01:00[Europe/Paris]",
     "2020-01-02T00:00Z[UTC]"],
    ["2020-01-02T12:30", "20200102T1230", "2020-1-2 12:30:00Z", "2020/01/02 2:30 PM +02:00", "2020-002T12:30:00,0"],
    ["12:30", "12:30:00", "12:30:00.000", "T12:30", "T1230", "t123000", "12:30Z", "14:30+02:00", "12:30 p.m."],
    ["00:00", "24:00", "T00", "T24:00:00", "12:00 am"],
    ["1", "true", "True", "TRUE"],
    ["-12", "- 12", "-\u00a012", "12-", "12 -", "\u2212 12.0", "-012"],
    ["1234567", "1 234 567", "1\u202f234\u202f567", "1,234,567", "1'234'567", "+ 1,234,567.00"],
    ["1.5", "\u0661\u066b\u0665", "1,5", "1,50", "0,15e1", "+ 1,5"],
    ["0.125", "0,125"],
    ["o'brien", "O\u2019Brien", "O\u00b4Brien", "O`Brien", "O\u02bcBrien"],
    ["1e999999999", "10e999999998", "0.1e1000000000"],
]  # fmt: skip


@pytest.mark.parametrize("spellings", SAME, ids=lambda spellings: spellings[0])
def test_spellings_of_the_same_value_have_one_form(spellings: list[str]) -> None:
    assert len({canonical(text, fold=True) for text in spellings}) == 1


def test_different_values_have_different_forms() -> None:
    forms = [canonical(spellings[0], fold=True) for spellings in SAME]
    assert len(set(forms)) == len(forms)
    assert len({canonical(text, fold=True) for text in ("1", "1.5", "-1", "10", "1e40", "1e41", "1e-40")}) == 7
    days = ("2020-01-02", "2020-01-03", "2020-01-02T00:00+02:00", "2020-01-02T00:00:00.1", "00:00", "2020-02-01")
    assert len({canonical(text, fold=True) for text in days}) == len(days)


@pytest.mark.parametrize(
    "text",
    ["2020-13-01", "2020-02-30", "2020-366x", "2021-366", "2020-w54-1", "2020-1/2", "2020-01", "2020-123-0456", "24:01",
     "25:00", "12:60", "13:00 pm", "12:30+24:00", "2020-01-02t24:00:01", "t1", "t123", "t2500", "1,234", "1 23", "- -1",
     "12 34", "1,234 567", "-1-", "1_234", "02.01.2020", "2020-01-02-05", "2020:01:02-05",
     "12,", "1,2,3", "2020-01-02t00:00[europe/paris]", "123,456", "1230:00"],
)  # fmt: skip
def test_text_that_is_not_a_day_a_time_or_a_number_stays_as_it_is(text: str) -> None:
    assert canonical(text, fold=True) == text


@pytest.mark.parametrize("text", ["", " ", "\u00a0", "\u200b", "\0", "\ufeff \u2003", "nan", "-INF", "+Infinity"])
def test_empty_text_and_nan_are_missing(text: str) -> None:
    assert canonical(text, fold=True) is None


def test_without_folding_case_is_kept_except_in_numbers_and_booleans() -> None:
    assert canonical("Jane", fold=False) == "Jane"
    assert canonical("1E3", fold=False) == "1000"
    assert canonical("TRUE", fold=False) == "1"
    assert canonical("6BA7B8109DAD11D180B400C04FD430C8", fold=False) == "6ba7b810-9dad-11d1-80b4-00c04fd430c8"


def test_a_number_is_never_expanded() -> None:
    before = time.process_time()
    for text in ("1e999999999", "-1e-999999999", "1e" + "9" * 100_000, "0." + "0" * 100_000 + "1", "9" * 100_000):
        canonical(text, fold=True)
        canonical(text, fold=True, whole=True)
    assert time.process_time() - before < 5


@given(st.text() | st.from_regex(r"[+-]?[0-9]{0,45}\.?[0-9]{0,45}(e[+-]?[0-9]{1,3})?", fullmatch=True), st.booleans())
def test_the_canonical_form_is_idempotent(text: str, fold: bool) -> None:
    form = canonical(text, fold=fold)
    if form is not None:
        assert canonical(form, fold=fold) == form


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("12", {"number"}),
        ("- 12", {"number"}),
        ("2020-01-02", set()),
        ("x", set()),
        ("", {"number", "uuid"}),
        ("6ba7b8109dad11d180b400c04fd430c8", {"uuid"}),
    ],
)
def test_a_text_reads_as_these_kinds(text: str, kinds: set[str]) -> None:
    assert {kind for kind in ("number", "uuid") if reads_as(text, kind)} == kinds
