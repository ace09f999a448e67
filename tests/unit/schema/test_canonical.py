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
    ["2020-01-02", "2020-01-02T00:00:00Z", "2020-01-02 00:00", "2020-01-02T01:00+01:00", "20200102T000000.000Z"],
    ["12:30", "12:30:00", "12:30:00.000"],
    ["true", "True", "TRUE"],
    ["1e999999999", "10e999999998", "0.1e1000000000"],
]


@pytest.mark.parametrize("spellings", SAME, ids=lambda spellings: spellings[0])
def test_spellings_of_the_same_are_one(spellings: list[str]) -> None:
    assert len({canonical(text, fold=True) for text in spellings}) == 1


def test_what_is_not_the_same_is_not_one() -> None:
    forms = [canonical(spellings[0], fold=True) for spellings in SAME]
    assert len(set(forms)) == len(forms)
    assert len({canonical(text, fold=True) for text in ("1", "1.5", "-1", "10", "1e40", "1e41", "1e-40")}) == 7


@pytest.mark.parametrize("text", ["", " ", "\u00a0", "\u200b", "\0", "\ufeff \u2003", "nan", "-INF", "+Infinity"])
def test_what_says_nothing_is_missing(text: str) -> None:
    assert canonical(text, fold=True) is None


def test_case_is_kept_where_it_counts_but_not_in_numbers_and_names_of_truth() -> None:
    assert canonical("Jane", fold=False) == "Jane"
    assert canonical("1E3", fold=False) == "1000"
    assert canonical("TRUE", fold=False) == "true"
    assert canonical("6BA7B8109DAD11D180B400C04FD430C8", fold=False) == "6ba7b810-9dad-11d1-80b4-00c04fd430c8"


def test_a_number_is_never_expanded() -> None:
    before = time.process_time()
    for text in ("1e999999999", "-1e-999999999", "1e" + "9" * 100_000, "0." + "0" * 100_000 + "1", "9" * 100_000):
        canonical(text, fold=True)
        canonical(text, fold=True, whole=True)
    assert time.process_time() - before < 5


@given(st.text() | st.from_regex(r"[+-]?[0-9]{0,45}\.?[0-9]{0,45}(e[+-]?[0-9]{1,3})?", fullmatch=True), st.booleans())
def test_the_form_of_a_form_is_itself(text: str, fold: bool) -> None:
    form = canonical(text, fold=fold)
    if form is not None:
        assert canonical(form, fold=fold) == form


@pytest.mark.parametrize(
    ("text", "kinds"),
    [("12", {"number"}), ("x", set()), ("", {"number", "uuid"}), ("6ba7b8109dad11d180b400c04fd430c8", {"uuid"})],
)
def test_kinds_are_told_by_the_text(text: str, kinds: set[str]) -> None:
    assert {kind for kind in ("number", "uuid") if reads_as(text, kind)} == kinds
