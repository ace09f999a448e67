"""Parameters are declared once: each has a help text, and a name has one type in all algorithms."""

from typing import Any

import numpy as np
import pytest

import castleguard as cg
from castleguard.algorithms.castle.policy import Castle
from castleguard.algorithms.dcastle.policy import Dcastle
from castleguard.algorithms.lookup import built_in, find
from castleguard.algorithms.single_parameters import missing_parts, nest, singles_of
from castleguard.errors import PolicyError
from castleguard.privacy.closeness import Closeness
from castleguard.privacy.parameter_fields import parameters_of

GIVEN: dict[str, dict[str, Any]] = {
    "citadel": {"k": 5, "delay": 50},
    "castle": {"k": 5, "delay": 50},
    "castleguard": {"k": 5, "delay": 50, "epsilon": 1.0},
    "sdgs": {"k": 5, "sample_rate": 0.5, "epsilon": 1.0, "window": 60},
    "doca": {"k": 5, "delay": 50, "epsilon": 1.0},
    "dcastle": {"k": 5, "delay": 50, "sites": 2},
}


@pytest.mark.parametrize("name", built_in())
def test_every_parameter_has_a_help_text(name: str) -> None:
    for each in parameters_of(find(name)):
        assert each.declared.help, each.name
        for part in parameters_of(each.nested) if each.nested is not None else ():
            assert part.declared.help, part.name


def test_a_name_has_one_type_in_all_algorithms() -> None:
    types: dict[str, set[object]] = {}
    for name in built_in():
        for single in singles_of(find(name)).values():
            types.setdefault(single.name, set()).add(single.type)
    assert {name: found for name, found in types.items() if len(found) > 1} == {}
    assert len(types) > 40


@pytest.mark.parametrize("name", built_in())
def test_every_number_has_a_lower_bound_that_is_checked(name: str) -> None:
    for each in parameters_of(find(name)):
        if each.kind not in (int, float):
            continue
        about = each.declared
        low = about.above if about.above is not None else None if about.least is None else about.least - 1
        assert low is not None, each.name
        with pytest.raises(PolicyError, match=f"^{each.name} must be"):
            find(name)(**{**GIVEN[name], each.name: low})


@pytest.mark.parametrize("name", built_in())
def test_other_types_are_refused(name: str) -> None:
    for each in parameters_of(find(name)):
        with pytest.raises(PolicyError, match=f"^{each.name} must be"):
            find(name)(**{**GIVEN[name], each.name: object()})


@pytest.mark.parametrize("name", built_in())
def test_numpy_scalars_become_python_numbers(name: str) -> None:
    given = {key: np.asarray(value)[()] for key, value in GIVEN[name].items()}
    assert all(isinstance(value, np.generic) for value in given.values())
    made = find(name)(**given)
    assert made == find(name)(**GIVEN[name])
    assert {type(getattr(made, key)) for key in given} <= {int, float}


def test_nested_values_are_flattened() -> None:
    names = singles_of(Castle)
    assert names["t"].within == names["burn_in"].within == "closeness"
    assert names["reference_window"].parameter.name == "window"
    assert "public" not in names
    given = {"k": 5, "delay": 50, "t": 0.3, "reference": "window", "reference_window": 100}
    expected = Closeness(t=0.3, reference="window", window=100)
    assert nest(Castle, given) == {"k": 5, "delay": 50, "closeness": expected}


def test_a_nested_value_with_missing_parts_is_reported() -> None:
    assert missing_parts(Castle, {"k": 5, "burn_in": 3}) == ("burn_in", ("t",))
    assert missing_parts(Castle, {"t": 0.3, "burn_in": 3}) is None
    found = missing_parts(Castle, {"admission": "le"})
    assert found == ("admission", ("tie_break", "containment", "representatives", "merge"))


def test_a_meaningful_none_is_described_in_the_default() -> None:
    assert singles_of(Castle)["suppression"].default_words() == "by mode: root or generalise"
    assert singles_of(Castle)["k"].default_words() == "required"
    assert singles_of(Castle)["t"].default_words() == "none"
    assert singles_of(cg.Sdgs)["adapt"].default_words() == "yes"
    assert singles_of(Dcastle)["share_threshold"].default_words() == "k"


def test_a_mapping_is_copied() -> None:
    weights = {"age": 2.0}
    policy = cg.Doca(epsilon=1, delay=50, k=5, weights=weights)
    weights["age"] = 0.0
    assert policy.weights == {"age": 2.0}
