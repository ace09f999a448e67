"""Planted defects in publications by windows, and in claims about presence."""

from typing import Any

import pyarrow as pa
import pytest

from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.castleguard.policy import Castleguard
from castleguard.algorithms.doca.policy import Doca
from castleguard.algorithms.policy import Policy
from castleguard.algorithms.sdgs.policy import Sdgs
from castleguard.judge.attack.membership_game import Publish
from castleguard.judge.audit import attacks
from castleguard.judge.audit.audit_run import audit
from castleguard.judge.audit.material import Material
from castleguard.judge.report.findings import Audit, Finding
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive

SCHEMA = Schema(
    person="pid",
    quasi_identifiers=[
        Numeric("age", lower=0, upper=100, step=10),
        Categorical("job", hierarchy=Hierarchy.flat(["Nurse", "Cook"], root="Any")),
    ],
    sensitive=[Sensitive("illness", values=["flu", "cold"])],
)
ORIGINAL: dict[str, list[Any]] = {
    "pid": list("abcdefgh"),
    "age": [21, 24, 27, 29, 21, 24, 27, None],
    "job": ["Nurse", "Cook"] * 4,
    "illness": ["flu"] * 4 + ["cold"] * 4,
}
BOXES: dict[str, list[Any]] = {
    "age_min": [20] * 7,
    "age_max": [30] * 7,
    "job": ["Any"] * 7,
    "illness": ["flu"] * 4 + ["cold"] * 3,
}
MEANS: dict[str, list[Any]] = {
    "age": [25.5] * 3 + [28.0] * 4,
    "job": ["Nurse"] * 5 + ["Cook"] * 2,
    "illness": ["flu"] * 5 + ["cold"] * 2,
}


def look(published: dict[str, list[Any]], policy: Policy, *, runs: int = 0) -> Audit:
    tables = {"original": pa.table(ORIGINAL), "published": pa.table(published)}
    return audit(Material(**tables, schema=SCHEMA, policy=policy, attack_runs=runs))


def named(found: Audit, id: str) -> Finding:
    return next(each for section in found.sections for each in section.findings if each.id == id)


def broken(found: Audit) -> list[str]:
    return [each.id for section in found.sections for each in section.findings if each.status == "failed"]


def sdgs(**more: Any) -> Sdgs:
    return Sdgs(**{"k": 3, "sample_rate": 0.9, "epsilon": 3.0, "window": 8, "window_unit": "rows", **more})


def test_cell_with_too_few_rows_is_found() -> None:
    # Four rows have the box and flu, three have it and cold.
    assert broken(look(BOXES, sdgs())) == []
    assert named(look(BOXES, sdgs()), "fewest-persons").figures["fewest"] == 3
    assert broken(look(BOXES, sdgs(k=4))) == ["fewest-persons"]


def test_diversity_by_rows_needs_no_link() -> None:
    # Shares of 4/7 and 3/7 have an entropy of 0.683, below ln 2.
    found = look(BOXES, sdgs(l=2, diversity="entropy"))
    assert broken(found) == ["entropy"]
    assert broken(look(BOXES, sdgs(l=2, diversity="recursive", c=2.0))) == []  # 4 < 2 * 3
    assert broken(look(BOXES, sdgs(l=2, diversity="recursive", c=1.0))) == ["recursive"]


def test_true_box_without_an_original_is_found() -> None:
    assert broken(look({**BOXES, "age_min": [40] * 7, "age_max": [50] * 7}, sdgs())) == ["containment"]
    assert broken(look({**BOXES, "illness": ["flu"] * 7}, sdgs(k=2))) == ["kept-values", "containment"]


def test_rejected_row_cannot_explain_a_published_row() -> None:
    # The eighth row has no age and is rejected, so a fourth cold is impossible.
    eight = {name: [*values, values[-1]] for name, values in BOXES.items()}
    assert broken(look(eight, sdgs())) == ["kept-values", "containment"]


def test_number_that_too_few_rows_share_is_found() -> None:
    assert broken(look(MEANS, Doca(k=3, epsilon=1.0, delay=8))) == []
    found = look(MEANS, Doca(k=4, epsilon=1.0, delay=8))
    assert broken(found) == ["fewest-persons"]
    assert named(found, "fewest-persons").figures == {"wrong": 1, "asked": 4, "fewest": 3}


def test_undeclared_label_is_found() -> None:
    doca = Doca(k=3, epsilon=1.0, delay=8)
    found = look({**MEANS, "job": ["Nurse"] * 6 + ["Any"]}, doca)
    assert broken(found) == ["labels"]
    assert broken(look({**MEANS, "pid": list("abcdefg")}, doca)) == ["undeclared-columns", "identifiers"]
    nine = {name: values + values[-2:] for name, values in MEANS.items()}
    assert broken(look(nine, doca)) == ["origins"]


def test_visible_presence_refutes_the_claim_that_it_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publisher that keeps every row, under a policy that claims to sample."""
    monkeypatch.setattr(attacks, "publisher", everything)
    hidden = Castleguard(k=2, delay=4, phi=1.0, sample_rate=0.2, mode="paper", clock="sampled")
    found = named(look(BOXES, hidden, runs=10), "enumeration")
    assert found.status == "failed"
    assert found.figures["allowed"] == pytest.approx(0.6)  # (1 + 0.2) / 2
    open_to_all = named(look(BOXES, Castle(k=2, delay=4), runs=10), "enumeration")
    assert open_to_all.status == "warning"
    assert "does not promise to hide it" in open_to_all.sentence


def everything(schema: Schema, policy: Policy) -> Publish:
    return lambda table, seed: [table]


def test_paper_mode_rejects_rows() -> None:
    paper = Castleguard(k=2, delay=4, phi=1.0, mode="paper")
    strict = Castleguard(k=2, delay=4, epsilon=1.0)
    tables = {"original": pa.table(ORIGINAL), "published": pa.table(BOXES), "schema": SCHEMA}
    assert Material(**tables, policy=paper).accepted.tolist() == [True] * 7 + [False]
    assert Material(**tables, policy=strict).accepted.all()
