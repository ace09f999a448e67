"""Declaration of a frozen dataclass's parameters: help text, bounds, unit and the paper's symbol, in one place.

    k: int = field(metadata=declare("Distinct persons per published group.", least=2))
    l: int = parameter(1, "Distinct values of every sensitive column per published group.", least=1)

Types are those of the fields. Constructors check against the declaration; job-file models, the editors' JSON Schema,
command-line options and reference pages are generated from it.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from castleguard.errors import PolicyError
from castleguard.privacy.parameters import LARGEST_COUNT, is_number, is_whole

T = TypeVar("T")

_KEY = "castleguard"


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Declaration of a field, besides its type."""

    help: str = ""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    too_low: str = ""
    """Reason why a lower value is refused."""
    too_high: str = ""
    """Reason why a higher value is refused."""
    symbol: str = ""
    """Name in the papers."""
    unit: Literal["", "seconds"] = ""
    """Seconds may be written as durations."""
    unit_from: str = ""
    """Parameter that gives the unit, if it may differ from seconds."""
    default: str = ""
    """Meaning of None."""
    option: str | None = None
    """Name on the command line; None: the field's name, "": no option."""

    @property
    def text(self) -> str:
        """Help text with the symbol."""
        return f"{self.help.rstrip('.')} ({self.symbol})." if self.symbol else self.help


def declare(
    help: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    **more: Any,
) -> dict[str, Declared]:
    """Metadata of a field. `more`: other fields of `Declared`."""
    return {_KEY: Declared(help=help, least=least, above=above, most=most, below=below, **more)}


def parameter(value: T, /, help: str, **about: Any) -> T:
    """Field with the default `value`. `about`: bounds and other fields of `Declared`."""
    declared: T = field(default=value, metadata=declare(help, **about))
    return declared


class Parameter(NamedTuple):
    """One field of a dataclass: type, default and declaration."""

    name: str
    kind: Any
    """Type without None."""
    optional: bool
    """Whether it may be None."""
    default: Any
    """MISSING if required."""
    declared: Declared

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is MISSING

    @property
    def choices(self) -> tuple[str, ...]:
        """Allowed words; empty if it is not a choice."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    @property
    def is_count(self) -> bool:
        """Whether it is a whole number."""
        return self.kind is int

    @property
    def nested(self) -> type | None:
        """Its type if that is a dataclass, else None."""
        return self.kind if isinstance(self.kind, type) and is_dataclass(self.kind) else None

    def range_words(self) -> str:
        """Allowed values for an error: "a whole number of at least 2". Counts omit the upper bound."""
        about, what = self.declared, "a whole number" if self.is_count else "a number"
        if about.unit == "seconds" and not about.unit_from:
            what += " of seconds"
        low = f"above {about.above:g}" if about.above is not None else ""
        low = f"of at least {_shown(about.least)}" if about.least is not None else low
        return " and ".join(filter(None, (f"{what} {low}".rstrip(), "" if self.is_count else self.upper_words())))

    def upper_words(self) -> str:
        """Upper bound alone: "at most 100"."""
        if self.declared.most is not None:
            return f"at most {_shown(self.declared.most)}"
        return "" if self.declared.below is None else f"below {self.declared.below:g}"


@cache
def parameters_of(cls: type) -> tuple[Parameter, ...]:
    """Parameters of a dataclass, in the order of its fields."""
    hints = get_type_hints(cls)
    return tuple(_parameter(field, hints[field.name]) for field in fields(cls) if field.init)


def check_parameters(value: Any) -> None:
    """Refuse a dataclass with a field of the wrong type or out of bounds, nested dataclasses included.

    Converts numpy scalars to Python's and copies mappings to dicts. Raises PolicyError with one sentence that starts
    with the name of the field.
    """
    cls: type = type(value)
    for each in parameters_of(cls):
        given = getattr(value, each.name)
        plain = given.item() if isinstance(given, np.generic) else given
        plain = dict(plain) if isinstance(plain, Mapping) else plain
        if plain is not given:
            object.__setattr__(value, each.name, plain)
        if plain is not None or not each.optional:
            _check(each, plain)


def _parameter(field: "Field[Any]", hint: Any) -> Parameter:
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = [part for part in parts if part is not NoneType]
    kind = kinds[0] if len(kinds) == 1 else Union[tuple(kinds)]  # noqa: UP007
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return Parameter(field.name, kind, NoneType in parts, default, field.metadata.get(_KEY, Declared()))


def _check(each: Parameter, value: object) -> None:
    members = get_args(each.kind) if get_origin(each.kind) is Union else (each.kind,)
    if each.choices:
        if value not in each.choices:
            raise PolicyError(f"{each.name} must be {' or '.join(map(repr, each.choices))}, got {value!r}")
    elif each.nested is not None:
        if not isinstance(value, each.nested):
            raise PolicyError(f"{each.name} must be a {each.nested.__name__}, got {_kind(value)}")
        check_parameters(value)
    elif each.kind is bool:
        if not isinstance(value, bool):
            raise PolicyError(f"{each.name} must be True or False, got {value!r}")
    elif any(get_origin(member) is Mapping for member in members):
        if not isinstance(value, Mapping) and not (float in members and is_number(value)):
            raise PolicyError(f"{each.name} must be a {_mapping_words(members)}, got {_kind(value)}")
        if is_number(value):
            _check_bounds(each, value)
    elif each.kind in (int, float):
        _check_bounds(each, value)
    elif each.kind is str and not isinstance(value, str):
        raise PolicyError(f"{each.name} must be a string, got {_kind(value)}")


def _check_bounds(each: Parameter, value: object) -> None:
    about = each.declared
    if not (is_whole(value) if each.is_count else is_number(value)):
        raise PolicyError(
            f"{each.name} must be {each.range_words()}, got {repr(value) if isinstance(value, str) else value}"
        )
    assert is_number(value)
    if not each.is_count and not -sys.float_info.max <= value <= sys.float_info.max:
        shown = f"{value:g}" if isinstance(value, float) else "one too large for a float"
        raise PolicyError(f"{each.name} must be {each.range_words()}, got {shown}")
    if (about.least is not None and value < about.least) or (about.above is not None and value <= about.above):
        raise PolicyError(f"{each.name} must be {each.range_words()}, got {value}{_reason(about.too_low)}")
    if (about.most is not None and value > about.most) or (about.below is not None and value >= about.below):
        allowed = each.upper_words() if each.is_count else each.range_words()
        raise PolicyError(f"{each.name} must be {allowed}, got {value}{_reason(about.too_high)}")


def _reason(text: str) -> str:
    return f" ({text})" if text else ""


def _shown(bound: float) -> str:
    """A bound without rounding."""
    if bound == LARGEST_COUNT:
        return "2**53"
    return f"{bound:,}".replace(",", "") if float(bound).is_integer() and math.isfinite(bound) else f"{bound:g}"


def _mapping_words(members: tuple[Any, ...]) -> str:
    return f"{'number, or a ' if float in members else ''}dict from columns to numbers"


def _kind(value: object) -> str:
    """Type of a value, without its content."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
