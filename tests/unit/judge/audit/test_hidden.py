"""An audit finds values hidden in spellings, outside rows, or under a declared name."""

from typing import Any

import pyarrow as pa
import pytest

from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.castleguard.policy import Castleguard
from castleguard.algorithms.doca.policy import Doca
from castleguard.algorithms.policy import Policy
from castleguard.errors import InputError
from castleguard.judge.audit.audit_run import audit
from castleguard.judge.audit.material import Material
from castleguard.judge.report.findings import Audit
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.sensitive import Sensitive

SCHEMA = Schema(
    person="pid", quasi_identifiers=[Numeric("age", lower=0, upper=100, step=10)], sensitive=["code"], public=["row"]
)
ORIGINAL: dict[str, list[Any]] = {
    "row": [0, 1, 2, 3],
    "pid": ["P00017", "P00018", "P00019", "P00020"],
    "age": [21, 22, 23, 24],
    "code": ["1", "2", "3", "4"],
}
PUBLISHED: dict[str, list[Any]] = {
    "row": [0, 1, 2, 3],
    "age_min": ["20"] * 4,
    "age_max": ["30"] * 4,
    "code": ["1", "2", "3", "4"],
}


def look(
    published: dict[str, list[Any]],
    original: dict[str, list[Any]] | None = None,
    *,
    policy: Policy | None = None,
    schema: Schema = SCHEMA,
    link: str | None = "row",
    **more: Any,
) -> Audit:
    return audit(
        Material(
            original=pa.table(original or ORIGINAL),
            published=pa.table(published),
            schema=schema,
            policy=policy or Castle(k=4, l=2, delay=4),
            link=link,
            attack_runs=0,
            **more,
        )
    )


def broken(found: Audit) -> set[str]:
    return {each.id for section in found.sections for each in section.findings if each.status == "failed"}


def test_file_without_defects_passes() -> None:
    assert broken(look(PUBLISHED)) == set()


def test_value_beside_its_bounds_is_found() -> None:
    assert broken(look({**PUBLISHED, "age": [21, 22, 23, 24]})) == {"undeclared-columns"}


def test_spellings_of_one_number_are_one_person() -> None:
    spelt = {**ORIGINAL, "pid": ["12", "012", "12.0", "1.2e1"]}
    assert "fewest-persons" in broken(look(PUBLISHED, spelt))


def test_spellings_of_one_number_are_one_value() -> None:
    spelt = {**ORIGINAL, "code": ["1", "1.0", "01", "1e0"]}
    assert "distinct-values" in broken(look({**PUBLISHED, "code": spelt["code"]}, spelt))


@pytest.mark.parametrize(
    "bounds",
    [
        ["20", "20", "20.0", "20"],
        ["20.00000000000000000021"] * 4,
        ["20", "20", "20", " 20"],
    ],
)
def test_bounds_with_different_spellings_are_found(bounds: list[str]) -> None:
    assert "spelling" in broken(look({**PUBLISHED, "age_min": bounds}))


def test_time_of_day_behind_a_date_is_found() -> None:
    import datetime as dt

    day = Numeric("day", lower=dt.date(2026, 1, 1), upper=dt.date(2026, 12, 31))
    schema = Schema(person="pid", quasi_identifiers=[day], sensitive=["code"], public=["row"])
    original = {**ORIGINAL, "day": ["2026-01-01"] * 4}
    plain = {**PUBLISHED, "day_min": ["2026-01-01"] * 4, "day_max": ["2026-12-31"] * 4}
    del plain["age_min"], plain["age_max"]
    assert "spelling" not in broken(look(plain, original, schema=schema))
    hidden = {**plain, "day_min": ["2026-01-01T10:20:33"] * 4}
    assert "spelling" in broken(look(hidden, original, schema=schema))


def test_box_with_one_missing_bound_is_not_the_root() -> None:
    schema = Schema(person="pid", quasi_identifiers=[Numeric("age")], sensitive=["code"], public=["row"])
    policy = Castle(k=4, delay=4, mode="paper")
    whole = {**PUBLISHED, "age_min": ["21"] * 4, "age_max": ["24"] * 4}
    assert broken(look(whole, policy=policy, schema=schema)) == set()
    with pytest.raises(InputError, match="bounds that are missing or unreadable"):
        look({**whole, "age_max": ["", "24", "24", "24"]}, policy=policy, schema=schema)


def test_interval_with_extra_text_is_refused() -> None:
    published = {name: values for name, values in PUBLISHED.items() if not name.startswith("age")}
    assert broken(look({**published, "age": ["[20, 30]"] * 4})) == set()
    with pytest.raises(Exception, match="does not hold ranges"):
        look({**published, "age": ["[[20, 30]"] * 4})


def test_single_identifier_in_a_text_is_found() -> None:
    schema = Schema(
        person="pid", quasi_identifiers=SCHEMA.quasi_identifiers, sensitive=["code"], public=["row", "note"]
    )
    original = {**ORIGINAL, "note": ["", "visit 7 of p00018", "", ""]}
    found = look({**PUBLISHED, "note": original["note"]}, original, schema=schema)
    assert broken(found) == {"identifiers"}


def test_person_column_used_as_link_is_an_identifier() -> None:
    assert "identifiers" in broken(look({**PUBLISHED, "pid": ORIGINAL["pid"]}, link="pid"))


def test_unread_lines_fail_and_unread_files_warn() -> None:
    assert broken(look(PUBLISHED, unread_lines=3)) == {"unread-lines"}
    found = look(PUBLISHED, unread_files=2)
    assert broken(found) == set()
    assert found.count("warning") > look(PUBLISHED).count("warning")


def test_randomised_columns_hold_declared_values_only() -> None:
    schema = Schema(
        person="pid",
        quasi_identifiers=SCHEMA.quasi_identifiers,
        sensitive=[Sensitive("code", values=["1", "2", "3", "4"])],
        public=["row"],
    )
    policy = Castleguard(k=4, delay=4, epsilon=2)
    assert broken(look(PUBLISHED, policy=policy, schema=schema)) == set()
    leaked = {**PUBLISHED, "code": ["1", "2", "P00019", "4"]}
    assert broken(look(leaked, policy=policy, schema=schema)) == {"labels", "identifiers"}
    with pytest.raises(InputError, match="no column 'code'"):
        look({name: values for name, values in PUBLISHED.items() if name != "code"}, policy=policy, schema=schema)


def test_means_must_be_numbers_inside_the_domain() -> None:
    schema = Schema(person="pid", quasi_identifiers=SCHEMA.quasi_identifiers, sensitive=[])
    policy = Doca(epsilon=1, delay=4, k=4)
    assert broken(look({"age": ["23.5"] * 4}, policy=policy, schema=schema, link=None)) == set()
    assert broken(look({"age": ["21y"] * 4}, policy=policy, schema=schema, link=None)) == {"domain"}
    assert broken(look({"age": ["140"] * 4}, policy=policy, schema=schema, link=None)) == {"domain"}
    more = {"age": ["23.5"] * 4, "age_min": ["21"] * 4}
    assert "undeclared-columns" in broken(look(more, policy=policy, schema=schema, link=None))
