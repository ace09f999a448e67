"""Audit section on the observer of arrival times: where the attack applies, what fails, and the sentences."""

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.castleguard.policy import Castleguard
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.algorithms.doca.policy import Doca
from castleguard.algorithms.facts import Publication
from castleguard.algorithms.policy import Policy
from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.errors import UsageError
from castleguard.judge.audit.material import Material
from castleguard.judge.audit.observer_section import observe, observer_section
from castleguard.judge.report.findings import Finding, Section
from castleguard.schema.roles import Numeric, Schema
from castleguard.schema.sensitive import Sensitive
from tests.contract.toy import Toy

SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[Numeric("age", lower=0, upper=100, step=5), Numeric("pay", lower=0, upper=100, step=5)],
    sensitive=[Sensitive("illness", values=["flu", "rash", "cold"])],
)
ROWS = [
    {"pid": f"p{n % 90}", "age": n * n % 97, "pay": 37 * n % 89, "illness": ("flu", "rash", "cold")[n * n % 7 % 3]}
    for n in range(400)
]
POLICY = Castle(k=4, delay=40)


def material(
    policy: Policy = POLICY, *, rows: list[dict[str, Any]] = ROWS, schema: Schema = SCHEMA, **more: Any
) -> Material:
    """The published table does not matter: the attack publishes the original again."""
    original = pa.Table.from_pylist(rows)
    published = pa.table({name: pa.array([], pa.string()) for name in (*SCHEMA.columns, *schema.public)})
    return Material(original=original, published=published, schema=schema, policy=policy, attack_runs=0, **more)


def look(policy: Policy = POLICY, **more: Any) -> Section:
    given = material(policy, **more)
    return observer_section(given, observe(given))


def named(section: Section, id: str) -> Finding:
    (found,) = [each for each in section.findings if each.id == id]
    return found


def test_row_that_reuses_a_box_is_alone_in_its_release() -> None:
    found = look()
    persons = named(found, "observer-persons")
    assert persons.status == "warning"
    assert persons.figures["fewest"] == 1
    assert 0 < float(str(persons.figures["below"])) < 0.5
    assert "The policy makes no promise about single releases here." in persons.sentence
    assert named(found, "observer-values").status == "warning"
    assert named(found, "observer-learnt").figures["learnt"] > 0  # type: ignore[operator]
    candidates = named(found, "observer-candidates")
    assert candidates.status == "warning"
    assert candidates.figures["fewest"] == 1


def test_with_reuse_off_every_release_has_k_persons_but_no_share_is_promised() -> None:
    found = look(Castle(k=4, delay=40, reuse="off"))
    persons = named(found, "observer-persons")
    assert persons.status == "passed"
    assert persons.figures["fewest"] >= 4  # type: ignore[operator]
    assert persons.figures["below"] == 0
    # A person's rows are 90 rows apart, so no person has two in one release.
    few = [{**row, "pid": f"p{n % 5}"} for n, row in enumerate(ROWS)]
    shares = named(look(Castle(k=4, delay=40, reuse="off"), rows=few), "observer-shares")
    assert shares.status == "warning"
    assert shares.figures["highest"] > 0.25  # type: ignore[operator]


@dataclass(frozen=True, kw_only=True)
class Boastful(Castle):
    """Castle with a promise about every release that it does not keep."""

    def publication(self, schema: Schema) -> Publication:
        """Promise more than Castle keeps."""
        return replace(super().publication(schema), each_release="shares")


def test_broken_promise_about_releases_fails() -> None:
    found = look(Boastful(k=4, l=2, delay=40))
    broken = {each.id for each in found.findings if each.status == "failed"}
    assert broken == {"observer-persons", "observer-shares", "observer-values"}
    assert "The policy promises otherwise for every release." in named(found, "observer-persons").sentence
    # Without l, nothing is promised about values.
    assert named(look(Boastful(k=4, delay=40)), "observer-values").status == "warning"


def test_external_algorithm_is_attacked_like_any_other() -> None:
    found = look(Toy(k=4, together=10))
    persons = named(found, "observer-persons")
    assert persons.figures["releases"] == 40
    assert persons.figures["fewest"] == 10
    # Ten rows leave as soon as the tenth has arrived: the observer knows all of them.
    assert named(found, "observer-candidates").figures["solved"] == 1.0


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (Castleguard(k=4, delay=40, epsilon=20.0), "randomised values"),
        (Sdgs(k=3, sample_rate=0.5, epsilon=1.0, window=100, window_unit="rows"), "left out at random"),
        (Doca(k=4, epsilon=5.0, delay=40), "noisy means"),
        (Dcastle(k=4, delay=40, sites=2), "Several sites"),
    ],
)
def test_reason_is_given_where_the_attack_does_not_apply(policy: Policy, why: str) -> None:
    found = look(policy)
    assert {each.id for each in found.findings} == {"observer-persons", "observer-candidates"}
    for each in found.findings:
        assert each.status == "not checked"
        assert why in each.sentence


def test_observed_rows_limits_the_rows_published_again() -> None:
    assert named(look(observed_rows=0), "observer-persons").sentence == "The number of observed rows is 0."
    with pytest.raises(UsageError, match="observed_rows must not be negative"):
        material(observed_rows=-1)
    some = named(look(observed_rows=1), "observer-persons")
    assert some.figures["rows"] == 160  # four delays
    assert some.sentence.startswith("The first 160 rows were published again")


def test_nothing_published_is_not_checked() -> None:
    assert named(look(rows=ROWS[:3]), "observer-persons").sentence == "Nothing was published."


def test_order_that_reveals_arrivals_is_a_warning() -> None:
    assert not [each for each in look().findings if each.id == "observer-order"]
    for order in ("arrival", "input"):
        warned = named(look(Castle(k=4, delay=40, order=order)), "observer-order")
        assert warned.status == "warning"
        assert warned.figures == {"order": order}


def test_columns_that_reveal_arrivals_are_named() -> None:
    wider = replace(
        SCHEMA, public=("record", "ward"), sensitive=(*SCHEMA.sensitive, *map(Sensitive, ("seen", "visit", "dose")))
    )
    rows = [
        {
            **row,
            "record": n,
            "ward": "A",
            "seen": f"2024-03-01T10:{n // 60:02d}:{n % 60:02d}",
            "visit": n,
            "dose": n % 7,
        }
        for n, row in enumerate(ROWS)
    ]
    original, empty = pa.Table.from_pylist(rows), pa.table({name: pa.array([], pa.string()) for name in wider.columns})
    given = Material(original=original, published=empty, schema=wider, policy=POLICY, link="record", attack_runs=0)
    warned = named(observer_section(given, observe(given)), "observer-columns")
    assert "of a release: ward, seen, visit." in warned.sentence
    assert warned.figures == {"public": 1, "moments": 2}


def test_link_column_changes_no_decision() -> None:
    """The same stream with a public column called row has the same cells."""
    one = observe(material())
    two = observe(
        material(schema=replace(SCHEMA, public=("row",)), rows=[{**row, "row": n} for n, row in enumerate(ROWS)])
    )
    assert not isinstance(one, str)
    assert not isinstance(two, str)
    assert one.releases.cell.tolist() == two.releases.cell.tolist()
    assert one.releases.row.tolist() == two.releases.row.tolist()
