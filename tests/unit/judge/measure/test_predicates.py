"""Query predicates: intervals and nodes of the right size, and the reading of sensitive columns."""

import math
from typing import Any

import numpy as np
import pytest

from castleguard.errors import InputError, UsageError
from castleguard.schema.hierarchy import Hierarchy
from castleguard.schema.roles import Categorical, Numeric, Schema
from castleguard.schema.sensitive import Sensitive
from tests.unit.judge.measure.made_up import ORIGINAL, PUBLISHED, SCHEMA, attributes


def test_interval_has_the_length_that_the_selectivity_gives_and_lies_in_the_domain() -> None:
    age = attributes()[0]
    drawn = age.draw(0.1 ** (1 / 3), 1000, np.random.default_rng(1))
    assert drawn.high - drawn.low == pytest.approx(np.full(1000, 46.4158883))
    assert drawn.low.min() >= 0
    assert drawn.high.max() <= 100
    # Uniform over all positions: a quarter of them in each quarter (within 5 standard deviations).
    quarters = np.histogram(drawn.low, bins=4, range=(0, 100 - 46.4158883))[0]
    assert quarters.sum() == 1000
    assert np.abs(quarters - 250).max() < 5 * math.sqrt(1000 * 0.25 * 0.75)


def test_whole_domain_has_both_its_ends() -> None:
    lower, upper = 0.2, 0.9
    assert lower + (upper - lower) < upper  # what adding up would make of it
    schema = Schema(person=None, quasi_identifiers=[Numeric("age", lower=lower, upper=upper)])
    (age,) = attributes({"age_min": [lower], "age_max": [upper]}, {"age": [upper]}, schema)
    drawn = age.draw(1.0, 3, np.random.default_rng(1))
    assert drawn.low.tolist() == [lower] * 3
    assert drawn.high.tolist() == [upper] * 3


def test_node_is_one_of_those_closest_to_the_share() -> None:
    # Shares: Any 1, Care and Other 1/2, leaves 1/4. 0.46 is closest to 1/2, 0.8 to 1, and 0.375 to both 1/2 and 1/4.
    job = attributes()[1]
    random = np.random.default_rng(1)
    assert {(0.0, 1.0), (2.0, 3.0)} == set(zip(*job.draw(0.46, 100, random), strict=True))
    assert {(0.0, 3.0)} == set(zip(*job.draw(0.8, 100, random), strict=True))
    assert len(set(zip(*job.draw(0.375, 200, random), strict=True))) == 2 + 4


def test_chain_of_nodes_is_drawn_as_one() -> None:
    chain = Hierarchy.from_mapping({"*": {"A": {"AA": ["a1", "a2"]}, "B": ["b1", "b2"]}})
    schema = Schema(person=None, quasi_identifiers=[Categorical("job", hierarchy=chain)])
    (job,) = attributes({"job": ["A"]}, {"job": ["a1"]}, schema)
    drawn = job.draw(0.5, 1000, np.random.default_rng(1))
    assert abs(int(np.count_nonzero(drawn.low == 0)) - 500) < 5 * math.sqrt(250)  # 667 if A and AA were two


def test_sensitive_column_is_read_as_declared_or_else_by_its_values() -> None:
    many = [float(value) for value in range(30)]
    table: dict[str, list[Any]] = {"age": [1] * 30, "x": many}
    shown: dict[str, list[Any]] = {"age_min": [1] * 30, "age_max": [1] * 30, "x": many}
    roles: list[tuple[Sensitive, int]] = [
        (Sensitive("x"), 0),
        (Sensitive("x", bins=[3.0]), 0),
        (Sensitive("x", values=list(range(30))), 1),
        (Sensitive("x", hierarchy=Hierarchy.flat(range(30))), 1),
    ]
    for role, unit in roles:
        schema = Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=10)], sensitive=[role])
        found = attributes(shown, table, schema)[1]
        assert found.unit == unit
        assert found.published.low.tolist() == found.original.low.tolist() == many
    few = [float(value % 20) for value in range(30)]
    schema = Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=10)], sensitive=["x"])
    assert attributes(shown | {"x": few}, table | {"x": few}, schema)[1].unit == 1


def test_file_of_text_has_the_same_categories() -> None:
    schema = Schema(person=None, quasi_identifiers=[Numeric("age", lower=0, upper=10)], sensitive=["x"])
    shown: dict[str, list[Any]] = {"age_min": [1, 1], "age_max": [1, 1], "x": ["1.0", "0"]}
    found = attributes(shown, {"age": [1, 1], "x": [0, 1]}, schema)[1]
    assert found.published.low.tolist() == found.original.low[::-1].tolist() == [1, 0]


def test_missing_column_and_column_without_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="'illness'"):
        attributes({name: values for name, values in PUBLISHED.items() if name != "illness"})
    schema = Schema(person=None, quasi_identifiers=SCHEMA.quasi_identifiers, sensitive=[Sensitive("illness", bins=[1])])
    with pytest.raises(UsageError, match="has no numbers"):
        attributes(original=ORIGINAL | {"illness": [1, 2, 3, 4]}, schema=schema)
