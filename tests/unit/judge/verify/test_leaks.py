"""Identifiers are found under any name, and values that only look like identifiers are not."""

import numpy as np
import pyarrow as pa

from castleguard.judge.verify.leaks import Leaks, find_leaks
from castleguard.schema.roles import Numeric, Schema

SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[Numeric("age", lower=0, upper=100)],
    sensitive=["illness"],
    public=["ward", "row"],
)
ORIGINAL = pa.table(
    {
        "pid": [11, 12, 13, 11, 12, 13],
        "age": [11, 12, 13, 14, 15, 16],
        "illness": ["flu", "cold", "flu", "rash", "flu", "cold"],
        "ward": [11, 11, 12, 12, 13, 13],
        "row": [0, 1, 2, 3, 4, 5],
    }
)
ROW = np.arange(6)
PUBLISHED = {
    "age_min": [11, 11, 11, 11, 11, 11],
    "age_max": [16, 16, 16, 16, 16, 16],
    "illness": ["flu", "cold", "flu", "rash", "flu", "cold"],
    "ward": [11, 11, 12, 12, 13, 13],
    "row": [0, 1, 2, 3, 4, 5],
}


def leaks(linked: bool, **columns: object) -> Leaks:
    published = pa.table(PUBLISHED | columns)
    return find_leaks(published, ORIGINAL, SCHEMA, row=ROW if linked else None, link="row" if linked else None)


def test_expected_values_of_a_column_are_not_identifiers() -> None:
    # Wards and bounds of ages equal identifiers by chance.
    assert leaks(False) == leaks(True) == Leaks((), (), ())


def test_person_column_is_found_by_its_name() -> None:
    for linked in (False, True):
        assert leaks(linked, pid=[11, 12, 13, 11, 12, 13]) == Leaks(("pid",), ("pid",), ())


def test_identifiers_under_another_name_are_found() -> None:
    texts = ["11", "12", "13", "11", "12", "13"]
    for linked in (False, True):
        assert leaks(linked, note=texts).identifiers == ("note",)
        assert leaks(linked, illness=texts).identifiers == ("illness",)
    # Every row has its person in place of the ward. Without a link, these could be wards.
    assert leaks(True, ward=[11, 12, 13, 11, 12, 13]).identifiers == ("ward",)


def test_column_in_one_to_one_correspondence_with_persons_is_a_pseudonym() -> None:
    secret = ["x", "y", "z", "x", "y", "z"]
    assert leaks(True, note=secret) == Leaks(("note",), (), ("note",))
    assert leaks(True, note=["x", "y", "z", "x", "y", "x"]).pseudonyms == ()
    assert leaks(False, note=secret).pseudonyms == ()


def test_no_leaks_are_found_without_a_person_column() -> None:
    no_person = Schema(person=None, quasi_identifiers=SCHEMA.quasi_identifiers, sensitive=["illness"])
    assert find_leaks(pa.table(PUBLISHED), ORIGINAL, no_person) == Leaks(("ward", "row"), (), ())
