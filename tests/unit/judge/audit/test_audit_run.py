"""An audit finds and names every planted defect."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.castleguard.policy import Castleguard
from castleguard.algorithms.policy import Policy
from castleguard.errors import InputError, UsageError
from castleguard.judge.audit.audit_run import audit
from castleguard.judge.audit.material import Material
from castleguard.judge.report.findings import Audit, Finding
from castleguard.privacy.closeness import Closeness
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive

SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[
        Numeric("age", lower=0, upper=100, step=10),
        Categorical("job", hierarchy=Hierarchy.from_mapping({"Any": {"Care": ["Nurse", "Carer"], "Other": ["Cook"]}})),
    ],
    sensitive=[Sensitive("illness", values=["flu", "cold", "rash"])],
    public=["row"],
)
ORIGINAL: dict[str, list[Any]] = {
    "row": list(range(12)),
    "pid": list("abcdefghijkl"),
    "age": [21, 24, 27, 29, 41, 45, 52, 58, 71, 75, 83, 88],
    "job": ["Nurse", "Carer", "Nurse", "Carer"] + ["Cook"] * 4 + ["Nurse", "Cook", "Cook", "Carer"],
    "illness": ["flu", "cold", "rash", "flu"] * 3,
}
PUBLISHED: dict[str, list[Any]] = {
    "row": [0, 3, 1, 2, 5, 4, 7, 6, 8, 9, 11, 10],
    "age_min": [20] * 4 + [40] * 4 + [70] * 4,
    "age_max": [30] * 4 + [60] * 4 + [90] * 4,
    "job": ["Care"] * 4 + ["Cook"] * 4 + ["Any"] * 4,
    "illness": ["flu", "flu", "cold", "rash", "cold", "flu", "flu", "rash", "flu", "cold", "flu", "rash"],
}
POLICY = Castle(k=4, l=3, delay=5)


def look(published: dict[str, list[Any]], *, link: str | None = "row", policy: Policy = POLICY, **more: Any) -> Audit:
    original = pa.table(more.pop("original", ORIGINAL))
    options = {"schema": SCHEMA, "attack_runs": 0, **more}
    return audit(Material(original=original, published=pa.table(published), policy=policy, link=link, **options))


def findings(found: Audit) -> dict[str, Finding]:
    return {each.id: each for section in found.sections for each in section.findings}


def broken(found: Audit) -> set[str]:
    assert found.ok == (found.count("failed") == 0)
    return {id for id, each in findings(found).items() if each.status == "failed"}


def changed(place: int, **values: Any) -> dict[str, list[Any]]:
    """The published table with other values in one row."""
    table = {name: list(column) for name, column in PUBLISHED.items()}
    for name, value in values.items():
        table[name][place] = value
    return table


def without(place: int) -> dict[str, list[Any]]:
    return {name: [*column[:place], *column[place + 1 :]] for name, column in PUBLISHED.items()}


def test_publication_that_keeps_its_promise_passes() -> None:
    found = look(PUBLISHED)
    assert broken(found) == set()
    sections = ["structure", "attacks", "observer", "linkage", "longitudinal", "cost"]
    assert [section.id for section in found.sections] == sections
    assert findings(found)["fewest-persons"].figures == {"wrong": 0, "groups": 3, "asked": 4, "fewest": 4}
    assert found.distributions["persons per group"] == (4.0, 4.0, 4.0)
    assert found.subject["policy"] == "castle(k=4, delay=5, l=3)"
    assert found.promise.startswith("Every published group of equal quasi-identifiers has at least 4 distinct persons")


def test_without_a_link_k_is_not_refuted_and_not_proved() -> None:
    found = look(PUBLISHED, link=None)
    assert broken(found) == set()
    persons = findings(found)["fewest-persons"]
    assert persons.status == "not checked"
    assert "Not refuted in 3 groups" in persons.sentence
    assert persons.figures["at most"] == 4


@pytest.mark.parametrize("link", ["row", None])
def test_group_below_k_is_found(link: str | None) -> None:
    found = look(without(1), link=link)
    assert findings(found)["fewest-persons"].status == "failed"
    assert {"fewest-persons"} <= broken(found) <= {"fewest-persons", "prosecutor"}


@pytest.mark.parametrize("link", ["row", None])
def test_row_outside_its_range_is_found(link: str | None) -> None:
    # Row 4 is 41 years old and a Cook, but is published between 20 and 30 in Care.
    table = changed(5, age_min=20, age_max=30, job="Care")
    assert (
        {"containment"}
        <= broken(look(table, link=link))
        <= {"containment", "fewest-persons", "distinct-values", "prosecutor"}
    )


def test_late_row_is_found() -> None:
    order = [*range(1, 7), 0, *range(7, 12)]
    late = {name: [column[place] for place in order] for name, column in PUBLISHED.items()}
    found = look(late, policy=replace(POLICY, delay=4))
    assert broken(found) == {"delay"}
    assert findings(found)["delay"].figures["wrong"] == 1
    assert broken(look(late, policy=replace(POLICY, delay=7))) == set()
    assert findings(look(late, link=None))["delay"].status == "not checked"


@pytest.mark.parametrize("link", ["row", None])
@pytest.mark.parametrize("name", ["pid", "note"])
def test_leaked_identifier_is_found_under_any_name(name: str, link: str | None) -> None:
    found = look({**PUBLISHED, name: [ORIGINAL["pid"][row] for row in PUBLISHED["row"]]}, link=link)
    assert broken(found) == {"undeclared-columns", "identifiers"}
    assert name in findings(found)["identifiers"].sentence


def test_exact_bound_is_found() -> None:
    exact = {**PUBLISHED, "age_min": [21] * 4 + [40] * 4 + [70] * 4}
    found = look(exact)
    assert broken(found) == {"exact-bounds"}
    assert "age" in findings(found)["exact-bounds"].sentence
    assert findings(look(exact, policy=replace(POLICY, mode="paper")))["exact-bounds"].status == "not checked"
    outside = {**PUBLISHED, "age_max": [30] * 4 + [60] * 4 + [120] * 4}
    assert broken(look(outside)) == {"domain", "exact-bounds"}


def test_repeated_person_is_found() -> None:
    """The first group has four rows of three persons."""
    original = {**ORIGINAL, "pid": ["a", "a", *"cdefghijkl"]}
    found = look(PUBLISHED, original=original)
    assert broken(found) == {"fewest-persons", "duplication", "prosecutor"}
    # It is found without a link too: no other original row matches these.
    assert broken(look(PUBLISHED, original=original, link=None)) == {"fewest-persons"}


def test_homogeneous_group_is_found() -> None:
    table = {**PUBLISHED, "illness": ["flu"] * 4 + PUBLISHED["illness"][4:]}
    original = {**ORIGINAL, "illness": ["flu"] * 4 + ORIGINAL["illness"][4:]}
    for link in ("row", None):
        found = look(table, original=original, link=link)
        assert broken(found) == {"distinct-values"}
        assert findings(found)["homogeneity"].status == "warning"
        assert findings(found)["homogeneity"].figures["same"] == 1
        assert findings(found)["homogeneity"].figures["highest"] == 1.0
    unasked = look(table, original=original, policy=replace(POLICY, l=1))
    assert broken(unasked) == set()
    assert "Set l to at least 2" in findings(unasked)["homogeneity"].sentence


def test_changed_value_is_found() -> None:
    table = changed(2, illness="rash")
    assert broken(look(table)) == {"kept-values", "distinct-values"}
    assert {"kept-values", "containment"} <= broken(look(table, link=None))


def test_row_published_twice_is_found() -> None:
    twice = {name: [*column, column[0]] for name, column in PUBLISHED.items()}
    assert "repeated-rows" in broken(look(twice))
    assert {"kept-values", "containment"} <= broken(look(twice, link=None))


def test_row_without_an_original_is_found() -> None:
    nowhere = {name: [*column, column[0]] for name, column in PUBLISHED.items()}
    nowhere["row"][-1] = 99
    assert broken(look(nowhere)) == {"origins"}


def test_published_row_that_should_be_rejected_is_found() -> None:
    original = {**ORIGINAL, "age": [None, *ORIGINAL["age"][1:]]}
    assert {"refused-rows", "containment"} <= broken(look(PUBLISHED, original=original))


def test_row_number_in_the_file_is_a_warning() -> None:
    assert findings(look(PUBLISHED))["link-column"].status == "warning"
    assert "link-column" not in findings(look(PUBLISHED, link=None))


def test_entropy_and_recursive_diversity_are_judged() -> None:
    # Counts of every group: two flus, one cold, one rash. Entropy 1.04 = ln 2.83; recursive with l=3: 2 < c 1.
    entropy = replace(POLICY, diversity="entropy")
    assert broken(look(PUBLISHED, policy=entropy)) == {"entropy"}
    assert broken(look(PUBLISHED, policy=replace(entropy, l=2))) == set()
    recursive = replace(POLICY, diversity="recursive", c=2.0)
    assert broken(look(PUBLISHED, policy=recursive)) == {"recursive"}
    assert broken(look(PUBLISHED, policy=replace(recursive, c=2.1))) == set()
    for id, policy in (("entropy", entropy), ("recursive", recursive)):
        assert findings(look(PUBLISHED, policy=policy, link=None))[id].status == "not checked"


def test_closeness_is_judged() -> None:
    shares = {"illness": {"flu": 0.5, "cold": 0.25, "rash": 0.25}}
    public = Closeness(t=0.01, reference="public", public=shares)
    assert broken(look(PUBLISHED, policy=replace(POLICY, closeness=public))) == set()
    far = replace(public, public={"illness": {"flu": 0.75, "cold": 0.25}})
    assert broken(look(PUBLISHED, policy=replace(POLICY, closeness=far))) == {"closeness"}
    assert broken(look(PUBLISHED, policy=replace(POLICY, closeness=replace(far, t=0.25)))) == set()


def test_closeness_fails_only_if_no_moment_explains_it() -> None:
    """Sixty rows have flu, cold and rash in turn; the last twelve are published, four of them with flu only."""
    many = {name: column * 5 for name, column in ORIGINAL.items()}
    many |= {"row": list(range(60)), "pid": [f"p{row}" for row in range(60)], "illness": ["flu", "cold", "rash"] * 20}
    many["illness"][48:52] = ["flu"] * 4
    illness = [many["illness"][48 + row] for row in PUBLISHED["row"]]
    table = {**PUBLISHED, "row": [48 + row for row in PUBLISHED["row"]], "illness": illness}
    asked = replace(POLICY, l=1, closeness=Closeness(t=0.3))
    found = look(table, original=many, policy=asked)
    assert broken(found) == {"closeness"}
    assert findings(found)["closeness"].figures == {"groups": 3, "wrong": 1, "doubtful": 0}
    assert broken(look(table, original=many, policy=replace(asked, closeness=Closeness(t=0.7)))) == set()


def test_noisy_boxes_may_miss_true_values() -> None:
    """Noise moves values anywhere and changes illnesses. Persons and public values are still counted."""
    noisy = Castleguard(k=4, delay=5, epsilon=1.0)
    table = changed(0, age_min=70, age_max=90, job="Any", illness="rash")
    moved = {name: [*column[1:9], column[0], *column[9:]] for name, column in table.items()}
    assert broken(look(moved, policy=noisy, link=None)) == {"fewest-persons"}
    whole = {**PUBLISHED, "age_min": [0] * 12, "age_max": [10] * 12, "job": ["Cook"] * 12, "illness": ["rash"] * 12}
    for link in ("row", None):
        found = look(whole, policy=noisy, link=link)
        assert broken(found) == set()
        assert findings(found)["containment"].status == "not checked"
        assert findings(found)["kept-values"].status in ("passed", "not checked")
    assert broken(look({**whole, "row": [0, *whole["row"][1:-1], 0]}, policy=noisy)) == {"repeated-rows", "delay"}
    assert broken(look({**whole, "row": [99, *whole["row"][1:]]}, policy=noisy, link=None)) == {"kept-values"}


def test_journalist_risk_needs_a_population() -> None:
    population = pa.table(
        {"age": [21, 22, 23, 24, 25] * 2 + [50] * 9 + [80] * 8, "job": ["Nurse"] * 10 + ["Cook"] * 17}
    )
    found = findings(look(PUBLISHED, population=population))["journalist"]
    assert found.figures["fewest"] == 8
    assert found.figures["highest"] == pytest.approx(1 / 8)
    assert findings(look(PUBLISHED, population=population, link=None))["journalist"].status == "passed"
    assert findings(look(PUBLISHED))["journalist"].status == "not checked"


def test_persons_above_the_threshold_are_a_warning() -> None:
    assert findings(look(PUBLISHED, threshold=0.3))["prosecutor"].status == "passed"
    assert findings(look(PUBLISHED, threshold=0.2))["prosecutor"].status == "warning"


def test_file_without_rows_breaks_nothing() -> None:
    empty = pa.table(PUBLISHED).slice(0, 0)
    for link in ("row", None):
        found = audit(
            Material(
                original=pa.table(ORIGINAL), published=empty, schema=SCHEMA, policy=POLICY, link=link, attack_runs=0
            )
        )
        assert broken(found) == set()


def test_unusable_input_is_refused() -> None:
    with pytest.raises(UsageError, match="threshold must be above 0"):
        look(PUBLISHED, threshold=0.0)
    with pytest.raises(UsageError, match="attack_runs must not be negative"):
        look(PUBLISHED, attack_runs=-1)
    with pytest.raises(InputError, match="no column 'illness'"):
        look({name: column for name, column in PUBLISHED.items() if name != "illness"}, link=None)


def test_no_finding_shows_a_value() -> None:
    """Identifiers of persons, and a value that was not published."""
    original = {**ORIGINAL, "pid": [f"secret-{row}" for row in range(12)]}
    for published in (PUBLISHED, {**PUBLISHED, "note": [f"secret-{row}" for row in PUBLISHED["row"]]}, without(0)):
        assert "secret" not in str(look(published, original=original).as_json())


def test_counts_in_the_json_are_plain_numbers() -> None:
    for section in look(PUBLISHED).as_json()["sections"]:
        for each in section["findings"]:
            assert not any(isinstance(value, np.generic) for value in each["figures"].values())
