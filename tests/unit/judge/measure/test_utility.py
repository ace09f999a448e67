"""All measures that apply to two tables are computed, and the others are named."""

import json
from typing import Any

import pyarrow as pa
import pytest

from castleguard.errors import InputError
from castleguard.judge.measure.learning import Learning
from castleguard.judge.measure.queries import Workload
from castleguard.judge.measure.utility import Asked, Utility, measure_utility
from castleguard.schema.roles import Numeric, Schema

SCHEMA = Schema(
    person=None,
    quasi_identifiers=[Numeric("age", lower=0, upper=100)],
    sensitive=["ill"],
    public=["row"],
)
ORIGINAL = pa.table({"row": range(40), "age": range(0, 80, 2), "ill": [age > 40 for age in range(0, 80, 2)]})
PUBLISHED = pa.table(
    {
        "row": range(30),
        "age_min": [age // 20 * 20 for age in range(0, 60, 2)],
        "age_max": [age // 20 * 20 + 20 for age in range(0, 60, 2)],
        "ill": [age > 40 for age in range(0, 60, 2)],
    }
)


def value(found: Utility, name: str) -> float:
    (figure,) = (figure for figure in found.figures if figure.name == name)
    return figure.value


def names(found: Utility) -> set[str]:
    return {figure.name for figure in found.figures}


def test_all_figures_are_those_of_their_measures() -> None:
    found = measure_utility(
        PUBLISHED, ORIGINAL, SCHEMA, Asked(link="row", k=5, workload=Workload(selectivity=1, queries=3))
    )
    assert [value(found, name) for name in ("original", "published", "not published", "groups")] == [40, 30, 10, 3]
    assert value(found, "generalised loss") == pytest.approx(0.2)
    assert value(found, "loss of all rows") == pytest.approx((30 * 0.2 + 10) / 40)
    assert value(found, "discernibility") == 3 * 100 + 10 * 40
    assert value(found, "average group size") == 2
    # Every query counts all 40 rows, of which 30 are left.
    assert value(found, "workload error") == pytest.approx(0.25)
    # Distances from the middle 10 of 0, 2, ..., 18: squares 100 + 2 (64 + 36 + 16 + 4) + 0 in ten rows.
    assert value(found, "age: squared error") == pytest.approx((100 + 2 * 120) / 10)
    assert found.left_out == ("learning: needs a label column",)


def test_what_needs_a_link_is_left_out_and_named() -> None:
    found = measure_utility(PUBLISHED, ORIGINAL, SCHEMA, Asked(workload=Workload(queries=3, window=20), label="ill"))
    assert found.left_out == (
        "the average group size: needs k",
        "the mean squared error: needs a link",
        "learning: needs a link",
    )
    assert "age: squared error" not in names(found)
    assert "age: histogram" in names(found)
    (figure,) = (figure for figure in found.figures if figure.name == "workload error")
    assert figure.meaning.endswith("mean of 2 windows in output order")
    assert value(found, "worst window") >= value(found, "workload error")


def test_repeated_and_foreign_rows_do_not_replace_missing_ones() -> None:
    strays = PUBLISHED.slice(0, 5).set_column(0, "row", pa.array(range(100, 105)))
    more = pa.concat_tables([PUBLISHED, PUBLISHED.slice(0, 5), strays])
    found = measure_utility(more, ORIGINAL, SCHEMA, Asked(link="row"))
    assert [value(found, name) for name in ("published", "not published")] == [40, 10]


def test_queries_are_optional() -> None:
    assert "workload error" not in names(measure_utility(PUBLISHED, ORIGINAL, SCHEMA))


def test_numbers_instead_of_ranges_limit_the_measures() -> None:
    numbers = PUBLISHED.drop_columns(["age_min", "age_max"]).append_column("age", PUBLISHED.column("age_min"))
    found = measure_utility(numbers, ORIGINAL, SCHEMA, Asked(link="row", k=5))
    assert found.left_out == ("lost detail, queries and learning: the table has numbers instead of ranges",)
    assert names(found) >= {"not published", "age: squared error", "age: histogram"}
    assert "generalised loss" not in names(found)


def test_classifiers_have_a_figure_for_both_sources_and_their_notes_are_passed_on() -> None:
    pytest.importorskip("sklearn", reason="learning utility needs scikit-learn, the extra `learn`")
    settings = Learning(models=("k-NN",), scaled=(True,), runs=2, neighbours=1)
    found = measure_utility(PUBLISHED, ORIGINAL, SCHEMA, Asked(link="row", label="ill", learning=settings))
    learned = {figure.name: figure for figure in found.figures if figure.section == "learning ill"}
    assert set(learned) == {"majority"} | {
        f"k-NN, scaled, {source}: {what}" for source in ("original", "published") for what in ("accuracy", "AUC")
    }
    assert learned["k-NN, scaled, original: accuracy"].value >= 0.8
    constant: dict[str, Any] = {"row": range(30), "ill": [True] * 30}
    table = pa.table(constant | {name: PUBLISHED.column(name) for name in ("age_min", "age_max")})
    one = measure_utility(table, ORIGINAL, SCHEMA, Asked(link="row", label="ill", learning=settings))
    assert one.notes == ("the published rows have only one class in 2 of 2 runs, which is always predicted",)


def test_unusable_link_is_refused() -> None:
    with pytest.raises(InputError, match="which links published rows"):
        measure_utility(PUBLISHED, ORIGINAL, SCHEMA, Asked(link="record"))


def test_json_has_null_for_undefined_figures() -> None:
    found = measure_utility(PUBLISHED.slice(0, 0), ORIGINAL, SCHEMA)
    data = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert data["rows"] == {"original": 40, "published": 0, "not published": 40, "groups": 0}
    assert data["lost detail"]["generalised loss"] is None
    assert data["left out"] == list(found.left_out)
