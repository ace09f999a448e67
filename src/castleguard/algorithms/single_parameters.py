"""Parameters of a policy as a flat list of single values, including those of nested dataclasses (closeness, reading).

A name has the same type in all algorithms, so that a command-line option has one meaning.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin

from castleguard.errors import PolicyError
from castleguard.privacy.parameter_fields import Declared, Parameter, parameters_of

Type = Literal["count", "number", "length", "seconds", "choice", "flag", "text", "shares", "number or shares"]
"""Types with a single written value; a length is in seconds or rows, depending on another parameter."""


class Single(NamedTuple):
    """A parameter with a single written value."""

    name: str
    """Unique in a policy, and of the same type in all policies: `burn_in`, `reference_window`."""
    parameter: Parameter
    type: Type
    within: str | None
    """Field of the policy that contains it; None: it is itself a field of the policy."""
    whole: Parameter
    """The field of the policy: the containing one, or itself."""

    @property
    def declared(self) -> Declared:
        """Help, bounds, unit and symbol."""
        return self.parameter.declared

    @property
    def option(self) -> str:
        """Command-line option."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def required(self) -> bool:
        """Whether a policy requires it."""
        return self.within is None and self.parameter.required

    def default_words(self) -> str:
        """Default as shown in documentation; "required" if there is none."""
        part = self.parameter.required and self.within is not None
        return default_words(self.whole if part else self.parameter)


@cache
def singles_of(cls: type) -> Mapping[str, Single]:
    """Single values of a policy's parameters, by name. Parameters without a single written value are left out."""
    return {single.name: single for single in _singles(cls)}


def nest(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert single values to arguments of the policy. Raises PolicyError if part of a nested value is missing."""
    known = singles_of(cls)
    arguments: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for name, value in given.items():
        single = known.get(name)
        if single is not None and single.within is not None:
            parts.setdefault(single.within, {})[single.parameter.name] = value
        else:
            arguments[name if single is None else single.parameter.name] = value
    nested = {each.name: each.nested for each in parameters_of(cls)}
    for field, values in parts.items():
        kind = nested[field]
        assert kind is not None
        arguments[field] = kind(**values)
    return arguments


def missing_parts(cls: type, given: Mapping[str, Any]) -> tuple[str, tuple[str, ...]] | None:
    """Find the first given part of a nested value that lacks required parts; return it and the missing parts."""
    known = singles_of(cls)
    for name in given:
        field = known[name].within if name in known else None
        needed = [other for other in known.values() if other.within == field and other.parameter.required]
        lacking = tuple(other.name for other in needed if other.name not in given)
        if field is not None and lacking:
            return name, lacking
    return None


def default_words(parameter: Parameter) -> str:
    """Default of a field as shown in documentation; "required" if there is none."""
    if parameter.required:
        return "required"
    if parameter.default is None:
        return parameter.declared.default or "none"
    if isinstance(parameter.default, bool):
        return "yes" if parameter.default else "no"
    return f"{parameter.default:g}" if isinstance(parameter.default, float) else str(parameter.default)


def check_types(name: str, cls: type, others: Mapping[str, type]) -> None:
    """Refuse an algorithm that reuses the name of another algorithm's parameter with a different type."""
    own = singles_of(cls)
    for other, policy in others.items():
        for single in singles_of(policy).values():
            found = own.get(single.name)
            if found is not None and found.type != single.type:
                raise PolicyError(
                    f"the algorithm {name!r} has a parameter {single.name!r} whose type differs from that of {other}: "
                    f"rename it"
                )


def _singles(cls: type, whole: Parameter | None = None) -> Iterator[Single]:
    for each in parameters_of(cls):
        kind = single_type(each)
        if each.declared.option == "":
            continue
        if whole is None and each.nested is not None:
            yield from _singles(each.nested, each)
        elif kind is not None:
            within = None if whole is None else whole.name
            yield Single(each.declared.option or each.name, each, kind, within, whole or each)


def single_type(each: Parameter) -> Type | None:
    """Type of a field's single written value; None if it has no such value."""
    members = get_args(each.kind) if each.kind not in (bool, int, float, str) and not each.choices else (each.kind,)
    if each.choices:
        return "choice" if all(isinstance(choice, str) for choice in each.choices) else None
    if each.kind is float and each.declared.unit == "seconds":
        return "length" if each.declared.unit_from else "seconds"
    plain: dict[Any, Type] = {bool: "flag", int: "count", float: "number", str: "text"}
    if each.kind in plain:
        return plain[each.kind]
    if _is_shares(each.kind):
        return "shares"
    if len(members) == 2 and float in members and any(map(_is_shares, members)):
        return "number or shares"
    return None


def _is_shares(kind: Any) -> bool:
    return get_origin(kind) is Mapping and get_args(kind) == (str, float)
