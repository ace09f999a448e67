"""Variables of the environment: where they are replaced, and that they never print."""

import pytest

from castleguard.config.environment import Variables
from castleguard.config.secrets import FromEnvironment

ENVIRON = {"USER_NAME": "ann", "PASSWORD": "hunter2!", "EMPTY": "", "K": "5"}


def test_variables_are_replaced_in_texts_however_deep() -> None:
    variables = Variables(ENVIRON)
    data = {"a": ["${USER_NAME}", 5], "b": {"c": "x-${USER_NAME}:${PASSWORD}"}, "${K}": None}
    assert variables.fill(data) == {"a": ["ann", 5], "b": {"c": "x-ann:hunter2!"}, "${K}": None}
    assert variables.problems == []


def test_two_dollars_stand_for_the_characters_themselves() -> None:
    filled = Variables(ENVIRON).fill("$${USER_NAME} costs 5$")
    assert filled == "${USER_NAME} costs 5$"
    assert not isinstance(filled, FromEnvironment)


def test_an_empty_variable_is_an_empty_text() -> None:
    assert Variables(ENVIRON).fill("${EMPTY}") == ""


def test_a_value_is_not_searched_for_variables_again() -> None:
    assert Variables({"A": "${B}", "B": "x"}).fill("${A}") == "${B}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("${ABSENT}", "needs the environment variable ABSENT, which is not set"),
        ("${}", "has a ${ that is not a variable"),
        ("${a-b}", "has a ${ that is not a variable"),
        ("${A", "has a ${ that is not a variable"),
        ("${A${B}}", "has a ${ that is not a variable"),
    ],
)
def test_a_bad_variable_is_a_problem_at_its_place(text: str, sentence: str) -> None:
    variables = Variables({})
    variables.fill({"sink": {"path": text}})
    assert variables.problems[0].place == ("sink", "path")
    assert sentence in variables.problems[0].sentence
    assert variables.explains(("sink", "path"))
    assert not variables.explains(("sink",))


def test_values_from_the_environment_hide_themselves() -> None:
    filled = Variables(ENVIRON).fill({"password": "${PASSWORD}"})
    assert filled["password"] == "hunter2!"
    assert "hunter2" not in repr(filled)


def test_values_from_the_environment_are_masked_in_messages() -> None:
    variables = Variables(ENVIRON)
    variables.fill(["${PASSWORD}", "${K}", "a-${USER_NAME}"])
    assert variables.mask("got 'hunter2!' and 5, not 15, of a-ann") == "got '****' and ****, not 15, of ****"
