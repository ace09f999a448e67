"""The single values of a file: what each must be, in words that an error can use.

Nothing is coerced: `"5"` is no number, and YAML's `yes` is no name. Only what came from the environment is text by
nature, and is read as a number where one is needed.
"""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WithJsonSchema
from pydantic.functional_validators import BeforeValidator, WrapValidator
from pydantic_core import PydanticCustomError

from castleguard.config.secrets import FromEnvironment
from castleguard.runtime.durations import PATTERN, WORDS, parse_duration


def expect(expected: str) -> WrapValidator:
    """One sentence in place of whatever pydantic has to say, once for all members of a union."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError as exc:
            raise PydanticCustomError("expected", "must be {expected}", {"expected": expected}) from exc

    return WrapValidator(validate)


def read_variable(read: Callable[[str], object]) -> BeforeValidator:
    """What came from the environment, read as what is needed."""

    def validate(value: Any) -> Any:
        return read(str(value)) if isinstance(value, FromEnvironment) else value

    return BeforeValidator(validate)


def number_of(text: str) -> int | float:
    """A whole number, or else any other."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def _flag(text: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if text.strip().lower() not in words:
        raise ValueError("must be true or false")
    return words[text.strip().lower()]


def _keep(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """The text itself: pydantic would make a plain one of it, and a plain one prints."""
    handler(str(value) if isinstance(value, str) else value)
    return value


IN_QUOTES = "(in quotes if YAML reads it as something else)"
Plain = read_variable(str)
Text = Annotated[str, WrapValidator(_keep), expect(f"a text {IN_QUOTES}")]
Whole = Annotated[int, read_variable(int), expect("a whole number")]
Number = Annotated[int | float, read_variable(number_of), expect("a number"), WithJsonSchema({"type": "number"})]
Flag = Annotated[bool, read_variable(_flag), expect("true or false")]
Seconds = Annotated[
    int | float,
    BeforeValidator(parse_duration),
    expect(WORDS),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": PATTERN}]}),
]
Name = Annotated[str, Field(min_length=1), expect(f"a column name {IN_QUOTES}")]
