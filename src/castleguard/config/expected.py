"""Base model of sections, and types of single values with the wording of their errors.

Nothing is coerced: `"5"` is not a number, and YAML's `yes` is not a name. Only values from the environment, which are
always text, are converted to numbers where needed.
"""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WithJsonSchema
from pydantic.functional_validators import BeforeValidator, WrapValidator
from pydantic_core import PydanticCustomError

from castleguard.config.secrets import FromEnvironment
from castleguard.runtime.durations import PATTERN, WORDS, parse_duration


class Entry(BaseModel):
    """Base of all sections: frozen, no unknown keys, no coercion, and no input in errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


def expect(expected: str) -> WrapValidator:
    """Replace pydantic's messages, one per member of a union, by a single sentence."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError as exc:
            raise PydanticCustomError("expected", "must be {expected}", {"expected": expected}) from exc

    return WrapValidator(validate)


def read_variable(read: Callable[[str], object]) -> BeforeValidator:
    """Convert a value from the environment."""

    def validate(value: Any) -> Any:
        return read(str(value)) if isinstance(value, FromEnvironment) else value

    return BeforeValidator(validate)


def number_of(text: str) -> int | float:
    """An int if possible, else a float."""
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
    """The text itself: pydantic would turn it into a plain str, which prints."""
    handler(str(value) if isinstance(value, str) else value)
    return value


IN_QUOTES = "(in quotes if YAML reads it as another type)"
Plain = read_variable(str)
Text = Annotated[str, WrapValidator(_keep), expect(f"text {IN_QUOTES}")]
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
