"""Pictures of an audit: one per known distribution, with a caption."""

import struct

import pytest

from castleguard.judge.audit.audit_page import pictures_of, promised_k
from castleguard.judge.report.findings import Audit, Finding, Section

pytest.importorskip("matplotlib")


def audited(distributions: dict[str, tuple[float, ...]], *, k: int | None = 10) -> Audit:
    asked = Finding(id="fewest-persons", title="Persons?", status="passed", sentence="Yes.", figures={"asked": k})
    section = Section(id="structure", title="Kept?", about="Counted.", findings=(asked,))
    return Audit(subject={}, promise="k = 10", sections=(section,), distributions=distributions)


def size(png: bytes) -> tuple[int, int]:
    """Width and height of a PNG."""
    assert png.startswith(b"\x89PNG\r\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def test_only_known_distributions_are_drawn() -> None:
    drawn = pictures_of(
        audited(
            {
                "persons per group": (10, 12, 3000),
                "rows per group": (10, 10, 10),
                "persons per group of a release": (1, 10, 11),
                "prosecutor risk per person": (0.1, 0.05),
                "longitudinal set size": (1, 4, 1000),
                "largest share of one value per group (illness)": (1.0, 0.5),
                "loss: age": (0.2,),
                "loss of job": (0.2, 0.4),
                "something else": (1.0,),
            }
        )
    )
    assert [picture.title for picture in drawn] == [
        "Persons per group",
        "Rows per group",
        "Persons per group of a release",
        "Largest share of one value per group (illness)",
        "Risk per person",
        "Candidates left after combining all rows of a person",
        "Information loss by column",
    ]
    for picture in drawn:
        assert min(size(picture.png)) > 100
        assert picture.caption.endswith(".")
    assert pictures_of(audited({})) == ()
    assert pictures_of(audited({"persons per group": ()})) == ()


def test_same_figures_are_the_same_bytes() -> None:
    one, other = (pictures_of(audited({"persons per group": (10, 11, 15)})) for _ in range(2))
    assert one == other


def test_promised_k_is_read_from_the_finding() -> None:
    assert promised_k(audited({})) == 10
    assert promised_k(audited({}, k=None)) is None
    with_k, without = (pictures_of(audited({"persons per group": (12, 14)}, k=k))[0] for k in (10, None))
    assert with_k.png != without.png
    assert "dashed line" in with_k.caption
    assert "dashed line" not in without.caption
