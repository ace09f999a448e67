"""Publications of the engines pass the audit, for all criteria and orders."""

from dataclasses import replace

import pyarrow as pa
import pytest

from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.castleguard.policy import Castleguard
from castleguard.algorithms.citadel.policy import Citadel
from castleguard.algorithms.doca.policy import Doca
from castleguard.algorithms.policy import Policy
from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.judge.audit.audit_run import audit
from castleguard.judge.audit.material import Material
from castleguard.judge.report.findings import Audit, Finding
from castleguard.privacy.closeness import Closeness
from castleguard.schema.roles import Schema
from castleguard.schema.sensitive import Sensitive
from castleguard.stream import Anonymiser
from castleguard.testing.streams import DIAGNOSES, visits, visits_schema

pytestmark = pytest.mark.compiled

LINKED = Schema(
    person="patient",
    quasi_identifiers=visits_schema().quasi_identifiers,
    sensitive=[Sensitive("diagnosis", values=list(DIAGNOSES))],
    public=["clinic", "record"],
)
BARE = Schema(person="patient", quasi_identifiers=LINKED.quasi_identifiers, sensitive=LINKED.sensitive)

GROUPS: list[Policy] = [
    Castle(k=4, l=3, delay=100),
    Castle(k=4, l=3, delay=100, order="arrival", l_per="person"),
    Castle(k=4, delay=100, order="input", reuse="off"),
    Castle(k=4, l=2, delay=60, mode="paper"),
    Castle(k=4, l=3, delay=100, diversity="entropy", max_reusable=5),
    Castle(k=4, l=2, delay=100, diversity="recursive", c=2.0),
    Castle(k=4, delay=100, closeness=Closeness(t=0.5)),
    Castle(k=4, delay=100, closeness=Closeness(t=0.25, distance="ordered", reference="window", window=200)),
    Castleguard(k=4, l=2, delay=100, epsilon=20.0, diversity="entropy"),
    Castleguard(k=4, delay=100, epsilon=20.0, sample_rate=0.7, rows_per_person=3),
    Castleguard(k=4, delay=100, phi=10.0, sample_rate=0.7, mode="paper"),
    Castleguard(k=4, delay=100, phi=10.0, sample_rate=0.7, mode="paper", clock="sampled"),
    Citadel(k=4, l=3, delay=100, diversity="entropy"),
    Citadel(k=4, l=2, delay=100, diversity="recursive", c=2.0),
    Citadel(k=4, delay=100, closeness=Closeness(t=0.6)),
    Castleguard(k=4, l=2, delay=100, epsilon=20.0, diversity="entropy", grouping="citadel"),
]
WINDOWS: list[Policy] = [
    Sdgs(k=3, sample_rate=0.9, epsilon=3.0, window=300, window_unit="rows", l=2, diversity="entropy"),
    Sdgs(k=3, sample_rate=0.6, epsilon=1.0, window=300, start_cells=4),
    Doca(k=4, epsilon=5.0, delay=150),
]


def publish(schema: Schema, policy: Policy, seed: int) -> Material:
    original = pa.concat_tables(visits(500, persons=250 if seed % 2 else 50, seed=seed, flaws=0.03))
    stream = Anonymiser(schema, policy, seed=seed)
    published = pa.concat_tables([stream.push(original, now=0.0), stream.finish()], promote_options="default")
    assert published.num_rows
    return Material(original=original, published=published, schema=schema, policy=policy, attack_runs=0)


def named(found: Audit, id: str) -> Finding:
    return next(each for section in found.sections for each in section.findings if each.id == id)


def failed(found: Audit) -> list[str]:
    return [each.sentence for section in found.sections for each in section.findings if each.status == "failed"]


@pytest.mark.parametrize("policy", GROUPS, ids=range(len(GROUPS)))
def test_groups_of_engines_pass_the_audit(policy: Policy) -> None:
    for seed in range(2):
        material = publish(LINKED, policy, seed)
        assert failed(audit(material)) == []
        assert failed(audit(replace(material, link="record"))) == []


@pytest.mark.parametrize("policy", WINDOWS, ids=range(len(WINDOWS)))
def test_windows_of_engines_pass_the_audit(policy: Policy) -> None:
    for seed in range(2):
        assert failed(audit(publish(BARE, policy, seed))) == []


def test_rows_are_counted_for_citadel_with_and_without_a_link() -> None:
    """50 persons have 500 rows: repeated values of a person leave no group in doubt."""
    for policy, id in ((GROUPS[-4], "entropy"), (GROUPS[-3], "recursive")):
        material = publish(LINKED, policy, 0)
        for link in (None, "record"):
            assert named(audit(replace(material, link=link)), id).status == "passed"


def test_closeness_of_citadel_is_not_checked_from_a_file() -> None:
    found = named(audit(replace(publish(LINKED, GROUPS[-2], 0), link="record")), "closeness")
    assert found.status == "not checked"
    assert "the rows of earlier releases" in found.sentence


def test_row_count_of_castle_reveals_a_missing_row() -> None:
    counted = named(audit(replace(publish(LINKED, GROUPS[0], 1), attack_runs=8)), "enumeration")
    assert counted.status == "warning"
    assert counted.figures["right"] == 1.0
    assert counted.figures["always"] == "true"


def test_sampling_hides_a_missing_row_as_claimed() -> None:
    counted = named(audit(replace(publish(BARE, WINDOWS[1], 1), attack_runs=10)), "enumeration")
    assert counted.status == "passed"
    assert counted.figures["allowed"] == pytest.approx(0.731, abs=0.1)


def test_paper_mode_publishes_values_of_members_as_bounds() -> None:
    strict, paper = (
        named(audit(replace(publish(LINKED, policy, 1), link="record")), "boundaries")
        for policy in (GROUPS[0], GROUPS[3])
    )
    assert strict.status == "passed"
    assert paper.status == "warning"
    assert paper.figures["share"] == pytest.approx(1.0, abs=0.1)
